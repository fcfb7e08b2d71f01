"""The figures of a result as scenes, so that the window draws them as it draws every panel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dgn_engine.experiments.report.figure_shapes import (
    BOX,
    BoxPlot,
    boxes,
    looks,
    places,
    value_limits,
)
from dgn_engine.experiments.report.mathematics import typeset
from dgn_engine.protocol.results import Figure, PlottedLine
from dgn_viewer.scene.elements import Array, Axis, Chart, Curve, Dash, Matrix, Role, Scene

_FEW = 12  # points of a line that are marked
_ROOM = 0.06  # of the values' range, above and below them


def scene_of(figures: tuple[Figure, ...]) -> Scene:
    return Scene(tuple(_chart(figure, row) for row, figure in enumerate(figures)))


def _chart(figure: Figure, row: int) -> Chart:
    if figure.image:
        return _picture(figure, row)
    curves = tuple(_all_curves(figure))
    return Chart(
        key=figure.name,
        title=typeset(figure.title),
        x=_across(figure),
        y=Axis(typeset(figure.y), log=figure.log_y, limits=_limits(figure, curves)),
        curves=curves,
        row=row,
    )


def _picture(figure: Figure, row: int) -> Chart:
    values = np.asarray(figure.image, dtype=np.float64)
    return Chart(
        key=figure.name,
        title=typeset(figure.title),
        x=Axis(typeset(figure.x)),
        y=Axis(typeset(figure.y)),
        matrix=Matrix(figure.name, values, "gates", 0.0, 1.0),
        row=row,
        square=True,
    )


def _across(figure: Figure) -> Axis:
    count = len(figure.categories)
    if not count:
        return Axis(typeset(figure.x), log=figure.log_x)
    ticks = tuple((float(at), typeset(name)) for at, name in enumerate(figure.categories))
    return Axis(typeset(figure.x), limits=(-0.5, count - 0.5), ticks=ticks, places=True)


def _limits(figure: Figure, curves: Sequence[Curve]) -> tuple[float, float] | None:
    """What the axis reaches where a value has bounds; None: as the data do."""
    least, most = value_limits(figure)
    if not math.isfinite(least + most):
        return None
    values = np.concatenate([curve.y for curve in curves] or [np.zeros(0)])
    finite = np.clip(values[np.isfinite(values)], least, most)
    if not finite.size:
        return least, most
    low, high = float(finite.min()), float(finite.max())
    room = _ROOM * (high - low) or 1.0
    return max(low - room, least), min(high + room, most)


def _all_curves(figure: Figure) -> Iterator[Curve]:
    reach = [value for line in figure.lines for value in line.x if math.isfinite(value)]
    ends = (min(reach), max(reach)) if reach else (0.0, 1.0)
    if figure.categories:
        ends = (-0.5, len(figure.categories) - 0.5)
    for line, x, look in zip(figure.lines, places(figure), _looks(figure), strict=True):
        role, dash = look
        if line.style == "boxes":
            yield from _boxes(boxes(line), role)
        elif not line.x:
            level = np.full(2, line.y[-1] if line.y else math.nan)
            across = dash if line.style == "printed" else "dash"
            yield Curve(typeset(line.label), np.array(ends), level, role=role, dash=across)
        elif figure.categories:
            yield from _points(line, x, role)
        else:
            yield from _curves(line, look, figure.log_y)


def _looks(figure: Figure) -> list[tuple[Role, Dash]]:
    return looks(figure)  # type: ignore[return-value]  # the names of the house's tokens


def _curves(line: PlottedLine, look: tuple[Role, Dash], log: bool) -> Iterator[Curve]:
    """The curve, and the edges of its spread as thin dots."""
    role, dash = look
    x, y = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    few = line.style in ("points", "cloud") or x.size <= _FEW
    thick = line.style == "line"
    yield Curve(typeset(line.label), x, y, role=role, dash=dash, thick=thick, marker=few)
    if line.spread:
        spread = np.asarray(line.spread, dtype=np.float64)
        for edge in (y - spread, y + spread):
            yield Curve("", x, _positive(edge) if log else edge, role=role, dash="dot")


def _points(line: PlottedLine, x: Sequence[float], role: Role) -> Iterator[Curve]:
    """Points without a line between them, and upright bars of their spread."""
    order = np.argsort(np.asarray(x, dtype=np.float64), kind="stable")
    at = np.asarray(x, dtype=np.float64)[order]
    y = np.asarray(line.y, dtype=np.float64)[order]
    yield Curve(typeset(line.label), *_broken(at, y[:, None]), role=role, marker=True)
    if line.spread:
        half = np.asarray(line.spread, dtype=np.float64)[order]
        yield Curve("", *_broken(at, np.stack([y - half, y + half], axis=1)), role=role)


def _boxes(found: Sequence[BoxPlot], role: Role) -> Iterator[Curve]:
    """Each edge of the boxes as a curve of its own, so that x never falls."""
    at = np.array([box.at for box in found])
    sides = np.stack([at - BOX, at - BOX, at + BOX, at + BOX], axis=1)
    ends = sides[:, 1:3]
    heights = {
        name: np.array([getattr(box, name) for box in found])
        for name in ("low", "first", "median", "third", "high")
    }
    first, third = heights["first"], heights["third"]
    yield Curve("", *_paths(sides, np.stack([first, third, third, first], axis=1)), role=role)
    yield Curve("", *_paths(ends, np.stack([first, first], axis=1)), role=role)
    median = np.stack([heights["median"]] * 2, axis=1)
    yield Curve("median", *_paths(ends, median), role="text", thick=True)
    for edge, far in ((first, heights["low"]), (third, heights["high"])):
        yield Curve("", *_broken(at, np.stack([edge, far], axis=1)), role=role)


def _broken(x: Array, y: Array) -> tuple[Array, Array]:
    """A short upright path at each x through the row of y, none joined to the next."""
    return _paths(np.repeat(x[:, None], y.shape[1], axis=1), y)


def _paths(x: Array, y: Array) -> tuple[Array, Array]:
    """The rows as one curve that NaN breaks between them."""
    gap = np.full((len(y), 1), np.nan)
    return np.hstack([x, x[:, -1:]]).ravel(), np.hstack([y, gap]).ravel()


def _positive(values: Array) -> Array:
    return np.where(values > 0, values, np.nan)
