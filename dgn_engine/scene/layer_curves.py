"""Curves over steps, and of single layers: over layers one marker a layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dgn_engine.scene.axes import step_axis
from dgn_engine.scene.elements import OVERLAYS, Array, Axis, Chart, Curve, Dash, Role, Subjects
from dgn_engine.scene.panel_spec import View

MOST = len(OVERLAYS)  # lines that can be told apart


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
    alone = bool(series.steps.size == 1)
    return (Curve(name, series.steps, values, role, dash, thick=thick, marker=alone),)


def chart_over_steps(
    view: View,
    title: str,
    curves: Sequence[Curve],
    narrow: tuple[int, int, int, int],
    column: int = 0,
    log: bool = False,
) -> Chart:
    """Return the chart of curves over steps that stands beside what is drawn of a reading."""
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
    """At most `MOST` of so many layers, evenly from the first to the last."""
    if count <= MOST:
        return tuple(range(count))
    return tuple(round(place * (count - 1) / (MOST - 1)) for place in range(MOST))


def layers_note(count: int) -> str:
    """Which layers have a line over steps, where that is not all of them; 1-based."""
    if count <= MOST:
        return ""
    named = ", ".join(str(layer + 1) for layer in chosen_layers(count))
    return f"Over steps: layers {named} of {count}."


def over_steps(
    view: View, probe: str, prefix: str, count: int, scale: float = 1.0, log: bool = False
) -> tuple[Curve, ...]:
    """The recorded scalars 'prefix_l' of the chosen layers; `log`: what is not positive is left
    out, because a logarithmic axis has no place for it."""
    found: list[Curve] = []
    for place, layer in enumerate(chosen_layers(count)):
        series = view.series.get((probe, f"{prefix}_{layer}"))
        if series is None or not series.steps.size:
            continue
        values = scale * series.values
        if log:
            values = np.where(values > 0, values, np.nan)
            if not np.isfinite(values).any():
                continue
        marker = bool(series.steps.size == 1)
        name = f"layer {layer + 1}"
        curve = Curve(name, series.steps, values, OVERLAYS[place], marker=marker, layer=layer)
        found.append(curve)
    return tuple(found)


def layer_axis(count: int, names: Sequence[str] = ()) -> Axis:
    """One place a layer, 1-based, at most about eight of them named."""
    every = max(1, -(-count // 8))
    ticks = tuple(
        (float(place), names[place - 1] if names else str(place))
        for place in range(1, count + 1, every)
    )
    layers = Subjects("layer", range(count), 1.0)
    return Axis(label="layer", limits=(0.5, count + 0.5), ticks=ticks, subjects=layers)


def places(count: int) -> Array:
    """1 … count, where the layers stand on `layer_axis`."""
    return np.arange(1, count + 1)
