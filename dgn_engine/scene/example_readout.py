"""The readout of one or two probe examples under the cursor: pictures, gates, shared paths."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.axes import example_rows
from dgn_engine.scene.compared import compared_view, pair_labels
from dgn_engine.scene.elements import Array, Chart
from dgn_engine.scene.linked_places import selection_at
from dgn_engine.scene.panel_spec import View
from dgn_engine.scene.predictions import prediction_lines
from dgn_engine.scene.readout import describe_point
from dgn_engine.scene.run_text import is_conv, layers_with_prefix
from dgn_engine.scene.typeset import strip_markup
from dgn_engine.text.written_numbers import format_number

EXACT = 1e6  # paths shown as a whole number; above, in four digits


@dataclass(frozen=True)
class ShownExample:
    """One probe example: its index in the set, its name, and its picture.

    `image` (H, W) or (H, W, 3) uint8; `point`: (x, y) of two-dimensional data among all `points`
    (n, 2); `why`: briefly, why there is neither. `answers`: what the network says, in lines.
    """

    place: int
    name: str
    detail: str
    image: Array | None = None
    point: tuple[float, float] | None = None
    points: Array | None = None
    why: str = ""
    answers: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateRows:
    """The gates of one layer for the examples.

    `rows` (1 or 2, w) in [0, 1]; `agree` (w,): both open or both closed, None if unknown.
    """

    name: str
    rows: Array
    agree: Array | None
    words: str


@dataclass(frozen=True)
class ExampleReadout:
    """Everything about the examples under the cursor; `lines` are values and counts."""

    examples: tuple[ShownExample, ...]
    gates: tuple[GateRows, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The readout as one text, for a screen reader."""
        names = " and ".join(
            ": ".join(filter(None, (example.name, "; ".join(example.answers))))
            for example in self.examples
        )
        gates = (f"{rows.name}: {rows.words}" for rows in self.gates if rows.words)
        return ". ".join((names, *map(strip_markup, self.lines), *gates)) + "."


def example_readout(
    view: View, chart: Chart, x: float, y: float, step: int | None = None
) -> ExampleReadout | None:
    """Return the readout at (x, y) of a chart; None if there is no probe example.

    `view`: the view that the panel was drawn from; `step`: that of its picture.
    """
    places = selection_at(chart, x, y).examples
    if view.pictures is None or chart.matrix is None or not places:
        return None
    description = describe_point(chart, x, y)
    label_lines = 2 if chart.matrix.column_examples else 1
    shown_examples = tuple(
        replace(shown_example(view.pictures, place), answers=prediction_lines(view, place, step))
        for place in places
    )
    owner_view = (compared_view(view) or view) if chart.matrix.of_compared else view
    gates, missing = gate_rows(owner_view, places, chart.matrix.layer)
    lines = _describe_value(chart, description, label_lines)
    if len(places) == 2 and chart.matrix.layer is None:
        lines.extend(shared_paths(owner_view, places, chart))
    if view.compared is not None:  # the gates are those of one side
        owner = pair_labels(view.compared)[chart.matrix.of_compared]
        gates = tuple(replace(rows, name=f"{owner} {rows.name}") for rows in gates)
        lines = [f"{owner}: {line}" if line.startswith("Shared") else line for line in lines]
    lines.extend(filter(None, (*missing, view.pictures.missing)))
    return ExampleReadout(shown_examples, gates, tuple(lines))


def _describe_value(chart: Chart, description: tuple[str, ...], label_lines: int) -> list[str]:
    """Return the value under the cursor, or those of A and B and their difference."""
    rest = description[label_lines:]
    if chart.matrix is not None and chart.matrix.sides is not None and rest:
        count = len(chart.matrix.sides.names)
        return [*rest[:-count], " · ".join(rest[-count:])]
    value = ": ".join(rest)
    return [f"{chart.title}: {value}" if label_lines == 2 else value] if value else []


