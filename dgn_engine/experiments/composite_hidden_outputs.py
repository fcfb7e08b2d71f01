"""[COMP] Figure 5: a ReLU CNN and a gated one with its gates reversed, on a random input."""

from __future__ import annotations

import math
from pathlib import Path

from torch import Tensor

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import judge, within
from dgn_engine.experiments._configurations import (
    base,
    data_of,
    stands_in,
    with_gating,
    with_training,
)
from dgn_engine.experiments._grid import (
    Grid,
    calculation,
    gaps,
    gate_source,
    learning_curves,
    training,
)
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.sweep.unit import CalculationInputs, Training
from dgn_engine.sweep.unit_results import UnitResults

REVERSED = (3, 2, 1, 0)
SEEDS = (3, 5)
SAME = 3.0


def plan(request: Request) -> Plan:
    """Train the ReLU network, and a value network under its gates, last layer's first."""
    config = _config(request)
    runs: list[Training] = []
    for seed in request.seed_range(*SEEDS):
        relu = gate_source(config, seed)
        other = training(
            config, "FL", seed, "reversed", gates_of=relu, wiring=REVERSED, value_input="random"
        )
        runs += [relu, other]
    return Plan(
        (*runs, calculation(_picture(request), outputs, *runs[:2])),
        (*stands_in(request, "CIFAR-10"), "8 channels instead of 128, Adam 3e-3"),
        (f"'about as well' is a mean difference within ±{SAME:g} points",),
    )


def _picture(request: Request) -> str:
    """Return the id of the picture, which is that of the first seed."""
    return f"outputs-s{request.seed_range(*SEEDS).start}"


def _config(request: Request) -> RunConfig:
    net = NetConfig("cnn4", (("channels", 8 if request.quick else 128),))
    epochs = request.epochs_or(20, 100)
    config = base(request, net, data_of(request, "cifar10"), epochs)
    config = with_training(config, keep_epochs=(epochs,))
    if request.quick:
        config = with_training(config, learning_rate=3e-3)
    return with_gating(config, beta=10.0)


def outputs(work: CalculationInputs) -> list[list[float | None]]:
    """Return a picture: above the hidden outputs of the ReLU network, below the other one's.

    They are means over the channels of z_l, each scaled to its largest, for the first training
    image; the value input comes first.
    """
    above, below = (_tiles(folder) for folder in work.needs.values())
    gap: list[float | None] = [None] * len(_montage(above)[0])
    return [*_montage(above), gap, *_montage(below)]


def _tiles(folder: Path) -> list[Tensor]:
    kept = KeptNetworks(folder, 1)
    x = kept.x[:1]
    ((_, network),) = list(kept)
    trace = network.trace(x).value
    maps = [network.input_of_value(x)]
    maps += [q * gate for q, gate in zip(trace.pre, trace.gates, strict=True)]
    tiles = [tile[0].mean(0).abs().detach() for tile in maps]
    return [tile / tile.max().clamp(min=1e-12) for tile in tiles]


def _montage(tiles: list[Tensor]) -> list[list[float | None]]:
    """Put tiles of one size in a row, with an empty column between two."""
    rows: list[list[float | None]] = []
    for line in range(tiles[0].shape[0]):
        row: list[float | None] = []
        for tile in tiles:
            row += [*tile[line].tolist(), None]
        rows.append(row[:-1])
    return rows


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    relu, other = grid.trained("ReLU"), grid.trained("reversed")
    cells = {"ReLU": relu, "gates reversed, random input": other}
    image = tuple(
        tuple(math.nan if value is None else value for value in row)
        for row in results.calculated(_picture(request))
    )
    picture = Figure(
        "outputs",
        "Hidden outputs: ReLU above, reversed gates below",
        "value input, then layers 1 to 4 (means over channels, each tile to its largest)",
        "",
        (),
        image=image,
    )
    judged = judge(
        "comp-2", "ReLU − reversed gates on a random input", within(gaps(relu, other), SAME)
    )
    return Findings(
        tuple(cell.row(label) for label, cell in cells.items()),
        (judged,),
        (learning_curves("Reversed gates on a random input", cells), picture),
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
