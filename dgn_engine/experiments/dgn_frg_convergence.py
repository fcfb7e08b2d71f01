"""[DGN]: with fixed random gates, gradient descent gets faster with depth, then slower."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._depth_curves import ABOUT, ends_against_middle
from dgn_engine.experiments._gradient_descent import descend_with_kernel
from dgn_engine.experiments._grid import BAND, Grid, calculation_unit, mean_line
from dgn_engine.experiments._initial_networks import draw_targets, random_gate_kernel
from dgn_engine.experiments._power import Design
from dgn_engine.experiments.dgn_frg_spectrum import DEPTHS, P
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

SEEDS = (20, 20)
STEPS = 100
_PILOT = "4 draws of other seeds at the paper's scale, 2026-11"
DESIGNS = (Design(3.4, 0.11, _PILOT), Design(0.63, 0.1, _PILOT))


def plan(request: Request) -> Plan:
    """Plan one kernel per seed, width and depth."""
    n, widths = 100 if request.quick else 200, _widths(request)
    units = tuple(
        calculation_unit(
            f"w{width}-d{depth}-s{seed}", convergence, n=n, width=width, depth=depth, seed=seed
        )
        for width, depth, seed in product(widths, DEPTHS, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"n = {n} instead of 200, width {widths[-1]} instead of 500",),
        (
            "y ~ U[-1, 1], α = 0.1/ρ_max, ‖e_t‖²/‖e_0‖² after 100 steps with the initial kernel "
            "kept constant (exact dynamics from its eigenvalues)",
            ABOUT,
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return (25, 200) if request.quick else (25, 500)


def convergence(work: CalculationInputs) -> dict[str, Any]:
    """Return ‖e_t‖²/‖e_0‖² over the steps."""
    given = work.arguments
    kernel = random_gate_kernel(given["n"], given["width"], given["depth"], P, given["seed"])
    return {"errors": descend_with_kernel(kernel, draw_targets(given["n"], given["seed"]), STEPS)}


def findings(request: Request, results: UnitResults) -> Findings:
    grid, widths = Grid(results, request.seed_range(*SEEDS)), _widths(request)
    ends: dict[tuple[int, int], list[float]] = {}
    rows = []
    for width, depth in product(widths, DEPTHS):
        cell = grid.read_calculated(f"w{width}-d{depth}")
        ends[width, depth] = [math.log10(errors[-1]) for errors in cell["errors"]]
        label = f"w = {width}, d = {depth}: log10 ‖e‖²/‖e_0‖² after {STEPS} steps"
        rows.append(cell.row(label, ends[width, depth], of="draws"))
    curves = {
        width: list(zip(*(ends[width, depth] for depth in DEPTHS), strict=True)) for width in widths
    }
    words = f"w = {widths[-1]}"
    judged = tuple(ends_against_middle(words, DEPTHS, curves[widths[-1]], DESIGNS))
    figure = Figure(
        "convergence",
        "Convergence by depth with fixed random gates",
        "depth d",
        "log10 of the squared error",
        tuple(mean_line(f"w = {width}", DEPTHS, curves[width]) for width in widths),
        note=BAND,
    )
    return Findings(tuple(rows), judged, (figure,))


EXPERIMENT = Experiment(
    question="How deep should a network with random gates be to train fast?",
    title="Convergence with fixed random gates",
    paper="[DGN]",
    about="The remaining error after 100 steps, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=0.15,
    full_hours=0.0044,
    claims=("dgn-2",),
)
