"""Curves of several seeds as one line with its spread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dgn_engine.experiments._findings import PlottedLine, mean_and_half_width


def averaged(label: str, x: Sequence[float], curves: Sequence[Sequence[float]]) -> PlottedLine:
    """Mean over the curves at each x, with the half-width of its 95 % interval as the spread.

    Curves that ended early count as far as they go.
    """
    columns = [
        tuple(curve[place] for curve in curves if place < len(curve)) for place in range(len(x))
    ]
    kept = [(at, values) for at, values in zip(x, columns, strict=True) if values]
    means, halves = [], []
    for _, values in kept:
        mean, half = mean_and_half_width(values)
        means.append(mean)
        halves.append(0.0 if math.isnan(half) else half)
    spread = tuple(halves) if any(halves) else ()
    return PlottedLine(label, tuple(float(at) for at, _ in kept), tuple(means), spread)
