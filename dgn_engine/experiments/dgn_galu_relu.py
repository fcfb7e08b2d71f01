"""[DGN]: on highly correlated inputs, GaLU has a better initial spectrum than ReLU and trains
faster, and depth helps GaLU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, PlottedLine, Request
from dgn_engine.experiments._claims import Sample, above, judge
from dgn_engine.experiments._gradient_descent import log_remainder, train_full_batch
from dgn_engine.experiments._grid import (
    CalculatedCell,
    Grid,
    calculation_unit,
    mean_line,
    pairwise_difference,
)
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
NOTE = "Lines: means over draws; bands: 95 % intervals."
_PILOT = "6 draws of other seeds at the quick scale, 2026-11"
DESIGNS = {
    2: Design(0.07, 0.05, _PILOT),
    4: Design(0.16, 0.11, _PILOT),
    6: Design(0.43, 0.55, _PILOT),
    8: Design(0.67, 0.79, _PILOT),
}
_FULL_PILOT = "6 draws of other seeds at the paper's scale, 2026-11"
SPECTRA = {
    2: Design(0.015, 0.0036, _FULL_PILOT),
    4: Design(0.051, 0.0056, _FULL_PILOT),
    6: Design(0.071, 0.0071, _FULL_PILOT),
    8: Design(0.084, 0.011, _FULL_PILOT),
}
SHALLOW, DEEP = DEPTHS[0], DEPTHS[-1]
DEEPER = Design(1.24, 0.54, _PILOT)
Measured = Mapping[tuple[str, int], Sequence[float]]  # one value per draw, by kind and depth


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
            "a 'better' e.c.d.f. has a larger mean over the eigenvalues, which is largest, "
            f"½ + 1/(2n), if all are equal; 'depth helps' compares d = {SHALLOW} with d = {DEEP}; "
            "both were chosen here",
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
    cells = {
        (kind, depth): grid.read_calculated(f"{kind}-d{depth}")
        for kind, depth in product(KINDS, DEPTHS)
    }
    left = {
        key: [log_remainder(curve[-1]) for curve in cell["errors"]] for key, cell in cells.items()
    }
    areas = {key: [_mean(curve) for curve in cell["distribution"]] for key, cell in cells.items()}
    rows = [
        cell.row(f"{KINDS[kind]}, d = {depth}: {words}", values[kind, depth], of="draws")
        for words, values in (
            ("log10 ‖e‖²/‖e_0‖² at the end", left),
            ("mean of the e.c.d.f. of K_0", areas),
        )
        for (kind, depth), cell in cells.items()
    ]
    return Findings(tuple(rows), tuple(_judge_claims(left, areas)), tuple(_draw_figures(cells)))


def _judge_claims(left: Measured, areas: Measured) -> Iterator[Claim]:
    """Judge the speed and the spectra at each depth, and the gain from depth, paired by draw."""
    for depth in DEPTHS:
        statistic = f"d = {depth}: remaining log10 error, ReLU − GaLU"
        faster = _paired(left["relu", depth], left["galu", depth])
        yield judge("dgn-3", statistic, above(faster), design=DESIGNS[depth])
    for depth in DEPTHS:
        statistic = f"d = {depth}: mean of the e.c.d.f. of K_0, GaLU − ReLU"
        better = _paired(areas["galu", depth], areas["relu", depth])
        yield judge("dgn-9", statistic, above(better), design=SPECTRA[depth])
    statistic = f"GaLU: remaining log10 error, d = {SHALLOW} − d = {DEEP}"
    gain = _paired(left["galu", SHALLOW], left["galu", DEEP])
    yield judge("dgn-10", statistic, above(gain), design=DEEPER)


def _paired(one: Sequence[float], other: Sequence[float]) -> Sample:
    return Sample(tuple(pairwise_difference(one, other)), "draws")


def _mean(curve: Sequence[float]) -> float:
    return sum(curve) / len(curve)


def _draw_figures(cells: Mapping[tuple[str, int], CalculatedCell]) -> Iterator[Figure]:
    """Draw both kinds at each depth: log10 of the error, as judged, and the e.c.d.f."""
    errors, spectra = [], []
    for kind, depth in product(("galu", "relu"), DEPTHS):
        cell = cells[kind, depth]
        logs = [[log_remainder(share) for share in curve] for curve in cell["errors"]]
        errors.append(_line(kind, depth, cell["steps"][0], logs))
        numbers = range(1, len(cell["distribution"][0]) + 1)
        spectra.append(_line(kind, depth, numbers, cell["distribution"]))
    title, y = "Highly correlated inputs: GaLU (ReLU dotted)", "log10 ‖e‖²/‖e_0‖²"
    yield Figure("convergence", title, "step", y, tuple(errors), note=NOTE)
    title, y = "e.c.d.f. of K_0: GaLU (ReLU dotted)", "cumulative share"
    yield Figure("spectra", title, "eigenvalue index", y, tuple(spectra), note=NOTE)


def _line(
    kind: str, depth: int, x: Sequence[float], curves: Sequence[Sequence[float]]
) -> PlottedLine:
    """Return the mean line of GaLU, or that of ReLU, dotted in the same colour."""
    line = mean_line(f"d = {depth}", x, curves)
    return line if kind == "galu" else replace(line, label=f"ReLU, {line.label}", style="printed")


EXPERIMENT = Experiment(
    question="Do frozen gates train faster than those of ReLU?",
    title="GaLU and ReLU on correlated inputs",
    paper="[DGN]",
    about="Initial spectrum and convergence, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=0.31,
    full_hours=0.67,
    claims=("dgn-3", "dgn-9", "dgn-10"),
)
