"""[DGN] Two points on one ray: no bias-free ReLU network fits both, gates of their own do."""

from __future__ import annotations

import math

from dgn_engine.config import DataConfig, NetConfig, TrainingConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, Row
from dgn_engine.experiments._judging import judge, judge_exact
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._training import base, last_epoch, trained_with, under
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = ("ReLU", "FRG")
# ŷ(x/2) = ŷ(x)/2 =: t/2: the least of ½((t - 1)² + (t/2 + 1)²)/2 lies at t = 2/5.
FLOOR = ((0.4 - 1) ** 2 + (0.2 + 1) ** 2) / 4


def plan(request: Request) -> Plan:
    """Bias-free ReLU, and gates thrown for each example (FRG), on (x, 1), (x/2, -1)."""
    epochs = request.epochs_or(3000, 20000)
    net = NetConfig("fc", (("width", 32 if request.quick else 128), ("depth", 4)))
    config = base(request, net, DataConfig("hard"), epochs)
    training = TrainingConfig("squared", "adam", 1e-3, batch=2, epochs=epochs)
    config = trained_with(
        config,
        **{"loss": "squared", "learning_rate": training.learning_rate, "batch": training.batch},
    )
    units = tuple(
        Training(f"{regime}-s{seed}", under(config, regime, seed))
        for seed in range(request.seeds_or(3, 10))
        for regime in REGIMES
    )
    return Plan(
        units,
        ("width 32 instead of 128", f"{epochs:,} steps instead of 20,000") if request.quick else (),
        (f"the loss ½e² of homogeneous networks has the floor {FLOOR:g} (mean of both points)",),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    """The loss at the end against its floor."""
    seeds = range(request.seeds_or(3, 10))
    cells = {name: [results.trained(f"{name}-s{seed}") for seed in seeds] for name in REGIMES}
    ends = {
        name: tuple(run.train_loss[-1] if run.train_loss else math.nan for run in runs)
        for name, runs in cells.items()
    }
    rows = tuple(
        Row(
            f"{name}: training loss at the end",
            ends[name],
            unit="",
            epochs=last_epoch(runs),
            seconds=sum(run.seconds for run in runs),
        )
        for name, runs in cells.items()
    )
    losses = [loss for run in cells["ReLU"] for loss in run.train_loss]
    least = min(losses, default=math.nan)
    judged = (
        judge_exact(
            claim("ws-3"),
            f"{FLOOR:g} − least training loss of ReLU",
            0.0 if least >= FLOOR else FLOOR - least,
            1e-5,
            len(ends["ReLU"]),
        ),
        judge(
            request,
            claim("ws-3"),
            "log10 loss, ReLU − FRG",
            [math.log10(a / max(b, 1e-12)) for a, b in zip(*ends.values(), strict=True)],
            "above",
            0.0,
        ),
    )
    lines = tuple(
        averaged(name, runs[0].epochs, [run.train_loss for run in runs])
        for name, runs in cells.items()
    )
    figure = Figure("loss", "Two points on one ray", "step", "½e²", lines, log_y=True)
    return Findings(rows, judged, (figure,))


EXPERIMENT = Experiment(
    title="Two points on one ray",
    paper="[DGN], [WS]",
    about="(x, 1) and (x/2, -1): homogeneous networks cannot fit both.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.2,
    claims=("ws-3",),
)
