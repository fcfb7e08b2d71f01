"""The values under the cursor, in words."""

from __future__ import annotations

import numpy as np

from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix
from dgn_engine.text.written_numbers import number, plus_minus


def describe(chart: Chart, x: float, y: float, near: float = 0.0) -> tuple[str, ...]:
    """What stands at (x, y) of a chart (data units), a line each; empty where nothing does.

    Marks within `near` of x are named too: not all of them have room for their label.
    """
    if chart.matrix is not None:
        return _entry(chart.matrix, round(y), round(x))
    marks = (mark for mark in chart.marks if abs(mark.x - x) <= near)
    named = (f"step {int(mark.x):,}: {mark.label}" for mark in marks)
    return (*_values(chart, x), *named)


def nearest(curve: Curve, x: float) -> int | None:
    """Index of the curve's point nearest to x; None where it has none near."""
    if curve.x.size == 0:
        return None
    after = int(np.clip(np.searchsorted(curve.x, x), 0, curve.x.size - 1))
    before = max(after - 1, 0)
    closer_before = abs(curve.x[before] - x) <= abs(curve.x[after] - x)
    found = before if closer_before else after
    broken = found > 0 and curve.x[found - 1] == curve.x[found] and np.isnan(curve.y[found])
    return found - 1 if broken else found  # the break behind a single point


def _entry(matrix: Matrix, row: int, column: int) -> tuple[str, ...]:
    rows, columns = matrix.values.shape
    if not (0 <= row < rows and 0 <= column < columns):
        return ()
    value = float(matrix.values[row, column])
    if matrix.tile is not None:
        high, wide = matrix.tile
        across = (columns + 1) // (wide + 1)
        tile = (row // (high + 1)) * across + column // (wide + 1)
        inside_row, inside_column = row % (high + 1), column % (wide + 1)
        if inside_row == high or inside_column == wide or tile >= len(matrix.row_labels):
            return ()
        place = f"row {inside_row}, column {inside_column}"
        return (matrix.row_labels[tile], f"{place}: {number(value)}")
    first = _named(matrix.row_name, row, matrix.row_labels)
    second = _named(matrix.column_name, column, matrix.column_labels)
    shown = "undefined (zero diagonal)" if np.isnan(value) else number(value)
    if matrix.error is not None and np.isfinite(value):
        shown = plus_minus(value, float(matrix.error[row, column]))
    return (first, second, shown)


def _named(name: str, index: int, labels: tuple[str, ...]) -> str:
    return labels[index] if index < len(labels) else f"{name} {index}"


def _values(chart: Chart, x: float) -> tuple[str, ...]:
    lines: list[str] = []
    at: float | None = None
    named = any(curve.name for curve in chart.curves if curve.x.size)
    weights = sorted({curve.smoothed for curve in chart.curves if curve.smoothed})
    for curve in chart.curves:
        if curve.smoothed:  # it is the raw values that are told
            continue
        if named and not curve.name:  # the edges of a band or of a box
            continue
        if curve.segments:
            continue
        index = nearest(curve, x)
        if index is None:
            continue
        found = float(curve.x[index])
        at = found if at is None or abs(found - x) < abs(at - x) else at
        name = curve.name or chart.title
        lines.append(f"{name}  {number(float(curve.y[index]))}")
    if at is None:
        return ()
    raw = f" · raw; lines smoothed {', '.join(f'{number(w)}' for w in weights)}" if weights else ""
    return (f"{_place(chart.x, at)}{raw}", *lines)


def _place(axis: Axis, at: float) -> str:
    """'step 40', or the name of the tick that stands nearest, where the ticks are named places."""
    if axis.places and axis.ticks:
        return min(axis.ticks, key=lambda tick: abs(tick[0] - at))[1]
    return f"{axis.label or 'x'} {number(at)}"
