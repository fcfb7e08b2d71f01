"""The figures of a result as scenes, so that the window draws them as it draws every panel."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dgn_engine.experiments.report.formatting import series_of
from dgn_engine.protocol.results import Figure, PlottedLine
from dgn_viewer.scene.elements import Array, Axis, Chart, Curve, Dash, Matrix, Role, Scene


def scene_of(figures: tuple[Figure, ...]) -> Scene:
    return Scene(tuple(_chart(figure, row) for row, figure in enumerate(figures)))


def _chart(figure: Figure, row: int) -> Chart:
    if figure.image:
        return _picture(figure, row)
    reach = [value for line in figure.lines for value in line.x if math.isfinite(value)]
    ends = (min(reach), max(reach)) if reach else (0.0, 1.0)
    curves = [
        curve
        for index, line in enumerate(figure.lines)
        for curve in _curves(line, index, ends, figure.log_y)
    ]
    return Chart(
        key=figure.name,
        title=figure.title,
        x=Axis(figure.x, log=figure.log_x),
        y=Axis(figure.y, log=figure.log_y),
        curves=tuple(curves),
        row=row,
    )


def _picture(figure: Figure, row: int) -> Chart:
    values = np.asarray(figure.image, dtype=np.float64)
    return Chart(
        key=figure.name,
        title=figure.title,
        x=Axis(figure.x),
        y=Axis(figure.y),
        matrix=Matrix(figure.name, values, "gates", 0.0, 1.0),
        row=row,
        square=True,
    )


def _curves(line: PlottedLine, index: int, ends: tuple[float, float], log: bool) -> Iterator[Curve]:
    """The curve, and the edges of its spread as thin dots."""
    role, dash = _look(line, index)
    if not line.x:
        if line.y:
            level = np.full(2, line.y[-1])
            yield Curve(line.label, np.array(ends), level, role=role, dash="dash")
        return
    x, y = np.asarray(line.x, dtype=np.float64), np.asarray(line.y, dtype=np.float64)
    few = line.style != "line" or x.size <= 12
    yield Curve(line.label, x, y, role=role, dash=dash, thick=line.style == "line", marker=few)
    if line.spread:
        spread = np.asarray(line.spread, dtype=np.float64)
        for edge in (y - spread, y + spread):
            yield Curve("", x, _positive(edge) if log else edge, role=role, dash="dot")


def _look(line: PlottedLine, index: int) -> tuple[Role, Dash]:
    if line.style == "printed":
        return "muted", "dot"
    role, dash = series_of(index)
    return role, dash  # type: ignore[return-value]  # the names of the house's tokens


def _positive(values: Array) -> Array:
    return np.where(values > 0, values, np.nan)
