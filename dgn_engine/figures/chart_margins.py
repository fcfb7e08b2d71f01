"""The margins of charts in a figure, from the measured width of their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.set_text import LINE, shorten_text, width_of, wrap_text
from dgn_engine.scene.axes import Range, chart_range
from dgn_engine.scene.chart_layout import Box, ChartPlace, Margins, arrange_charts
from dgn_engine.scene.elements import Axis, Chart
from dgn_engine.scene.ticks import Tick, axis_label, axis_ticks, bar_ticks, select_spaced
from dgn_engine.text.written_numbers import format_number

BAR = 6.0  # points: width of a colour bar
PAD = 3.0  # between an axis and its labels
KEY = 22.0  # width of the line before a name in a key; longer than a period of its dashes
_NAMES = 0.35  # share of a chart for names at its line ends; wider ones go above it
_DEEPEST = 110.0  # maximum points of an upright name below a chart
_TURNS = 4  # layout passes at most


@dataclass(frozen=True)
class ChartFit:
    """The layout of a chart's text: title lines, upright class names, a key above.

    A kernel with upright names along its columns leaves them out: its rows are the same examples.
    """

    title: tuple[str, ...]
    turned: bool = False
    key: tuple[tuple[str, ...], ...] = ()  # names of curves in rows; empty: at the line ends
    x_label: str = ""
    y_label: tuple[str, ...] = ()  # lines
    bar: tuple[str, ...] = ()  # lines


def named_curves(chart: Chart) -> list[str]:
    """Return the names that are written; the raw values behind a smoothed line have none."""
    return [curve.name for curve in chart.curves if curve.name and not curve.faint]


def drawn_range(chart: Chart) -> tuple[Range, Range]:
    """Return the chart's ranges in drawn coordinates (powers of ten on logarithmic axes)."""
    x, y = chart_range(chart)
    return _to_log_range(x, chart.x), _to_log_range(y, chart.y)


def _to_log_range(reach: Range, axis: Axis) -> Range:
    return (float(np.log10(reach[0])), float(np.log10(reach[1]))) if axis.log else reach


def lay_out_charts(
    charts: Sequence[Chart], width: float, height: float, style: FigureStyle
) -> tuple[dict[str, ChartPlace], dict[str, ChartFit]]:
    """Lay the charts out within (width, height) points, with their text."""
    fits = {chart.key: ChartFit((chart.title,)) for chart in charts}
    places: dict[str, ChartPlace] = {}
    for _ in range(_TURNS):
        margins = {chart.key: _measure_margins(chart, fits[chart.key], style) for chart in charts}
        places = arrange_charts(charts, margins, width, height)
        new_fits = {
            chart.key: _fit_labels(chart, places[chart.key], fits[chart.key], style)
            for chart in charts
        }
        if new_fits == fits:
            break
        fits = new_fits
    return places, fits


def x_ticks(chart: Chart, box: Box, style: FigureStyle, turned: bool) -> list[Tick]:
    """Return the ticks of the x axis whose labels do not touch."""
    if turned and _named_by_rows(chart):
        return []
    reach, _ = drawn_range(chart)
    ticks = axis_ticks(chart.x, reach, max(2, min(5, int(box.width / (5 * style.small_text_size)))))
    if chart.matrix is not None and chart.x.ticks is None:  # no ticks between columns
        ticks = tuple((value, format_number(value)) for value, _ in ticks if value.is_integer())
    gaps = [_half_label_size(text, style, turned) for _, text in ticks]
    places = [(value - reach[0]) / (reach[1] - reach[0]) * box.width for value, _ in ticks]
    chosen = [ticks[index] for index in select_spaced(ticks, places, gaps)]
    return (
        [
            (position, shorten_text(name, style.small_text_size, _DEEPEST))
            for position, name in chosen
        ]
        if turned
        else chosen
    )


def names_depth(chart: Chart, style: FigureStyle) -> float:
    """Return the height in points of upright names below the chart."""
    names = axis_ticks(chart.x, drawn_range(chart)[0], 5)
    return max(
        (min(width_of(name, style.small_text_size), _DEEPEST) for _, name in names), default=0.0
    )


def _named_by_rows(chart: Chart) -> bool:
    """Return whether rows and columns are the same examples, named along the rows.

    The rows may be those of a chart on the left.
    """
    return chart.square and chart.y.ticks in ((), chart.x.ticks) and bool(chart.x.ticks)


