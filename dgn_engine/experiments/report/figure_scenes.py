"""Convert figures of results to scenes, which the window and reports draw like any panel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dgn_engine.experiments.report.formatting import series_of
from dgn_engine.experiments.report.mathematics import typeset
from dgn_engine.protocol.experiments import Figure, PlottedLine
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Dash, Matrix, Role, Scene
from dgn_engine.scene.matrix_colours import Span, span_range, with_colour_range
from dgn_engine.scene.scatter import scatter_curve
from dgn_engine.scene.typeset import strip_markup
from dgn_engine.text.written_numbers import format_number

_FEW = 12  # lines with at most this many points get markers
_ROOM = 0.06  # vertical margin, as a share of the range of values
_ASIDE = 0.02  # horizontal margin if there are markers
_TICKS = 6
_SHORT = 32  # maximum length of a name in which mathematics is typeset
_LONG = 20  # longer names are put into a legend instead of next to the curve
_FAR_DOWN = 1e-9  # factor that replaces nonpositive values on logarithmic axes
_COLOURS: Span = "middle_98"  # colour range of images
BOX, CLOUD = 0.36, 0.11  # half-widths of a box and of a cloud; categories are 1 apart
_REACH = 0.42  # half-width of the marks of a category; the next category starts at 0.5
_APART = 0.28  # maximum distance between two marks of a category
_GOLDEN = (math.sqrt(5) - 1) / 2
_PRINTED: tuple[Dash, ...] = ("dot", "dashdot", "dash")
_WHISKER = 1.5  # interquartile ranges


class BoxPlot(NamedTuple):
    """The quartiles of the values at one x, with Tukey's whiskers.

    Whiskers extend to the furthest value within 1.5 interquartile ranges of the box.
    """

    at: float
    low: float
    first: float
    median: float
    third: float
    high: float


def scene_of(figures: tuple[Figure, ...]) -> Scene:
    return Scene(tuple(_figure_chart(figure, row) for row, figure in enumerate(figures)))


def _figure_chart(figure: Figure, row: int) -> Chart:
    if figure.image:
        return _picture_chart(figure, row)
    curves = tuple(_with_own_names(figure, _all_curves(figure)))
    named = [curve for curve in curves if curve.name]
    alike = len({curve.role for curve in named}) < len(named)  # only their dashes differ
    crowded = alike or any(len(strip_markup(curve.name)) > _LONG for curve in named)
    return Chart(
        key=figure.name,
        title=typeset(figure.title),
        x=_x_axis(figure),
        y=Axis(typeset(figure.y), log=figure.log_y, limits=_y_limits(figure)),
        curves=curves,
        row=row,
        named_above=bool(figure.categories) or crowded,
    )


def _with_own_names(figure: Figure, curves: Iterable[Curve]) -> Iterator[Curve]:
    """Make names unique: shared annotations are named once, repeated labels are numbered."""
    shared = {"median"}
    for line in figure.lines:
        if partner_of(figure, line) is not None:
            shared.add(_typeset_short(line.label.partition(", ")[0]))
    counts: Counter[str] = Counter()
    for curve in curves:
        name = curve.name
        counts[name] += 1
        if not name or counts[name] == 1:
            yield curve
        elif name in shared:
            yield replace(curve, name="")
        else:
            yield replace(curve, name=f"{name} ({counts[name]})")


def _picture_chart(figure: Figure, row: int) -> Chart:
    """Return a chart of an image, coloured from its 1st to its 99th percentile."""
    values = np.asarray(figure.image, dtype=np.float64)
    labels = tuple(
        f"{row or figure.title}, {figure.x} {column}".strip()
        for row in figure.rows or ("",)
        for column in figure.columns
    )
    matrix = Matrix(
        figure.name,
        values,
        "sequential",
        0.0,
        1.0,
        bar=typeset(figure.scale),
        row_labels=labels,
        tile=_tile_size(figure, values.shape),
    )
    reach = span_range([values], _COLOURS)
    return Chart(
        key=figure.name,
        title=typeset(figure.title),
        x=_tile_axis(figure.x, figure.columns, values.shape[1]),
        y=_tile_axis(figure.y, figure.rows, values.shape[0]),
        matrix=matrix if reach is None else with_colour_range(matrix, *reach),
        row=row,
        square=True,
    )


def _tile_size(figure: Figure, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return (rows, columns) of a tile in pixels; None if the image is not a montage."""
    if not (figure.rows or figure.columns):
        return None
    high, wide = (
        (pixels + 1) // max(len(names), 1) - 1
        for pixels, names in zip(shape, (figure.rows, figure.columns), strict=True)
    )
    return high, wide