def shown_example(pictures: ProbeExamples, place: int) -> ShownExample:
    """Return one example of the set by its index."""
    probe_set = pictures.probe_set
    label = probe_set.labels[place]
    kind = probe_set.class_names[label] if label < len(probe_set.class_names) else str(label)
    is_drawn = place >= len(probe_set.labels) - probe_set.drawn
    name = f"example {place}, drawn" if is_drawn else f"example {place}, class {kind}"
    origin = f"training example {probe_set.indices[place]:,}"
    detail = "your own, unlabelled" if is_drawn else origin
    images, vectors = pictures.images, pictures.vectors
    if images is not None:
        return ShownExample(place, name, detail, images[place])
    if vectors is None:
        return ShownExample(place, name, detail, why="no picture")
    varying = np.flatnonzero(np.ptp(vectors, axis=0) > 0)  # plane data have a constant column too
    if len(varying) != 2:
        return ShownExample(place, name, detail, why=f"{vectors.shape[1]:,} numbers")
    points = vectors[:, varying]
    x, y = (float(value) for value in points[place])
    return ShownExample(
        place, name, f"({format_number(x, 3)}, {format_number(y, 3)})", point=(x, y), points=points
    )


def gate_rows(
    view: View, places: tuple[int, ...], layer: int | None
) -> tuple[tuple[GateRows, ...], tuple[str, ...]]:
    """Return the gates of these examples in one layer (None: all), and what is missing."""
    reading = view.readings.get("gates")
    if reading is None:
        return (), ("Open Gate maps to see their gates.",)
    if reading.absent or "labels" not in reading.arrays:
        return (), ("No gates to show in this regime.",)
    rows = example_rows(view, reading.arrays["labels"])
    if any(place not in rows for place in places):
        return (), ("Gates were read on fewer examples.",)
    rows_read = [rows.index(place) for place in places]
    layers = layers_with_prefix(reading.arrays, "layer")
    result = [
        _layer_gates(view, reading, read_layer, rows_read)
        for read_layer in layers
        if layer in (None, read_layer)
    ]
    step_note = (
        (f"Gates from step {reading.step:,}.",) if reading.step != _newest_step(view) else ()
    )
    return tuple(result), step_note


def _newest_step(view: View) -> int:
    """Return the step of the newest reading that a pair's readout uses."""
    steps = [view.readings[name].step for name in ("gates", "overlap") if name in view.readings]
    return max(steps, default=0)


def _layer_gates(view: View, reading: Reading, layer: int, at: list[int]) -> GateRows:
    values = reading.arrays[f"layer_{layer}"]
    rows = np.asarray(values[at], dtype=np.float64)
    name = f"G{layer + 1}"
    if is_conv(view, reading, layer):
        return GateRows(name, rows, None, "means over positions")
    if len(at) == 1:
        return GateRows(name, rows, None, f"{int((rows[0] >= 0.5).sum())} of {rows.shape[1]} open")
    agree = (rows[0] >= 0.5) == (rows[1] >= 0.5)
    words = f"{int(agree.sum())} of {agree.size} agree"
    if values.dtype == np.uint8:
        words += f", {int((rows[0] * rows[1]).sum())} both open"
    return GateRows(name, rows, agree, words)


def shared_paths(view: View, places: tuple[int, ...], chart: Chart) -> tuple[str, ...]:
    """Return 'Shared active paths: 120 of 400 and 350'.

    Empty if Λ is not a number of paths, or was not read.
    """
    reading = view.readings.get("overlap")
    if reading is None or reading.absent or "paths" not in reading.arrays:
        return ()
    rows = example_rows(view, reading.arrays["labels"])
    if any(place not in rows for place in places):
        return ()
    a, b = (rows.index(place) for place in places)
    counts = reading.arrays["paths"]
    # Λ has unit diagonal here: Λ(a, b) = cosine · √(Λ(a, a) Λ(b, b)).
    cosine = float(reading.arrays["active"][a, b])
    shared = 0.0 if math.isnan(cosine) else cosine * math.sqrt(float(counts[a]) * float(counts[b]))
    words = (
        f"Shared active paths: {_format_paths(shared)} of {_format_paths(counts[a])} "
        f"and {_format_paths(counts[b])}"
    )
    kernel = chart.matrix.name if chart.matrix is not None else ""
    step_note = f" (step {reading.step:,})" if kernel not in ("active", "sensitive") else ""
    return (words + step_note,)


def _format_paths(paths: float) -> str:
    """Format a whole number, or four digits of one with more than six."""
    if paths < EXACT:
        return f"{round(paths):,}"
    digits, _, power = f"{paths:.3e}".partition("e")
    return f"${digits}·10^{{{int(power)}}}$"
