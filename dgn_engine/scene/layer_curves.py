"""Charts over steps and over layers: curves, a row per layer, an overview of each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.scene.axes import step_axis
from dgn_engine.scene.compared import compared_reading, pair_labels
from dgn_engine.scene.elements import (
    OVERLAYS,
    Array,
    Axis,
    Chart,
    Curve,
    Dash,
    Matrix,
    Role,
    Subjects,
)
from dgn_engine.scene.panel_spec import View

MOST = len(OVERLAYS)  # lines that can be told apart
_IN_A_ROW = 8  # overviews side by side before a second row begins


def recorded_curve(
    view: View,
    source: tuple[str, str],
    name: str,
    role: Role,
    dash: Dash = "solid",
    scale: float = 1.0,
    thick: bool = False,
) -> tuple[Curve, ...]:
    """Return the curve of a recorded scalar times `scale`; none before its first value."""
    series = view.series.get(source)
    if series is None or not series.steps.size:
        return ()
    values = series.values if scale == 1.0 else scale * series.values
    single = not is_read_again(view, source)
    return (Curve(name, series.steps, values, role, dash, thick=thick, marker=single),)


def is_from_file(view: View) -> bool:
    """Return whether the network was opened from a file, so that it does not train."""
    return view.run is not None and bool(view.run.inspected)


def is_read_again(view: View, source: tuple[str, str]) -> bool:
    """Return whether a scalar was recorded at several steps, so that it can have changed."""
    series = view.series.get(source)
    return series is not None and bool(series.steps.size and series.steps[0] < series.steps[-1])


def chart_over_steps(
    view: View,
    title: str,
    curves: Sequence[Curve],
    narrow: tuple[int, int, int, int],
    column: int = 0,
    log: bool = False,
) -> Chart:
    """Return the chart of curves over steps, placed beside the charts of a reading."""
    return Chart(
        key="over_steps",
        title=title,
        x=step_axis(curves, view),
        y=Axis(log=log),
        curves=tuple(curves),
        marks=view.marks,
        column=column,
        narrow=narrow,
    )


def chosen_layers(count: int) -> tuple[int, ...]:
    """Return at most `MOST` of `count` layers, evenly from the first to the last."""
    if count <= MOST:
        return tuple(range(count))
    return tuple(round(index * (count - 1) / (MOST - 1)) for index in range(MOST))


def layers_note(count: int) -> str:
    """Return which layers have a line over steps (1-based), if not all of them do."""
    if count <= MOST:
        return ""
    named = ", ".join(str(layer + 1) for layer in chosen_layers(count))
    return f"Over steps: layers {named} of {count}."


def over_steps(
    view: View, probe: str, prefix: str, count: int, scale: float = 1.0, log: bool = False
) -> tuple[Curve, ...]:
    """Return the recorded scalars 'prefix_l' of the chosen layers.

    With `log`, values that are not positive are left out, as a logarithmic axis requires.
    """
    curves: list[Curve] = []
    for index, layer in enumerate(chosen_layers(count)):
        source, name = (probe, f"{prefix}_{layer}"), f"layer {layer + 1}"
        recorded = recorded_curve(view, source, name, OVERLAYS[index], scale=scale)
        shown = drop_nonpositive(recorded) if log else recorded
        curves += [replace(curve, layer=layer) for curve in shown]
    return tuple(curves)


def drop_nonpositive(curves: Iterable[Curve]) -> tuple[Curve, ...]:
    """Return curves for a logarithmic axis, without values and curves that it cannot show."""
    masked = (replace(curve, y=np.where(curve.y > 0, curve.y, np.nan)) for curve in curves)
    return tuple(curve for curve in masked if np.isfinite(curve.y).any())


def compared_layers(
    view: View, probe: str, array: str, name: str, scale: float = 1.0
) -> tuple[Curve, ...]:
    """Return B's array of one value per layer, times `scale`, as a curve; none without B."""
    reading = compared_reading(view, probe)
    if reading is None or view.compared is None:
        return ()
    values = scale * reading.arrays[array]
    name = f"{pair_labels(view.compared)[1]} {name}"
    return (Curve(name, layer_positions(len(values)), values, "compared", "dash"),)


def layer_axis(count: int, names: Sequence[str] = ()) -> Axis:
    """Return an axis with one place per layer, 1-based, at most about eight of them named."""
    stride = max(1, -(-count // 8))
    ticks = tuple(
        (float(position), names[position - 1] if names else str(position))
        for position in range(1, count + 1, stride)
    )
    layers = Subjects("layer", range(count), 1.0)
    return Axis(label="layer", limits=(0.5, count + 0.5), ticks=ticks, subjects=layers)


def layer_positions(count: int) -> Array:
    """Return 1 … count, the positions of the layers on `layer_axis`."""
    return np.arange(1, count + 1)


def layer_rows(layers: range | tuple[int, ...]) -> Axis:
    """Return an axis with one row per layer, 1-based, at most about eight of them named."""
    count = len(layers)
    ticks = tuple((float(row), str(layers[row] + 1)) for row in range(0, count, -(-count // 8)))
    subjects = Subjects("layer", layers)
    return Axis("layer", limits=(-0.5, count - 0.5), ticks=ticks, subjects=subjects)


def layers_by_units(title: str, layers: range | tuple[int, ...], matrix: Matrix) -> Chart:
    """Return the chart of a matrix with a row per layer and a column per unit."""
    units = range(matrix.values.shape[1])
    return Chart(
        key="units",
        title=title,
        x=Axis("unit", limits=(-0.5, len(units) - 0.5), subjects=Subjects("unit", units)),
        y=layer_rows(layers),
        matrix=replace(
            matrix,
            row_name="layer",
            column_name="unit",
            row_labels=tuple(f"layer {layer + 1}" for layer in layers),
            column_labels=tuple(f"unit {unit}" for unit in units),
        ),
    )


def make_overviews(
    charts: Mapping[int, Chart], chosen: int, option: str
) -> tuple[list[Chart], int, int]:
    """Make overviews of several layers, in which a click sets the option to the layer.

    Returns:
        The overviews (none for a single layer), the rows that they take, and how many are in a row.
    """
    rows = math.ceil(len(charts) / _IN_A_ROW) if len(charts) > 1 else 0
    across = math.ceil(len(charts) / rows) if rows else 1
    result = [
        replace(
            chart,
            key=f"overview_{layer}",
            row=index // across,
            column=index % across,
            small=True,
            chosen=layer == chosen,
            click=(option, str(layer)),
        )
        for index, (layer, chart) in enumerate(charts.items())
    ]
    return result if rows else [], rows, across
