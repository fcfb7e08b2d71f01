"""[DGN] Fixed random gates: gradient descent gets faster with depth, and then slower."""

from __future__ import annotations

import math
from typing import Any

from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._random_gates import coin_kernel, descended, targets
from dgn_engine.experiments._series import averaged
from dgn_engine.experiments.dgn_frg_spectrum import DEPTHS, P
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.dgn_frg_convergence"
STEPS = 100


def plan(request: Request) -> Plan:
    """One draw for each seed, width and depth."""
    n = 100 if request.quick else 200
    units = tuple(
        Calculation(
            f"w{width}-d{depth}-s{seed}",
            f"{HERE}:convergence",
            {"n": n, "width": width, "depth": depth, "seed": seed},
        )
        for width in _widths(request)
        for depth in DEPTHS
        for seed in range(request.seeds_or(5, 5))
    )
    return Plan(
        units,
        (f"n = {n} instead of 200, width {_widths(request)[-1]} instead of 500",)
        if request.quick
        else (),
        (
            "y ~ U[-1, 1], α = 0.1/ρ_max, ‖e_t‖²/‖e_0‖² after 100 steps with the kernel held as it "
            "is at the start (its exact dynamics, by eigenvalues)",
        ),
    )


def _widths(request: Request) -> tuple[int, ...]:
    return (25, 200) if request.quick else (25, 500)


def convergence(work: CalculationInputs) -> dict[str, Any]:
    """The error's square over the steps."""
    given = work.arguments
    kernel = coin_kernel(given["n"], given["width"], given["depth"], P, given["seed"])
    return {"errors": descended(kernel, targets(given["n"], given["seed"]), STEPS)}


def findings(request: Request, results: UnitResults) -> Findings:
    """The error that is left, by depth."""
    seeds = range(request.seeds_or(5, 5))
    ends = {
        width: [
            [
                math.log10(results.calculated(f"w{width}-d{depth}-s{seed}")["errors"][-1])
                for depth in DEPTHS
            ]
            for seed in seeds
        ]
        for width in _widths(request)
    }
    rows = tuple(
        Row(
            f"w = {width}, d = {depth}: log10 ‖e‖²/‖e_0‖² after {STEPS} steps",
            tuple(curve[place] for curve in curves),
            unit="",
            seconds=results.seconds_of(*(f"w{width}-d{depth}-s{seed}" for seed in seeds)),
        )
        for width, curves in ends.items()
        for place, depth in enumerate(DEPTHS)
    )
    wide = _widths(request)[-1]
    judged = (
        judge(
            request,
            claim("dgn-2"),
            f"w = {wide}: d = {DEPTHS[0]} − best depth between",
            [curve[0] - min(curve[1:-1]) for curve in ends[wide]],
            "above",
            0.0,
        ),
        judge(
            request,
            claim("dgn-2"),
            f"w = {wide}: d = {DEPTHS[-1]} − best depth between",
            [curve[-1] - min(curve[1:-1]) for curve in ends[wide]],
            "above",
            0.0,
        ),
    )
    lines = tuple(averaged(f"w = {width}", DEPTHS, curves) for width, curves in ends.items())
    figure = Figure(
        "convergence",
        "Convergence by depth under fixed random gates",
        "depth d",
        "log10 of the error's square",
        lines,
    )
    return Findings(rows, judged, (figure,))


EXPERIMENT = Experiment(
    title="Convergence under fixed random gates",
    paper="[DGN] §3",
    about="How much of the error is left after 100 steps, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.05,
    claims=("dgn-2",),
)
