"""Panels on one page: charts, letters, headings and caption at the figure's final size."""

from __future__ import annotations

import itertools
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from dgn_engine.errors import UserError
from dgn_engine.figures.chart_margins import ChartFit, lay_out_charts, names_depth
from dgn_engine.figures.figure_charts import draw_chart
from dgn_engine.figures.figure_style import FigureStyle, rename_curves
from dgn_engine.figures.paper import INCH, Paper
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.figures.set_text import LINE, check_legend, wrap_text
from dgn_engine.scene.chart_layout import NARROW, Box, ChartPlace, aspect_ratio, use_narrow_place
from dgn_engine.scene.elements import Chart
from dgn_engine.scene.theme import LIGHT
from dgn_engine.scene.typeset import escape_label
from dgn_engine.text.written_numbers import format_number

EDGE = 3.0  # points around everything
_GAP = 10.0  # between two panels
_LEAST = 24.0  # minimum points of a chart's data in both directions
_LEGIBLE = 0.17  # share of the width below which another layout is tried
# Shares of the height to try, as long as squares keep their size.
_SHRINK = tuple(share / 20 for share in range(20, 9, -1))


@dataclass(frozen=True)
class _PanelPlace:
    """A panel laid out: its height, and its charts measured from its own top left."""

    panel: FigurePanel
    heading: tuple[str, ...]
    height: float
    places: dict[str, ChartPlace]
    fits: dict[str, ChartFit]


def draw_page(panels: Sequence[FigurePanel], style: FigureStyle) -> Figure:
    """Return the figure of these panels.

    Call it, and save the figure, inside `print_style`.

    Raises:
        UserError: The panels do not fit the requested size.
    """
    check_legend(style.legend)
    panels = _add_letters(
        [
            replace(page_panel, scene=rename_curves(page_panel.scene, style))
            for page_panel in panels
        ],
        style,
    )
    width = style.width * INCH - 2 * EDGE
    across = style.column_count(len(panels))
    panel_width = (width - _GAP * (across - 1)) / across
    caption = _wrap_caption(panels, style, width)
    below = len(caption) * style.small_text_size * LINE + (4.0 if caption else 0.0)
    free = style.height * INCH - 2 * EDGE - below if style.height else None
    rows = _lay_out_rows(panels, across, panel_width, free, style)
    tops = list(itertools.accumulate((_row_height(row) + _GAP for row in rows), initial=EDGE))
    height = style.height * INCH if style.height else tops[-1] - _GAP + below + EDGE
    paper = Paper(style.width * INCH, height, style)
    for top, row in zip(tops, rows, strict=False):
        for place, block in enumerate(row):
            draw_block(paper, block, EDGE + place * (panel_width + _GAP), top, len(panels) > 1)
    for index, line in enumerate(caption):
        y = (
            height
            - below
            - EDGE
            + 4.0
            + style.small_text_size
            + index * style.small_text_size * LINE
        )
        paper.add_text(EDGE, y, line, style.small_text_size, LIGHT.muted)
    return paper.figure


def _add_letters(panels: Sequence[FigurePanel], style: FigureStyle) -> list[FigurePanel]:
    """Put letters before the headings of several panels, or the chart titles of one."""
    if not style.letters:
        return list(panels)
    if len(panels) > 1:
        return [
            replace(item, context=replace(item.context, title=f"{letter} {item.context.title}"))
            for item, letter in zip(panels, _panel_letters(), strict=False)
        ]
    (panel,) = panels
    letters = _panel_letters()
    charts = tuple(
        chart if chart.small else replace(chart, title=f"{next(letters)} {chart.title}".strip())
        for chart in panel.scene.charts
    )
    return [replace(panel, scene=replace(panel.scene, charts=charts))]


def _panel_letters() -> itertools.chain[str]:
    """Return (a), (b) … (z), (aa) …"""
    alphabet = string.ascii_lowercase
    pairs = (first + second for first in alphabet for second in alphabet)
    return itertools.chain(f"({letter})" for letter in itertools.chain(alphabet, pairs))


