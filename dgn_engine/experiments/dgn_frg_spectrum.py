"""[DGN]: fixed random gates on identical inputs; the spectrum of K_0 and its ideal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch

from dgn_engine.experiments import (
    Claim,
    Experiment,
    Figure,
    Findings,
    Plan,
    PlottedLine,
    Printed,
    Request,
    Row,
)
from dgn_engine.experiments._claims import Sample, below, judge
from dgn_engine.experiments._grid import (
    BAND,
    Grid,
    calculation_unit,
    mean_line,
    pairwise_difference,
)
from dgn_engine.experiments._initial_networks import eigenvalue_distribution, random_gate_kernel
from dgn_engine.experiments._power import Design
from dgn_engine.kernels import random_gating_eigenvalues
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

DEPTHS, WIDTHS, P = (2, 4, 6, 8, 12, 16, 20), (25, 500), 0.5
SEEDS = (10, 10)
NEARER = Design(-0.35, 0.01, "3 draws of other seeds at the paper's scale, 2026-11")


def plan(request: Request) -> Plan:
    """Plan one kernel per seed, width and depth."""
    n = _example_count(request)
    units = tuple(
        calculation_unit(
            f"w{width}-d{depth}-s{seed}", spectrum_of, n=n, width=width, depth=depth, seed=seed
        )
        for width, depth, seed in product(WIDTHS, DEPTHS, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"n = {n} instead of 200",),
        (
            "p = ½ and widths 25 and 500 are recalled from arXiv:2002.03996; n, depths and 10 "
            "draws were chosen here, since the numbers are missing from our copy of the text",
            "the paper says that the distance from the ideal is smaller at the larger width, and "
            "not how small: both distances are rows, and their difference is judged",
        ),
    )


def _example_count(request: Request) -> int:
    return 100 if request.quick else 200


def spectrum_of(work: CalculationInputs) -> dict[str, Any]:
    """Return the eigenvalue distribution, mean diagonal and mean off-diagonal entry of K_0/d."""
    given = work.arguments
    n = given["n"]
    kernel = random_gate_kernel(n, given["width"], given["depth"], P, given["seed"])
    return {
        "distribution": eigenvalue_distribution(kernel),
        "diagonal": float(kernel.diagonal().mean()),
        "off": float((kernel.sum() - kernel.trace()) / (n * (n - 1))),
    }


def _ideal_distribution(n: int, depth: int) -> list[float]:
    values = random_gating_eigenvalues(n, P, depth).flip(0)
    curve: list[float] = (values / values.sum()).cumsum(0).tolist()
    return curve


def findings(request: Request, results: UnitResults) -> Findings:
    grid, n = Grid(results, request.seed_range(*SEEDS)), _example_count(request)
    cells = {(w, d): grid.read_calculated(f"w{w}-d{d}") for w, d in product(WIDTHS, DEPTHS)}
    rows = [
        cell.row(
            f"w = {width}, d = {depth}: {word} of K_0/d", cell[key], Printed(ideal), of="draws"
        )
        for (width, depth), cell in cells.items()
        for key, word, ideal in (
            ("diagonal", "diagonal", 1.0),
            ("off", "off-diagonal", P ** (depth - 1)),
        )
    ]
    far: dict[int, list[float]] = {}
    for width in WIDTHS:
        by_depth = []
        for depth in DEPTHS:
            cell, ideal = cells[width, depth], _ideal_distribution(n, depth)
            by_depth.append([_largest_distance(curve, ideal) for curve in cell["distribution"]])
            label = f"w = {width}, d = {depth}: largest e.c.d.f. distance from the ideal"
            rows.append(cell.row(label, by_depth[-1], of="draws"))
        far[width] = [sum(distances) / len(DEPTHS) for distances in zip(*by_depth, strict=True)]
        label = f"w = {width}, mean over depths: largest e.c.d.f. distance from the ideal"
        seconds = sum(cells[width, depth].known_seconds for depth in DEPTHS)
        rows.append(Row(label, tuple(far[width]), unit="", seconds=seconds, of="draws"))
    figures = tuple(
        Figure(
            f"w{width}",
            f"e.c.d.f. of K_0 at width {width}",
            "eigenvalue index",
            "cumulative share",
            tuple(
                line
                for depth in DEPTHS
                for line in _spectrum_lines(n, depth, cells[width, depth]["distribution"])
            ),
            note=f"{BAND} Dotted, in the same colour: the ideal.",
        )
        for width in WIDTHS
    )
    remark = "'Printed' is the ideal: 1 on the diagonal, p^{d-1} elsewhere."
    return Findings(tuple(rows), (_judge_nearer(far),), figures, (remark,))


def _judge_nearer(far: Mapping[int, Sequence[float]]) -> Claim:
    """Judge that the mean over depths of the distance is smaller at the larger width."""
    narrow, wide = WIDTHS
    nearer = Sample(tuple(pairwise_difference(far[wide], far[narrow])), "draws")
    statistic = f"largest e.c.d.f. distance, mean over depths: w = {wide} − w = {narrow}"
    return judge("dgn-1", statistic, below(nearer), design=NEARER)


def _spectrum_lines(
    n: int, depth: int, curves: Sequence[Sequence[float]]
) -> tuple[PlottedLine, PlottedLine]:
    numbers = tuple(float(i) for i in range(1, n + 1))
    ideal = PlottedLine(
        f"ideal, d = {depth}", numbers, tuple(_ideal_distribution(n, depth)), style="printed"
    )
    return mean_line(f"d = {depth}", numbers, curves), ideal


def _largest_distance(one: Sequence[float], other: Sequence[float]) -> float:
    return float((torch.tensor(one) - torch.tensor(other)).abs().max())


EXPERIMENT = Experiment(
    question="What does depth do to the kernel of a network with random gates?",
    title="Spectrum with fixed random gates",
    paper="[DGN]",
    about="Identical inputs, independent random gates: K_0 and its closed form, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=0.13,
    full_hours=0.003,
    claims=("dgn-1",),
)
