"""The settings of a chart as one table of menu rows: where each applies and what it changes.

To add a setting, add one row. A row that does not apply to a chart is left out of its menu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from dgn_engine.errors import UserError
from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.axes import Range
from dgn_engine.scene.chart_settings import PLAIN, ChartSettings, has_positive, is_over_steps
from dgn_engine.scene.elements import Chart, Ramp, Scene
from dgn_engine.scene.matrix_colours import ColourChoice, Span, charts_sharing_scale
from dgn_engine.scene.matrix_difference import (
    DrawnWith,
    Subtrahend,
    find_subtrahend,
    no_other_choices,
    reason_not_subtractable,
    subtract_charts,
)
from dgn_engine.text.written_numbers import format_number

Asked = Literal["", "y_range", "colour_range"]  # two numbers to ask the user for first
LAST = (200, 1000, 5000)  # steps
WEIGHTS = (0.6, 0.9, 0.97, 0.99)  # of the past in smoothed lines


@dataclass(frozen=True)
class ChartRow:
    """One row of the table; rows of one `group` are between two separators of the menu."""

    menu: str
    group: int
    text: str
    applies: Callable[[Chart], bool]
    chosen: Callable[[ChartSettings, Chart], bool]
    change: Callable[[ChartSettings, Chart], ChartSettings]
    asks: Asked = ""


@dataclass(frozen=True)
class ChartChoice:
    """A row in the menu of one chart; `after` holds the settings it leads to, by chart key."""

    menu: str
    group: int
    text: str
    chosen: bool
    after: Mapping[str, ChartSettings]
    asks: Asked = ""


@dataclass(frozen=True)
class DrawnScene:
    """A scene as the panel draws it, its settings, and what the panel could draw instead.

    `others`: (option, value) of each other choice in the panel's header.
    """

    scene: Scene
    settings: Mapping[str, ChartSettings]
    drawn_with: DrawnWith = no_other_choices
    others: Sequence[tuple[str, str]] = ()


def list_choices(drawn: DrawnScene, key: str) -> tuple[ChartChoice, ...]:
    """List everything that can be set for a chart, in the order of the menu."""
    panel_chart = next((chart for chart in drawn.scene.charts if chart.key == key), None)
    if panel_chart is None or panel_chart.small:
        return ()
    minus = {k: setting.minus for k, setting in drawn.settings.items() if setting.minus is not None}
    charts, _, _ = subtract_charts(drawn.scene.charts, minus, drawn.drawn_with)
    chart = next(setting for setting in charts if setting.key == key)
    current = drawn.settings.get(key, PLAIN)
    group_keys = charts_sharing_scale(charts, key) if chart.matrix is not None else (key,)
    result = []
    for row in _ROWS:
        if row.applies(chart):
            keys = group_keys if row.menu == "Colours" else (key,)
            after = {k: row.change(drawn.settings.get(k, PLAIN), chart) for k in keys}
            chosen = row.chosen(current, chart)
            result.append(ChartChoice(row.menu, row.group, row.text, chosen, after, row.asks))
    return (*result, *_difference_choices(drawn, panel_chart, current))


def settings_with_range(row: ChartChoice, reach: Range) -> dict[str, ChartSettings]:
    """Return the settings of a choice that asks for two numbers, given these numbers."""
    if row.asks == "y_range":
        return {
            key: replace(chart_settings, y_range=reach) for key, chart_settings in row.after.items()
        }
    return {
        key: replace(
            chart_settings, colours=replace(chart_settings.colours, span="fixed", fixed=reach)
        )
        for key, chart_settings in row.after.items()
    }


def parse_range(low: str, high: str, log: bool = False) -> Range:
    """Parse two typed numbers, the first below the second.

    Raises:
        UserError: One is not a number, or they are no range for this axis.
    """
    ends = _parse_number(low), _parse_number(high)
    if ends[0] >= ends[1]:
        message = f"The upper end must be above {low.strip()}."
        raise UserError(message, kind="contradiction", value=low.strip())
    if log and ends[0] <= 0:
        message = "A logarithmic axis needs a positive lower end."
        raise UserError(message, kind="out-of-bounds", value=low.strip())
    return ends


def _parse_number(text: str) -> float:
    try:
        value = float(text.strip().replace("−", "-"))
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        message = f"'{text.strip()}' is not a number; enter one such as 0.5 or 1e-3."
        raise UserError(message, kind="not-a-number", value=text.strip())
    return value


def _difference_choices(drawn: DrawnScene, chart: Chart, now: ChartSettings) -> list[ChartChoice]:
    """List differences with the panel's other matrices of these examples, in any choice."""
    if chart.matrix is None:
        return []
    candidates = [
        (other_chart.title, Subtrahend(other_chart.key))
        for other_chart in drawn.scene.charts
        if other_chart.key != chart.key
        and not other_chart.small
        and not reason_not_subtractable(chart, other_chart)
    ]
    if chart.matrix.row_name == chart.matrix.column_name:  # units of two layers are not paired
        for option, value in drawn.others:
            subtrahend = Subtrahend(chart.key, option, value)
            layer = find_subtrahend((), subtrahend, drawn.drawn_with)
            if (
                layer is not None
                and layer.title != chart.title
                and not reason_not_subtractable(chart, layer)
            ):
                candidates.append((layer.title, subtrahend))
    if not candidates and now.minus is None:
        return []
    rows = [
        ChartChoice("Difference", 0, "None", now.minus is None, _set_subtrahend(chart, now, None))
    ]
    for title, other_chart in candidates:
        text = f"{chart.title} − {title}"
        after = _set_subtrahend(chart, now, other_chart)
        rows.append(ChartChoice("Difference", 1, text, now.minus == other_chart, after))
    return rows


