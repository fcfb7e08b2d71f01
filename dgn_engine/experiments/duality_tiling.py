"""[DUAL] 'Arbitrary tiling cum rotation' of the gates leaves the accuracy as it is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product
from typing import Any

from dgn_engine.experiments import Experiment, Findings, Plan, Request
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._claims import judge, within
from dgn_engine.experiments._configurations import dual_config, dual_scaled_down
from dgn_engine.experiments._grid import Grid, contrast, gate_source, training
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = ("FR-II", "FL", "DL")
SEEDS = (3, 5)
LAYERS, TURNS = 4, 64
ROBUST = 2.0


@dataclass(frozen=True)
class _Wiring:
    """How gates are repeated; `turns`: whether they are shifted too."""

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
    """Train three regimes under five wirings; the rotations are drawn by the seed."""
    config = dual_config(request, 20, 100)
    units: list[Training] = []
    for seed in request.seed_range(*SEEDS):
        relu = gate_source(config, seed)
        units.append(relu)
        for wiring, regime in product(WIRINGS, REGIMES):
            gating = _gating(wiring, seed, request.quick)
            cell = f"{regime}-{wiring.name}"
            units.append(training(config, regime, seed, cell, gates_of=relu, **gating))
    return Plan(
        tuple(units),
        dual_scaled_down(request),
        (
            "the paper does not define tiling or rotation; here (our definition) a layer's gates "
            "are shifted cyclically by a random number of units, the same for all examples (in "
            "maps also by 1 to 4 rows and columns), and repeated k times for k times the units",
            f"'robust' is a mean difference to identity within ±{ROBUST:g} points, for every "
            "wiring and regime",
        ),
    )


def _gating(wiring: _Wiring, seed: int, dense: bool) -> dict[str, Any]:
    """Return the settings of the gates; of maps with a shift of rows and columns."""
    gating: dict[str, Any] = {"tiling": wiring.tiling}
    if wiring.turns:
        draw = random.Random(f"{wiring.name} {seed}")
        gating["rotation"] = tuple(draw.randrange(1, TURNS) for _ in range(LAYERS))
        if not dense:
            gating["shift"] = tuple(draw.randrange(1, 5) for _ in range(LAYERS))
    return gating


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {
        (regime, wiring.name): grid.trained(f"{regime}-{wiring.name}")
        for regime, wiring in product(REGIMES, WIRINGS)
    }
    rows = [grid.trained("ReLU").row("ReLU")]
    rows += [cell.row(f"{regime} {name}") for (regime, name), cell in cells.items()]
    identity, *others = (wiring.name for wiring in WIRINGS)
    judged = tuple(
        judge(
            "dual-7",
            f"{regime}: {name} − {identity}",
            within(contrast((1.0, cells[regime, name]), (-1.0, cells[regime, identity])), ROBUST),
            design=designs.of_regimes(0.0, designs.CNN, regime, regime),
        )
        for regime, name in product(REGIMES, others)
    )
    return Findings(tuple(rows), judged)


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
