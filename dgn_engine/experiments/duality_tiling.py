"""[DUAL]: 'arbitrary tiling cum rotation' of the gates does not change the accuracy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments import _accuracy_designs as designs
from dgn_engine.experiments._accuracy_figures import plot_groups
from dgn_engine.experiments._claims import judge, within
from dgn_engine.experiments._dual_networks import (
    ADDED_ROW,
    CNN,
    FC,
    MARGIN,
    DualNetwork,
    dual_networks,
    dual_scaled_down,
)
from dgn_engine.experiments._grid import Grid, TrainedCell, contrast, gate_source, training_unit
from dgn_engine.sweep.unit import Training
from dgn_engine.sweep.unit_results import UnitResults

REGIMES = ("FR-II", "FL", "DL")
SEEDS, QUICK_EPOCHS = (3, 5), 20
LAYERS, TURNS = 4, 64


@dataclass(frozen=True)
class _Wiring:
    """A wiring: how often gates are repeated, and whether they are also rotated (`turns`)."""

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
    """Plan three regimes with five wirings; rotations are drawn by the seed."""
    units = [
        unit
        for network in dual_networks(request, QUICK_EPOCHS)
        for seed in request.seed_range(*SEEDS)
        for unit in _seed_runs(request, network, seed)
    ]
    return Plan(
        tuple(units),
        dual_scaled_down(request),
        (
            "the paper does not define tiling or rotation; in our definition, a layer's gates are "
            "shifted cyclically by a random number of units, the same for all examples (in "
            "feature maps also by 1 to 4 rows and columns), and repeated k times for k times as "
            "many units",
            "but for a factor, repeating and shifting along the units keep the neural path kernel; "
            "shifting rows and columns changes it",
            f"'robust' means a mean difference from identity within ±{MARGIN[CNN]:g} points (CNN "
            f"and quick scale) or ±{MARGIN[FC]:g} point (FC/MNIST), for every wiring and regime",
            ADDED_ROW,
        ),
    )


def _seed_runs(request: Request, network: DualNetwork, seed: int) -> Iterator[Training]:
    maps = network.row == CNN
    relu = gate_source(network.config, seed, network.cell_name("ReLU"))
    yield relu
    for wiring, regime in product(WIRINGS, REGIMES):
        cell = network.cell_name(f"{regime}-{wiring.name}")
        gating = _gating_settings(wiring, seed, maps)
        yield training_unit(network.config, regime, seed, cell, gates_of=relu, **gating)


def _gating_settings(wiring: _Wiring, seed: int, maps: bool) -> dict[str, Any]:
    """Return the gate settings of a wiring, including a shift of rows and columns for maps."""
    gating: dict[str, Any] = {"tiling": wiring.tiling}
    if wiring.turns:
        draw = random.Random(f"{wiring.name} {seed}")
        gating["rotation"] = tuple(draw.randrange(1, TURNS) for _ in range(LAYERS))
        if maps:
            gating["shift"] = tuple(draw.randrange(1, 5) for _ in range(LAYERS))
    return gating


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows: list[Row] = []
    judged: list[Claim] = []
    figures: list[Figure] = []
    for network in dual_networks(request, QUICK_EPOCHS):
        cells = {
            (regime, wiring.name): grid.read_trained(network.cell_name(f"{regime}-{wiring.name}"))
            for regime, wiring in product(REGIMES, WIRINGS)
        }
        relu = grid.read_trained(network.cell_name("ReLU")).row(network.prefix_label("ReLU"))
        by_regime = {
            regime: {
                wiring.name: cells[regime, wiring.name].row(
                    network.prefix_label(f"{regime} {wiring.name}")
                )
                for wiring in WIRINGS
            }
            for regime in REGIMES
        }
        rows += [relu, *(row for line in by_regime.values() for row in line.values())]
        title = network.prefix_label("Tiling and rotation of the gates")
        figures.append(plot_groups(network.cell_name("accuracy"), title, by_regime, relu))
        judged += _judge_claims(network, cells)
    return Findings(tuple(rows), tuple(judged), tuple(figures))


def _judge_claims(
    network: DualNetwork, cells: dict[tuple[str, str], TrainedCell]
) -> Iterator[Claim]:
    identity, *others = (wiring.name for wiring in WIRINGS)
    for regime, name in product(REGIMES, others):
        gap = contrast((1.0, cells[regime, name]), (-1.0, cells[regime, identity]))
        yield judge(
            "dual-7",
            network.prefix_statistic(f"{regime}: {name} − {identity}"),
            within(gap, network.margin),
            network.remark,
            designs.of_regimes(0.0, network.design, regime, regime),
        )


EXPERIMENT = Experiment(
    question="Do gates still work when they are repeated and rotated?",
    title="Tiling and rotation of the gates",
    paper="[DUAL] Experiment 1",
    about="Gates repeated and shifted along the units, in our own definition.",
    plan=plan,
    findings=findings,
    quick_minutes=0.23,
    full_hours=3200,
    claims=("dual-7",),
    rows=("FC/MNIST", "CNN (4 conv x128, 3x3, stride 1, GAP, dense)/CIFAR-10"),
)
