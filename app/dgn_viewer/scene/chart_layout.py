"""Layout of the charts of a scene: rows and columns to rectangles, for screen and paper alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dgn_viewer.scene.elements import Chart

GAP = 8.0
NARROW = 440.0  # below this width charts are placed by `Chart.narrow`
SMALL_ROW = (40.0, 76.0)  # least and most height of an overview's picture


@dataclass(frozen=True)
class Margins:
    """What a chart needs around its data: title, tick labels, axis labels, colour bar."""

    left: float = 0.0
    top: float = 0.0
    right: float = 0.0
    bottom: float = 0.0


@dataclass(frozen=True)
class Box:
    """A rectangle; y grows downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class ChartPlace:
    """The box of a chart's data, and the margins around it as aligned with its neighbours."""

    box: Box
    room: Margins


@dataclass(frozen=True)
class _Cell:
    row: int
    column: int
    row_span: int
    column_span: int


def arrange(
    charts: Sequence[Chart], margins: Mapping[str, Margins], width: float, height: float
) -> dict[str, ChartPlace]:
    """The place of each chart's data; square charts keep one datum one square.

    Where some charts offer a second place (`Chart.narrow`), a narrow room takes it, and a wide one
    does when square charts become larger by it.
    """
    if not charts:
        return {}
    wide = _placed(charts, margins, width, height, narrow=False)
    if all(chart.narrow is None for chart in charts):
        return wide
    narrow = _placed(charts, margins, width, height, narrow=True)
    if width < NARROW:
        return narrow
    larger = _seen(narrow) > 1.1 * _seen(wide)
    return narrow if larger and any(chart.square for chart in charts) else wide


def _seen(places: Mapping[str, ChartPlace]) -> float:
    return sum(place.box.width * place.box.height for place in places.values())


def _placed(
    charts: Sequence[Chart],
    margins: Mapping[str, Margins],
    width: float,
    height: float,
    narrow: bool,
) -> dict[str, ChartPlace]:
    cells = {chart.key: _cell(chart, narrow) for chart in charts}
    aligned = _aligned(charts, cells, margins)
    heights = _heights(charts, cells, aligned, height)
    widths = _widths(charts, cells, aligned, heights, width)
    lefts = _starts(widths, max(0.0, (width - sum(widths) - GAP * (len(widths) - 1)) / 2))
    tops = _starts(heights, 0.0)
    places: dict[str, ChartPlace] = {}
    for chart in charts:
        cell, room = cells[chart.key], aligned[chart.key]
        right = cell.column + cell.column_span - 1
        bottom = cell.row + cell.row_span - 1
        box = Box(
            lefts[cell.column] + room.left,
            tops[cell.row] + room.top,
            lefts[right] + widths[right] - lefts[cell.column] - room.left - room.right,
            tops[bottom] + heights[bottom] - tops[cell.row] - room.top - room.bottom,
        )
        box = Box(box.x, box.y, max(box.width, 8.0), max(box.height, 8.0))
        places[chart.key] = ChartPlace(_squared(chart, box) if chart.square else box, room)
    return places


def _cell(chart: Chart, narrow: bool) -> _Cell:
    if narrow and chart.narrow is not None:
        return _Cell(*chart.narrow)
    return _Cell(chart.row, chart.column, chart.row_span, chart.column_span)


def aspect(chart: Chart) -> float:
    """Width over height of the data of a square chart."""
    if chart.matrix is None or 0 in chart.matrix.values.shape:
        return 1.0
    rows, columns = chart.matrix.values.shape
    return float(columns) / float(rows)


def _heights(
    charts: Sequence[Chart], cells: Mapping[str, _Cell], margins: Mapping[str, Margins], all_: float
) -> list[float]:
    count = max(cell.row + cell.row_span for cell in cells.values())
    fixed: dict[int, float] = {}
    for chart in charts:
        cell, room = cells[chart.key], margins[chart.key]
        if chart.small:
            picture = min(max(0.16 * all_, SMALL_ROW[0]), SMALL_ROW[1])
            fixed[cell.row] = max(fixed.get(cell.row, 0.0), picture + room.top + room.bottom)
    free = all_ - sum(fixed.values()) - GAP * (count - 1)
    share = max(free / max(count - len(fixed), 1), 24.0)
    return [fixed.get(row, share) for row in range(count)]