def y_ticks(chart: Chart, box: Box, style: FigureStyle) -> list[Tick]:
    _, reach = drawn_range(chart)
    ticks = axis_ticks(chart.y, reach, 5 if box.height > 70 else 3)
    places = [(value - reach[0]) / (reach[1] - reach[0]) * box.height for value, _ in ticks]
    chosen = select_spaced(ticks, places, [style.small_text_size * 0.6] * len(ticks))
    return [ticks[index] for index in chosen]


def _half_label_size(text: str, style: FigureStyle, turned: bool) -> float:
    return (
        style.small_text_size * 0.6 if turned else width_of(text, style.small_text_size) / 2 + 1.5
    )


def _fit_labels(chart: Chart, place: ChartPlace, before: ChartFit, style: FigureStyle) -> ChartFit:
    box, margins = place.box, place.room
    across = margins.left + box.width + margins.right
    if chart.small:
        return ChartFit((shorten_text(chart.title, style.small_text_size, box.width),))
    named = chart.x.ticks is not None  # classes, each of which needs its name
    reach, _ = drawn_range(chart)
    ticks = axis_ticks(chart.x, reach, 5) if named else ()
    turned = before.turned or len(x_ticks(chart, box, style, turned=False)) < len(ticks)
    names = named_curves(chart)
    if chart.named_above and names and not before.key:
        turned = False  # on the next pass the curve names no longer take any width
    widest = max((width_of(name, style.small_text_size) for name in names), default=0.0)
    key = before.key
    if names and (key or chart.named_above or widest > _NAMES * across):
        key = _wrap_key(names, style, box.width)
    upright = box.height + 2 * min(margins.top, margins.bottom)  # labels are centred on the frame
    return ChartFit(
        tuple(wrap_text(chart.title, style.text_size, across, bold=True)),
        turned,
        key,
        shorten_text(axis_label(chart.x), style.text_size, across),
        _wrap_label(axis_label(chart.y), upright, style),
        _bar_lines(chart, upright, style),
    )


def _bar_lines(chart: Chart, length: float, style: FigureStyle) -> tuple[str, ...]:
    if chart.matrix is None or not chart.matrix.bar:
        return ()
    return _wrap_label(chart.matrix.bar, length, style)


def _wrap_label(label: str, length: float, style: FigureStyle) -> tuple[str, ...]:
    """Break an upright label into at most two lines; a longer one is shortened to one line."""
    lines = wrap_text(label, style.text_size, length)
    return tuple(lines) if len(lines) < 3 else (shorten_text(label, style.text_size, length),)


def _wrap_key(
    names: Sequence[str], style: FigureStyle, width: float
) -> tuple[tuple[str, ...], ...]:
    rows: list[list[str]] = [[]]
    used = 0.0
    for name in dict.fromkeys(names):
        wide = KEY + width_of(name, style.small_text_size) + 8.0
        if rows[-1] and used + wide > width:
            rows.append([])
            used = 0.0
        rows[-1].append(name)
        used += wide
    return tuple(map(tuple, rows))


def _measure_margins(chart: Chart, fit: ChartFit, style: FigureStyle) -> Margins:
    size, small = style.text_size, style.small_text_size
    if chart.small:
        return Margins(1.0, small * LINE + 2.0, 1.0, 2.0)
    x, y = drawn_range(chart)
    ticks = [text for _, text in axis_ticks(chart.y, y, 5)]
    left = max((width_of(text, small) for text in ticks), default=0.0) + PAD + 1.0
    left += max(len(fit.y_label), 1) * size * LINE + 1.0 if chart.y.label else 0.0
    top = len(fit.title) * size * LINE + 4.0 + len(fit.key) * small * LINE
    names = [text for _, text in axis_ticks(chart.x, x, 5)]
    if fit.turned and _named_by_rows(chart):
        names = []
    deep = names_depth(chart, style) if fit.turned else small
    bottom = PAD + (deep + 1.0 if names else 0.0)
    bottom += size + 3.0 if chart.x.label else 0.0
    lane = small * LINE + 2.0 if chart.has_step_axis and chart.marks else 0.0
    return Margins(left, top, _measure_right_margin(chart, fit, style), bottom, lane)


def _measure_right_margin(chart: Chart, fit: ChartFit, style: FigureStyle) -> float:
    right = 5.0
    if chart.matrix is not None and chart.matrix.bar:
        ticks = max(
            (width_of(text, style.small_text_size) for _, text in bar_ticks(chart)), default=0.0
        )
        right += 4.0 + BAR + PAD + ticks + 3.0 + max(len(fit.bar), 1) * style.text_size * LINE
    names = named_curves(chart)
    if names and not fit.key:
        right += max(width_of(name, style.small_text_size) for name in names) + 4.0
    return right
