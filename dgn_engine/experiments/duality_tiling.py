"""[DUAL] 'Arbitrary tiling cum rotation' of the gates leaves the accuracy as it is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._scaled import dual_words
from dgn_engine.experiments._training import (
    dual_config,
    row_of,
    trained_with,
    under,
)
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

REGIMES = ("FR-II", "FL", "DL")
LAYERS, TURNS = 4, 64
ROBUST = 2.0


@dataclass(frozen=True)
class _Wiring:
    name: str
    tiling: tuple[int, ...] = ()
    turns: bool = False


WIRINGS = (
    _Wiring("identity"),
    _Wiring("rotated", turns=True),
    _Wiring("tiled-2", (2,) * LAYERS),
    _Wiring("tiled-2-rotated", (2,) * LAYERS, True),
    _Wiring("tiled-1321-rotated", (1, 3, 2, 1), True),
)


def plan(request: Request) -> Plan:
    """Three regimes under five wirings; the rotations are drawn by the seed."""
    config = dual_config(request, 20, 100)
    units: list[Training] = []
    for seed in range(request.seeds_or(3, 5)):
        relu = Training(f"ReLU-s{seed}", trained_with(under(config, "ReLU", seed), keep_best=True))
        units.append(relu)
        for wiring in WIRINGS:
            for regime in REGIMES:
                gating = {"tiling": wiring.tiling, **_rotation(wiring, seed, request.quick)}
                units.append(
                    Training(
                        f"{regime}-{wiring.name}-s{seed}",
                        under(config, regime, seed, **gating),
                        gates_from=UnitFile(relu.id, f"{KEPT}/{BEST}") if regime == "FL" else None,
                    )
                )
    return Plan(
        tuple(units),
        dual_words(request) if request.quick else (),
        (
            "the paper does not define tiling or rotation; here (our definition) a layer's gates "
            "are shifted cyclically by a random number of units, the same for all examples (in "
            "maps also by 1 to 4 rows and columns), and repeated k times for k times the units",
            f"'robust' is a fall of the worst wiring below identity of less than {ROBUST:g} points",
        ),
    )


def _rotation(wiring: _Wiring, seed: int, dense: bool) -> dict[str, tuple[int, ...]]:
    if not wiring.turns:
        return {}
    draw = random.Random(f"{wiring.name} {seed}")
    turns = {"rotation": tuple(draw.randrange(1, TURNS) for _ in range(LAYERS))}
    if not dense:
        turns["shift"] = tuple(draw.randrange(1, 5) for _ in range(LAYERS))
    return turns


def findings(request: Request, results: UnitResults) -> Findings:
    """Every cell, and for each seed the worst wiring against the identity."""
    seeds = range(request.seeds_or(3, 5))
    cells = {
        (regime, wiring.name): [
            results.trained(f"{regime}-{wiring.name}-s{seed}") for seed in seeds
        ]
        for regime in REGIMES
        for wiring in WIRINGS
    }
    rows: list[Row] = [row_of("ReLU", [results.trained(f"ReLU-s{seed}") for seed in seeds])]
    rows += [row_of(f"{regime} {name}", runs) for (regime, name), runs in cells.items()]
    return Findings(tuple(rows), tuple(_claims(request, cells)))


def _claims(request: Request, cells: dict[tuple[str, str], list[TrainedRun]]) -> Iterator[Claim]:
    for regime in REGIMES:
        identity, *others = (cells[regime, wiring.name] for wiring in WIRINGS)
        falls = [
            100 * (min(runs[seed].best for runs in others) - identity[seed].best)
            for seed in range(len(identity))
        ]
        yield judge(
            request, claim("dual-7"), f"{regime}: worst wiring − identity", falls, "above", -ROBUST
        )


EXPERIMENT = Experiment(
    title="Tiling and rotation of the gates",
    paper="[DUAL] Experiment 1",
    about="Gates repeated and shifted along their units; the definition is ours.",
    plan=plan,
    findings=findings,
    quick_minutes=2.0,
    full_hours=7200,
    claims=("dual-7",),
)
