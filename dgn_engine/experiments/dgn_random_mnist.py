"""[DGN] Figure 5: GaLU against ReLU on true labels, random labels and random pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from dgn_engine.config import NetConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._training import base, data_of, gaps, last_epoch, row_of, under
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults

REGIMES = {"GaLU": "FR-II", "ReLU": "ReLU"}
VARIANTS = ("true labels", "random labels", "random pixels")


def plan(request: Request) -> Plan:
    """Both kinds of gates on the three variants of the data."""
    net = NetConfig("fc", (("width", 64 if request.quick else 256), ("depth", 5)))
    config = base(request, net, data_of(request, "mnist"), request.epochs_or(60, 100))
    units = []
    for seed in range(request.seeds_or(3, 5)):
        for variant in VARIANTS:
            data = replace(config.data, variant_seed=seed)
            if variant == "random labels":
                data = replace(data, label_noise=1.0)
            elif variant == "random pixels":
                data = replace(data, pixels="random")
            for name, regime in REGIMES.items():
                made = replace(under(config, regime, seed), data=data)
                units.append(Training(_id(variant, name, seed), made))
    return Plan(
        tuple(units),
        (*stands_in(request, "MNIST"), "64 units a layer instead of 256") if request.quick else (),
        (
            "the numbers of this experiment are stripped from the text at hand; width 256, d = 5, "
            "Adam 3e-4 are chosen here; 'GaLU' is FR-II",
        ),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    """Test accuracy, the area under the training loss, and the curves."""
    seeds = range(request.seeds_or(3, 5))
    cells = {
        (variant, name): [results.trained(_id(variant, name, seed)) for seed in seeds]
        for variant in VARIANTS
        for name in REGIMES
    }
    rows: list[Row] = []
    for (variant, name), runs in cells.items():
        rows.append(row_of(f"{variant}, {name}: test accuracy", runs))
        rows.append(
            Row(
                f"{variant}, {name}: mean log10 of the training loss",
                _speeds(runs),
                unit="",
                epochs=last_epoch(runs),
            )
        )
    figures = tuple(
        Figure(
            variant.replace(" ", "-"),
            f"Training loss with {variant}",
            "epoch",
            "cross entropy",
            tuple(
                averaged(
                    name,
                    cells[variant, name][0].epochs,
                    [run.train_loss for run in cells[variant, name]],
                )
                for name in REGIMES
            ),
            log_y=True,
        )
        for variant in VARIANTS
    )
    return Findings(tuple(rows), tuple(_claims(request, cells)), figures)


def _claims(request: Request, cells: dict[tuple[str, str], list[TrainedRun]]) -> Iterator[Claim]:
    for variant in VARIANTS:
        relu, galu = cells[variant, "ReLU"], cells[variant, "GaLU"]
        faster = [a - b for a, b in zip(_speeds(relu), _speeds(galu), strict=True)]
        yield judge(
            request,
            claim("dgn-4"),
            f"{variant}: mean log10 loss over the epochs, ReLU − GaLU",
            faster,
            "above",
            0.0,
        )
    worse = gaps(cells["true labels", "ReLU"], cells["true labels", "GaLU"])
    yield judge(request, claim("dgn-4"), "test accuracy, ReLU − GaLU", worse, "above", 0.0)


def _speeds(runs: list[TrainedRun]) -> tuple[float, ...]:
    """Mean over the epochs of log10 of the training loss: lower is faster."""
    return tuple(
        sum(math.log10(max(loss, 1e-12)) for loss in run.train_loss) / len(run.train_loss)
        if run.train_loss
        else math.nan
        for run in runs
    )


def _id(variant: str, name: str, seed: int) -> str:
    return f"{variant.replace(' ', '-')}-{name}-s{seed}"


EXPERIMENT = Experiment(
    title="GaLU and ReLU on random labels and pixels",
    paper="[DGN] Figure 5",
    about="Which trains faster, and which generalises.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=6,
    claims=("dgn-4",),
)