def _widths(
    charts: Sequence[Chart],
    cells: Mapping[str, _Cell],
    margins: Mapping[str, Margins],
    heights: Sequence[float],
    all_: float,
) -> list[float]:
    """Columns of square charts are as wide as their height asks; the others share what is left."""
    count = max(cell.column + cell.column_span for cell in cells.values())
    free = all_ - GAP * (count - 1)
    around: dict[int, float] = {}  # margins left and right of the data of a column of squares
    inside: dict[int, float] = {}  # how wide its data would be in full height
    others: set[int] = set()
    for chart in charts:
        cell, room = cells[chart.key], margins[chart.key]
        if chart.square and cell.column_span == 1:
            tall = sum(heights[cell.row : cell.row + cell.row_span]) + GAP * (cell.row_span - 1)
            wide = max(tall - room.top - room.bottom, 8.0) * aspect(chart)
            inside[cell.column] = max(inside.get(cell.column, 0.0), wide)
            around[cell.column] = max(around.get(cell.column, 0.0), room.left + room.right)
        elif cell.column_span == 1:
            others.add(cell.column)
    squares = [column for column in inside if column not in others]
    rest = count - len(squares)
    most = free if rest == 0 else free * len(squares) / (len(squares) + 1.25 * rest)
    surround = sum(around[column] for column in squares)
    wanted = sum(inside[column] for column in squares)
    # Squares side by side stay equally large when they have to shrink.
    shrink = min(1.0, max(most - surround, 8.0) / wanted) if wanted else 1.0
    sizes = {column: around[column] + inside[column] * shrink for column in squares}
    left = free - sum(sizes.values())
    if rest:
        return [sizes.get(column, left / rest) for column in range(count)]
    # A wide chart above or below squares takes the whole width; their columns share it.
    spanned = any(not chart.square and cells[chart.key].column_span > 1 for chart in charts)
    return [sizes[column] + (left / count if spanned else 0.0) for column in range(count)]


def _aligned(
    charts: Sequence[Chart], cells: Mapping[str, _Cell], margins: Mapping[str, Margins]
) -> dict[str, Margins]:
    """Charts in one column start at one left edge, charts in one row stand on one base line."""
    found: dict[str, Margins] = {}
    for chart in charts:
        cell, own = cells[chart.key], margins[chart.key]
        if chart.small:
            found[chart.key] = own
            continue
        column = [
            margins[other.key]
            for other in charts
            if cells[other.key].column == cell.column and not other.small
            if cells[other.key].column_span == cell.column_span
        ]
        row = [
            margins[other.key]
            for other in charts
            if cells[other.key].row == cell.row and not other.small
        ]
        found[chart.key] = Margins(
            max(item.left for item in column),
            max(item.top for item in row),
            max(item.right for item in column),
            max(item.bottom for item in row),
        )
    return found


def _squared(chart: Chart, box: Box) -> Box:
    """The largest rectangle with the data's aspect, at the left top of the box."""
    ratio = aspect(chart)
    width = min(box.width, box.height * ratio)
    return Box(box.x, box.y, width, width / ratio)


def _starts(sizes: Sequence[float], first: float) -> list[float]:
    starts = [first]
    for size in sizes[:-1]:
        starts.append(starts[-1] + size + GAP)
    return starts


def spread(wanted: Sequence[float], size: float, low: float, high: float) -> list[float]:
    """Centres near `wanted`, at least `size` apart and within [low, high] as far as they fit."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = [0.0] * len(wanted)
    last = low - size / 2
    for index in order:
        places[index] = max(wanted[index], last + size)
        last = places[index]
    limit = high + size / 2
    for index in reversed(order):
        places[index] = min(places[index], limit - size)
        limit = places[index]
    return places
