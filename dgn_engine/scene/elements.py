"""What a panel shows, as plain data for the screen, for figures and for exported numbers.

A panel returns a `Scene`; `dgn_viewer.plots` draws it with pyqtgraph, `figures` with matplotlib,
and the data export writes it as CSV or NPZ, so that all of them show the same numbers.
"""

from __future__ import annotations

import dataclasses
from dataclasses import field, replace
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.watching import ProbeExamples

Array = NDArray[Any]

# Names and labels may contain mathematics between dollars, with plain Greek letters: 'trace $K^V$',
# '$ρ_i$'; `typeset` parses it for the screen, matplotlib's mathtext for figures.

# One meaning, one colour; resolved by `theme` for light, dark and paper.
Role = Literal[
    "value",
    "feature",
    "cross",
    "compared",
    "accent",
    "muted",
    "text",
    "overlay_1",
    "overlay_2",
    "overlay_3",
    "overlay_4",
    "overlay_5",
    "overlay_6",
]
OVERLAYS: tuple[Role, ...] = tuple(role for role in get_args(Role) if "overlay" in role)
Dash = Literal["solid", "dash", "dot", "dashdot"]
# 'gates': two luminance-separated tones, 0…1; 'sequential': cividis; 'diverging': centred on 0;
# the others are chosen by the user: black over blue and yellow to white, white to blue, grey.
Ramp = Literal["gates", "sequential", "diverging", "cet_cbl1", "cet_l17", "grey"]

MarkKind = Literal[
    "swap", "permutation", "rotation", "drop", "dial", "undo", "redo", "run", "diverged"
]


@dataclass(frozen=True)
class Subjects:
    """Things of one kind along an axis ('layer', 'unit', 'example'), counted from 0.

    `ids[i]` is at `first + i * pitch` and `wide` across, in data units. An axis with subjects is
    linked: what is under the cursor is highlighted wherever it appears (`scene.selection`).
    """

    kind: str
    ids: range | tuple[int, ...]  # a range compares in constant time
    first: float = 0.0
    pitch: float = 1.0
    wide: float = 1.0


@dataclass(frozen=True)
class Axis:
    """An axis: its label, unit and scale, and its limits (None: those of the data)."""

    label: str = ""
    unit: str = ""
    log: bool = False
    by_span: bool = False  # `spanning_axis` chose linear or logarithmic, and may choose again
    limits: tuple[float, float] | None = None
    ticks: tuple[tuple[float, str], ...] | None = None  # None: chosen when it is drawn
    lines: tuple[float, ...] = ()  # thin lines across the chart: class boundaries
    places: bool = False  # its ticks name places with nothing in between
    epoch: int | None = None  # steps per epoch of an axis of steps, 0 if unknown
    subjects: Subjects | None = None


@dataclass(frozen=True)
class Curve:
    """A line through (x, y); NaN in y breaks it."""

    name: str
    x: Array
    y: Array
    role: Role = "text"
    dash: Dash = "solid"
    thick: bool = False
    marker: bool = False
    ring: bool = False  # markers are rings around those of another curve
    faint: bool = False  # raw values behind a smoothed line: thin, pale, unnamed
    smoothed: float = 0.0  # weight of the past; drawn, but not read out or exported
    segments: bool = False  # separate lines with NaN after each: drawn, not read out
    filled: bool = False  # (x, y) outlines an area filled pale, without a line
    layer: int | None = None  # the layer it belongs to


@dataclass(frozen=True)
class Sides:
    """The matrices of A and B and their difference, for the readout and the linked zoom.

    `key` is common to the three charts; `names` and `values` are in the same order.
    """

    key: str
    names: tuple[str, ...]
    values: tuple[Array, ...]


