"""[DGN] Fixed random gates on identical inputs: the spectrum of K_0 against its ideal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dgn_engine.experiments._experiment import Experiment, Plan, Request
from dgn_engine.experiments._findings import Figure, Findings, PlottedLine, Printed, Row
from dgn_engine.experiments._judging import judge
from dgn_engine.experiments._published import claim
from dgn_engine.experiments._random_gates import coin_kernel, distribution
from dgn_engine.experiments._series import averaged
from dgn_engine.kernels import random_gating_eigenvalues
from dgn_engine.statistics import SHARE
from dgn_engine.sweep.unit import Calculation, CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

HERE = "dgn_engine.experiments.dgn_frg_spectrum"
DEPTHS, WIDTHS, P = (2, 4, 6, 8, 12, 16, 20), (25, 500), 0.5


def plan(request: Request) -> Plan:
    """One draw for each seed, width and depth."""
    n = _examples(request)
    units = tuple(
        Calculation(
            f"w{width}-d{depth}-s{seed}",
            f"{HERE}:spectrum_of",
            {"n": n, "width": width, "depth": depth, "seed": seed},
        )
        for width in WIDTHS
        for depth in DEPTHS
        for seed in range(request.seeds_or(5, 5))
    )
    return Plan(
        units,
        (f"n = {n} instead of 200",) if request.quick else (),
        (
            "p = ½ and widths 25 and 500 are recalled from arXiv:2002.03996; n, depths and 5 draws "
            "are chosen here: the numbers are stripped from the text at hand",
        ),
    )


def _examples(request: Request) -> int:
    return 100 if request.quick else 200


def spectrum_of(work: CalculationInputs) -> dict[str, Any]:
    """e.c.d.f. of the eigenvalues of K_0/d, its mean diagonal and its mean entry off it."""
    given = work.arguments
    n = given["n"]
    kernel = coin_kernel(n, given["width"], given["depth"], P, given["seed"])
    diagonal = float(kernel.diagonal().mean())
    return {
        "distribution": distribution(kernel).cumsum(0).tolist(),
        "diagonal": diagonal,
        "off": float((kernel.sum() - kernel.trace()) / (n * (n - 1))),
    }


def _ideal(n: int, depth: int) -> list[float]:
    values = random_gating_eigenvalues(n, P, depth).flip(0)
    curve: list[float] = (values / values.sum()).cumsum(0).tolist()
    return curve


def findings(request: Request, results: UnitResults) -> Findings:
    """Entries and distributions of both widths against the ideal."""
    seeds = range(request.seeds_or(5, 5))
    n = _examples(request)
    found = {
        (width, depth): [results.calculated(f"w{width}-d{depth}-s{seed}") for seed in seeds]
        for width in WIDTHS
        for depth in DEPTHS
    }
    rows = [
        Row(
            f"w = {width}, d = {depth}: {word} of K_0/d",
            tuple(c[key] for c in cells),
            Printed(ideal(depth)),
            unit="",
            seconds=results.seconds_of(*(f"w{width}-d{depth}-s{seed}" for seed in seeds)),
        )
        for (width, depth), cells in found.items()
        for key, word, ideal in (
            ("diagonal", "diagonal", lambda _: 1.0),
            ("off", "off-diagonal", lambda depth: P ** (depth - 1)),
        )
    ]
    far = {
        width: [
            sum(
                _distance(found[width, depth][place]["distribution"], _ideal(n, depth))
                for depth in DEPTHS
            )
            / len(DEPTHS)
            for place in range(len(seeds))
        ]
        for width in WIDTHS
    }
    narrow, wide = WIDTHS
    judged = (
        judge(
            request,
            claim("dgn-1"),
            f"largest e.c.d.f. distance (mean over depths), w = {narrow} − w = {wide}",
            [a - b for a, b in zip(far[narrow], far[wide], strict=True)],
            "above",
            0.0,
        ),
        judge(
            request,
            claim("dgn-1"),
            f"largest e.c.d.f. distance at w = {wide}",
            far[wide],
            "below",
            0.1,
            remark="'near' is chosen here as 0.1",
            bounds=SHARE,
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
                for line in _lines(n, depth, [c["distribution"] for c in found[width, depth]])
            ),
        )
        for width in WIDTHS
    )
    remark = "'Printed' is the ideal: 1 on the diagonal, p^{d-1} off it."
    return Findings(tuple(rows), judged, figures, (remark,))


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
    paper="[DGN] §3",
    about="Identical inputs, a coin for every gate: K_0 against its closed form, by depth.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.05,
    claims=("dgn-1",),
)
