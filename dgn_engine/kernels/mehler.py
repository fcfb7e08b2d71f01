"""Gaussian expectations E[f(q)g(q')] by the Mehler series, with a bound on what was cut off.

For (q, q') ~ N(0, [[a, ρ√ab], [ρ√ab, b]]) the expectation is Σ_m f_m(√a) g_m(√b) ρᵐ, where
f_m(s) = E[f(s·x) h_m(x)] with the normalised Hermite polynomials h_m. Two-dimensional
Gauss–Hermite quadrature is poor at the kink of a soft gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]

REACH = 13.0  # exp(-x²/4) is below the rounding of float64 beyond it
POINTS = 8001
BLOCK = 64  # terms computed at once
MOST_TERMS = 3072
TOLERANCE = 1e-10
SAME = 1e-12  # correlations this close to one count as one
SAME_AT_ONCE = 1024  # pairs of those, integrated at once


def diagonal(one: Function, two: Function, std: Tensor) -> Tensor:
    """E[f(s·x)g(s·x)] (n,) for standard deviations (n,), by the one-dimensional integral."""
    return (_on_grid(one, std) * _on_grid(two, std)) @ _root_weight().square()


def expectations(
    pairs: Sequence[tuple[Function, Function]], std: Tensor, other_std: Tensor, rho: Tensor
) -> tuple[list[Tensor], float]:
    """E[f(q)g(q')] (n, m) of each pair of functions, for standard deviations (n,), (m,) and
    correlations (n, m), float64; and a bound on the error, relative to √(E[f²]E[g²]).

    Terms are added until the bound is below 10⁻¹⁰ or 3,072 are used. Pairs whose correlation is
    one to rounding are integrated in one dimension.
    """
    functions = list(dict.fromkeys(f for pair in pairs for f in pair))
    same = rho > 1 - SAME
    apart = rho.masked_fill(same, 0.0)
    steepest = float(apart.abs().max()) if apart.numel() else 0.0
    both = torch.cat([std, other_std])
    root = _root_weight()
    weighted = {f: _on_grid(f, both) * root for f in functions}
    terms, bound = _coefficients(weighted, steepest)
    n, results = len(std), []
    close = same.nonzero()
    for f, g in pairs:
        one, two = terms[f][:, :n], terms[g][:, n:]
        total = torch.outer(one[-1], two[-1])
        for m in range(len(one) - 2, -1, -1):
            total.mul_(apart).addr_(one[m], two[m])
        for left in range(0, len(close), SAME_AT_ONCE):
            i, j = close[left : left + SAME_AT_ONCE].unbind(1)
            total[i, j] = (weighted[f][i] * weighted[g][n + j]).sum(1)
        results.append(total)
    return results, bound


def _coefficients(
    weighted: dict[Function, Tensor], steepest: float
) -> tuple[dict[Function, Tensor], float]:
    """f_m(s) (terms, n) of each function given as f·√weight (n, points); and the error bound.

    By Parseval Σ f_m² = E[f²], so what is left after M terms is known, and with |ρ| ≤ `steepest`
    the rest of the series is at most ρᴹ·√(left of f · left of g).
    """
    power = {f: values.square().sum(1) for f, values in weighted.items()}
    found: dict[Function, list[Tensor]] = {f: [] for f in weighted}
    left = dict(power)
    bound, terms = 1.0, 0
    for block in _hermite_blocks():
        terms += len(block)
        for f, values in weighted.items():
            found[f].append(block @ values.T)
            left[f] = left[f] - found[f][-1].square().sum(0)
        rest = max(
            float((left[f].clamp(min=0) / power[f].clamp(min=1e-300)).max()) for f in weighted
        )
        bound = rest * steepest**terms
        if bound < TOLERANCE or terms >= MOST_TERMS:
            break
    return {f: torch.cat(parts) for f, parts in found.items()}, bound


def _hermite_blocks() -> Iterator[Tensor]:
    """h_m(x)·√weight on the grid, (64, points) at a time, without end."""
    x, root = _grid(), _root_weight()
    before, last, m = torch.zeros_like(root), root, 0
    while True:
        rows = []
        for _ in range(BLOCK):
            rows.append(last)
            following = (x * last - math.sqrt(m) * before) / math.sqrt(m + 1)
            before, last, m = last, following, m + 1
        yield torch.stack(rows)


def _grid() -> Tensor:
    return torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)


def _root_weight() -> Tensor:
    """√(normal density · step) (points,)."""
    step = 2 * REACH / (POINTS - 1)
    return torch.exp(-_grid().square() / 4) * math.sqrt(step / math.sqrt(2 * math.pi))


def _on_grid(function: Function, std: Tensor) -> Tensor:
    """f(s·x) (n, points) for standard deviations (n,)."""
    return function(std[:, None] * _grid())
