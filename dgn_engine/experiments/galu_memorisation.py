"""Fiat, Malach, Shalev-Shwartz 2019: how wide GaLU networks must be to memorise a random sample.

Two layers with m given gates are linear in md path features (theory §2), so that they fit any
targets of n examples if and only if these have rank n: m ≥ n/d is necessary. The paper shows that
about n/d is enough up to logarithms, where the best bound for ReLU was n²/d; and that training
ReLU networks needs little more than n/d as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from dgn_engine.experiments import Claim, Experiment, Figure, Findings, Plan, Request
from dgn_engine.experiments._claims import Sample, at_most, below, judge, within
from dgn_engine.experiments._grid import LOG_BAND, CalculatedCell, Grid, calculation_unit, mean_line
from dgn_engine.experiments._initial_networks import (
    dense_architecture,
    draw_network,
    draw_targets,
    log_slope,
)
from dgn_engine.experiments._power import Design
from dgn_engine.experiments._two_layers import train_two_layers
from dgn_engine.kernels.convex_gates import fit_path_features, two_layer_gates
from dgn_engine.random_streams import random_stream
from dgn_engine.sweep.unit import CalculationInputs
from dgn_engine.sweep.unit_results import UnitResults

KINDS = {"galu": "GaLU", "relu": "ReLU"}
FACTORS = (0.5, 0.75, 1.0, 1.1, 1.2, 1.35, 1.5, 2.0)  # widths, in units of n/d
BELOW = 1  # index of a width that cannot fit
FITTED = 1e-3  # remaining share of ‖y‖² that counts as memorised
SLOPE, MARGIN = 1.0, 0.25
TWICE, SOON = 2.0, 1.5
SEEDS = (5, 10)
QUICK, FULL = (10, (80, 160, 320)), (20, (160, 320, 640, 1280))
_PILOT = "4 draws of other seeds at the quick scale, 2026-11"
SLOPES = {"galu": Design(1.03, 0.05, _PILOT), "relu": Design(1.01, 0.03, _PILOT)}
WIDTHS = {"galu": Design(1.23, 0.05, _PILOT), "relu": Design(1.36, 0.06, _PILOT)}
RATIO = Design(1.23, 0.05, _PILOT)


def plan(request: Request) -> Plan:
    """Plan one calculation per number of examples and seed."""
    inputs, sizes = _scale(request)
    steps = 1000 if request.quick else 3000
    units = tuple(
        calculation_unit(f"n{n}-s{seed}", memorise, n=n, inputs=inputs, steps=steps, seed=seed)
        for n, seed in product(sizes, request.seed_range(*SEEDS))
    )
    return Plan(
        units,
        (f"d = {inputs}, n = {sizes[0]} to {sizes[-1]}, {steps:,} steps instead of 20, 160 to "
         "1280, 3,000",),
        (
            "d, n and the number of steps are ours at both scales",
            "random unit vectors, y ~ U[−1, 1], squared loss, no biases; GaLU is FR-II; Adam with "
            "a rate that falls from 0.02 to 0 along a cosine, the whole batch in each step",
            f"'memorised' means ‖e‖² ≤ {FITTED:g} ‖y‖²; the width is interpolated between "
            f"{len(FACTORS)} widths from {FACTORS[0]:g} to {FACTORS[-1]:g} n/d, or {FACTORS[-1]:g} "
            "n/d if none memorises, in which case nothing that depends on it is decided",
            f"'about n/d' means a log-log slope against n within ±{MARGIN:g} of 1, and 'slightly "
            f"larger' below {TWICE:g} n/d at the largest n",
        ),
    )  # fmt: skip


def _scale(request: Request) -> tuple[int, tuple[int, ...]]:
    return QUICK if request.quick else FULL


def memorise(work: CalculationInputs) -> dict[str, Any]:
    """Fit and train at every width.

    Returns:
        width: the widths; galu, relu: ‖e‖²/‖y‖² after training; floor: the least that GaLU can
        leave; rank: the smallest m whose first m gates have path features of rank n.
    """
    given = work.arguments
    n, inputs, seed = given["n"], given["inputs"], given["seed"]
    widths = [max(1, round(factor * n / inputs)) for factor in FACTORS]
    most = 4 * widths[-1] + 20
    x = torch.randn(n, inputs, generator=random_stream("inputs", seed), dtype=torch.float64)
    x, y = x / x.norm(dim=1, keepdim=True), draw_targets(n, seed)
    network = draw_network(dense_architecture(inputs, most, 2), seed, init="kaiming")
    _, gates = two_layer_gates(network, x)
    energy = float(y.square().sum())
    first, second = network.value.weights
    found: dict[str, Any] = {"width": widths, "galu": [], "relu": [], "floor": []}
    for width in widths:
        start = first[:width], second[:, :width] * math.sqrt(most / width)  # N(0, 2/m)
        for kind in KINDS:
            curve, _ = train_two_layers(
                start, x, y, gates[:, :width] if kind == "galu" else None,
                optimiser="adam", rate=0.02, steps=given["steps"], anneal=True,
            )  # fmt: skip
            found[kind].append(2 * n * curve[-1] / energy)
        found["floor"].append(2 * n * fit_path_features(x, gates[:, :width], y).loss / energy)
    found["rank"] = smallest_full_rank(x, gates, y)
    return found


def smallest_full_rank(x: Tensor, gates: Tensor, y: Tensor) -> int:
    """Return the least m for which the first m gates have path features of rank n, by bisection.

    If even all gates are too few, one more than their number.
    """
    low, high = 0, gates.shape[1] + 1
    while high - low > 1:
        middle = (low + high) // 2
        full = fit_path_features(x, gates[:, :middle], y).rank == len(x)
        low, high = (low, middle) if full else (middle, high)
    return high


def memorising_width(widths: Sequence[float], left: Sequence[float]) -> float:
    """Return the width at which log10 of what is left first crosses the bar, interpolated."""
    bar = math.log10(FITTED)
    logs = [math.log10(max(share, 1e-12)) for share in left]
    for at, log in enumerate(logs):
        if log <= bar:
            if at == 0:
                return widths[0]
            share = (logs[at - 1] - bar) / (logs[at - 1] - log)
            return widths[at - 1] + share * (widths[at] - widths[at - 1])
    return widths[-1]


def findings(request: Request, results: UnitResults) -> Findings:
    inputs, sizes = _scale(request)
    grid = Grid(results, request.seed_range(*SEEDS))
    cells = {n: grid.read_calculated(f"n{n}") for n in sizes}
    reached = {
        (kind, n): [
            memorising_width(widths, left)
            for widths, left in zip(cell["width"], cell[kind], strict=True)
        ]
        for kind, (n, cell) in product(KINDS, cells.items())
    }
    known = {  # NaN where no width memorised: a bound would bias slopes to 1
        (kind, n): [
            width if min(left) <= FITTED else math.nan
            for width, left in zip(widths, cells[n][kind], strict=True)
        ]
        for (kind, n), widths in reached.items()
    }
    rows = []
    for n, cell in cells.items():
        label = f"n = {n}, n/d = {n / inputs:g}: width at which"
        rows.append(cell.row(f"{label} the path features have rank n", cell["rank"]))
        rows += [
            cell.row(f"{label} trained {name} memorises", reached[kind, n])
            for kind, name in KINDS.items()
        ]
        ratios = [
            left[BELOW] / floor[BELOW]
            for left, floor in zip(cell["galu"], cell["floor"], strict=True)
        ]
        label = f"n = {n}: ‖e‖² of trained GaLU over its least squares, at {FACTORS[BELOW]:g} n/d"
        rows.append(cell.row(label, ratios))
    figures = (_draw_left(cells[sizes[-1]], inputs, sizes[-1]), _draw_widths(cells, reached))
    remarks = tuple(
        f"n = {n}: {KINDS[kind]} memorised at no width in {late} of {len(widths)} draws."
        for (kind, n), widths in known.items()
        if (late := sum(map(math.isnan, widths)))
    )
    return Findings(tuple(rows), tuple(_judge_claims(inputs, cells, known)), figures, remarks)


def _judge_claims(
    inputs: int, cells: Mapping[int, CalculatedCell], reached: Mapping[tuple[str, int], list[float]]
) -> Iterator[Claim]:
    """Judge the growth with n and the width at the largest n, of both kinds."""
    sizes = list(cells)
    largest = sizes[-1]
    for kind, claim in (("galu", "galu-1"), ("relu", "galu-2")):
        curves = zip(*(reached[kind, n] for n in sizes), strict=True)
        slopes = Sample(tuple(log_slope(sizes, curve) for curve in curves))
        statistic = f"{KINDS[kind]}: log-log slope of the memorising width against n"
        yield judge(claim, statistic, within(slopes, MARGIN, SLOPE), design=SLOPES[kind])
        factors = Sample(tuple(width * inputs / largest for width in reached[kind, largest]))
        statistic = f"{KINDS[kind]}: memorising width over n/d at the largest n"
        yield judge(claim, statistic, below(factors, TWICE), design=WIDTHS[kind])
    ratios = Sample(
        tuple(
            width / rank
            for width, rank in zip(reached["galu", largest], cells[largest]["rank"], strict=True)
        )
    )
    statistic = "GaLU: memorising width over the width of full rank, at the largest n"
    yield judge("galu-3", statistic, below(ratios, SOON), design=RATIO)
    under = [
        floor - left
        for cell in cells.values()
        for lefts, floors in zip(cell["galu"], cell["floor"], strict=True)
        for left, floor in zip(lefts, floors, strict=True)
    ]
    statistic = "GaLU: largest (least squares − training) of ‖e‖²/‖y‖²"
    yield judge("galu-3", statistic, at_most(max(under), 1e-9, len(under)))


def _draw_left(cell: CalculatedCell, inputs: int, n: int) -> Figure:
    """Draw what is left after training against the width."""
    factors = [width * inputs / n for width in cell["width"][0]]
    lines = []
    for kind, name in KINDS.items():
        curves = [[max(share, 1e-12) for share in left] for left in cell[kind]]
        lines.append(mean_line(name, factors, curves, log=True))
    return Figure(
        "left",
        f"What training leaves of {n} random targets",
        "width, in units of n/d",
        "‖e‖²/‖y‖²",
        tuple(lines),
        log_y=True,
        note=LOG_BAND,
    )


def _draw_widths(
    cells: Mapping[int, CalculatedCell], reached: Mapping[tuple[str, int], list[float]]
) -> Figure:
    sizes = list(cells)
    curves = {
        f"{name}, trained": [reached[kind, n] for n in sizes] for kind, name in KINDS.items()
    } | {"rank n": [cells[n]["rank"] for n in sizes]}
    lines = tuple(
        mean_line(label, sizes, list(zip(*by_size, strict=True)), log=True)
        for label, by_size in curves.items()
    )
    return Figure(
        "widths",
        "Width that memorises n random targets",
        "examples",
        "hidden units",
        lines,
        log_x=True,
        log_y=True,
        note=LOG_BAND,
    )


EXPERIMENT = Experiment(
    question="How wide must a network be to memorise random targets?",
    title="Memorising a random sample: GaLU and ReLU",
    paper="[GALU]",
    about="The width at which path features have full rank, and at which training memorises.",
    plan=plan,
    findings=findings,
    quick_minutes=0.5,
    full_hours=0.45,
    claims=("galu-1", "galu-2", "galu-3"),
)
