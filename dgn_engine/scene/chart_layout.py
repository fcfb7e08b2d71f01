"""Layout of the charts of a scene: rows and columns to rectangles, for screen and paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.elements import Chart

GAP = 8.0
NARROW = 440.0  # below this width charts are placed by `Chart.narrow`
SMALL_ROW = (40.0, 76.0)  # minimum and maximum height of an overview's data
LEAST_CURVES = (160.0, 90.0)  # minimum width and height of the data of curves
LOW_CURVES = 48.0  # minimum height of the data of a single chart, which would scroll
LEAST_MATRIX = (96.0, 96.0)
TAB_ROW = 20.0  # height of the charts' titles as tabs
SCROLL = 8.0  # width of a scroll bar


@dataclass(frozen=True)
class Margins:
    """The room around a chart's data: title, tick labels, axis labels, colour bar."""

    left: float = 0.0
    top: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    lane: float = 0.0  # height of the lane of events, below the lowest chart of a column only


@dataclass(frozen=True)
class Box:
    """A rectangle; y grows downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class ChartPlace:
    """The box of a chart's data, and the margins around it, aligned with its neighbours."""

    box: Box
    room: Margins


def arrange_charts(
    charts: Sequence[Chart], margins: Mapping[str, Margins], width: float, height: float
) -> dict[str, ChartPlace]:
    """Return the place of each chart's data; a datum of a square chart stays square.

    Where charts offer a second place (`Chart.narrow`), it is used in narrow space, and in wide
    space if it makes square charts larger.
    """
    if not charts:
        return {}
    wide = _place_charts(charts, margins, width, height, narrow=False)
    if all(chart.narrow is None for chart in charts):
        return wide
    narrow = _place_charts(charts, margins, width, height, narrow=True)
    if width < NARROW:
        return narrow
    larger = _total_area(narrow) > 1.1 * _total_area(wide)
    return narrow if larger and any(chart.square for chart in charts) else wide


@dataclass(frozen=True)
class FittedCharts:
    """The charts shown in some room on the screen, and where."""

    charts: tuple[Chart, ...] = ()
    places: dict[str, ChartPlace] = field(default_factory=dict)
    tabs: tuple[str, ...] = ()  # keys of all charts, if only one fits, below a row of tabs
    width: float = 0.0  # size of the layout below the tabs, which scrolls in less room
    height: float = 0.0


def fit_charts(
    charts: Sequence[Chart],
    room: Callable[[Chart], Margins],
    width: float,
    height: float,
    chosen: str = "",
    tab_row: float = TAB_ROW,
) -> FittedCharts:
    """Fit all large charts if each reaches its minimum size, else the chosen one below tabs.

    A single chart that does not fit scrolls. Overviews (`Chart.small`) are placed elsewhere.
    Figures on paper have room: they use `arrange_charts`.

    Args:
        charts: All charts of the scene.
        room: Returns the margins that a chart needs around its data.
        width: Available width.
        height: Available height.
        chosen: Key of the chart whose tab is chosen.
        tab_row: Height of the row of tabs.
    """
    large = _without_overviews(charts)
    if not large:
        return FittedCharts(width=width, height=height)
    margins = {chart.key: room(chart) for chart in large}
    for places in (
        arrange_charts(large, margins, width, height),
        _place_charts(large, margins, width, height, narrow=False),
    ):
        if all(_is_large_enough(chart, places[chart.key].box) for chart in large):
            return FittedCharts(large, places, (), width, height)
    if len(large) == 1:
        return _scroll_chart(large[0], margins[large[0].key], width, height)
    keys = tuple(chart.key for chart in large)
    only = _as_only_chart(large[keys.index(chosen) if chosen in keys else 0], large)
    layout = _scroll_chart(only, room(only), width, height - tab_row)
    return replace(layout, tabs=keys)


def _least_size(chart: Chart) -> tuple[float, float]:
    """Return the minimum width and height of the data; square data keep the area."""
    if chart.matrix is None and not chart.square:
        return LEAST_CURVES
    if not chart.square:
        return LEAST_MATRIX
    wide = aspect_ratio(chart) ** 0.5
    return LEAST_MATRIX[0] * wide, LEAST_MATRIX[1] / wide


def _is_large_enough(chart: Chart, box: Box) -> bool:
    width, height = _least_size(chart)
    return box.width >= width - 0.01 and box.height >= height - 0.01


