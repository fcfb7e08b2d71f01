"""[DGN] Figure 5: GaLU and ReLU on true labels, random labels and random pixels."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

from dgn_engine.experiments import Experiment, Findings, Plan, Request, Row
from dgn_engine.experiments._accuracy_designs import FC, of_regimes
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._configurations import (
    data_of,
    data_substitution,
    dense_net_config,
    paper_config,
)
from dgn_engine.experiments._grid import (
    Grid,
    TrainedCell,
    contrast,
    learning_curves,
    loss_curves,
    pairwise_difference,
    training_unit,
)
from dgn_engine.experiments._power import Design
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = {"GaLU": "FR-II", "ReLU": "ReLU"}
VARIANTS = {
    "true labels": {},
    "random labels": {"label_noise": 1.0},
    "random pixels": {"pixels": "random"},
}
SEEDS = (3, 5)
_PILOT = "the speed on random labels in a pilot of 4 other seeds at the quick scale, 2026-11"
FASTER = {
    "true labels": Design(0.05, 0.07, _PILOT),
    "random labels": Design(0.05, 0.015, _PILOT),
    "random pixels": Design(0.05, 0.02, _PILOT),
}
BETTER = of_regimes(2.12, FC, "ReLU", "FR-II")


def plan(request: Request) -> Plan:
    """Plan both kinds of gates on the three variants of the data."""
    net = dense_net_config(64 if request.quick else 256, 5)
    config = paper_config(request, net, data_of(request, "mnist"), request.epochs_or(60, 100))
    units = []
    for seed, variant in product(request.seed_range(*SEEDS), VARIANTS):
        data = replace(config.data, variant_seed=seed, **VARIANTS[variant])  # type: ignore[arg-type]
        units += [
            training_unit(replace(config, data=data), regime, seed, _cell_name(variant, name))
            for name, regime in REGIMES.items()
        ]
    return Plan(
        tuple(units),
        (*data_substitution(request, "MNIST"), "64 units a layer instead of 256"),
        (
            "the numbers of this experiment are missing from our copy of the text; width 256, "
            "d = 5 and Adam 3e-4 were chosen here; 'GaLU' is FR-II",
            "'faster' means a lower mean of log10 of the training loss over all epochs",
        ),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {
        (variant, name): grid.read_trained(_cell_name(variant, name))
        for variant, name in product(VARIANTS, REGIMES)
    }
    rows: list[Row] = []
    for (variant, name), cell in cells.items():
        rows.append(cell.row(f"{variant}, {name}: test accuracy"))
        label = f"{variant}, {name}: mean log10 of the training loss"
        rows.append(Row(label, _mean_log_losses(cell), unit="", epochs=cell.last_epoch))
    judged = [
        judge(
            "dgn-4",
            f"{variant}: mean log10 loss over the epochs, ReLU − GaLU",
            above(
                pairwise_difference(
                    _mean_log_losses(cells[variant, "ReLU"]),
                    _mean_log_losses(cells[variant, "GaLU"]),
                )
            ),
            design=FASTER[variant],
        )
        for variant in VARIANTS
    ]
    better = contrast((1.0, cells["true labels", "ReLU"]), (-1.0, cells["true labels", "GaLU"]))
    judged.append(judge("dgn-4", "test accuracy, ReLU − GaLU", above(better), design=BETTER))
    of_variants = {
        variant: {name: cells[variant, name] for name in REGIMES} for variant in VARIANTS
    }
    figures = [
        loss_curves(f"Training loss with {variant}", both, name=variant.replace(" ", "-"))
        for variant, both in of_variants.items()
    ]
    figures.append(learning_curves("Test accuracy with true labels", of_variants["true labels"]))
    return Findings(tuple(rows), tuple(judged), tuple(figures))


def _mean_log_losses(cell: TrainedCell) -> tuple[float, ...]:
    """Return the mean over epochs of log10 of the training loss, per run; lower is faster."""
    return tuple(
        sum(math.log10(max(loss, 1e-12)) for loss in run.train_loss) / len(run.train_loss)
        if run.train_loss
        else math.nan
        for run in cell.runs
    )


def _cell_name(variant: str, name: str) -> str:
    return f"{variant.replace(' ', '-')}-{name}"


EXPERIMENT = Experiment(
    question="Which fits noise faster, and which generalises: frozen gates or ReLU?",
    title="GaLU and ReLU on random labels and pixels",
    paper="[DGN] Figure 5",
    about="Which trains faster, and which generalises.",
    plan=plan,
    findings=findings,
    quick_minutes=0.19,
    full_hours=1.1,
    claims=("dgn-4",),
)
