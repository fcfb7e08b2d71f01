"""Draws a scene as a matplotlib figure, light on white, ready to be printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from dgn_viewer.figures.provenance import Provenance
from dgn_viewer.scene.axes import Range, chart_range, thinned
from dgn_viewer.scene.chart_layout import Box, ChartPlace, Margins, arrange, spread
from dgn_viewer.scene.elements import Axis, Chart, Curve, Matrix, Ramp, Scene
from dgn_viewer.scene.mark_labels import mark_names
from dgn_viewer.scene.ticks import Tick, axis_label, axis_ticks, bar_ticks, spaced
from dgn_viewer.scene.typeset import plain
from dgn_viewer.style import ramps
from dgn_viewer.style.theme import LIGHT

WIDTH = 504.0  # points: 7 inches, the text width of a page
PAPER = "#FFFFFF"
TITLE, LABEL, SMALL = 9.0, 7.5, 6.5  # type sizes in points
_EDGE = 8.0
_LETTER = 0.56  # mean width of a letter as a share of its size
_BAR = 6.0
_POINTS = 4000  # of a curve on paper; exported numbers hold all of them
_DASHES = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1, 1.5)), "dashdot": "-."}


@contextmanager
def print_style() -> Iterator[None]:
    """Fonts that stay text: embedded as TrueType in PDF, as letters in SVG."""
    settings: Any = {
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
        "svg.hashsalt": "dgn-viewer",
        "font.family": "DejaVu Sans",
        "mathtext.fontset": "dejavusans",
        "hatch.linewidth": 0.5,
        "path.simplify": False,
    }
    with rc_context(settings):
        yield


def draw_figure(scene: Scene, context: Provenance) -> Figure:
    """The figure of a scene; call inside `print_style`, in which it has to be saved as well."""
    lines = _caption(scene, context)
    below = len(lines) * (SMALL + 3.0) + 6.0
    rows = {chart.row for chart in scene.charts}
    low = {chart.row for chart in scene.charts if chart.small}
    inner = 190.0 * max(len(rows - low), 1) + 70.0 * len(low)
    height = inner + below + 2 * _EDGE
    figure = Figure(figsize=(WIDTH / 72.0, height / 72.0), facecolor=PAPER)
    margins = {chart.key: _margins(chart) for chart in scene.charts}
    places = arrange(scene.charts, margins, WIDTH - 2 * _EDGE, inner)
    page = _Page(figure, height)
    for chart in scene.charts:
        _draw_chart(page, chart, places[chart.key])
    for index, line in enumerate(lines):
        y = height - below - _EDGE + 4.0 + (index + 1) * (SMALL + 3.0)
        page.text(_EDGE, y, line, SMALL, LIGHT.muted)
    return figure


class _Page:
    """A figure measured in points from its left top corner, as scenes are arranged."""

    def __init__(self, figure: Figure, height: float) -> None:
        self.figure = figure
        self.height = height

    def axes(self, box: Box) -> Axes:
        """Axes whose data area is this box."""
        share = (
            (box.x + _EDGE) / WIDTH,
            1.0 - (box.y + _EDGE + box.height) / self.height,
            box.width / WIDTH,
            box.height / self.height,
        )
        axes = self.figure.add_axes(share)
        axes.tick_params(length=0, pad=3, labelsize=LABEL, labelcolor=LIGHT.muted)
        for spine in axes.spines.values():
            spine.set_color("#9AA1AC")
            spine.set_linewidth(0.5)
        return axes

    def text(self, x: float, y: float, words: str, size: float, colour: str, **more: str) -> None:
        """Words on the page, their base line at y."""
        self.figure.text(x / WIDTH, 1.0 - y / self.height, words, size=size, color=colour, **more)  # type: ignore[arg-type]  # matplotlib's Text properties


def _caption(scene: Scene, context: Provenance) -> list[str]:
    facts = ", ".join(f"{fact.name} = {fact.value}" for fact in scene.facts)
    lines = [context.caption, facts, scene.note]
    return [line for line in lines if line]


def _wide(words: str, size: float = LABEL) -> float:
    return len(plain(words)) * size * _LETTER


def _drawn(chart: Chart) -> tuple[Range, Range]:
    """What the chart shows, in drawn coordinates (powers of ten on logarithmic axes)."""
    x, y = chart_range(chart)
    return _powers(x, chart.x), _powers(y, chart.y)


def _powers(reach: Range, axis: Axis) -> Range:
    return (float(np.log10(reach[0])), float(np.log10(reach[1]))) if axis.log else reach


def _margins(chart: Chart) -> Margins:
    if chart.small:
        return Margins(1.0, LABEL + 5.0, 1.0, 3.0)
    x, y = _drawn(chart)
    left = max((_wide(text) for _, text in axis_ticks(chart.y, y, 5)), default=0.0) + 5.0
    left += LABEL + 4.0 if chart.y.label else 0.0
    top = TITLE + 7.0 + (LABEL + 3.0 if chart.marks else 0.0)
    bottom = (LABEL + 5.0 if axis_ticks(chart.x, x, 5) else 3.0) + (LABEL + 4.0)
    right = 6.0
    if chart.matrix is not None and chart.matrix.bar:
        ticks = max((_wide(text) for _, text in bar_ticks(chart)), default=0.0)
        right += 4.0 + _BAR + 4.0 + ticks + 4.0 + LABEL
    names = [curve.name for curve in chart.curves if curve.name]
    if names:
        right += max(_wide(name) for name in names) + 4.0
    return Margins(left, top, right, bottom)


def _draw_chart(page: _Page, chart: Chart, place: ChartPlace) -> None:
    box, room = place.box, place.room
    axes = page.axes(box)
    axes.set_gid(chart.key)
    size = LABEL if chart.small else TITLE
    top = box.y + _EDGE - room.top + size + (1.0 if not chart.small else 2.0)
    weight = "normal" if chart.small else "bold"
    page.text(box.x + _EDGE, top, chart.title, size, LIGHT.text, weight=weight)
    if chart.matrix is not None:
        _draw_matrix(page, axes, chart, chart.matrix, box)
    else:
        _draw_curves(axes, chart, box)
    _set_axes(axes, chart, box)
    _draw_marks(axes, chart, box)


def _colours(ramp: Ramp) -> ListedColormap:
    table = ramps.table(ramp, LIGHT)[: ramps.EMPTY, :3] / 255.0
    return ListedColormap(table.tolist(), name=f"dgn-{ramp}")  # NaN is transparent


def _draw_matrix(page: _Page, axes: Axes, chart: Chart, matrix: Matrix, box: Box) -> None:
    colours = _colours(matrix.ramp)
    axes.imshow(
        np.ma.masked_invalid(matrix.values.astype(np.float64)),
        cmap=colours,
        vmin=matrix.low,
        vmax=matrix.high,
        interpolation="none",
        aspect="auto",
    )
    if not chart.small:
        for value in chart.y.lines:
            axes.axhline(value, color=PAPER, linewidth=0.5)
        for value in chart.x.lines:
            axes.axvline(value, color=PAPER, linewidth=0.5)
    for column in matrix.dead_columns:
        axes.axvspan(
            column - 0.5, column + 0.5, facecolor="none", edgecolor=LIGHT.muted,
            hatch="//////", linewidth=0.0,
        )  # fmt: skip
    if not matrix.bar or chart.small:
        return
    bar = page.axes(Box(box.x + box.width + 6.0, box.y, _BAR, box.height))
    bar.set_gid(f"{chart.key}.bar")
    bar.imshow(
        np.linspace(1.0, 0.0, ramps.EMPTY)[:, None], cmap=colours, interpolation="none",
        aspect="auto", extent=(0.0, 1.0, matrix.low, matrix.high),
    )  # fmt: skip
    bar.xaxis.set_major_locator(NullLocator())
    bar.yaxis.tick_right()
    _fix_ticks(bar, "y", bar_ticks(chart))
    bar.yaxis.set_label_position("right")
    bar.set_ylabel(matrix.bar, size=LABEL, color=LIGHT.muted, labelpad=3)


def _draw_curves(axes: Axes, chart: Chart, box: Box) -> None:
    for curve in chart.curves:
        x, y = thinned(curve.x, curve.y, -np.inf, np.inf, _POINTS)
        axes.plot(
            x,
            y,
            color=LIGHT.role(curve.role),
            linestyle=_DASHES[curve.dash],
            linewidth=1.4 if curve.thick else 0.8,
            marker="o" if curve.marker else None,
            markersize=2.0,
            gid=f"{chart.key}.{plain(curve.name) or 'curve'}",
        )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=LIGHT.line, linewidth=0.4)
    axes.set_axisbelow(True)


def _set_axes(axes: Axes, chart: Chart, box: Box) -> None:
    if chart.small:
        axes.xaxis.set_major_locator(NullLocator())
        axes.yaxis.set_major_locator(NullLocator())
        return
    x, y = _drawn(chart)
    if chart.matrix is None:
        for which, axis, reach in (("x", chart.x, x), ("y", chart.y, y)):
            if axis.log:
                getattr(axes, f"set_{which}scale")("log")
            low, high = (10.0 ** reach[0], 10.0 ** reach[1]) if axis.log else reach
            getattr(axes, f"set_{which}lim")(low, high)
        _draw_ends(axes, chart, y, box)
    columns = axis_ticks(chart.x, x, max(2, min(5, int(box.width / 40))))
    places = [(value - x[0]) / (x[1] - x[0]) * box.width for value, _ in columns]
    kept = spaced(columns, places, [_wide(text) / 2 + 1.5 for _, text in columns])
    _fix_ticks(axes, "x", [columns[index] for index in kept], chart.x.log)
    rows = axis_ticks(chart.y, y, 5 if box.height > 70 else 3)
    places = [(value - y[0]) / (y[1] - y[0]) * box.height for value, _ in rows]
    kept = spaced(rows, places, [LABEL * 0.6] * len(rows))
    _fix_ticks(axes, "y", [rows[index] for index in kept], chart.y.log)
    axes.set_xlabel(axis_label(chart.x), size=LABEL, color=LIGHT.muted, labelpad=2)
    axes.set_ylabel(axis_label(chart.y), size=LABEL, color=LIGHT.muted, labelpad=2)


def _fix_ticks(
    axes: Axes, which: str, ticks: list[Tick] | tuple[Tick, ...], log: bool = False
) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    places = [10.0**value if log else value for value, _ in ticks]
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([text for _, text in ticks])


def _draw_marks(axes: Axes, chart: Chart, box: Box) -> None:
    """Upright dashed lines, named above the frame."""
    (low, high), _ = _drawn(chart)
    span = (high - low) or 1.0
    marks = [mark for mark in chart.marks if low <= mark.x <= high]
    for mark in marks:
        axes.axvline(mark.x, color=LIGHT.muted, linewidth=0.6, linestyle=(0, (3, 2)))
    inside = [((mark.x - low) / span * box.width, mark.label) for mark in marks]
    for name in mark_names(inside, _wide, box.width):
        place = (name.left / box.width, 1.0 + 4.0 / box.height)
        axes.text(
            *place, name.text, transform=axes.transAxes, size=LABEL, color=LIGHT.text
        )  # fmt: skip


def _draw_ends(axes: Axes, chart: Chart, y: Range, box: Box) -> None:
    """Names of curves at the right of the frame instead of a legend."""
    ends: list[tuple[Curve, float]] = []
    for curve in chart.curves:
        finite = curve.y[np.isfinite(curve.y)]
        if not curve.name or finite.size == 0 or (chart.y.log and finite[-1] <= 0):
            continue
        value = float(np.log10(finite[-1])) if chart.y.log else float(finite[-1])
        if y[0] <= value <= y[1]:
            ends.append((curve, (value - y[0]) / (y[1] - y[0]) * box.height))
    if not ends:
        return
    places = spread([place for _, place in ends], LABEL + 2.0, LABEL / 2, box.height - LABEL / 2)
    for (curve, _), place in zip(ends, places, strict=True):
        axes.text(
            1.0 + 4.0 / box.width, place / box.height, curve.name, transform=axes.transAxes,
            size=LABEL, color=LIGHT.role(curve.role), va="center",
        )  # fmt: skip
