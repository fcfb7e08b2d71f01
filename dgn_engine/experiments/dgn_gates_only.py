"""[DGN] 'Lottery in the gates': training the gates alone, under frozen random values, learns."""

from __future__ import annotations

from dgn_engine.config import NetConfig
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import stands_in
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments._training import base, data_of, row_of, under
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = ("gates-only", "FR-II", "DL")
CHANCE = 10.0


def plan(request: Request) -> Plan:
    """Gates alone, values alone, and both."""
    net = NetConfig("fc", (("width", 64 if request.quick else 128), ("depth", 5)))
    config = base(request, net, data_of(request, "mnist"), request.epochs_or(40, 50))
    seeds = range(request.seeds_or(3, 5))
    units = tuple(
        Training(f"{regime}-s{seed}", under(config, regime, seed))
        for seed in seeds
        for regime in REGIMES
    )
    return Plan(
        units,
        (*stands_in(request, "MNIST"), "64 units a layer instead of 128") if request.quick else (),
        ("all ten digits, Adam 3e-4, d = 5: chosen here, stripped from the text at hand",),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    """Accuracies, and gates alone against chance."""
    seeds = range(request.seeds_or(3, 5))
    cells = {name: [results.trained(f"{name}-s{seed}") for seed in seeds] for name in REGIMES}
    words = {
        "gates-only": "gates alone (values frozen at random)",
        "FR-II": "values alone (gates frozen at random)",
        "DL": "both",
    }
    above = [100 * run.best - CHANCE for run in cells["gates-only"]]
    judged = judge(request, claim("dgn-7"), "gates alone − chance", above, "above", 0.0)
    curves = tuple(
        averaged(words[name], runs[0].epochs, [[100 * s for s in run.test] for run in runs])
        for name, runs in cells.items()
    )
    figure = Figure("learning", "What learns", "epoch", "test accuracy (%)", curves)
    rows = tuple(row_of(words[name], runs) for name, runs in cells.items())
    return Findings(rows, (judged,), (figure,))


EXPERIMENT = Experiment(
    title="Training the gates alone",
    paper="[DGN] §5",
    about="The values stay as they were drawn; soft gates are trained above them.",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=1.5,
    claims=("dgn-7",),
)
