"""[NPF], [DGN]: speed of gradient descent by depth, with own, frozen and random gates."""

from __future__ import annotations

from itertools import product
from typing import Any

from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request, Row
from dgn_engine.experiments._depth_curves import ABOUT, ends_against_middle
from dgn_engine.experiments._gradient_descent import log_remainder, train_full_batch
from dgn_engine.experiments._grid import BAND, Grid, calculation_unit, mean_line
from dgn_engine.experiments._initial_networks import (
    bernoulli_gates,
    draw_normal_network,
    draw_targets,
    unit_inputs,
)
from dgn_engine.experiments._power import Design
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

DEPTHS = (2, 4, 6, 8, 12, 16, 20)
KINDS = {"relu": "ReLU", "galu": "GaLU (FR-II)", "coins": "coins (FRG)"}
SEEDS = (10, 10)
_PILOT = "6 draws of other seeds at the quick scale, 2026-11"
DESIGNS = (Design(2.7, 0.3, _PILOT), Design(2.1, 0.6, _PILOT))


def plan(request: Request) -> Plan:
    """Plan one network per kind of gates, depth and seed."""
    n, width, steps = (40, 64, 100) if request.quick else (200, 256, 400)
    size = {"n": n, "width": width, "steps": steps}
    units = tuple(
        calculation_unit(
            f"{kind}-d{depth}-s{seed}", speed, kind=kind, depth=depth, seed=seed, **size
        )
        for kind, depth, seed in product(KINDS, DEPTHS, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"n = {n}, width {width}, {steps} steps instead of 200, 256, 400",),
        (
            "unit inputs of dimension 10 with correlation 0.5; y ~ U[-1, 1]; weights N(0, 2/w); "
            "α = 0.1/ρ_max(K_0), full batch",
            ABOUT,
        ),
    )


def speed(work: CalculationInputs) -> dict[str, Any]:
    """Train, and return the final ‖e_T‖²/‖e_0‖² and ρ_min/ρ_max of K_0."""
    given = work.arguments
    kind, depth, seed, n = given["kind"], given["depth"], given["seed"], given["n"]
    network = draw_normal_network(10, given["width"], depth, seed, own=kind == "relu")
    if kind == "coins":
        draw = random_stream("coins", seed)
        network = network.with_gates(bernoulli_gates(n, given["width"], depth, 0.5, draw))
    descent = train_full_batch(
        network, unit_inputs(n, (10,), seed, 0.5), draw_targets(n, seed), given["steps"]
    )
    values = descent.eigenvalues
    return {"left": descent.errors[-1], "condition": float(values[0] / values[-1])}


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows: list[Row] = []
    curves: dict[str, list[tuple[float, ...]]] = {}
    for kind, label in KINDS.items():
        left = []
        for depth in DEPTHS:
            cell = grid.read_calculated(f"{kind}-d{depth}")
            left.append([log_remainder(share) for share in cell["left"]])
            name = f"{label}, d = {depth}"
            rows.append(
                cell.row(f"{name}: log10 of the remaining squared error", left[-1], of="draws")
            )
            rows.append(cell.row(f"{name}: ρ_min/ρ_max of K_0", cell["condition"], of="draws"))
        curves[kind] = list(zip(*left, strict=True))
    judged = tuple(ends_against_middle("coins", DEPTHS, curves["coins"], DESIGNS))
    figure = Figure(
        "speed",
        "Training speed by depth",
        "depth d",
        "log10 of the remaining squared error",
        tuple(mean_line(label, DEPTHS, curves[kind]) for kind, label in KINDS.items()),
        note=BAND,
    )
    return Findings(tuple(rows), judged, (figure,))


EXPERIMENT = Experiment(
    question="Does a deeper network train faster?",
    title="Training speed by depth",
    paper="[NPF], [DGN]",
    about="Gradient descent on the networks themselves: own, frozen and random gates.",
    plan=plan,
    findings=findings,
    quick_minutes=0.26,
    full_hours=0.23,
    claims=("dgn-2",),
)
