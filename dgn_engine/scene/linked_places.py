"""What stands at a place of a chart, and where a chart has what is selected.

A panel says with `Subjects` what stands along its axes, and with `layer` what a matrix or a curve
is of; all the rest follows from that, for every panel and every kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dgn_engine.scene.elements import Chart, Matrix, Subjects
from dgn_engine.scene.readout import nearest
from dgn_engine.scene.selection import NOTHING, PART_OF, Selection, selected

Box = tuple[float, float, float, float]  # from x, from y, to x, to y, in data units


def selection_at(chart: Chart, x: float, y: float) -> Selection:
    """What stands at (x, y) of a chart, in data units; along its curves see `curve_at`."""
    matrix = chart.matrix
    if matrix is not None:
        rows, columns = matrix.values.shape
        if not (0 <= round(y) < rows and 0 <= round(x) < columns):
            return NOTHING
    found: dict[str, tuple[int, ...]] = {}
    if matrix is not None and matrix.layer is not None:
        found["layer"] = (matrix.layer,)
    if matrix is not None and matrix.tile is not None and matrix.row_examples:
        tile = tile_at(matrix, round(y), round(x))
        if tile is not None:
            found["example"] = (matrix.row_examples[tile],)
        return selected(**found)
    across, along = _axes(chart)
    for subjects, place in ((along, y), (across, x)):
        at = None if subjects is None else _at(subjects, place)
        if subjects is not None and at is not None:
            before = found.get(subjects.kind, ())
            found[subjects.kind] = tuple(dict.fromkeys((*before, at)))
    for part, whole in PART_OF.items():
        if whole not in found:
            found.pop(part, None)
    return selected(**found)


def curve_at(
    chart: Chart, x: float, place: float, along: Callable[[float], float], near: float
) -> Selection:
    """The layer of the curve that passes nearest to a place, at most `near` from it. `along` is the
    pixel of a y, the place and `near` are pixels."""
    best, found = near, None
    for curve in chart.curves:
        index = nearest(curve, x) if curve.layer is not None else None
        if index is not None and (away := abs(along(float(curve.y[index])) - place)) <= best:
            best, found = away, curve.layer
    return selected(layer=found)


def boxes(chart: Chart, selection: Selection) -> tuple[Box, ...]:
    """Where a chart shows what is selected: rows, columns, entries, tiles, all of an overview."""
    matrix = chart.matrix
    found: tuple[Box, ...] = ()
    if matrix is not None and selection.examples:
        found = _examples(matrix, selection.examples)
    layer = selection.one("layer")
    if matrix is not None and matrix.layer is not None and layer is not None:
        if matrix.layer != layer:
            return found
        if chart.small:
            rows, columns = matrix.values.shape
            return (*found, _entries(0, 0, columns, rows))
    return found + _crossed(chart, selection)


def _crossed(chart: Chart, selection: Selection) -> tuple[Box, ...]:
    """Rows and columns of all kinds but examples; a part of a whole where both cross."""
    across, along = _axes(chart)
    (x0, y0), (x1, y1) = _corners(chart)
    columns, rows = _spans(across, selection), _spans(along, selection)
    kinds = {axis.kind for axis in (across, along) if axis is not None}
    whole_inside = chart.matrix is not None and chart.matrix.layer is not None
    for part, whole in PART_OF.items():
        if part not in kinds:
            continue
        if whole in kinds:
            assert across is not None
            if not selection.of(part) or not (columns and rows):
                columns, rows = (columns, []) if across.kind == whole else ([], rows)
                break
            return tuple((x, y, to_x, to_y) for x, to_x in columns for y, to_y in rows)
        if not whole_inside:
            columns, rows = [], []  # of which layer the units are is not known
    upright = tuple((x, y0, to_x, y1) for x, to_x in columns)
    return upright + tuple((x0, y, x1, to_y) for y, to_y in rows)


def _axes(chart: Chart) -> tuple[Subjects | None, Subjects | None]:
    """What stands along x and y; examples are declared by the matrix."""
    across, along, matrix = chart.x.subjects, chart.y.subjects, chart.matrix
    if matrix is not None and matrix.tile is None:
        if matrix.column_examples:
            across = Subjects("example", matrix.column_examples)
        if matrix.row_examples:
            along = Subjects("example", matrix.row_examples)
    return across, along


def _at(subjects: Subjects, place: float) -> int | None:
    index = math.floor((place - subjects.first) / subjects.pitch + 0.5)
    if not 0 <= index < len(subjects.ids):
        return None
    away = abs(place - subjects.first - index * subjects.pitch)
    return subjects.ids[index] if away <= subjects.wide / 2 + 1e-9 else None


def _spans(subjects: Subjects | None, selection: Selection) -> list[tuple[float, float]]:
    """From where to where along an axis stands what is selected there."""
    if subjects is None or subjects.kind == "example":
        return []
    ids = selection.of(subjects.kind)
    places = (subjects.ids.index(one) for one in ids if one in subjects.ids)
    middles = (subjects.first + at * subjects.pitch for at in places)
    return [(middle - subjects.wide / 2, middle + subjects.wide / 2) for middle in middles]


def _corners(chart: Chart) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of all that a chart shows; without a matrix it has no end."""
    if chart.matrix is None:
        return (-math.inf, -math.inf), (math.inf, math.inf)
    rows, columns = chart.matrix.values.shape
    return (-0.5, -0.5), (columns - 0.5, rows - 0.5)


# Examples, of which a pair is one entry and its mirror image


def tile_at(matrix: Matrix, row: int, column: int) -> int | None:
    """The tile of a montage that an entry lies in; None between two tiles."""
    assert matrix.tile is not None
    high, wide = matrix.tile
    across = (matrix.values.shape[1] + 1) // (wide + 1)
    tile = (row // (high + 1)) * across + column // (wide + 1)
    between = row % (high + 1) == high or column % (wide + 1) == wide
    return None if between or tile >= len(matrix.row_examples) else tile


def _examples(matrix: Matrix, lit: tuple[int, ...]) -> tuple[Box, ...]:
    rows, columns = matrix.values.shape
    at = {place: index for index, place in enumerate(matrix.row_examples) if place in lit}
    if matrix.tile is not None:
        high, wide = matrix.tile
        across = (columns + 1) // (wide + 1)
        return tuple(
            _entries(index % across * (wide + 1), index // across * (high + 1), wide, high)
            for index in at.values()
        )
    if not matrix.column_examples:
        return tuple(_entries(0, row, columns, 1) for row in at.values())
    if len(lit) == 1:
        return tuple(
            box
            for row in at.values()
            for box in (_entries(0, row, columns, 1), _entries(row, 0, 1, rows))
        )
    if len(at) < len(lit):
        return ()
    a, b = (at[place] for place in lit)
    return _entries(b, a, 1, 1), _entries(a, b, 1, 1)


def _entries(column: int, row: int, columns: int, rows: int) -> Box:
    return column - 0.5, row - 0.5, column + columns - 0.5, row + rows - 0.5
