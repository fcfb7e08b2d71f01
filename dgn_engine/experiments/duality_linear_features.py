"""[DUAL] §5: the feature network may be entirely linear."""

from __future__ import annotations

from collections.abc import Iterator

from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Findings
from dgn_engine.experiments._judging import judge_within
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import dual_words
from dgn_engine.experiments._training import (
    dual_config,
    gaps,
    row_of,
    trained_with,
    under,
)
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

PAIRS = (("FR-II", "FR-linear"), ("FL", "FL-linear"), ("DL", "DL-linear"))
SAME = 2.0


def plan(request: Request) -> Plan:
    """Each regime with ReLU features and with linear ones; FL copies ReLU's gates, FL-linear
    those of DL-linear at its best."""
    config = dual_config(request, 25, 100)
    units: list[Training] = []
    for seed in range(request.seeds_or(3, 5)):
        for source in ("ReLU", "DL-linear"):
            units.append(
                Training(
                    f"{source}-s{seed}",
                    trained_with(under(config, source, seed), keep_best=True),
                )
            )
        for regime in ("FR-II", "FR-linear", "DL"):
            units.append(Training(f"{regime}-s{seed}", under(config, regime, seed)))
        for regime, source in (("FL", "ReLU"), ("FL-linear", "DL-linear")):
            made = UnitFile(f"{source}-s{seed}", f"{KEPT}/{BEST}")
            units.append(
                Training(f"{regime}-s{seed}", under(config, regime, seed), gates_from=made)
            )
    return Plan(
        tuple(units),
        dual_words(request) if request.quick else (),
        (f"'as well' is a mean difference within ±{SAME:g} points",),
    )


def findings(request: Request, results: UnitResults) -> Findings:
    """All regimes, and each linear one against its ReLU twin."""
    seeds = range(request.seeds_or(3, 5))
    names = ["ReLU", *(name for pair in PAIRS for name in pair)]
    cells = {name: [results.trained(f"{name}-s{seed}") for seed in seeds] for name in names}
    rows = tuple(row_of(name, runs) for name, runs in cells.items())
    return Findings(rows, tuple(_claims(request, cells)))


def _claims(request: Request, cells: dict[str, list[TrainedRun]]) -> Iterator[Claim]:
    for usual, linear in PAIRS:
        values = gaps(cells[usual], cells[linear])
        yield judge_within(request, claim("dual-8"), f"{usual} − {linear}", values, SAME)


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
