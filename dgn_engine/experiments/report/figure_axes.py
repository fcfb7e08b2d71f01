"""Axes of figures on paper: their reach, and round ticks with labels, three at least."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator

from dgn_engine.experiments.report.figure_shapes import value_limits
from dgn_engine.experiments.report.formatting import MINUS
from dgn_engine.protocol.results import Figure, PlottedLine

Tick = tuple[float, str]

_MARGINS = {"x": 0.02, "y": 0.06}
_LEAST, _MOST = 3, 6  # labelled ticks of an axis
_FEW = 12  # points of a line whose intervals are all seen
_STEPS = (1, 2, 2.5, 5, 10)
_PLAIN = (1e-3, 1e5)  # numbers between them are written out


def set_ranges(axes: Axes, figure: Figure) -> None:
    """Set both axes so that all is seen; an accuracy stays within 0 and 100."""
    x = [value for line in figure.lines for value in line.x]
    y = [value for line in figure.lines for value in _reached(line, figure.log_y)]
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    axes.set_xlim(_range(x, figure.log_x, _MARGINS["x"]))
    if figure.categories:
        axes.set_xlim(-0.5, len(figure.categories) - 0.5)
    low, high = _range(y, figure.log_y, _MARGINS["y"])
    least, most = value_limits(figure)
    axes.set_ylim(max(low, least), min(high, most))


def set_ticks(axes: Axes, figure: Figure) -> None:
    """Set the ticks of both axes and their labels; categories are labelled elsewhere."""
    x = sorted({value for line in figure.lines for value in line.x if math.isfinite(value)})
    whole = all(value == round(value) for value in x)
    for axis, log in ((axes.xaxis, figure.log_x), (axes.yaxis, figure.log_y)):
        low, high = axis.get_view_interval()
        own = x if log and axis is axes.xaxis and _LEAST <= len(x) <= _MOST else []
        if log:
            ticks = _labelled(own) or log_ticks(low, high)
        else:
            ticks = linear_ticks(low, high, whole=axis is axes.xaxis and whole)
        axis.set_major_locator(FixedLocator([value for value, _ in ticks]))
        axis.set_ticklabels([text for _, text in ticks])
        ninths = _ninths(low, high) if log and not own else []
        axis.set_minor_locator(FixedLocator(ninths) if ninths else NullLocator())
        axis.set_minor_formatter(NullFormatter())


def linear_ticks(low: float, high: float, whole: bool = False) -> list[Tick]:
    """Return at least three round values within [low, high] with labels of as many decimals.

    `whole`: integers only, where there are three of them.
    """
    for most in range(_MOST - 1, 2 * _MOST):
        locator = MaxNLocator(most, steps=_STEPS, integer=whole)
        values = [float(v) for v in locator.tick_values(low, high) if _inside(v, low, high)]
        if len(values) >= _LEAST:
            break
    else:
        return linear_ticks(low, high) if whole else []
    step = values[1] - values[0]
    if max(map(abs, values)) >= _PLAIN[1] or step < _PLAIN[0] / 10:
        return [(value, number(value)) for value in values]
    digits = next(d for d in range(12) if abs(round(step, d) - step) < 1e-6 * step)
    return [(value, f"{value + 0.0:,.{digits}f}".replace("-", MINUS)) for value in values]


def log_ticks(low: float, high: float) -> list[Tick]:
    """Return decades; where there are fewer than three, 1, 2 and 5 of each or round values."""
    decades = _of_decades(low, high, (1,))
    if len(decades) >= _LEAST:
        stride = math.ceil(len(decades) / _MOST)
        return _labelled(decades[::stride])
    for factors in ((1, 3), (1, 2, 5), (1, 2, 3, 5), (1, 1.5, 2, 3, 4, 6, 8)):
        values = _of_decades(low, high, factors)
        if len(values) >= _LEAST:
            return _labelled(values)
    return linear_ticks(low, high)


def _labelled(values: Sequence[float]) -> list[Tick]:
    """Label all as plain numbers, or all with powers of ten where one of them is far from 1."""
    powers = not all(_PLAIN[0] <= value < _PLAIN[1] for value in values)
    return [(value, number(value, powers)) for value in values]


def number(value: float, powers: bool = False) -> str:
    """Return a number for an axis: '1,024', '0.05', powers of ten set as such beyond."""
    if value == 0 or (not powers and _PLAIN[0] <= abs(value) < _PLAIN[1]):
        return f"{value:,.6g}".replace("-", MINUS)
    exponent = math.floor(math.log10(abs(value)) + 1e-12)
    mantissa = f"{value / 10.0**exponent:.4g}"
    power = f"10^{{{exponent}}}"
    if mantissa in ("1", "-1"):
        return f"${mantissa[:-1]}{power}$"
    return rf"${mantissa}\times {power}$"


def _reached(line: PlottedLine, log: bool) -> list[float]:
    """Return the values that have to be seen: of a band all but the outermost twentieths, because a
    single wide interval of a long curve would press all curves flat.
    """
    if not line.x:
        return list(line.y[-1:])
    edges = [
        edge
        for y, half in zip(line.y, line.spread, strict=False)
        for edge in (y - half, y + half)
        if math.isfinite(edge) and (edge > 0 or not log)
    ]
    if line.style == "line" and len(line.y) > _FEW and edges:
        edges = [float(edge) for edge in np.quantile(edges, (0.05, 0.95))]
    return [*line.y, *edges]


def _range(values: Sequence[float], log: bool, margin: float) -> tuple[float, float]:
    found = np.array([v for v in values if math.isfinite(v) and (v > 0 or not log)], dtype=float)
    if not found.size:
        return (0.1, 10.0) if log else (0.0, 1.0)
    drawn = np.log10(found) if log else found
    low, high = float(drawn.min()), float(drawn.max())
    room = margin * (high - low) or (0.1 if log else 0.05 * abs(low) or 0.5)
    ends = low - room, high + room
    if log:
        return 10.0 ** ends[0], 10.0 ** ends[1]
    if low >= 0 > ends[0] and margin == _MARGINS["y"]:
        return 0.0, ends[1]  # nothing that is drawn is negative
    return ends


def _of_decades(low: float, high: float, factors: Sequence[float]) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    return [value for value in values if _inside(value, low, high)]


def _ninths(low: float, high: float) -> list[float]:
    return [] if math.log10(high / low) > 4 else _of_decades(low, high, range(1, 10))


def _inside(value: float, low: float, high: float) -> bool:
    room = 1e-9 * (high - low)
    return low - room <= value <= high + room