def _wrap_caption(panels: Sequence[FigurePanel], style: FigureStyle, width: float) -> list[str]:
    """Return each panel's origin, facts and note, in lines of this width."""
    if not style.caption:
        return []
    parts: list[str] = []
    for panel in panels:
        facts = ", ".join(f"{fact.name} = {fact.value}" for fact in panel.scene.facts)
        origin = escape_label(panel.context.caption)
        if len(panels) > 1:
            origin = escape_label(panel.context.panel_caption)
        parts.extend(part for part in (origin, facts, panel.scene.note) if part)
    if len(panels) > 1:
        runs = (
            escape_label(panel.context.run_caption) for panel in panels if panel.context.run_caption
        )
        parts.extend(dict.fromkeys(runs))
    return [line for part in parts for line in wrap_text(part, style.small_text_size, width)]


def _lay_out_rows(
    panels: Sequence[FigurePanel],
    across: int,
    width: float,
    free: float | None,
    style: FigureStyle,
) -> list[list[_PanelPlace]]:
    """Lay the panels out in rows, which share `free` points of height if it is given."""
    lines = [panels[first : first + across] for first in range(0, len(panels), across)]
    headed = len(panels) > 1
    rows = [[lay_out_panel(panel, width, None, headed, style) for panel in line] for line in lines]
    if free is None:
        return rows
    room = free - _GAP * (len(rows) - 1)
    share = room / sum(map(_row_height, rows))
    if share <= 0:
        raise _too_small(panels[0].context.title, style)
    return [
        [
            lay_out_panel(block.panel, width, _row_height(row) * share, headed, style)
            for block in row
        ]
        for row in rows
    ]


def _row_height(row: Sequence[_PanelPlace]) -> float:
    return max(block.height for block in row)


def lay_out_panel(
    panel: FigurePanel, width: float, height: float | None, headed: bool, style: FigureStyle
) -> _PanelPlace:
    """Lay out a panel, as high as its charts need if no height is given."""
    heading = (
        tuple(wrap_text(panel.context.title, style.text_size + 1, width, bold=True))
        if headed
        else ()
    )
    above = len(heading) * (style.text_size + 1) * LINE + (2.0 if heading else 0.0)
    places, fits, inner = _choose_layout(
        panel.scene.charts, width, None if height is None else height - above, style
    )
    for chart in panel.scene.charts:
        if not _has_room(chart, places[chart.key], width, inner):
            raise _too_small(chart.title or panel.context.title, style)
    return _PanelPlace(panel, heading, inner + above, places, fits)


def _choose_layout(
    charts: Sequence[Chart], width: float, height: float | None, style: FigureStyle
) -> tuple[dict[str, ChartPlace], dict[str, ChartFit], float]:
    """Return places, fits and height of the first layout in which all charts are legible.

    Tried are the scene's own layout, side by side (if a height is given), and three, two or one
    per row; failing that, the first in which all have room.
    """
    squares = sum(chart.square for chart in charts)
    across = [count for count in (3, 2) if count <= squares and not any(c.small for c in charts)]
    candidates = [charts, *(_in_rows(charts, count) for count in (*across, 1))]
    if height is not None:
        candidates.insert(1, [replace(chart, narrow=None) for chart in charts])
    layouts = []
    for layout in candidates:
        inner = height
        if inner is None:
            inner = _tight_height(layout, width, _natural_height(layout, width, style), style)
        places, fits = lay_out_charts(layout, width, inner, style)
        if height is None and (more := _words_height(layout, fits, style)):
            places, fits = lay_out_charts(layout, width, inner + more, style)
        if height is None:
            inner = max((_bottom_edge(place) for place in places.values()), default=0.0)
        layouts.append((places, fits, inner))
        if all(
            _has_room(chart, places[chart.key], width, inner, _LEGIBLE * width) for chart in layout
        ):
            return layouts[-1]
    for places, fits, inner in layouts:
        if all(_has_room(chart, places[chart.key], width, inner) for chart in charts):
            return places, fits, inner
    return layouts[0]


def _words_height(
    charts: Sequence[Chart], fits: Mapping[str, ChartFit], style: FigureStyle
) -> float:
    """Return the points that long keys above and upright names below a chart add.

    Keys count beyond their second row, names of places beyond one line.
    """
    rows = max((len(fits[chart.key].key) for chart in charts if chart.named_above), default=0)
    turned = [chart for chart in charts if chart.x.places and fits[chart.key].turned]
    deep = max((names_depth(chart, style) - style.small_text_size for chart in turned), default=0.0)
    return max(rows - 2, 0) * style.small_text_size * LINE + deep