@dataclass(frozen=True)
class Matrix:
    """An image of `values` (rows, columns), row 0 at the top; NaN is drawn as empty."""

    name: str
    values: Array
    ramp: Ramp
    low: float
    high: float
    bar: str = ""  # label of the colour bar; empty: no bar
    row_name: str = "row"
    column_name: str = "column"
    row_labels: tuple[str, ...] = ()  # shown on hover, one per row
    column_labels: tuple[str, ...] = ()
    dead_columns: tuple[int, ...] = ()  # drawn hatched
    tile: tuple[int, int] | None = None  # of a montage: tile size; one empty pixel between tiles
    scale: str = ""  # how the values are normalised: 'unit diagonal', 'as computed'
    estimated: bool = False  # drawn with a hatched corner
    error: Array | None = None  # standard error of each entry of an estimate, if known
    # Values exist below `low`, above `high`: arrows on the bar.
    beyond: tuple[bool, bool] = (False, False)
    # Probe examples in the rows and columns (of a montage: the tiles); empty: not examples.
    row_examples: tuple[int, ...] = ()
    column_examples: tuple[int, ...] = ()
    layer: int | None = None  # its layer; None: the whole network
    of_compared: bool = False  # it shows B
    sides: Sides | None = None  # of a comparison


@dataclass(frozen=True)
class Mark:
    """An event on a time axis: a thin line across the charts, a chip in the lane below them."""

    x: float  # its step
    label: str
    kind: MarkKind = "swap"
    sentence: str = ""  # the event's full sentence
    time: str = field(default="", compare=False)  # time of day, if it was seen live


@dataclass(frozen=True)
class Chart:
    """One pair of axes: curves or one matrix."""

    key: str  # stable for the panel's lifetime, to keep zoom and items
    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...] = ()
    matrix: Matrix | None = None
    marks: tuple[Mark, ...] = ()
    cursor: float | None = None  # over steps only: the step looked back at
    delta: tuple[float, ...] = ()  # over steps only: marked steps, at most two
    row: int = 0
    column: int = 0
    row_span: int = 1
    column_span: int = 1
    square: bool = False  # one datum, one square
    small: bool = False  # an overview: no axis labels, no ticks
    chosen: bool = False  # outlined: the one shown large
    click: tuple[str, str] | None = None  # clicking sets this option of the panel to this value
    pick: str = ""  # clicking a column of the matrix sets this option to the column's index
    narrow: tuple[int, int, int, int] | None = None  # row, column, spans in narrow space
    named_above: bool = False  # in figures, name curves above it, not at their ends
    pictures: ProbeExamples | None = None  # drawn beside the rows, which are these examples

    @property
    def has_step_axis(self) -> bool:
        """True for a chart over steps, which has a lane of events below it."""
        return self.x.epoch is not None


@dataclass(frozen=True)
class Fact:
    """A number or word above the charts: 'ν' '12.4'."""

    name: str
    value: str
    about: str = ""  # tooltip: formula or meaning
    aside: bool = False  # shown on hover alone in the window; figures have all facts


@dataclass(frozen=True)
class Scene:
    """Everything a panel shows at one moment."""

    charts: tuple[Chart, ...]
    facts: tuple[Fact, ...] = ()
    step: int = 0  # step of the data
    note: str = ""  # below the charts of a figure, on hover in the window: normalisation, ridge
    refusal: str = ""  # part of the note that the window shows: a chart setting that has no effect


@dataclass(frozen=True)
class Empty:
    """Nothing to show, and why: what will appear and when, or which regime shows it.

    `kind`: a short id of the reason if a panel has several: 'no-gates'.
    """

    reason: str
    kind: str = ""


Shown = Scene | Empty


def with_matrix(chart: Chart, **changes: Any) -> Chart:
    """Change fields of the chart's matrix; without a matrix, return the chart unchanged."""
    if chart.matrix is None:
        return chart
    return replace(chart, matrix=replace(chart.matrix, **changes))


def finite_range(values: Array) -> tuple[float, float]:
    """Return the smallest and largest finite value; (0, 0) if there is none."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 0.0
    return float(finite.min()), float(finite.max())


def largest_magnitude(values: Array) -> float:
    """Return the largest finite magnitude; 1 if there is none above 0."""
    return max(map(abs, finite_range(values))) or 1.0


_PLAIN = (str, float, int, bool, type(None))


@cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Return the field names of a dataclass, None for other types.

    Cached, since scenes are compared on every drawing.
    """
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(item.name for item in dataclasses.fields(kind))


def deep_equal(one: object, other: object) -> bool:
    """Return whether two objects are equal, looking into arrays, with NaN equal to NaN."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) in _PLAIN:
        return one == other
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(deep_equal, one, other))
    names = _field_names(type(one))  # type: ignore[arg-type]  # types can be hashed
    if names is not None:
        return all(deep_equal(getattr(one, name), getattr(other, name)) for name in names)
    return one == other