def _scroll_chart(chart: Chart, around: Margins, width: float, height: float) -> FittedCharts:
    """Lay one chart out in the whole room, or at its minimum size if that is larger."""
    wide, high = _least_size(chart)
    if (wide, high) == LEAST_CURVES:  # keeps what is below it, events included, in view
        high = LOW_CURVES
    wide = wide + around.left + around.right
    high = high + around.top + around.bottom + around.lane
    taken = width - (SCROLL if height < high else 0.0), height - (SCROLL if width < wide else 0.0)
    width, height = max(taken[0], wide), max(taken[1], high)
    return FittedCharts(
        (chart,), arrange_charts((chart,), {chart.key: around}, width, height), (), width, height
    )


def _as_only_chart(chart: Chart, charts: Sequence[Chart]) -> Chart:
    """Return the chart for a tab, which has its title, with a neighbour's bar and row names."""
    matrix, y = chart.matrix, chart.y
    if matrix is not None:
        scale = (matrix.ramp, matrix.low, matrix.high)
        for neighbour in charts:
            near_matrix = neighbour.matrix
            if (
                near_matrix is None
                or (near_matrix.ramp, near_matrix.low, near_matrix.high) != scale
            ):
                continue
            matrix = replace(matrix, bar=matrix.bar or near_matrix.bar)
            if y.ticks == () and not y.label and neighbour.x == chart.x:
                y = neighbour.y
    return replace(
        chart, title="", y=y, matrix=matrix, row=0, column=0, row_span=1, column_span=1, narrow=None
    )


def _without_overviews(charts: Sequence[Chart]) -> tuple[Chart, ...]:
    """Return the large charts, and close up rows and columns of overviews."""
    large = tuple(chart for chart in charts if not chart.small)
    return large if len(large) == len(charts) else close_gaps(large)


def close_gaps(charts: Sequence[Chart]) -> tuple[Chart, ...]:
    """Move the charts into as few rows and columns as they need."""
    rows = sorted({edge for chart in charts for edge in (chart.row, chart.row + chart.row_span)})
    columns = sorted(
        {edge for chart in charts for edge in (chart.column, chart.column + chart.column_span)}
    )
    return tuple(
        replace(
            chart,
            row=rows.index(chart.row),
            row_span=rows.index(chart.row + chart.row_span) - rows.index(chart.row),
            column=columns.index(chart.column),
            column_span=columns.index(chart.column + chart.column_span)
            - columns.index(chart.column),
        )
        for chart in charts
    )


def _total_area(places: Mapping[str, ChartPlace]) -> float:
    return sum(place.box.width * place.box.height for place in places.values())


def _place_charts(
    charts: Sequence[Chart],
    margins: Mapping[str, Margins],
    width: float,
    height: float,
    narrow: bool,
) -> dict[str, ChartPlace]:
    charts = [use_narrow_place(chart) for chart in charts] if narrow else charts
    aligned = _align_margins(charts, _with_lanes(charts, margins))
    heights = _row_heights(charts, aligned, height)
    widths = _column_widths(charts, aligned, heights, width)
    lefts = _start_offsets(widths, max(0.0, (width - sum(widths) - GAP * (len(widths) - 1)) / 2))
    tops = _start_offsets(heights, 0.0)
    places: dict[str, ChartPlace] = {}
    for chart in charts:
        room = aligned[chart.key]
        right = chart.column + chart.column_span - 1
        bottom = chart.row + chart.row_span - 1
        box = Box(
            lefts[chart.column] + room.left,
            tops[chart.row] + room.top,
            lefts[right] + widths[right] - lefts[chart.column] - room.left - room.right,
            tops[bottom] + heights[bottom] - tops[chart.row] - room.top - room.bottom,
        )
        box = Box(box.x, box.y, max(box.width, 8.0), max(box.height, 8.0))
        places[chart.key] = ChartPlace(_fit_square(chart, box) if chart.square else box, room)
    return places


def _with_lanes(charts: Sequence[Chart], margins: Mapping[str, Margins]) -> dict[str, Margins]:
    """Keep the lane of events only under the lowest chart over steps of each column."""
    result = dict(margins)
    for chart in charts:
        own = margins[chart.key]
        if not own.lane:
            continue
        lower = any(
            below.column == chart.column and below.row > chart.row
            for below in charts
            if margins[below.key].lane
        )
        lane = 0.0 if lower else own.lane
        result[chart.key] = replace(own, lane=lane, bottom=own.bottom + lane)
    return result


def use_narrow_place(chart: Chart) -> Chart:
    """Move the chart to its second place, if it offers one."""
    if chart.narrow is None:
        return chart
    row, column, row_span, column_span = chart.narrow
    return replace(chart, row=row, column=column, row_span=row_span, column_span=column_span)


