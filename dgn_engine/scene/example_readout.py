"""What is told of one or two probe examples under the cursor: pictures, gates, shared paths."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.watching import ProbeExamples
from dgn_engine.scene.axes import example_rows
from dgn_engine.scene.compared import compared_view
from dgn_engine.scene.elements import Array, Chart
from dgn_engine.scene.linked_places import selection_at
from dgn_engine.scene.panel_spec import View
from dgn_engine.scene.readout import describe
from dgn_engine.scene.run_text import is_conv, layers_in
from dgn_engine.scene.typeset import plain
from dgn_engine.text.written_numbers import number

EXACT = 1e6  # paths that are counted one by one; of more four digits are told


@dataclass(frozen=True)
class ShownExample:
    """One probe example: its place in the set (from 0), its name, and its picture.

    `image` (H, W) or (H, W, 3) uint8; `point`: (x, y) of two-dimensional data among all `points`
    (n, 2); `why`: in a few words, why there is neither.
    """

    place: int
    name: str
    detail: str
    image: Array | None = None
    point: tuple[float, float] | None = None
    points: Array | None = None
    why: str = ""


@dataclass(frozen=True)
class GateRows:
    """The gates of one layer for the examples: `rows` (1 or 2, w) in [0, 1]; `agree` (w,) where
    both are open or both closed, None where that cannot be told."""

    name: str
    rows: Array
    agree: Array | None
    words: str


@dataclass(frozen=True)
class ExampleReadout:
    """Everything about the examples under the cursor; `lines` say values and counts."""

    examples: tuple[ShownExample, ...]
    gates: tuple[GateRows, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """For a screen reader, in one breath."""
        named = " and ".join(one.name for one in self.examples)
        gates = (f"{rows.name}: {rows.words}" for rows in self.gates if rows.words)
        return ". ".join((named, *map(plain, self.lines), *gates)) + "."


def example_readout(view: View, chart: Chart, x: float, y: float) -> ExampleReadout | None:
    """What is told at (x, y) of a chart of a panel that was drawn with this view; None where no
    probe example is."""
    places = selection_at(chart, x, y).examples
    if view.pictures is None or chart.matrix is None or not places:
        return None
    told = describe(chart, x, y)
    named = 2 if chart.matrix.column_examples else 1
    shown = tuple(shown_example(view.pictures, place) for place in places)
    seen = (compared_view(view) or view) if chart.matrix.of_compared else view
    gates, missing = gate_rows(seen, places, chart.matrix.layer)
    value = ": ".join(told[named:])
    lines = [f"{chart.title}: {value}" if named == 2 else value] if value else []
    if len(places) == 2 and chart.matrix.layer is None:
        lines.extend(shared_paths(seen, places, chart))
    lines.extend(filter(None, (*missing, view.pictures.missing)))
    return ExampleReadout(shown, gates, tuple(lines))


def shown_example(pictures: ProbeExamples, place: int) -> ShownExample:
    """One example of the set by its place."""
    known = pictures.probe_set
    label = known.labels[place]
    kind = known.class_names[label] if label < len(known.class_names) else str(label)
    own = place >= len(known.labels) - known.drawn
    name = f"example {place}, drawn" if own else f"example {place}, class {kind}"
    row = f"no. {known.indices[place]:,} of the training data"
    detail = "your own: it has no label" if own else row
    images, vectors = pictures.images, pictures.vectors
    if images is not None:
        return ShownExample(place, name, detail, images[place])
    if vectors is None:
        return ShownExample(place, name, detail, why="no picture")
    varying = np.flatnonzero(np.ptp(vectors, axis=0) > 0)  # plane data have a constant beside
    if len(varying) != 2:
        return ShownExample(place, name, detail, why=f"{vectors.shape[1]:,} numbers")
    points = vectors[:, varying]
    x, y = (float(value) for value in points[place])
    return ShownExample(
        place, name, f"({number(x, 3)}, {number(y, 3)})", point=(x, y), points=points
    )


def gate_rows(
    view: View, places: tuple[int, ...], layer: int | None
) -> tuple[tuple[GateRows, ...], tuple[str, ...]]:
    """The gates of these examples in one layer, or (None) in all, and what is missing, in words."""
    reading = view.readings.get("gates")
    if reading is None:
        return (), ("Gate maps shows their gates: open it.",)
    if reading.absent or "labels" not in reading.arrays:
        return (), ("Their gates are not read in this regime.",)
    rows = example_rows(view, reading.arrays["labels"])
    if any(place not in rows for place in places):
        return (), ("Their gates were read of fewer examples.",)
    at = [rows.index(place) for place in places]
    wanted = layers_in(reading.arrays, "layer")
    found = [_rows_of(view, reading, one, at) for one in wanted if layer in (None, one)]
    behind = (f"Gates of step {reading.step:,}.",) if reading.step != _newest(view) else ()
    return tuple(found), behind


def _newest(view: View) -> int:
    """The step of the newest reading that a pair is told of."""
    found = [view.readings[name].step for name in ("gates", "overlap") if name in view.readings]
    return max(found, default=0)


def _rows_of(view: View, reading: Reading, layer: int, at: list[int]) -> GateRows:
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
    """'Shared active paths: 120 of 400 and 350'; nothing where Λ is no number of paths, or is not
    read."""
    reading = view.readings.get("overlap")
    if reading is None or reading.absent or "paths" not in reading.arrays:
        return ()
    rows = example_rows(view, reading.arrays["labels"])
    if any(place not in rows for place in places):
        return ()
    a, b = (rows.index(place) for place in places)
    own = reading.arrays["paths"]
    cosine = float(reading.arrays["active"][a, b])
    shared = 0.0 if math.isnan(cosine) else cosine * math.sqrt(float(own[a]) * float(own[b]))
    words = f"Shared active paths: {_count(shared)} of {_count(own[a])} and {_count(own[b])}"
    kernel = chart.matrix.name if chart.matrix is not None else ""
    late = f" (step {reading.step:,})" if kernel not in ("active", "sensitive") else ""
    return (words + late,)


def _count(paths: float) -> str:
    """A whole number, or four digits of one that has more than six."""
    if paths < EXACT:
        return f"{round(paths):,}"
    digits, _, power = f"{paths:.3e}".partition("e")
    return f"${digits}·10^{{{int(power)}}}$"
