"""[DGN]: no bias-free ReLU network can fit two points on a ray, but per-example gates can."""

from __future__ import annotations

import math

from dgn_engine.config import DataConfig
from dgn_engine.experiments import Experiment, Figure, Findings, Plan, PlottedLine, Request
from dgn_engine.experiments._claims import at_most, judge
from dgn_engine.experiments._configurations import dense_net_config, paper_config, with_training
from dgn_engine.experiments._grid import BAND, Grid, TrainedCell, mean_line, training_unit
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = ("ReLU", "FRG")
SEEDS = (3, 10)
# ŷ(x/2) = ŷ(x)/2 =: t/2, and ½((t − 1)² + (t/2 + 1)²)/2 has its minimum at t = 2/5.
FLOOR = ((0.4 - 1) ** 2 + (0.2 + 1) ** 2) / 4
# Zero output has a loss of 0.5. ReLU counts as fully trained this close to the floor, and
# per-example gates as fitting both points below a tenth of it.
REACHED, FITTED = 0.005, FLOOR / 10


def plan(request: Request) -> Plan:
    """Plan bias-free ReLU, and gates drawn per example (FRG), on (x, 1), (x/2, −1)."""
    epochs = request.epochs_or(3000, 20000)
    config = paper_config(
        request, dense_net_config(32 if request.quick else 128, 4), DataConfig("hard"), epochs
    )
    config = with_training(config, loss="squared", learning_rate=1e-3, batch=2)
    units = tuple(
        training_unit(config, regime, seed)
        for seed in request.seed_range(*SEEDS)
        for regime in REGIMES
    )
    return Plan(
        units,
        ("width 32 instead of 128", f"{epochs:,} steps instead of 20,000"),
        (
            f"the loss ½e² of homogeneous networks is at least {FLOOR:g} (mean of both points)",
            f"ReLU counts as fully trained within {REACHED:g} of this minimum; per-example gates "
            f"(FRG) count as fitting both points below {FITTED:g}, which shows that the data can "
            "be fitted",
            "a theorem and a counterexample to its converse: exact, without intervals over seeds",
        ),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {regime: grid.read_trained(regime) for regime in REGIMES}
    ends = {
        name: [run.train_loss[-1] if run.train_loss else math.nan for run in cell.runs]
        for name, cell in cells.items()
    }
    rows = tuple(
        cell.row(f"{name}: training loss at the end", values=ends[name], unit="")
        for name, cell in cells.items()
    )
    losses = [loss for run in cells["ReLU"].runs for loss in run.train_loss]
    least = min(losses, default=math.nan)
    below_floor = 0.0 if least >= FLOOR else FLOOR - least
    largest = {name: max(losses) for name, losses in ends.items()}
    exact = {
        f"{FLOOR:g} − least training loss of ReLU": (below_floor, 1e-5),
        f"largest loss of ReLU at the end − {FLOOR:g}": (largest["ReLU"] - FLOOR, REACHED),
        "largest loss of FRG at the end": (largest["FRG"], FITTED),
    }
    judged = tuple(
        judge("ws-3", statistic, at_most(error, tolerance, len(grid.seeds), "seeds"))
        for statistic, (error, tolerance) in exact.items()
    )
    lines = [_draw_loss(name, cell) for name, cell in cells.items()]
    lines.append(PlottedLine("minimum for ReLU", (), (FLOOR,), style="printed"))
    title = "Two points on one ray"
    figure = Figure("loss", title, "step", "½e²", tuple(lines), log_x=True, note=BAND)
    return Findings(rows, judged, (figure,))


def _draw_loss(name: str, cell: TrainedCell) -> PlottedLine:
    """Return the arithmetic mean: losses of exactly 0 have no logarithm."""
    steps = max((run.epochs for run in cell.runs), key=len)
    return mean_line(name, steps, [run.train_loss for run in cell.runs])


EXPERIMENT = Experiment(
    question="Can a network without biases fit two points on one ray?",
    title="Two points on one ray",
    paper="[DGN], [WS]",
    about="Homogeneous networks cannot fit both (x, 1) and (x/2, -1).",
    plan=plan,
    findings=findings,
    quick_minutes=0.3,
    full_hours=0.074,
    claims=("ws-3",),
)