def _tile_axis(label: str, names: Sequence[str], pixels: int) -> Axis:
    """Return an axis that labels rows or columns of tiles, which are one pixel apart."""
    pitch = (pixels + 1) / max(len(names), 1)
    ticks = tuple(((index + 0.5) * pitch - 1.0, typeset(name)) for index, name in enumerate(names))
    return Axis(typeset(label), limits=(-0.5, pixels - 0.5), ticks=ticks)


def _x_axis(figure: Figure) -> Axis:
    count = len(figure.categories)
    if not count:
        ticks, limits = _own_ticks(figure), _x_limits(figure)
        return Axis(typeset(figure.x), log=figure.log_x, ticks=ticks, limits=limits)
    ticks = tuple((float(at), _typeset_short(name)) for at, name in enumerate(figure.categories))
    return Axis(typeset(figure.x), limits=(-0.5, count - 0.5), ticks=ticks, places=True)


def _own_ticks(figure: Figure) -> tuple[tuple[float, str], ...] | None:
    """Return a tick for each x if these are a few integers, such as widths, else None.

    Many integers in a short range, such as layers, have ticks at integers only.
    """
    values = sorted({value for line in figure.lines for value in line.x})
    if not all(map(math.isfinite, values)) or (figure.log_x and values and values[0] <= 0):
        return None
    if len(values) < 2 or not all(value == round(value) for value in values):
        return None
    if len(values) > _TICKS:
        span = values[-1] - values[0]
        step = next((step for step in (1, 2, 5) if span <= step * _TICKS), 0)
        if figure.log_x or not step:
            return None
        values = [
            value for value in range(int(values[0]), int(values[-1]) + 1) if value % step == 0
        ]
    return tuple((float(value), format_number(value)) for value in values)


def _x_limits(figure: Figure) -> tuple[float, float] | None:
    """Return limits with room for markers at both ends; None if there are no markers."""
    marked = any(line.x and (len(line.x) <= _FEW or _is_bare(line)) for line in figure.lines)
    values = [value for line in figure.lines for value in line.x if math.isfinite(value)]
    values = [value for value in values if value > 0 or not figure.log_x]
    if not marked or not values:
        return None
    low, high = min(values), max(values)
    box = BOX if any(line.style == "boxes" for line in figure.lines) else 0.0
    if figure.log_x:
        room = (high / low) ** _ASIDE if high > low else 2.0
        return low / room, high * room
    room = _ASIDE * (high - low) or 0.1 * abs(low) or 0.5
    return low - room - box, high + room + box


def _is_bare(line: PlottedLine) -> bool:
    """Return whether the points are drawn without a line between them."""
    return line.style in ("points", "cloud") or len(line.x) < 2


def _typeset_short(name: str) -> str:
    """Typeset the mathematics of a name, unless it is long: only plain text can be truncated."""
    return typeset(name) if len(name) <= _SHORT else name.replace("$", r"\$")


def _y_limits(figure: Figure) -> tuple[float, float] | None:
    """Return limits of the y axis within the bounds of the quantity; None: automatic.

    On a linear axis, the outer 5 % of the band of a long line are ignored, as one wide interval
    would flatten all curves.
    """
    log = figure.log_y
    shown = np.array([value for line in figure.lines for value in _shown_values(line, log)])
    shown = np.clip(shown[np.isfinite(shown) & ((shown > 0) | (not log))], *value_limits(figure))
    if not shown.size:
        return None
    shown = np.log10(shown) if log else shown
    low, high = float(shown.min()), float(shown.max())
    room = _ROOM * (high - low) or (0.1 if log else 0.05 * abs(low) or 0.5)
    if log:
        return 10.0 ** (low - room), 10.0 ** (high + room)
    least, most = value_limits(figure)
    if low >= 0.0:
        least = max(least, 0.0)  # no drawn value is negative
    if any(most in line.y for line in figure.lines):
        most += _ASIDE * (high - low)  # half a marker at 100 %
    return max(low - room, least), min(high + room, most)


def _shown_values(line: PlottedLine, log: bool) -> list[float]:
    if not line.x:
        return list(line.y[-1:])
    ends = np.ravel(_interval_ends(line)) if line.spread else np.empty(0)
    edges = ends[np.isfinite(ends) & ((ends > 0) | (not log))].tolist()
    if line.style == "line" and not line.log and len(line.y) > _FEW and edges:
        edges = [float(edge) for edge in np.quantile(edges, (0.05, 0.95))]
    return [*line.y, *edges]


