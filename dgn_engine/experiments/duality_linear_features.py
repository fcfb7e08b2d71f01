"""[DUAL] §5: the feature network may be entirely linear."""

from __future__ import annotations

from dgn_engine.experiments import Experiment, Findings, Plan, Request
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._claims import judge, within
from dgn_engine.experiments._configurations import dual_config, dual_scaled_down
from dgn_engine.experiments._grid import Grid, contrast, gate_source, training
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

PAIRS = (("FR-II", "FR-linear"), ("FL", "FL-linear"), ("DL", "DL-linear"))
SEEDS = (3, 5)
SAME = 2.0


def plan(request: Request) -> Plan:
    """Train each regime with ReLU features and with linear ones.

    FL copies ReLU's gates, FL-linear those of DL-linear at its best.
    """
    config = dual_config(request, 25, 100)
    units: list[Training] = []
    for seed in request.seed_range(*SEEDS):
        relu, linear = gate_source(config, seed), gate_source(config, seed, regime="DL-linear")
        units += [relu, linear]
        units += [training(config, regime, seed) for regime in ("FR-II", "FR-linear", "DL")]
        units += [
            training(config, "FL", seed, gates_of=relu),
            training(config, "FL-linear", seed, gates_of=linear),
        ]
    return Plan(
        tuple(units),
        dual_scaled_down(request),
        (f"'as well' is a mean difference within ±{SAME:g} points",),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    names = ["ReLU", *(name for pair in PAIRS for name in pair)]
    cells = {name: grid.trained(name) for name in names}
    judged = tuple(
        judge(
            "dual-8",
            f"{usual} − {linear}",
            within(contrast((1.0, cells[usual]), (-1.0, cells[linear])), SAME),
            design=designs.of_regimes(0.0, designs.CNN, usual, usual),
        )
        for usual, linear in PAIRS
    )
    return Findings(tuple(cell.row(name) for name, cell in cells.items()), judged)


EXPERIMENT = Experiment(
    title="Linear feature networks",
    paper="[DUAL] §5",
    about="Gates of a feature network without ReLU, frozen at random, frozen learnt, and learnt.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=3000,
    claims=("dual-8",),
)