def _in_rows(charts: Sequence[Chart], most: int) -> list[Chart]:
    """Put at most `most` charts side by side, below the overviews; wide ones alone."""
    small = [chart.column + chart.column_span for chart in charts if chart.small]
    across = max([most, *small])
    row, column = max((chart.row + 1 for chart in charts if chart.small), default=0), 0
    placed = []
    for chart in charts:
        if chart.small:
            placed.append(chart)
            continue
        span = 1 if chart.square and most > 1 else across
        if column and column + span > most:
            row, column = row + 1, 0
        y = chart.x if chart.square and column == 0 and chart.y.ticks == () else chart.y
        position = {"row": row, "column": column, "row_span": 1, "column_span": span}
        placed.append(replace(chart, narrow=None, y=y, **position))  # type: ignore[arg-type]  # whole numbers
        column += span
        if column >= most:
            row, column = row + 1, 0
    return placed


def _has_room(
    chart: Chart, place: ChartPlace, width: float, height: float, least: float = _LEAST
) -> bool:
    box = place.box
    least = _LEAST / 2 if chart.small else least
    inside = _bottom_edge(place) <= height + 0.5 and box.x + box.width <= width + 0.5
    return inside and box.height >= least and box.width >= min(least, 0.1 * width)


def _too_small(what: str, style: FigureStyle) -> UserError:
    high = f" × {format_number(style.height)}" if style.height else ""
    return UserError(
        f"A figure of {format_number(style.width)}{high} in has no room for {what}; make it "
        f"larger, or its text smaller than {format_number(style.text_size)} pt.",
        kind="no-room",
        value=what,
    )


def _natural_height(charts: Sequence[Chart], width: float, style: FigureStyle) -> float:
    """Return a suitable height in points: curves are low, squares high."""
    narrow = width < NARROW
    charts = [use_narrow_place(chart) for chart in charts] if narrow else charts
    low = {chart.row for chart in charts if chart.small}
    count = max((chart.row + chart.row_span for chart in charts), default=1) - len(low)
    share = 200.0 if not narrow else min(200.0, max(0.62 * width, 110.0))
    if narrow and any(chart.square for chart in charts):
        share = max(share, min(0.9 * width, 200.0))
    if len(charts) == 1 and charts[0].matrix is not None and charts[0].matrix.tile is not None:
        # A montage fills the width if that makes it at most half as high.
        share = max(share, min(width / aspect_ratio(charts[0]) + 40.0, 0.5 * width))
    text_height = (style.text_size - 9.0) * 5
    return (share + text_height) * max(count, 1) + 70.0 * len(low)


def _tight_height(
    charts: Sequence[Chart], width: float, height: float, style: FigureStyle
) -> float:
    """Return the least height at which square charts are as large as at this height."""
    if not any(chart.square for chart in charts):
        return height
    areas = []
    for share in _SHRINK:
        places, _ = lay_out_charts(charts, width, height * share, style)
        areas.append(
            sum(places[c.key].box.width * places[c.key].box.height for c in charts if c.square)
        )
    shares = [share for share, area in zip(_SHRINK, areas, strict=True) if area >= 0.97 * areas[0]]
    return height * min(shares)


def _bottom_edge(place: ChartPlace) -> float:
    return place.box.y + place.box.height + place.room.bottom


def draw_block(paper: Paper, block: _PanelPlace, left: float, top: float, named: bool) -> None:
    size = paper.style.text_size + 1
    for index, line in enumerate(block.heading):
        paper.add_text(
            left, top + size + index * size * LINE, line, size, LIGHT.text, weight="bold"
        )
    above = top + len(block.heading) * size * LINE + (2.0 if block.heading else 0.0)
    for chart in block.panel.scene.charts:
        place = block.places[chart.key]
        box = Box(place.box.x + left, place.box.y + above, place.box.width, place.box.height)
        name = f"{block.panel.name}.{chart.key}" if named else chart.key
        draw_chart(paper, name, chart, replace(place, box=box), block.fits[chart.key])
