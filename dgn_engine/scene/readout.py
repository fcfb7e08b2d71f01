"""Text for the values under the cursor."""

from __future__ import annotations

import numpy as np

from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix
from dgn_engine.text.written_numbers import format_number, plus_minus


def describe_point(chart: Chart, x: float, y: float, near: float = 0.0) -> tuple[str, ...]:
    """Return what is at (x, y) of a chart (data units), a line each; empty if nothing is.

    Marks within `near` of x are named too, as not all of their labels fit.
    """
    if chart.matrix is not None:
        return _describe_entry(chart.matrix, round(y), round(x))
    marks = (mark for mark in chart.marks if abs(mark.x - x) <= near)
    named = (f"step {int(mark.x):,}: {mark.label}" for mark in marks)
    return (*_describe_curves(chart, x), *named)


def nearest_index(curve: Curve, x: float) -> int | None:
    """Return the index of the curve's point nearest to x; None if the curve is empty."""
    if curve.x.size == 0:
        return None
    after = int(np.clip(np.searchsorted(curve.x, x), 0, curve.x.size - 1))
    before = max(after - 1, 0)
    closer_before = abs(curve.x[before] - x) <= abs(curve.x[after] - x)
    index = before if closer_before else after
    broken = index > 0 and curve.x[index - 1] == curve.x[index] and np.isnan(curve.y[index])
    return index - 1 if broken else index  # skip the break behind a single point


def _describe_entry(matrix: Matrix, row: int, column: int) -> tuple[str, ...]:
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
        position = f"row {inside_row}, column {inside_column}"
        return (matrix.row_labels[tile], f"{position}: {format_number(value)}")
    first = _index_label(matrix.row_name, row, matrix.row_labels)
    second = _index_label(matrix.column_name, column, matrix.column_labels)
    value_text = "undefined (zero diagonal)" if np.isnan(value) else format_number(value)
    if matrix.error is not None and np.isfinite(value):
        value_text = plus_minus(value, float(matrix.error[row, column]))
    sides = matrix.sides
    if sides is None:
        return (first, second, value_text)
    values = zip(sides.names, (side[row, column] for side in sides.values), strict=True)
    return (first, second, *(f"{name}  {format_number(float(entry))}" for name, entry in values))


def _index_label(name: str, index: int, labels: tuple[str, ...]) -> str:
    return labels[index] if index < len(labels) else f"{name} {index}"


def _describe_curves(chart: Chart, x: float) -> tuple[str, ...]:
    lines: list[str] = []
    nearest_x: float | None = None
    named = any(curve.name for curve in chart.curves if curve.x.size)
    weights = sorted({curve.smoothed for curve in chart.curves if curve.smoothed})
    for curve in chart.curves:
        if curve.smoothed:  # only raw values are read out
            continue
        if named and not curve.name:  # the edges of a band or of a box
            continue
        if curve.segments:
            continue
        index = nearest_index(curve, x)
        if index is None:
            continue
        curve_x = float(curve.x[index])
        nearest_x = (
            curve_x if nearest_x is None or abs(curve_x - x) < abs(nearest_x - x) else nearest_x
        )
        name = curve.name or chart.title
        lines.append(f"{name}  {format_number(float(curve.y[index]))}")
    if nearest_x is None:
        return ()
    raw = (
        f" · raw; lines smoothed {', '.join(f'{format_number(weight)}' for weight in weights)}"
        if weights
        else ""
    )
    return (f"{_describe_x(chart.x, nearest_x)}{raw}", *lines)


def _describe_x(axis: Axis, at: float) -> str:
    """Return 'step 40', or the name of the nearest tick if ticks name places."""
    if axis.places and axis.ticks:
        return min(axis.ticks, key=lambda tick: abs(tick[0] - at))[1]
    return f"{axis.label or 'x'} {format_number(at)}"
