"""Links between charts: what is at a position, and where a chart shows what is selected.

A panel declares with `Subjects` what lies along its axes, and with `layer` what a matrix or a
curve belongs to; the rest follows from that, for every panel and every kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dgn_engine.scene.elements import Chart, Matrix, Subjects
from dgn_engine.scene.readout import nearest_index
from dgn_engine.scene.selection import NOTHING, PART_OF, Selection, make_selection

Box = tuple[float, float, float, float]  # from x, from y, to x, to y, in data units


def selection_at(chart: Chart, x: float, y: float) -> Selection:
    """Return what is at (x, y) of a chart, in data units; for curves see `curve_at`."""
    matrix = chart.matrix
    if matrix is not None:
        rows, columns = matrix.values.shape
        if not (0 <= round(y) < rows and 0 <= round(x) < columns):
            return NOTHING
    ids: dict[str, tuple[int, ...]] = {}
    if matrix is not None and matrix.layer is not None:
        ids["layer"] = (matrix.layer,)
    if matrix is not None and matrix.tile is not None and matrix.row_examples:
        tile = tile_at(matrix, round(y), round(x))
        if tile is not None:
            ids["example"] = (matrix.row_examples[tile],)
        return make_selection(**ids)
    across, along = _axis_subjects(chart)
    for subjects, place in ((along, y), (across, x)):
        subject_id = None if subjects is None else _subject_at(subjects, place)
        if subjects is not None and subject_id is not None:
            previous = ids.get(subjects.kind, ())
            ids[subjects.kind] = tuple(dict.fromkeys((*previous, subject_id)))
    for part, whole in PART_OF.items():
        if whole not in ids:
            ids.pop(part, None)
    return make_selection(**ids)


def curve_at(
    chart: Chart, x: float, place: float, along: Callable[[float], float], near: float
) -> Selection:
    """Return the layer of the curve nearest to a point, at most `near` pixels away.

    `along` maps y to pixels; `place` is the point's pixel.
    """
    best, layer = near, None
    for curve in chart.curves:
        index = nearest_index(curve, x) if curve.layer is not None else None
        if index is not None and (distance := abs(along(float(curve.y[index])) - place)) <= best:
            best, layer = distance, curve.layer
    return make_selection(layer=layer)


def selection_boxes(chart: Chart, selection: Selection) -> tuple[Box, ...]:
    """Return where a chart shows what is selected: rows, columns, entries, tiles, overviews."""
    matrix = chart.matrix
    result: tuple[Box, ...] = ()
    if matrix is not None and selection.examples:
        result = _example_boxes(matrix, selection.examples)
    layer = selection.single_id("layer")
    if matrix is not None and matrix.layer is not None and layer is not None:
        if matrix.layer != layer:
            return result
        if chart.small:
            rows, columns = matrix.values.shape
            return (*result, _entry_box(0, 0, columns, rows))
    return result + _crossing_boxes(chart, selection)


def _crossing_boxes(chart: Chart, selection: Selection) -> tuple[Box, ...]:
    """Return rows and columns of all kinds but examples; for parts of a whole, both crossed."""
    across, along = _axis_subjects(chart)
    (x0, y0), (x1, y1) = _chart_corners(chart)
    columns, rows = _selected_spans(across, selection), _selected_spans(along, selection)
    kinds = {axis.kind for axis in (across, along) if axis is not None}
    whole_inside = chart.matrix is not None and chart.matrix.layer is not None
    for part, whole in PART_OF.items():
        if part not in kinds:
            continue
        if whole in kinds:
            assert across is not None
            if not selection.ids_of_kind(part) or not (columns and rows):
                columns, rows = (columns, []) if across.kind == whole else ([], rows)
                break
            return tuple((x, y, to_x, to_y) for x, to_x in columns for y, to_y in rows)
        if not whole_inside:
            columns, rows = [], []  # the layer of these units is unknown
    upright = tuple((x, y0, to_x, y1) for x, to_x in columns)
    return upright + tuple((x0, y, x1, to_y) for y, to_y in rows)


def _axis_subjects(chart: Chart) -> tuple[Subjects | None, Subjects | None]:
    """Return the subjects along x and y; examples are declared by the matrix."""
    across, along, matrix = chart.x.subjects, chart.y.subjects, chart.matrix
    if matrix is not None and matrix.tile is None:
        if matrix.column_examples:
            across = Subjects("example", matrix.column_examples)
        if matrix.row_examples:
            along = Subjects("example", matrix.row_examples)
    return across, along


def _subject_at(subjects: Subjects, place: float) -> int | None:
    index = math.floor((place - subjects.first) / subjects.pitch + 0.5)
    if not 0 <= index < len(subjects.ids):
        return None
    distance = abs(place - subjects.first - index * subjects.pitch)
    return subjects.ids[index] if distance <= subjects.wide / 2 + 1e-9 else None


def _selected_spans(subjects: Subjects | None, selection: Selection) -> list[tuple[float, float]]:
    """Return the intervals along an axis that are selected."""
    if subjects is None or subjects.kind == "example":
        return []
    ids = selection.ids_of_kind(subjects.kind)
    positions = (subjects.ids.index(subject_id) for subject_id in ids if subject_id in subjects.ids)
    middles = (subjects.first + position * subjects.pitch for position in positions)
    return [(middle - subjects.wide / 2, middle + subjects.wide / 2) for middle in middles]


def _chart_corners(chart: Chart) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the corners of what a chart shows; without a matrix it has no end."""
    if chart.matrix is None:
        return (-math.inf, -math.inf), (math.inf, math.inf)
    rows, columns = chart.matrix.values.shape
    return (-0.5, -0.5), (columns - 0.5, rows - 0.5)


# Examples, of which a pair is one entry and its mirror image


def tile_at(matrix: Matrix, row: int, column: int) -> int | None:
    """Return the tile of a montage that an entry is in; None between two tiles."""
    assert matrix.tile is not None
    high, wide = matrix.tile
    across = (matrix.values.shape[1] + 1) // (wide + 1)
    tile = (row // (high + 1)) * across + column // (wide + 1)
    between = row % (high + 1) == high or column % (wide + 1) == wide
    return None if between or tile >= len(matrix.row_examples) else tile


def _example_boxes(matrix: Matrix, lit: tuple[int, ...]) -> tuple[Box, ...]:
    rows, columns = matrix.values.shape
    row_of = {example: index for index, example in enumerate(matrix.row_examples) if example in lit}
    if matrix.tile is not None:
        high, wide = matrix.tile
        across = (columns + 1) // (wide + 1)
        return tuple(
            _entry_box(index % across * (wide + 1), index // across * (high + 1), wide, high)
            for index in row_of.values()
        )
    if not matrix.column_examples:
        return tuple(_entry_box(0, row, columns, 1) for row in row_of.values())
    if len(lit) == 1:
        return tuple(
            box
            for row in row_of.values()
            for box in (_entry_box(0, row, columns, 1), _entry_box(row, 0, 1, rows))
        )
    if len(row_of) < len(lit):
        return ()
    a, b = (row_of[example] for example in lit)
    return _entry_box(b, a, 1, 1), _entry_box(a, b, 1, 1)


def _entry_box(column: int, row: int, columns: int, rows: int) -> Box:
    return column - 0.5, row - 0.5, column + columns - 0.5, row + rows - 0.5
