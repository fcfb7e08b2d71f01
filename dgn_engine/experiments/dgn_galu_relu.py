"""[DGN] On highly correlated inputs GaLU optimises better than ReLU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dgn_engine.experiments import _initial
from dgn_engine.experiments._descent import course, log_left
from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Claim, Figure, Findings, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._random_gates import distribution, targets
from dgn_engine.experiments._series import averaged
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.dgn_galu_relu"
DEPTHS, CORRELATION = (2, 4, 6, 8), 0.9
KINDS = {"relu": "ReLU", "galu": "GaLU"}


def plan(request: Request) -> Plan:
    """Both kinds of gates at each depth."""
    n, width, steps = (50, 100, 200) if request.quick else (200, 500, 1000)
    units = tuple(
        Calculation(
            f"{kind}-d{depth}-s{seed}",
            f"{HERE}:trained",
            {"kind": kind, "depth": depth, "seed": seed, "n": n, "width": width, "steps": steps},
        )
        for kind in KINDS
        for depth in DEPTHS
        for seed in range(request.seeds_or(5, 5))
    )
    return Plan(
        units,
        (f"n = {n}, width {width}, {steps} steps instead of 200, 500, 1,000",)
        if request.quick
        else (),
        (
            f"unit vectors of dimension 100 with pairwise correlation {CORRELATION}, y ~ U[-1, 1], "
            "weights N(0, 2/w), α = 0.1/ρ_max(K_0), full batch; GaLU is FR-II",
        ),
    )


def trained(work: CalculationInputs) -> dict[str, Any]:
    """e.c.d.f. of K_0 and ‖e_t‖²/‖e_0‖² over the steps."""
    given = work.arguments
    n, seed, steps = given["n"], given["seed"], given["steps"]
    own = given["kind"] == "relu"
    network = _initial.normal(100, given["width"], given["depth"], seed, own=own)
    x = _initial.unit_inputs(n, (100,), seed, CORRELATION)
    found = course(network, x, targets(n, seed), steps)
    every = max(1, steps // 100)
    return {
        "distribution": distribution(found.kernel).cumsum(0).tolist(),
        "steps": list(range(0, steps + 1, every)),
        "errors": found.errors[::every],
    }


def findings(request: Request, results: UnitResults) -> Findings:
    """What is left of the error after all steps, and both figures at each depth."""
    seeds = range(request.seeds_or(5, 5))
    cells = {
        (kind, depth): [results.calculated(f"{kind}-d{depth}-s{seed}") for seed in seeds]
        for kind in KINDS
        for depth in DEPTHS
    }
    rows = tuple(
        Row(
            f"{KINDS[kind]}, d = {depth}: log10 ‖e‖²/‖e_0‖² at the end",
            _left(found),
            unit="",
            seconds=results.seconds_of(*(f"{kind}-d{depth}-s{seed}" for seed in seeds)),
        )
        for (kind, depth), found in cells.items()
    )
    curves = tuple(
        averaged(f"{KINDS[kind]}, d = {depth}", found[0]["steps"], [c["errors"] for c in found])
        for (kind, depth), found in cells.items()
    )
    spectra = tuple(
        averaged(
            f"{KINDS[kind]}, d = {depth}",
            range(len(found[0]["distribution"])),
            [c["distribution"] for c in found],
        )
        for (kind, depth), found in cells.items()
    )
    figures = (
        Figure(
            "convergence", "Highly correlated inputs", "step", "‖e‖²/‖e_0‖²", curves, log_y=True
        ),
        Figure("spectra", "e.c.d.f. of K_0", "eigenvalue number", "cumulative share", spectra),
    )
    return Findings(rows, tuple(_claims(request, cells)), figures)


def _left(found: list[dict[str, Any]]) -> tuple[float, ...]:
    return tuple(log_left(c["errors"][-1]) for c in found)


def _claims(
    request: Request, cells: dict[tuple[str, int], list[dict[str, Any]]]
) -> Iterator[Claim]:
    for depth in DEPTHS:
        pairs = zip(_left(cells["relu", depth]), _left(cells["galu", depth]), strict=True)
        yield judge(
            request,
            claim("dgn-3"),
            f"d = {depth}: log10 error left, ReLU − GaLU",
            [relu - galu for relu, galu in pairs],
            "above",
            0.0,
        )


EXPERIMENT = Experiment(
    title="GaLU and ReLU on correlated inputs",
    paper="[DGN] §4",
    about="Spectrum at the start and convergence, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=1.0,
    full_hours=0.3,
    claims=("dgn-3",),
)
