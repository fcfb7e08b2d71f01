"""Drawing of one chart of a scene on paper with matplotlib."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.ticker import FixedLocator, NullLocator

from dgn_engine.figures.chart_margins import BAR, KEY, ChartFit, drawn_range, x_ticks, y_ticks
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import FRAME, WHITE, Paper
from dgn_engine.figures.set_text import LINE, escape_dollars, shorten_text, width_of
from dgn_engine.scene import ramps
from dgn_engine.scene.axes import Range, thin_curve
from dgn_engine.scene.chart_layout import Box, ChartPlace, spread_labels
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Ramp
from dgn_engine.scene.mark_labels import mark_names
from dgn_engine.scene.scatter import is_scattered
from dgn_engine.scene.theme import LIGHT, PALE
from dgn_engine.scene.ticks import Tick, bar_ticks
from dgn_engine.scene.typeset import strip_markup

_POINTS = 4000  # maximum points of a curve on paper; exports have all
_FAINT = 0.4  # opacity of the raw values behind a smoothed line
_DASHES = {"solid": "-", "dash": (0, (4, 2)), "dot": (0, (1, 1.5)), "dashdot": "-."}

CORNER = 9.0  # points: size of the hatched corner of an estimate


def draw_chart(paper: Paper, name: str, chart: Chart, place: ChartPlace, fit: ChartFit) -> None:
    """Draw at a place measured from the top left; `name`: of its axes in the file."""
    box, style = place.box, paper.style
    axes = paper.make_axes(box, name)
    _draw_title(paper, chart, place, fit)
    if chart.matrix is not None:
        _draw_matrix(paper, axes, chart, chart.matrix, box, fit)
    else:
        _draw_curves(axes, chart)
    if chart.small:
        axes.xaxis.set_major_locator(NullLocator())
        axes.yaxis.set_major_locator(NullLocator())
        return
    _set_axes(axes, chart, box, fit, style)
    if fit.key:
        _draw_key(paper, chart, place, fit)
    _draw_marks(axes, chart, place, style)


def _draw_title(paper: Paper, chart: Chart, place: ChartPlace, fit: ChartFit) -> None:
    style, box = paper.style, place.box
    size = style.small_text_size if chart.small else style.text_size
    weight = "normal" if chart.small else "bold"
    left = box.x if chart.small else box.x - place.room.left
    if chart.chosen:
        weight = "bold"
    for index, line in enumerate(fit.title):
        y = box.y - place.room.top + size + index * size * LINE
        paper.add_text(left, y, line, size, LIGHT.text, weight=weight)


def _draw_key(paper: Paper, chart: Chart, place: ChartPlace, fit: ChartFit) -> None:
    """Draw curve names above the frame, each after a piece of its line.

    A row wider than the frame begins further left, at most where the title does.
    """
    box, room, small = place.box, place.room, paper.style.small_text_size
    curves = {curve.name: curve for curve in chart.curves if not curve.faint}
    most = room.left + box.width + room.right - KEY  # width of a name with a row of its own
    y = box.y - room.top + len(fit.title) * paper.style.text_size * LINE + small
    widest = max(sum(KEY + width_of(name, small) + 8.0 for name in row) - 8.0 for row in fit.key)
    left = min(box.x, max(box.x - room.left, box.x + box.width + room.right - widest))
    for row in fit.key:
        x = left
        for name in row:
            curve, height = curves[name], 1.0 - (y - small * 0.35) / paper.height
            ends = [x / paper.width, (x + KEY - 4.0) / paper.width]
            if is_scattered(curve):
                ends = [sum(ends) / 2] * 2
            paper.figure.add_artist(
                Line2D(ends, [height, height], **_line_style(curve))  # type: ignore[arg-type]  # as in axes.plot
            )
            paper.add_text(x + KEY, y, shorten_text(name, small, most), small, LIGHT.text)
            x += KEY + width_of(name, small) + 8.0
        y += small * LINE


def _make_colormap(ramp: Ramp) -> ListedColormap:
    table = ramps.rgba_table(ramp, LIGHT)[: ramps.EMPTY, :3] / 255.0
    return ListedColormap(table.tolist(), name=f"dgn-{ramp}")  # NaN is transparent


def _draw_matrix(
    paper: Paper, axes: Axes, chart: Chart, matrix: Matrix, box: Box, fit: ChartFit
) -> None:
    colours = _make_colormap(matrix.ramp)
    axes.imshow(
        np.ma.masked_invalid(matrix.values.astype(np.float64)),
        cmap=colours,
        vmin=matrix.low,
        vmax=matrix.high,
        interpolation="none",
        aspect="auto",
    )
    if matrix.tile is not None:  # the gaps between tiles would cut the frame
        for spine in axes.spines.values():
            spine.set_visible(False)
    if not chart.small:
        for value in chart.y.lines:
            axes.axhline(value, color=WHITE, linewidth=0.5)
        for value in chart.x.lines:
            axes.axvline(value, color=WHITE, linewidth=0.5)
    for column in matrix.dead_columns:
        axes.axvspan(
            column - 0.5,
            column + 0.5,
            facecolor="none",
            edgecolor=LIGHT.muted,
            hatch="//////",
            linewidth=0.0,
        )
    if matrix.estimated:
        wide, high = (min(CORNER / side, 1 / 3) for side in (box.width, box.height))
        corners = ((1.0 - wide, 1.0), (1.0, 1.0), (1.0, 1.0 - high))
        axes.add_patch(
            Polygon(
                corners,
                transform=axes.transAxes,
                facecolor=WHITE,
                edgecolor=LIGHT.muted,
                hatch="//////",
                linewidth=0.5,
                zorder=4,
                gid=f"{axes.get_gid()}.estimated",
            )
        )
    if not matrix.bar or chart.small:
        return
    style = paper.style
    below, above = (BAR if beyond else 0.0 for beyond in matrix.beyond)
    tall = box.height - below - above
    room = Box(box.x + box.width + 6.0, box.y + above, BAR, tall)
    bar = paper.make_axes(room, f"{axes.get_gid()}.bar")
    for size, base, tip, value in ((above, 1.0, 1.0, 1.0), (below, 0.0, -1.0, 0.0)):
        if size:  # there are values beyond this end
            corners = ((0.0, base), (1.0, base), (0.5, base + tip * size / tall))
            bar.add_patch(
                Polygon(
                    corners,
                    transform=bar.transAxes,
                    clip_on=False,
                    linewidth=0.5,
                    facecolor=colours(value),
                    edgecolor=FRAME,
                )
            )
    bar.imshow(
        np.linspace(1.0, 0.0, ramps.EMPTY)[:, None],
        cmap=colours,
        interpolation="none",
        aspect="auto",
        extent=(0.0, 1.0, matrix.low, matrix.high),
    )
    bar.xaxis.set_major_locator(NullLocator())
    bar.yaxis.tick_right()
    _fix_ticks(bar, "y", bar_ticks(chart))
    bar.yaxis.set_label_position("right")
    bar.set_ylabel(
        "\n".join(map(escape_dollars, fit.bar)), size=style.text_size, color=LIGHT.muted, labelpad=2
    )


def _line_style(curve: Curve) -> dict[str, object]:
    return {
        "color": LIGHT.role_colour(curve.role),
        "alpha": _FAINT if curve.faint else None,
        "linestyle": _DASHES[curve.dash],
        "linewidth": 1.4 if curve.thick else 0.8,
        "marker": "o" if curve.marker else None,
        "markersize": (3.0 if curve.thick else 2.0) + (2.5 if curve.ring else 0.0),
        "markerfacecolor": "none" if curve.ring else LIGHT.role_colour(curve.role),
    }


def _draw_curves(axes: Axes, chart: Chart) -> None:
    for index, curve in enumerate(chart.curves):
        x, y = curve.x, curve.y
        if not curve.segments:
            x, y = thin_curve(x, y, -np.inf, np.inf, _POINTS, chart.x.log)
        name = f"{axes.get_gid()}.{strip_markup(curve.name) or f'curve {index}'}"
        name += ".smoothed" if curve.smoothed else ""
        if curve.filled:
            axes.fill(x, y, color=LIGHT.role_colour(curve.role), alpha=PALE, linewidth=0, gid=name)
            continue
        if chart.y.log:
            y = np.where(y > 0, y, np.nan)  # a gap, as on screen
        axes.plot(x, y, **_line_style(curve), gid=name)  # type: ignore[arg-type]  # matplotlib's Line2D properties
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=LIGHT.line, linewidth=0.4)
    axes.set_axisbelow(True)


def _set_axes(axes: Axes, chart: Chart, box: Box, fit: ChartFit, style: FigureStyle) -> None:
    x, y = drawn_range(chart)
    if chart.matrix is None:
        for which, axis, reach in (("x", chart.x, x), ("y", chart.y, y)):
            if axis.log:
                getattr(axes, f"set_{which}scale")("log")
            low, high = (10.0 ** reach[0], 10.0 ** reach[1]) if axis.log else reach
            getattr(axes, f"set_{which}lim")(low, high)
        if not fit.key:
            _draw_ends(axes, chart, y, box, style)
    _fix_ticks(axes, "x", x_ticks(chart, box, style, fit.turned), chart.x.log)
    if fit.turned:
        axes.tick_params(axis="x", labelrotation=90)
    _fix_ticks(axes, "y", y_ticks(chart, box, style), chart.y.log)
    axes.set_xlabel(
        escape_dollars(fit.x_label), size=style.text_size, color=LIGHT.muted, labelpad=2
    )
    axes.set_ylabel(
        "\n".join(map(escape_dollars, fit.y_label)),
        size=style.text_size,
        color=LIGHT.muted,
        labelpad=2,
    )


def _fix_ticks(
    axes: Axes, which: str, ticks: list[Tick] | tuple[Tick, ...], log: bool = False
) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    places = [10.0**value if log else value for value, _ in ticks]
    axis.set_major_locator(FixedLocator(places))
    axis.set_minor_locator(NullLocator())
    axis.set_ticklabels([escape_dollars(text) for _, text in ticks])


def _draw_marks(axes: Axes, chart: Chart, place: ChartPlace, style: FigureStyle) -> None:
    """Draw upright lines, each named once in the lane of events below."""
    (low, high), _ = drawn_range(chart)
    span = (high - low) or 1.0
    placed = [(_drawn_x(mark.x, chart.x), mark) for mark in chart.marks]
    marks = [(x, mark) for x, mark in placed if low <= x <= high]
    for _, mark in marks:
        axes.axvline(mark.x, color=LIGHT.muted, linewidth=0.6, linestyle=(0, (3, 2)))
    if chart.cursor is not None and low <= _drawn_x(chart.cursor, chart.x) <= high:
        axes.axvline(chart.cursor, color=LIGHT.accent, linewidth=0.9)
    for step in chart.delta:
        if low <= _drawn_x(step, chart.x) <= high:
            axes.axvline(
                step, color=LIGHT.text, linewidth=0.7, linestyle=(0, (5, 2)), clip_on=False
            )  # visible even at an end of the axis
    box, room = place.box, place.room
    if not room.lane:
        return
    inside = [((x - low) / span * box.width, mark.label) for x, mark in marks]
    end = box.width
    for name in mark_names(inside, lambda text: width_of(text, style.small_text_size), box.width):
        text = shorten_text(
            name.text, style.small_text_size, end - name.left
        )  # joined names may be too wide
        end = name.left - 4.0
        axes.text(
            name.left / box.width,
            (3.0 - room.bottom) / box.height,
            escape_dollars(text),
            transform=axes.transAxes,
            size=style.small_text_size,
            color=LIGHT.text,
            gid=f"{axes.get_gid()}.event",
        )


def _drawn_x(x: float, axis: Axis) -> float:
    """Return a position on the axis as drawn; NaN if a logarithmic axis has none for it."""
    if not axis.log:
        return x
    return float(np.log10(x)) if x > 0 else float("nan")


def _draw_ends(axes: Axes, chart: Chart, y: Range, box: Box, style: FigureStyle) -> None:
    """Name the curves at the right of the frame instead of in a legend."""
    ends: list[tuple[Curve, float]] = []
    for curve in chart.curves:
        finite = curve.y[np.isfinite(curve.y) & ((curve.y > 0) | (not chart.y.log))]
        if not curve.name or curve.faint or finite.size == 0:
            continue
        value = float(np.log10(finite[-1])) if chart.y.log else float(finite[-1])
        if y[0] <= value <= y[1]:
            ends.append((curve, (value - y[0]) / (y[1] - y[0]) * box.height))
    if not ends:
        return
    half = style.small_text_size / 2
    positions = spread_labels(
        [position for _, position in ends], style.small_text_size * LINE, half, box.height - half
    )
    for (curve, _), position in zip(ends, positions, strict=True):
        axes.text(
            1.0 + 4.0 / box.width,
            position / box.height,
            escape_dollars(curve.name),
            transform=axes.transAxes,
            size=style.small_text_size,
            color=LIGHT.role_colour(curve.role),
            va="center",
        )
