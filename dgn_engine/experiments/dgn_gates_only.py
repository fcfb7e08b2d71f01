"""[DGN] 'Lottery in the gates': training the gates alone, under frozen random values, learns."""

from __future__ import annotations

from dgn_engine.experiments import Experiment, Findings, Plan, Request
from dgn_engine.experiments._claims import above, judge
from dgn_engine.experiments._configurations import base, data_of, dense, stands_in
from dgn_engine.experiments._grid import Grid, learning_curves, training
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = {
    "gates-only": "gates alone (values frozen at random)",
    "FR-II": "values alone (gates frozen at random)",
    "DL": "both",
}
SEEDS = (3, 5)
CHANCE = 10.0


def plan(request: Request) -> Plan:
    """Train gates alone, values alone, and both."""
    net = dense(64 if request.quick else 128, 5)
    config = base(request, net, data_of(request, "mnist"), request.epochs_or(40, 50))
    units = tuple(
        training(config, regime, seed) for seed in request.seed_range(*SEEDS) for regime in REGIMES
    )
    return Plan(
        units,
        (*stands_in(request, "MNIST"), "64 units a layer instead of 128"),
        ("all ten digits, Adam 3e-4, d = 5: chosen here, stripped from the text at hand",),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {label: grid.trained(regime) for regime, label in REGIMES.items()}
    learnt = [best - CHANCE for best in cells[REGIMES["gates-only"]].best]
    return Findings(
        tuple(cell.row(label) for label, cell in cells.items()),
        (judge("dgn-7", "gates alone − chance", above(learnt)),),
        (learning_curves("What learns", cells),),
    )


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
