"""What the user set for single charts, and the scene as it is shown with that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dgn_engine.scene.axes import LOG, Range, chart_range, spanning_axis
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Scene
from dgn_engine.scene.matrix_colours import ColourChoice, coloured
from dgn_engine.scene.matrix_difference import DrawnWith, Subtrahend, as_it_is, subtracted
from dgn_engine.text.written_numbers import number

_NEGLIGIBLE = 1e-18  # a weight of the past that changes no double
_LEAST_POINTS = 3  # of a curve that is smoothed


@dataclass(frozen=True)
class ChartSettings:
    """One chart's settings; the defaults leave it as its panel draws it.

    `last`: steps shown at the end of a time axis, 0 for all; `smoothing`: weight of the past in
    [0, 1); `log_y`: None leaves it to the panel.
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


def adjusted(
    scene: Scene, settings: Mapping[str, ChartSettings], drawn_with: DrawnWith = as_it_is
) -> Scene:
    """The scene as it is shown and exported with these settings (by chart key).

    Curves keep their raw values: a smoothed line is one curve more, marked as such. The note begins
    with what is not as the panel draws it: the end of a long one is cut on the screen.
    """
    wanted = {
        chart.key: settings[chart.key]
        for chart in scene.charts
        if not chart.small and settings.get(chart.key, PLAIN) != PLAIN
    }
    if not wanted:
        return scene
    minus = {key: one.minus for key, one in wanted.items() if one.minus is not None}
    charts, said = subtracted(scene.charts, minus, drawn_with)
    charts, painted = coloured(charts, {key: one.colours for key, one in wanted.items()})
    charts = tuple(
        _curved(chart, wanted[chart.key]) if chart.key in wanted else chart for chart in charts
    )
    weights = {c.smoothed: "" for chart in charts for c in chart.curves if c.smoothed}
    smooth = (f"Lines smoothed {number(one)}; pale lines and numbers are raw." for one in weights)
    note = " ".join(dict.fromkeys(filter(None, (*said, *smooth, *painted, scene.note))))
    return replace(scene, charts=charts, note=note)


def is_over_steps(chart: Chart) -> bool:
    return chart.matrix is None and chart.x.label == "step"


def has_positive(chart: Chart, which: str) -> bool:
    """Whether a logarithmic axis x or y has anything to show."""
    return any(bool((getattr(curve, which) > 0).any()) for curve in chart.curves)


def smoothed(values: Array, weight: float) -> Array:
    """The exponential moving average s_i = w s_(i-1) + (1 - w) v_i over 1 - w^i, from s_0 = 0.

    The division takes out the bias of the start, as TensorBoard does it. Values that are not
    finite stay where they are and are passed over. A sum of twice the length is made of two.
    """
    found = np.array(values, dtype=np.float64)
    finite = np.isfinite(found)
    total = found[finite]
    share = np.ones_like(total)
    reach, decay = 1, weight
    while reach < total.size and decay > _NEGLIGIBLE:
        total[reach:] += decay * total[:-reach]
        share[reach:] += decay * share[:-reach]
        reach, decay = 2 * reach, decay * decay
    found[finite] = total / share
    return found


def _curved(chart: Chart, wanted: ChartSettings) -> Chart:
    """The chart with its axes and its smoothed lines."""
    if chart.matrix is not None:
        return chart
    over_steps = is_over_steps(chart)
    x = _across(chart, wanted, over_steps)
    y = _along(replace(chart, x=x), wanted, narrowed=x is not chart.x)
    curves = chart.curves
    if wanted.smoothing and over_steps:
        curves = tuple(line for curve in curves for line in _smooth(curve, wanted.smoothing))
    title = chart.title
    if y.log != chart.y.log:  # it says so
        title = title.removesuffix(LOG) + (LOG if y.log else "")
    return replace(chart, x=x, y=y, curves=curves, title=title)


def _across(chart: Chart, wanted: ChartSettings, over_steps: bool) -> Axis:
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


def _along(chart: Chart, wanted: ChartSettings, narrowed: bool) -> Axis:
    """The y axis; it reaches as far as what is visible does, where less than all of x is shown."""
    axis = chart.y
    log = axis.log if wanted.log_y is None else wanted.log_y and has_positive(chart, "y")
    if wanted.y_range is not None and (wanted.y_range[0] > 0 or not log):
        return replace(axis, log=log, limits=wanted.y_range)
    if log == axis.log and not narrowed:
        return axis
    axis = replace(axis, log=log, limits=None)
    low, high = chart_range(chart)[0]
    seen = tuple(_within(curve, low, high) for curve in chart.curves)
    if axis.by_span and wanted.log_y is None:  # by what is in view
        axis = spanning_axis(seen)
    return replace(axis, limits=chart_range(replace(chart, y=axis, curves=seen))[1])


def _within(curve: Curve, low: float, high: float) -> Curve:
    inside = (curve.x >= low) & (curve.x <= high)
    return replace(curve, x=curve.x[inside], y=curve.y[inside])


def _smooth(curve: Curve, weight: float) -> tuple[Curve, ...]:
    """The raw values, pale, and the smoothed line over them."""
    if curve.x.size < _LEAST_POINTS:
        return (curve,)
    raw = replace(curve, thick=False, marker=False, faint=True)
    line = replace(curve, y=smoothed(curve.y, weight), thick=True, marker=False, smoothed=weight)
    return raw, line
