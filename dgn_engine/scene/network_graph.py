"""A small dense network as a graph: units by their gates, weights as lines between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Curve,
    Dash,
    Role,
    Subjects,
    largest_magnitude,
)
from dgn_engine.scene.scatter import scatter_curve, segment_curve
from dgn_engine.text.written_numbers import format_number

MOST_LINES = 600  # weights that can still be told apart
# Relative to the layer's largest weight; only strong ones are named beside the chart.
_STRENGTHS = ((" (weak)", 0.0, 1 / 3), (" (medium)", 1 / 3, 2 / 3), ("", 2 / 3, 1.0))
_SIGNS: tuple[tuple[str, Role, Dash, int], ...] = (
    ("weight > 0", "value", "solid", 1),
    ("weight < 0", "feature", "dash", -1),
)


def network_graph(reading: Reading) -> Chart:
    """Draw every unit as a point, and the largest weights between them.

    Weights are in colour if both ends are open for every example shown.
    """
    nodes = _unit_positions(reading)
    strength, starts, ends, lit, sign = _weight_edges(reading, nodes)
    order = np.argsort(-strength, kind="stable")[:MOST_LINES]
    curves = []
    unlit = order[~lit[order]]
    if len(unlit):
        grey = segment_curve("no path", starts[unlit], ends[unlit], "muted")
        curves.append(replace(grey, faint=True))
    for strength_label, low, high in _STRENGTHS:
        for name, role, dash, wanted_sign in _SIGNS:
            chosen = order[
                (lit & (wanted_sign * sign > 0) & (strength > low) & (strength <= high))[order]
            ]
            if len(chosen):
                line = segment_curve(
                    name + strength_label, starts[chosen], ends[chosen], role, dash
                )
                curves.append(replace(line, thick=low > 0, faint=bool(strength_label)))
    curves.extend(_draw_units(reading, nodes))
    layers, widest = reading.arrays["gates"].shape
    first, last = nodes[0][0], nodes[-1][0]
    ticks = [
        (position, "x" if position == 0 else "ŷ" if position > layers else format_number(position))
        for position, _ in nodes
    ]
    stride = -(-len(ticks) // 9)
    reach = max(widest, *(len(position) for _, position in nodes))
    return Chart(
        key="graph",
        title="Units and weights",
        x=Axis(
            label="layer",
            limits=(first - 0.3, last + 0.3),
            ticks=tuple(ticks[::stride]),
            places=True,
            subjects=Subjects("layer", range(layers), 1.0),
        ),
        y=Axis("unit", limits=(-1.0, float(reach)), subjects=Subjects("unit", range(widest))),
        curves=tuple(curves),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _unit_positions(reading: Reading) -> list[tuple[float, Array]]:
    """Return where units are, column by column; inputs and logits are centred."""
    arrays = reading.arrays
    layers, widest = arrays["gates"].shape
    columns = [
        (float(position + 1), np.flatnonzero(_unit_mask(reading, position)).astype(np.float64))
        for position in range(layers)
    ]
    for name, position, axis in (("weights_0", 0.0, 1), (f"weights_{layers}", layers + 1.0, 0)):
        if name in arrays:
            count = arrays[name].shape[axis]
            column = (position, np.arange(count) + (widest - count) / 2)
            columns = [column, *columns] if position == 0.0 else [*columns, column]
    return columns


def _unit_mask(reading: Reading, layer: int) -> Array:
    """Return which entries of a row of gates are units.

    Entries beyond the layer's width are NaN, but so is the gate of a unit that has overflowed.
    """
    gates: Array = reading.arrays["gates"][layer]
    for name, axis in ((f"weights_{layer}", 0), (f"weights_{layer + 1}", 1)):
        if (weight := reading.arrays.get(name)) is not None:
            mask: Array = np.arange(len(gates)) < weight.shape[axis]
            return mask
    return np.isfinite(gates)


def _weight_edges(
    reading: Reading, nodes: list[tuple[float, Array]]
) -> tuple[Array, Array, Array, Array, Array]:
    """Return each weight's relative size, both ends (m, 2), whether paths run there, and sign."""
    arrays = reading.arrays
    places = dict(nodes)
    layers = len(arrays["gates"])
    parts: list[tuple[Array, ...]] = []
    for layer in range(layers + 1):
        weight = arrays.get(f"weights_{layer}")
        if weight is None:
            continue
        down, up = places[float(layer)], places[float(layer + 1)]
        rows, columns = (grid.ravel() for grid in np.indices(weight.shape))
        size = np.abs(weight).ravel() / largest_magnitude(weight)  # |w| / max |w| of the layer
        starts = np.stack([np.full(len(columns), float(layer)), down[columns]], axis=1)
        ends = np.stack([np.full(len(rows), layer + 1.0), up[rows]], axis=1)
        lit = _lit_units(reading, layer)[columns] & _lit_units(reading, layer + 1)[rows]
        parts.append((size, starts, ends, lit, np.sign(weight).ravel()))
    strength, starts, ends, lit, sign = (np.concatenate(part) for part in zip(*parts, strict=True))
    return strength, starts, ends, lit, sign


def _lit_units(reading: Reading, column: int) -> Array:
    """Return which units of a column (0: the inputs) the paths shown may run through."""
    arrays = reading.arrays
    layers = len(arrays["gates"])
    mask: Array
    if column == 0:
        mask = arrays["inputs"] != 0
    elif column > layers:
        logits = np.arange(len(arrays[f"weights_{layers}"]))
        mask = logits == int(reading.facts.get("logit", "0"))
    else:
        units = _unit_mask(reading, column - 1)
        mask = arrays["gates"][column - 1][units] >= 0.5
        if "gates_second" in arrays:
            mask &= arrays["gates_second"][column - 1][units] >= 0.5
    return mask


def _draw_units(reading: Reading, nodes: list[tuple[float, Array]]) -> list[Curve]:
    """Draw the units by their gates (open: ½ or more), and the sensitive units."""
    arrays = reading.arrays
    gates = arrays["gates"] >= 0.5
    known = np.stack([_unit_mask(reading, layer) for layer in range(len(gates))])
    sensitive = known & (arrays["slopes"] >= 0.5)
    kinds: list[tuple[str, Array, Role]]
    if "gates_second" in arrays:
        second_gates = arrays["gates_second"] >= 0.5
        kinds = [
            ("closed", known & ~gates & ~second_gates, "muted"),
            ("first only", known & gates & ~second_gates, "accent"),
            ("second only", known & ~gates & second_gates, "compared"),
            ("both open", known & gates & second_gates, "text"),
        ]
    else:
        kinds = [
            ("closed", known & ~gates & ~sensitive, "muted"),
            ("open", known & gates & ~sensitive, "text"),
            ("sensitive", sensitive, "cross"),
        ]
    curves = []
    for name, selected, role in kinds:
        rows, units = np.nonzero(selected)
        if len(rows):
            curves.append(scatter_curve(name, rows + 1.0, units, role, thick=True))
    ends = [
        (position, heights) for position, heights in nodes if position in (0.0, len(gates) + 1.0)
    ]
    if ends:
        x = np.concatenate([np.full(len(heights), position) for position, heights in ends])
        y = np.concatenate([heights for _, heights in ends])
        curves.append(scatter_curve("x and ŷ", x, y, "muted"))
    return curves