def _interval_ends(line: PlottedLine) -> tuple[Array, Array]:
    """Return the lower and upper end of the interval at each point."""
    y, half = np.asarray(line.y, dtype=np.float64), np.asarray(line.spread, dtype=np.float64)
    if not line.log:
        return y - half, y + half
    with np.errstate(over="ignore"):  # an infinite end is not drawn
        factor = 10.0**half
        return y / factor, y * factor


def _all_curves(figure: Figure) -> Iterator[Curve]:
    reach = [value for line in figure.lines for value in line.x if math.isfinite(value)]
    ends = (min(reach), max(reach)) if reach else (0.0, 1.0)
    if figure.categories:
        ends = (-0.5, len(figure.categories) - 0.5)
    drawn = zip(figure.lines, drawn_positions(figure), line_looks(figure), strict=True)
    # The name that partners share comes last in the key.
    for line, x, look in sorted(drawn, key=lambda item: partner_of(figure, item[0]) is not None):
        role, dash = look
        if partner_of(figure, line) is not None:
            line = replace(line, label=line.label.partition(", ")[0])
        if line.style == "boxes":
            yield from _box_curves(box_plots(line), role)
        elif not line.x:
            level = np.full(2, line.y[-1] if line.y else math.nan)
            across = dash if line.style == "printed" else "dash"
            yield Curve(_typeset_short(line.label), np.array(ends), level, role=role, dash=across)
        elif figure.categories or _is_bare(line):
            yield from _point_curves(line, x, role, figure.log_y)
        else:
            yield from _line_curves(line, look, figure.log_y)


def _line_curves(line: PlottedLine, look: tuple[Role, Dash], log: bool) -> Iterator[Curve]:
    """Yield the bands of a line's spread, and its curve."""
    role, dash = look
    x, y = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    if line.spread:
        yield from _band_curves(x, *_interval_ends(line), role, log)
    thick = line.style == "line"
    marked = x.size <= _FEW
    yield Curve(_typeset_short(line.label), x, y, role=role, dash=dash, thick=thick, marker=marked)


def _band_curves(x: Array, low: Array, high: Array, role: Role, log: bool) -> Iterator[Curve]:
    """Yield the outlines of the intervals, one per contiguous stretch of finite values."""
    inside = np.isfinite(low + high) & ((low + high > 0) | (not log))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
    for start, end in edges.reshape(-1, 2).tolist():
        at, below, above = x[start:end], low[start:end], high[start:end]
        if log:
            below = np.maximum(below, _FAR_DOWN * above)
        outline = np.concatenate([at, at[::-1]]), np.concatenate([above, below[::-1]])
        yield Curve("", *outline, role=role, segments=True, filled=True)


def _point_curves(line: PlottedLine, x: Sequence[float], role: Role, log: bool) -> Iterator[Curve]:
    """Yield points, as rings if they are printed numbers, and vertical bars for their spread."""
    order = np.argsort(np.asarray(x, dtype=np.float64), kind="stable")
    at = np.asarray(x, dtype=np.float64)[order]
    y = np.asarray(line.y, dtype=np.float64)[order]
    yield replace(
        scatter_curve(_typeset_short(line.label), at, y, role), ring=line.style == "printed"
    )
    if line.spread:
        ends = np.stack(_interval_ends(line), axis=1)[order]
        yield Curve(
            "", *_upright_paths(at, np.where(ends > 0, ends, np.nan) if log else ends), role=role
        )


def _box_curves(found: Sequence[BoxPlot], role: Role) -> Iterator[Curve]:
    """Yield the edges of box plots as separate curves, so that x never decreases."""
    at, low, first, median, third, high = np.array(found, dtype=np.float64).reshape(-1, 6).T
    sides = np.stack([at - BOX, at - BOX, at + BOX, at + BOX], axis=1)
    ends = sides[:, 1:3]
    yield Curve("", *_join_paths(sides, np.stack([first, third, third, first], axis=1)), role=role)
    yield Curve("", *_join_paths(ends, np.stack([first, first], axis=1)), role=role)
    middle = np.stack([median, median], axis=1)
    yield Curve("median", *_join_paths(ends, middle), role="text", thick=True)
    for edge, far in ((first, low), (third, high)):
        yield Curve("", *_upright_paths(at, np.stack([edge, far], axis=1)), role=role)


def _upright_paths(x: Array, y: Array) -> tuple[Array, Array]:
    """Return separate vertical paths, one at each x through its row of y."""
    return _join_paths(np.repeat(x[:, None], y.shape[1], axis=1), y)


def _join_paths(x: Array, y: Array) -> tuple[Array, Array]:
    """Join rows into one curve, separated by NaN."""
    gap = np.full((len(y), 1), np.nan)
    return np.hstack([x, x[:, -1:]]).ravel(), np.hstack([y, gap]).ravel()


