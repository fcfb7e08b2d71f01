"""A small dense network as a graph: units by their gates, weights as lines between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Dash, Role, Subjects, reach_of
from dgn_engine.scene.scatter import lines, scattered
from dgn_engine.text.written_numbers import number

MOST_LINES = 600  # weights that can be told apart in a graph
# By the largest weight of the layer; only the strong ones are named beside the chart.
_STRENGTHS = ((" (weak)", 0.0, 1 / 3), (" (medium)", 1 / 3, 2 / 3), ("", 2 / 3, 1.0))
_SIGNS: tuple[tuple[str, Role, Dash, int], ...] = (
    ("weight > 0", "value", "solid", 1),
    ("weight < 0", "feature", "dash", -1),
)


def network_graph(reading: Reading) -> Chart:
    """Every unit as a point, and the largest weights between them; in colour where both ends are
    open for every example that is lit."""
    nodes = _nodes(reading)
    strength, starts, ends, lit, sign = _edges(reading, nodes)
    order = np.argsort(-strength, kind="stable")[:MOST_LINES]
    curves = []
    unlit = order[~lit[order]]
    if len(unlit):
        grey = lines("no path", starts[unlit], ends[unlit], "muted")
        curves.append(replace(grey, faint=True))
    for words, low, high in _STRENGTHS:
        for name, role, dash, mine in _SIGNS:
            chosen = order[(lit & (mine * sign > 0) & (strength > low) & (strength <= high))[order]]
            if len(chosen):
                line = lines(name + words, starts[chosen], ends[chosen], role, dash)
                curves.append(replace(line, thick=low > 0, faint=bool(words)))
    curves.extend(_points(reading, nodes))
    layers, widest = reading.arrays["gates"].shape
    first, last = nodes[0][0], nodes[-1][0]
    ticks = [(at, "x" if at == 0 else "ŷ" if at > layers else number(at)) for at, _ in nodes]
    every = -(-len(ticks) // 9)
    reach = max(widest, *(len(at) for _, at in nodes))
    return Chart(
        key="graph",
        title="Units and weights",
        x=Axis(
            label="layer",
            limits=(first - 0.3, last + 0.3),
            ticks=tuple(ticks[::every]),
            places=True,
            subjects=Subjects("layer", range(layers), 1.0),
        ),
        y=Axis("unit", limits=(-1.0, float(reach)), subjects=Subjects("unit", range(widest))),
        curves=tuple(curves),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _nodes(reading: Reading) -> list[tuple[float, Array]]:
    """Where units stand, column by column: inputs and logits at the middle, where they are few."""
    arrays = reading.arrays
    layers, widest = arrays["gates"].shape
    found = [
        (float(at + 1), np.flatnonzero(_units(reading, at)).astype(np.float64))
        for at in range(layers)
    ]
    for name, at, axis in (("weights_0", 0.0, 1), (f"weights_{layers}", layers + 1.0, 0)):
        if name in arrays:
            count = arrays[name].shape[axis]
            column = (at, np.arange(count) + (widest - count) / 2)
            found = [column, *found] if at == 0.0 else [*found, column]
    return found


def _units(reading: Reading, layer: int) -> Array:
    """Which places of a row of gates are units: beyond the width of the layer they are NaN, and so
    is the gate of a unit that has overflowed."""
    gates: Array = reading.arrays["gates"][layer]
    for name, axis in ((f"weights_{layer}", 0), (f"weights_{layer + 1}", 1)):
        if (weight := reading.arrays.get(name)) is not None:
            found: Array = np.arange(len(gates)) < weight.shape[axis]
            return found
    return np.isfinite(gates)


def _edges(
    reading: Reading, nodes: list[tuple[float, Array]]
) -> tuple[Array, Array, Array, Array, Array]:
    """Of each weight its size by the largest of its layer, both ends (m, 2), whether paths that are
    lit may run through it, and its sign."""
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
        size = np.abs(weight).ravel() / reach_of(weight)
        starts = np.stack([np.full(len(columns), float(layer)), down[columns]], axis=1)
        ends = np.stack([np.full(len(rows), layer + 1.0), up[rows]], axis=1)
        lit = _lit(reading, layer)[columns] & _lit(reading, layer + 1)[rows]
        parts.append((size, starts, ends, lit, np.sign(weight).ravel()))
    strength, starts, ends, lit, sign = (np.concatenate(one) for one in zip(*parts, strict=True))
    return strength, starts, ends, lit, sign


def _lit(reading: Reading, column: int) -> Array:
    """Which units of a column (0: the inputs) paths that are lit may run through."""
    arrays = reading.arrays
    layers = len(arrays["gates"])
    found: Array
    if column == 0:
        found = arrays["inputs"] != 0
    elif column > layers:
        logits = np.arange(len(arrays[f"weights_{layers}"]))
        found = logits == int(reading.facts.get("logit", "0"))
    else:
        known = _units(reading, column - 1)
        found = arrays["gates"][column - 1][known] >= 0.5
        if "gates_second" in arrays:
            found &= arrays["gates_second"][column - 1][known] >= 0.5
    return found


def _points(reading: Reading, nodes: list[tuple[float, Array]]) -> list[Curve]:
    """The units by their gates, ½ and above counting as open; and the sensitive ones."""
    arrays = reading.arrays
    gates = arrays["gates"] >= 0.5
    known = np.stack([_units(reading, layer) for layer in range(len(gates))])
    near = known & (arrays["slopes"] >= 0.5)
    kinds: list[tuple[str, Array, Role]]
    if "gates_second" in arrays:
        other = arrays["gates_second"] >= 0.5
        kinds = [
            ("closed", known & ~gates & ~other, "muted"),
            ("first only", known & gates & ~other, "accent"),
            ("second only", known & ~gates & other, "compared"),
            ("both open", known & gates & other, "text"),
        ]
    else:
        kinds = [
            ("closed", known & ~gates & ~near, "muted"),
            ("open", known & gates & ~near, "text"),
            ("sensitive", near, "cross"),
        ]
    found = []
    for name, mine, role in kinds:
        rows, units = np.nonzero(mine)
        if len(rows):
            found.append(scattered(name, rows + 1.0, units, role, thick=True))
    ends = [(at, heights) for at, heights in nodes if at in (0.0, len(gates) + 1.0)]
    if ends:
        x = np.concatenate([np.full(len(heights), at) for at, heights in ends])
        y = np.concatenate([heights for _, heights in ends])
        found.append(scattered("x and ŷ", x, y, "muted"))
    return found