def aspect_ratio(chart: Chart) -> float:
    """Return width over height of the data of a square chart."""
    if chart.matrix is None or 0 in chart.matrix.values.shape:
        return 1.0
    rows, columns = chart.matrix.values.shape
    return float(columns) / float(rows)


def _row_heights(
    charts: Sequence[Chart], margins: Mapping[str, Margins], all_: float
) -> list[float]:
    count = max(chart.row + chart.row_span for chart in charts)
    fixed: dict[int, float] = {}
    for chart in charts:
        room = margins[chart.key]
        if chart.small:
            picture = min(max(0.16 * all_, SMALL_ROW[0]), SMALL_ROW[1])
            fixed[chart.row] = max(fixed.get(chart.row, 0.0), picture + room.top + room.bottom)
    free = all_ - sum(fixed.values()) - GAP * (count - 1)
    share = max(free / max(count - len(fixed), 1), 24.0)
    return [fixed.get(row, share) for row in range(count)]


def _column_widths(
    charts: Sequence[Chart], margins: Mapping[str, Margins], heights: Sequence[float], all_: float
) -> list[float]:
    """Make columns of square charts as wide as high; the others share the remaining width."""
    count = max(chart.column + chart.column_span for chart in charts)
    free = all_ - GAP * (count - 1)
    around: dict[int, float] = {}  # margins left and right of the data of a column of squares
    inside: dict[int, float] = {}  # width of its data at full height
    others: dict[int, float] = {}  # margins of a column of other charts
    for chart in charts:
        room, column = margins[chart.key], chart.column
        if chart.square and chart.column_span == 1:
            rows = heights[chart.row : chart.row + chart.row_span]
            tall = sum(rows) + GAP * (chart.row_span - 1)
            wide = max(tall - room.top - room.bottom, 8.0) * aspect_ratio(chart)
            inside[column] = max(inside.get(column, 0.0), wide)
            around[column] = max(around.get(column, 0.0), room.left + room.right)
        elif chart.column_span == 1:
            others[column] = max(others.get(column, 0.0), room.left + room.right)
    squares = [column for column in inside if column not in others]
    other_count = count - len(squares)
    limit = free if other_count == 0 else free * len(squares) / (len(squares) + 1.25 * other_count)
    surround = sum(around[column] for column in squares)
    wanted = sum(inside[column] for column in squares)
    # Squares side by side shrink equally.
    shrink = min(1.0, max(limit - surround, 8.0) / wanted) if wanted else 1.0
    sizes = {column: around[column] + inside[column] * shrink for column in squares}
    left = free - sum(sizes.values())
    if other_count:  # their data are equally wide, whatever their margins
        data = (left - sum(others.values())) / other_count
        column_widths = {column: others.get(column, 0.0) + data for column in range(count)}
        return [sizes.get(column, column_widths[column]) for column in range(count)]
    # A wide chart above or below squares takes the whole width; their columns share it.
    spanned = any(not chart.square and chart.column_span > 1 for chart in charts)
    return [sizes[column] + (left / count if spanned else 0.0) for column in range(count)]


def _align_margins(charts: Sequence[Chart], margins: Mapping[str, Margins]) -> dict[str, Margins]:
    """Align charts of a column on the left edge and charts of a row on the base line."""
    result = dict(margins)
    large = [chart for chart in charts if not chart.small]
    for chart in large:
        own, columns = margins[chart.key], (chart.column, chart.column_span)
        column = [margins[peer.key] for peer in large if (peer.column, peer.column_span) == columns]
        row = [margins[peer.key] for peer in large if peer.row == chart.row]
        result[chart.key] = Margins(
            max(item.left for item in column),
            max(item.top for item in row),
            max(item.right for item in column),
            max(item.bottom for item in row),
            own.lane,
        )
    return result


def _fit_square(chart: Chart, box: Box) -> Box:
    """Return the largest rectangle of the data's aspect at the top left of the box."""
    ratio = aspect_ratio(chart)
    width = min(box.width, box.height * ratio)
    return Box(box.x, box.y, width, width / ratio)


def _start_offsets(sizes: Sequence[float], first: float) -> list[float]:
    starts = [first]
    for size in sizes[:-1]:
        starts.append(starts[-1] + size + GAP)
    return starts


def spread_labels(wanted: Sequence[float], size: float, low: float, high: float) -> list[float]:
    """Return centres near `wanted`, at least `size` apart, within [low, high] if they fit."""
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