def line_looks(figure: Figure) -> list[tuple[Role, Dash]]:
    """Return colour token and dash of each line.

    Printed numbers are grey with different dashes and use up no colour; 'ideal, d = 2' is dotted
    in the colour of the line 'd = 2'.
    """
    measured = [n for n, line in enumerate(figure.lines) if line.style not in ("printed", "boxes")]
    series = {position: series_of(index) for index, position in enumerate(measured)}
    result: list[tuple[Role, Dash]] = []
    grey = 0
    for position, line in enumerate(figure.lines):
        partner = partner_of(figure, line)
        if position in series:
            result.append(series[position])
        elif line.style == "boxes":
            result.append(("muted", "solid"))
        elif partner is not None:
            result.append((series[partner][0], "dot"))
        else:
            result.append(("muted", _PRINTED[grey % len(_PRINTED)]))
            grey += 1
    return result


def partner_of(figure: Figure, line: PlottedLine) -> int | None:
    """Return the index of the measured line that a printed one goes with, if any.

    The partner of 'ideal, d = 2' is 'd = 2'.
    """
    if line.style != "printed" or not line.x or figure.categories:
        return None
    _, comma, label = line.label.partition(", ")
    matches = (
        n
        for n, candidate in enumerate(figure.lines)
        if candidate.style == "line" and candidate.label == label
    )
    return next(matches, None) if comma else None


def value_limits(figure: Figure) -> tuple[float, float]:
    """Return the bounds of the y values: 0 and 100 for accuracies, else infinite."""
    if "accuracy" in figure.y and "%" in figure.y:
        return 0.0, 100.0
    return -math.inf, math.inf


def drawn_positions(figure: Figure) -> list[tuple[float, ...]]:
    """Return the x positions at which each line is drawn.

    The marks of one category are put side by side, and the points of a cloud spread out.
    """
    if not figure.categories:
        return [line.x for line in figure.lines]
    return [
        tuple(
            at + _category_offset(figure, index, at) + side
            for at, side in zip(line.x, _cloud_offsets(line), strict=True)
        )
        for index, line in enumerate(figure.lines)
    ]


def box_plots(line: PlottedLine) -> list[BoxPlot]:
    """Return a box plot for each x of the line that has finite values."""
    plots = []
    for at in sorted(set(line.x)):
        values = sorted(
            y for x, y in zip(line.x, line.y, strict=True) if x == at and math.isfinite(y)
        )
        if values:
            plots.append(_box_plot(at, values))
    return plots


def _box_plot(at: float, values: Sequence[float]) -> BoxPlot:
    first, median, third = (_linear_quantile(values, share) for share in (0.25, 0.5, 0.75))
    reach = _WHISKER * (third - first)
    inside = [value for value in values if first - reach <= value <= third + reach]
    return BoxPlot(at, min(*inside, first), first, median, third, max(*inside, third))


def _linear_quantile(ordered: Sequence[float], share: float) -> float:
    """Interpolate linearly between the two nearest values, like numpy's default."""
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def _category_offset(figure: Figure, index: int, at: float) -> float:
    """Return the horizontal offset of a line's marks from the centre of a category."""
    kind = _mark_kind(figure.lines[index])
    lines = [
        position
        for position, line in enumerate(figure.lines)
        if _mark_kind(line) == kind and at in line.x
    ]
    if kind == "boxes":
        return 0.0
    right = kind == "points" and any(line.style == "boxes" for line in figure.lines)
    if right:  # to the right of the box, which would hide it
        return BOX + _APART / 3 * (1 + lines.index(index))
    apart = min(_APART, 2 * _REACH / len(lines))
    return apart * (lines.index(index) - (len(lines) - 1) / 2)


def _mark_kind(line: PlottedLine) -> str:
    return line.style if line.style in ("boxes", "cloud") else "points"


def _cloud_offsets(line: PlottedLine) -> list[float]:
    """Return horizontal offsets that keep the points of a cloud apart.

    They follow the golden ratio in the order of the values, so that the result is reproducible.
    """
    if line.style != "cloud":
        return [0.0] * len(line.x)
    steps = [0.0] * len(line.x)
    for at in set(line.x):
        points = sorted((y, index) for index, y in enumerate(line.y) if line.x[index] == at)
        for rank, (_, index) in enumerate(points):
            share = (0.5 + rank * _GOLDEN) % 1.0
            steps[index] = 0.0 if len(points) == 1 else CLOUD * (2.0 * share - 1.0)
    return steps
