"""The user's settings of single charts, and the scene with them applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

import numpy as np

from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.axes import LOG, Range, chart_range, spanning_axis
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Scene
from dgn_engine.scene.matrix_colours import ColourChoice, apply_colours
from dgn_engine.scene.matrix_difference import (
    DrawnWith,
    Subtrahend,
    no_other_choices,
    subtract_charts,
)
from dgn_engine.text.written_numbers import format_number

_NEGLIGIBLE = 1e-18  # a weight of the past too small to change a double
_LEAST_POINTS = 3  # minimum length of a smoothed curve


@dataclass(frozen=True)
class ChartSettings:
    """One chart's settings; the defaults leave it as its panel draws it.

    `last`: number of last steps shown, 0 for all; `smoothing`: weight of the past in [0, 1);
    `log_y`: None leaves the scale to the panel.
    """

    last: int = 0
    log_x: bool = False
    log_y: bool | None = None
    y_range: Range | None = None
    smoothing: float = 0.0
    colours: ColourChoice = field(default_factory=ColourChoice)
    minus: Subtrahend | None = None

    def __post_init__(self) -> None:
        if self.last < 0 or not 0.0 <= self.smoothing < 1.0:
            raise ValueError(f"last {self.last}, smoothing {self.smoothing}")


PLAIN = ChartSettings()


def apply_chart_settings(
    scene: Scene, settings: Mapping[str, ChartSettings], drawn_with: DrawnWith = no_other_choices
) -> Scene:
    """Apply settings, by chart key, to a scene for display and export.

    Curves keep their raw values: a smoothed line is an extra curve, marked as such. The note starts
    with what differs from the panel's own picture.
    """
    wanted = {
        chart.key: settings[chart.key]
        for chart in scene.charts
        if not chart.small and settings.get(chart.key, PLAIN) != PLAIN
    }
    if not wanted:
        return scene
    minus = {key: value.minus for key, value in wanted.items() if value.minus is not None}
    charts, difference_notes, refusals = subtract_charts(scene.charts, minus, drawn_with)
    charts, colour_notes = apply_colours(
        charts, {key: value.colours for key, value in wanted.items()}
    )
    charts = tuple(
        _adjust_curves(chart, wanted[chart.key]) if chart.key in wanted else chart
        for chart in charts
    )
    weights = {curve.smoothed: "" for chart in charts for curve in chart.curves if curve.smoothed}
    smoothing_notes = (
        f"Smoothing {format_number(value)}; pale lines and numbers are raw." for value in weights
    )
    note = " ".join(
        dict.fromkeys(
            filter(
                None, (*refusals, *difference_notes, *smoothing_notes, *colour_notes, scene.note)
            )
        )
    )
    return replace(scene, charts=charts, note=note, refusal=" ".join(dict.fromkeys(refusals)))


def is_over_steps(chart: Chart) -> bool:
    return chart.matrix is None and chart.x.label == "step"


def has_positive(chart: Chart, which: str) -> bool:
    """Return whether a logarithmic x or y axis would have anything to show."""
    return any(bool((getattr(curve, which) > 0).any()) for curve in chart.curves)


def smooth_values(values: Array, weight: float) -> Array:
    """Return the moving average s_i = w s_(i-1) + (1 - w) v_i over 1 - w^i, with s_0 = 0.

    Dividing removes the bias of the start, as TensorBoard does. Values that are not finite are kept
    and skipped. Each pass doubles the length of the sums.

    Args:
        values: Shape (n,).
        weight: Weight w of the past, in [0, 1).

    Returns:
        Float64 array of shape (n,).
    """
    result = np.array(values, dtype=np.float64)
    finite = np.isfinite(result)
    total = result[finite]
    share = np.ones_like(total)
    reach, decay = 1, weight
    while reach < total.size and decay > _NEGLIGIBLE:
        # S_2r(i) = S_r(i) + w^r S_r(i - r), so r doubles with each pass.
        total[reach:] += decay * total[:-reach]
        share[reach:] += decay * share[:-reach]
        reach, decay = 2 * reach, decay * decay
    result[finite] = total / share
    return result


def _adjust_curves(chart: Chart, wanted: ChartSettings) -> Chart:
    """Apply the settings of axes and smoothing to a chart of curves."""
    if chart.matrix is not None:
        return chart
    over_steps = is_over_steps(chart)
    x = _adjust_x_axis(chart, wanted, over_steps)
    y = _adjust_y_axis(replace(chart, x=x), wanted, narrowed=x is not chart.x)
    curves = chart.curves
    if wanted.smoothing and over_steps:
        curves = tuple(line for curve in curves for line in _smooth_curve(curve, wanted.smoothing))
    title = chart.title
    if y.log != chart.y.log:  # the title says so
        title = title.removesuffix(LOG) + (LOG if y.log else "")
    return replace(chart, x=x, y=y, curves=curves, title=title)


def _adjust_x_axis(chart: Chart, wanted: ChartSettings, over_steps: bool) -> Axis:
    axis = chart.x
    low, high = chart_range(chart)[0]
    if wanted.last and over_steps and low < high - wanted.last:
        low = high - wanted.last
        axis = replace(axis, limits=(low, high))
    if wanted.log_x and not axis.log and has_positive(chart, "x"):
        positive = [float(c.x[c.x > 0].min()) for c in chart.curves if (c.x > 0).any()]
        low = max(low, min(positive))
        axis = replace(axis, log=True, limits=(low, high if high > low else 2 * low))
    return axis


def _adjust_y_axis(chart: Chart, wanted: ChartSettings, narrowed: bool) -> Axis:
    """Return the y axis, fitted to the visible curves where not all of x is shown."""
    axis = chart.y
    log = axis.log if wanted.log_y is None else wanted.log_y and has_positive(chart, "y")
    if wanted.y_range is not None and (wanted.y_range[0] > 0 or not log):
        return replace(axis, log=log, limits=wanted.y_range)
    if log == axis.log and not narrowed:
        return axis
    axis = replace(axis, log=log, limits=None)
    low, high = chart_range(chart)[0]
    visible = tuple(_clip_curve(curve, low, high) for curve in chart.curves)
    if axis.by_span and wanted.log_y is None:  # choose again for what is in view
        axis = spanning_axis(visible)
    return replace(axis, limits=chart_range(replace(chart, y=axis, curves=visible))[1])


def _clip_curve(curve: Curve, low: float, high: float) -> Curve:
    inside = (curve.x >= low) & (curve.x <= high)
    return replace(curve, x=curve.x[inside], y=curve.y[inside])


def _smooth_curve(curve: Curve, weight: float) -> tuple[Curve, ...]:
    """Return the raw values, pale, and the smoothed line over them."""
    if curve.x.size < _LEAST_POINTS:
        return (curve,)
    raw = replace(curve, thick=False, marker=False, faint=True)
    line = replace(
        curve, y=smooth_values(curve.y, weight), thick=True, marker=False, smoothed=weight
    )
    return raw, line
