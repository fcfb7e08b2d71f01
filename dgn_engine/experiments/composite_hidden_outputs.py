"""[COMP] Figure 5: a ReLU CNN beside a gated one with its gates reversed, on a random input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings
from dgn_engine.experiments._judging import judge_within
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._stages import Stages
from dgn_engine.experiments._training import base, data_of, gaps, row_of, trained_with, under
from dgn_engine.sweep.unit import Calculation, CalculationInputs, Training, Unit, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

REVERSED = (3, 2, 1, 0)
SAME = 3.0


def plan(request: Request) -> Plan:
    """The ReLU network, and a value network under its gates, last layer's first."""
    config = _config(request)
    units: list[Unit] = []
    last = (config.training.epochs,)
    for seed in range(request.seeds_or(3, 5)):
        relu = Training(
            f"ReLU-s{seed}",
            trained_with(under(config, "ReLU", seed), keep_best=True, keep_epochs=last),
        )
        made = under(config, "FL", seed, wiring=REVERSED, value_input="random")
        made = trained_with(made, keep_epochs=last)
        gates = UnitFile(relu.id, f"{KEPT}/{BEST}")
        units += [relu, Training(f"reversed-s{seed}", made, gates_from=gates)]
    function = "dgn_engine.experiments.composite_hidden_outputs:outputs"
    units.append(Calculation("outputs", function, {}, ("ReLU-s0", "reversed-s0")))
    return Plan(
        tuple(units),
        (*stands_in(request, "CIFAR-10"), "8 channels instead of 128, Adam 3e-3")
        if request.quick
        else (),
        (f"'about as well' is a mean difference within ±{SAME:g} points",),
    )


def _config(request: Request) -> RunConfig:
    channels = 8 if request.quick else 128
    net = NetConfig("cnn4", (("channels", channels),))
    config = base(request, net, data_of(request, "cifar10"), request.epochs_or(20, 100))
    if request.quick:
        config = trained_with(config, learning_rate=3e-3)
    return replace(config, gating=replace(config.gating, beta=10.0))


def outputs(work: CalculationInputs) -> list[list[float | None]]:
    """Above the image and the hidden outputs of the ReLU network, below those of the other one:
    means over the channels of z_l, each scaled to its largest, for the first training image."""
    above, below = (_tiles(folder) for folder in work.needs.values())
    gap: list[float | None] = [None] * len(_montage(above)[0])
    return [*_montage(above), gap, *_montage(below)]


def _tiles(folder: Path) -> list[Tensor]:
    stages = Stages(folder, 1)
    x = stages.x[:1]
    ((_, network),) = list(stages)
    trace = network.trace(x).value
    maps = [network.input_of_value(x)]
    maps += [q * gate for q, gate in zip(trace.pre, trace.gates, strict=True)]
    found = [tile[0].mean(0).abs().detach() for tile in maps]
    return [tile / tile.max().clamp(min=1e-12) for tile in found]


def _montage(tiles: list[Tensor]) -> list[list[float | None]]:
    """Tiles of one size side by side, an empty column between two."""
    rows: list[list[float | None]] = []
    for line in range(tiles[0].shape[0]):
        row: list[float | None] = []
        for tile in tiles:
            row += [*tile[line].tolist(), None]
        rows.append(row[:-1])
    return rows


def findings(request: Request, results: UnitResults) -> Findings:
    """Both accuracies and their difference."""
    seeds = range(request.seeds_or(3, 5))
    relu = [results.trained(f"ReLU-s{seed}") for seed in seeds]
    other = [results.trained(f"reversed-s{seed}") for seed in seeds]
    words = ("ReLU", "gates reversed, random input")
    rows = tuple(row_of(label, runs) for label, runs in zip(words, (relu, other), strict=True))
    lines = tuple(
        averaged(label, runs[0].epochs, [[100 * s for s in run.test] for run in runs])
        for label, runs in zip(words, (relu, other), strict=True)
    )
    figure = Figure(
        "learning", "Reversed gates on a random input", "epoch", "test accuracy (%)", lines
    )
    image = tuple(
        tuple(math.nan if value is None else value for value in row)
        for row in results.calculated("outputs")
    )
    pictures = Figure(
        "outputs",
        "Hidden outputs: ReLU above, reversed gates below",
        "value input, then layers 1 to 4 (means over channels, each tile to its largest)",
        "",
        (),
        image=image,
    )
    return Findings(rows, tuple(_claims(request, relu, other)), (figure, pictures))


def _claims(request: Request, relu: list[TrainedRun], other: list[TrainedRun]) -> Iterator[Claim]:
    yield judge_within(
        request, claim("comp-2"), "ReLU − reversed gates on a random input", gaps(relu, other), SAME
    )


EXPERIMENT = Experiment(
    title="Gates reversed, on a random input",
    paper="[COMP] Figure 5",
    about="A value network that never sees the image, under a ReLU network's gates backwards.",
    plan=plan,
    findings=findings,
    quick_minutes=2.5,
    full_hours=690,
    claims=("comp-2",),
)