def _set_subtrahend(
    chart: Chart, now: ChartSettings, other: Subtrahend | None
) -> dict[str, ChartSettings]:
    """Set what is subtracted; a difference starts with its own colours."""
    return {chart.key: replace(now, minus=other, colours=ColourChoice())}


def _has_x(chart: Chart) -> bool:
    return bool(chart.curves) and chart.x.ticks is None and has_positive(chart, "x")


def _has_y(chart: Chart) -> bool:
    return bool(chart.curves) and chart.y.ticks is None


def _has_log_y(chart: Chart) -> bool:
    return _has_y(chart) and has_positive(chart, "y")


def _log_y(now: ChartSettings, chart: Chart) -> bool:
    return chart.y.log if now.log_y is None else now.log_y


def _toggle_log_y(now: ChartSettings, chart: Chart) -> ChartSettings:
    log = not _log_y(now, chart)
    return replace(now, log_y=None if log == chart.y.log else log)


def _range_row(steps: int) -> ChartRow:
    return ChartRow(
        "Range",
        0,
        f"Last {steps:,} steps" if steps else "All steps",
        is_over_steps,
        lambda now, _: now.last == steps,
        lambda now, _: replace(now, last=steps),
    )


def _smoothing_row(weight: float) -> ChartRow:
    return ChartRow(
        "Smoothing",
        0 if weight else -1,
        format_number(weight) if weight else "None",
        is_over_steps,
        lambda now, _: now.smoothing == weight,
        lambda now, _: replace(now, smoothing=weight),
    )


def _has_colours(chart: Chart) -> bool:
    matrix = chart.matrix
    return matrix is not None and not (matrix.ramp == "gates" and matrix.values.dtype == np.uint8)


def _has_pairs(chart: Chart) -> bool:
    matrix = chart.matrix
    if matrix is None or matrix.tile is not None:
        return False
    rows, columns = matrix.values.shape
    return rows == columns > 1 and matrix.row_name == matrix.column_name


def _is_signed(chart: Chart) -> bool:
    return chart.matrix is not None and bool((chart.matrix.values < 0).any())


def _has_maps(chart: Chart) -> bool:
    return chart.matrix is not None and chart.matrix.ramp != "gates"


def _has_diverging(chart: Chart) -> bool:
    return _has_maps(chart) and (_is_signed(chart) or _own_ramp(chart) == "diverging")


def _own_ramp(chart: Chart) -> Ramp | None:
    return chart.matrix.ramp if chart.matrix is not None else None


def _span_row(text: str, span: Span, applies: Callable[[Chart], bool] = _has_colours) -> ChartRow:
    asks: Asked = "colour_range" if span == "fixed" else ""
    return ChartRow(
        "Colours",
        0,
        text,
        applies,
        lambda now, _: now.colours.span == span,
        lambda now, _: replace(now, colours=replace(now.colours, span=span)),
        asks,
    )


def _ramp_row(text: str, ramp: Ramp, applies: Callable[[Chart], bool] = _has_maps) -> ChartRow:
    return ChartRow(
        "Colours",
        1,
        text,
        applies,
        lambda now, chart: (now.colours.ramp or _own_ramp(chart)) == ramp,
        partial(_set_ramp, ramp),
    )


def _set_ramp(ramp: Ramp, now: ChartSettings, chart: Chart) -> ChartSettings:
    is_default = ramp == _own_ramp(chart)
    return replace(now, colours=replace(now.colours, ramp="" if is_default else ramp))


_ROWS: tuple[ChartRow, ...] = (
    *(_range_row(steps) for steps in LAST),
    _range_row(0),
    ChartRow("Range", 1, "Logarithmic x", _has_x,
             lambda now, chart: now.log_x or chart.x.log,
             lambda now, _: replace(now, log_x=not now.log_x)),
    ChartRow("Range", 1, "Logarithmic y", _has_log_y, _log_y, _toggle_log_y),
    ChartRow("Range", 2, "Full y range", _has_y,
             lambda now, _: now.y_range is None, lambda now, _: replace(now, y_range=None)),
    ChartRow("Range", 2, "Set y range…", _has_y,
             lambda now, _: now.y_range is not None, lambda now, _: now, "y_range"),
    _smoothing_row(0.0),
    *(_smoothing_row(weight) for weight in WEIGHTS),
    _span_row("Panel default", ""),
    _span_row("All values", "whole"),
    _span_row("1st to 99th percentile", "middle_98"),
    _span_row("5th to 95th percentile", "middle_90"),
    _span_row("Off-diagonal, 1st to 99th percentile", "pairs", _has_pairs),
    _span_row("Symmetric about 0", "symmetric", _is_signed),
    _span_row("Set range…", "fixed"),
    _ramp_row("Cividis", "sequential"),
    _ramp_row("Black to white (CET-CBL1)", "cet_cbl1"),
    _ramp_row("White to blue (CET-L17)", "cet_l17"),
    _ramp_row("Grey", "grey"),
    _ramp_row("Brown to teal, centred on 0", "diverging", _has_diverging),
)  # fmt: skip
