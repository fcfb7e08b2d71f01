"""[DGN]: on highly correlated inputs, GaLU trains faster than ReLU."""

from __future__ import annotations

from itertools import product
from typing import Any

from dgn_engine.experiments import Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import Sample, above, judge
from dgn_engine.experiments._gradient_descent import log_remainder, train_full_batch
from dgn_engine.experiments._grid import Grid, calculation_unit, mean_line, pairwise_difference
from dgn_engine.experiments._initial_networks import (
    draw_normal_network,
    draw_targets,
    eigenvalue_distribution,
    unit_inputs,
)
from dgn_engine.experiments._power import Design
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

DEPTHS, CORRELATION = (2, 4, 6, 8), 0.9
KINDS = {"relu": "ReLU", "galu": "GaLU"}
SEEDS = (20, 20)
_PILOT = "6 draws of other seeds at the quick scale, 2026-11"
DESIGNS = {
    2: Design(0.07, 0.05, _PILOT),
    4: Design(0.16, 0.11, _PILOT),
    6: Design(0.43, 0.55, _PILOT),
    8: Design(0.67, 0.79, _PILOT),
}


def plan(request: Request) -> Plan:
    """Plan both kinds of gates at each depth."""
    n, width, steps = (50, 100, 200) if request.quick else (200, 500, 1000)
    size = {"n": n, "width": width, "steps": steps}
    units = tuple(
        calculation_unit(
            f"{kind}-d{depth}-s{seed}", trained, kind=kind, depth=depth, seed=seed, **size
        )
        for kind, depth, seed in product(KINDS, DEPTHS, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"n = {n}, width {width}, {steps} steps instead of 200, 500, 1,000",),
        (
            f"unit vectors of dimension 100 with pairwise correlation {CORRELATION}, y ~ U[-1, 1], "
            "weights N(0, 2/w), α = 0.1/ρ_max(K_0), full batch; GaLU is FR-II",
            "each uses the learning rate for its own K_0; both share inputs, targets and initial "
            "value weights of a draw",
        ),
    )


def trained(work: CalculationInputs) -> dict[str, Any]:
    """Train, and return the eigenvalue distribution of K_0 and ‖e_t‖²/‖e_0‖² over the steps."""
    given = work.arguments
    n, seed, steps = given["n"], given["seed"], given["steps"]
    network = draw_normal_network(
        100, given["width"], given["depth"], seed, own=given["kind"] == "relu"
    )
    x = unit_inputs(n, (100,), seed, CORRELATION)
    descent = train_full_batch(network, x, draw_targets(n, seed), steps)
    every = max(1, steps // 100)
    return {
        "distribution": eigenvalue_distribution(descent.kernel),
        "steps": list(range(0, steps + 1, every)),
        "errors": descent.errors[::every],
    }


def findings(request: Request, results: UnitResults) -> Findings:
    grid = Grid(results, request.seed_range(*SEEDS))
    rows, errors, spectra = [], [], []
    left: dict[tuple[str, int], list[float]] = {}
    for kind, depth in product(KINDS, DEPTHS):
        cell, label = grid.read_calculated(f"{kind}-d{depth}"), f"{KINDS[kind]}, d = {depth}"
        left[kind, depth] = [log_remainder(curve[-1]) for curve in cell["errors"]]
        rows.append(
            cell.row(f"{label}: log10 ‖e‖²/‖e_0‖² at the end", left[kind, depth], of="draws")
        )
        errors.append(mean_line(label, cell["steps"][0], cell["errors"]))
        numbers = range(len(cell["distribution"][0]))
        spectra.append(mean_line(label, numbers, cell["distribution"]))
    judged = tuple(
        judge(
            "dgn-3",
            f"d = {depth}: remaining log10 error, ReLU − GaLU",
            above(
                Sample(
                    tuple(pairwise_difference(left["relu", depth], left["galu", depth])), "draws"
                )
            ),
            design=DESIGNS[depth],
        )
        for depth in DEPTHS
    )
    figures = (
        Figure(
            "convergence",
            "Highly correlated inputs",
            "step",
            "‖e‖²/‖e_0‖²",
            tuple(errors),
            log_y=True,
        ),
        Figure(
            "spectra", "e.c.d.f. of K_0", "eigenvalue index", "cumulative share", tuple(spectra)
        ),
    )
    return Findings(tuple(rows), judged, figures)


EXPERIMENT = Experiment(
    question="Do frozen gates train faster than those of ReLU?",
    title="GaLU and ReLU on correlated inputs",
    paper="[DGN]",
    about="Initial spectrum and convergence, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=1.5,
    full_hours=1.2,
    claims=("dgn-3",),
)
