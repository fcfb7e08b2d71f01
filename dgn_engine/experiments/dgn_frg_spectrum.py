"""[DGN] Fixed random gates on identical inputs: the spectrum of K_0 against its ideal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from dgn_engine.experiments import (
    Experiment,
    Figure,
    Findings,
    Plan,
    PlottedLine,
    Printed,
    Request,
)
from dgn_engine.experiments._claims import above, below, judge
from dgn_engine.experiments._grid import Grid, averaged, calculation, minus
from dgn_engine.experiments._initial_networks import eigenvalue_distribution, random_gate_kernel
from dgn_engine.kernels import random_gating_eigenvalues
from dgn_engine.statistics import SHARE
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

DEPTHS, WIDTHS, P = (2, 4, 6, 8, 12, 16, 20), (25, 500), 0.5
SEEDS = (5, 5)


def plan(request: Request) -> Plan:
    """Draw one kernel for each seed, width and depth."""
    n = _examples(request)
    units = tuple(
        calculation(
            f"w{width}-d{depth}-s{seed}", spectrum_of, n=n, width=width, depth=depth, seed=seed
        )
        for width, depth, seed in product(WIDTHS, DEPTHS, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"n = {n} instead of 200",),
        (
            "p = ½ and widths 25 and 500 are recalled from arXiv:2002.03996; n, depths and 5 draws "
            "are chosen here: the numbers are stripped from the text at hand",
        ),
    )


def _examples(request: Request) -> int:
    return 100 if request.quick else 200


def spectrum_of(work: CalculationInputs) -> dict[str, Any]:
    """Return the e.c.d.f. of the eigenvalues of K_0/d, its mean diagonal, its mean entry off it."""
    given = work.arguments
    n = given["n"]
    kernel = random_gate_kernel(n, given["width"], given["depth"], P, given["seed"])
    return {
        "distribution": eigenvalue_distribution(kernel),
        "diagonal": float(kernel.diagonal().mean()),
        "off": float((kernel.sum() - kernel.trace()) / (n * (n - 1))),
    }


def _ideal(n: int, depth: int) -> list[float]:
    values = random_gating_eigenvalues(n, P, depth).flip(0)
    curve: list[float] = (values / values.sum()).cumsum(0).tolist()
    return curve


def findings(request: Request, results: UnitResults) -> Findings:
    grid, n = Grid(results, request.seed_range(*SEEDS)), _examples(request)
    cells = {(w, d): grid.calculated(f"w{w}-d{d}") for w, d in product(WIDTHS, DEPTHS)}
    rows = tuple(
        cell.row(f"w = {width}, d = {depth}: {word} of K_0/d", cell[key], Printed(ideal))
        for (width, depth), cell in cells.items()
        for key, word, ideal in (
            ("diagonal", "diagonal", 1.0),
            ("off", "off-diagonal", P ** (depth - 1)),
        )
    )
    far: dict[int, list[float]] = {}
    for width in WIDTHS:
        by_depth = [
            [_distance(curve, _ideal(n, depth)) for curve in cells[width, depth]["distribution"]]
            for depth in DEPTHS
        ]
        far[width] = [sum(distances) / len(DEPTHS) for distances in zip(*by_depth, strict=True)]
    narrow, wide = WIDTHS
    judged = (
        judge(
            "dgn-1",
            f"largest e.c.d.f. distance (mean over depths), w = {narrow} − w = {wide}",
            above(minus(far[narrow], far[wide])),
        ),
        judge(
            "dgn-1",
            f"largest e.c.d.f. distance at w = {wide}",
            below(far[wide], 0.1, SHARE),
            "'near' is chosen here as 0.1",
        ),
    )
    figures = tuple(
        Figure(
            f"w{width}",
            f"e.c.d.f. of K_0 at width {width}",
            "eigenvalue number",
            "cumulative share",
            tuple(
                line
                for depth in DEPTHS
                for line in _lines(n, depth, cells[width, depth]["distribution"])
            ),
        )
        for width in WIDTHS
    )
    remark = "'Printed' is the ideal: 1 on the diagonal, p^{d-1} off it."
    return Findings(rows, judged, figures, (remark,))


def _lines(
    n: int, depth: int, curves: Sequence[Sequence[float]]
) -> tuple[PlottedLine, PlottedLine]:
    numbers = tuple(float(i) for i in range(1, n + 1))
    ideal = PlottedLine(f"ideal, d = {depth}", numbers, tuple(_ideal(n, depth)), style="printed")
    return averaged(f"d = {depth}", numbers, curves), ideal


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return float((torch.tensor(one) - torch.tensor(other)).abs().max())


EXPERIMENT = Experiment(
    title="Spectrum under fixed random gates",
    paper="[DGN] §2",
    about="Identical inputs, a coin for every gate: K_0 against its closed form, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.05,
    claims=("dgn-1",),
)
