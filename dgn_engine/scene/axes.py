"""Axes of charts: ranges, axes of steps and of examples by class, and thinning of curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Matrix, Scene, finite_range
from dgn_engine.scene.panel_spec import Values, View

Range = tuple[float, float]
LOG = " (log)"  # ends the title of a chart with a logarithmic y axis
_SPAN = 1e3  # span of values beyond which their axis is logarithmic
_HUGE = 1e6  # times all others: such a value would flatten the rest on any axis
_EXPLODED = 100.0  # times the median: a curve that ends there has blown up
_LEAST = 4.0  # steps, so that no tick falls on half a step
_FEWEST = 8  # probe examples in the first estimate of a slow reading


def chart_range(chart: Chart) -> tuple[Range, Range]:
    """Return the (x, y) ranges of everything in the chart, in data units.

    The range of a logarithmic axis is positive.
    """
    if chart.matrix is not None:
        rows, columns = chart.matrix.values.shape
        return (-0.5, columns - 0.5), (-0.5, rows - 0.5)
    xs = [curve.x for curve in chart.curves if curve.x.size]
    ys = [curve.y for curve in chart.curves if curve.y.size]
    return _axis_range(chart.x, xs, 0.0), _axis_range(chart.y, ys, 0.05)


def _axis_range(axis: Axis, parts: list[Array], padding: float) -> Range:
    if axis.limits is not None:
        return axis.limits
    values = np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)
    values = values.astype(np.float64, copy=False)
    if axis.log:
        low, high = finite_range(values[values > 0])
        if low <= 0:
            return 0.1, 1.0
        logs = math.log10(low), math.log10(high)
        pad = max((logs[1] - logs[0]) * padding, 0.03 if logs[1] > logs[0] else 0.5)
        return 10.0 ** (logs[0] - pad), 10.0 ** (logs[1] + pad)
    low, high = finite_range(values)
    if low == high:
        wide = abs(low) * 0.1 or 1.0
        return (low, low + wide) if padding == 0 else (low - wide, low + wide)
    pad = (high - low) * padding
    return low - pad, high + pad


def spanning_axis(curves: Sequence[Curve], log: bool | None = None) -> Axis:
    """Return an axis for positive values, logarithmic where they call for it.

    It is logarithmic if the values span more than three decades, or if a curve ends at a hundred
    times their median. A few values (one, or 2 % of many) that are a million times all others lie
    beyond the axis; `count_beyond` counts them.

    Args:
        curves: All curves on the axis, with raw values.
        log: The scale that the user chose, if any; then nothing lies beyond the axis.
    """
    if log is not None:
        return Axis(log=log)
    parts = [curve.y[np.isfinite(curve.y) & (curve.y > 0)] for curve in curves]
    values = np.sort(np.concatenate(parts)) if parts else np.zeros(0)
    if values.size < 2:
        return Axis(by_span=True)
    inside = values[: values.size - _count_outliers(values)]
    ends = max((float(part[-1]) for part in parts if part.size), default=0.0)
    exploded = _EXPLODED * float(np.median(inside)) < min(ends, float(inside[-1]))
    axis = Axis(log=bool(inside[-1] > _SPAN * inside[0]) or exploded, by_span=True)
    if inside.size < values.size:
        axis = replace(axis, limits=_axis_range(axis, [inside], 0.05))
    return axis


def count_beyond(curves: Sequence[Curve], axis: Axis) -> tuple[int, float]:
    """Return how many values lie above the axis, and the largest of them (0.0 if none does)."""
    if axis.limits is None:
        return 0, 0.0
    above = [curve.y[np.isfinite(curve.y) & (curve.y > axis.limits[1])] for curve in curves]
    greatest = max((float(part.max()) for part in above if part.size), default=0.0)
    return sum(part.size for part in above), greatest


def _count_outliers(values: Array) -> int:
    """Return how many of these ascending values, at the end, are far above all others."""
    for count in range(1, max(1, values.size // 50) + 1):
        if values.size - count >= 2 and values[-count] > _HUGE * values[-count - 1]:
            return count
    return 0


def thin_curve(
    x: Array, y: Array, low: float, high: float, most: int = 2000, log: bool = False
) -> tuple[Array, Array]:
    """Return the part of an ascending curve within [low, high] in at most `most` points.

    Each bin keeps its minimum and maximum, so that no spike is lost. With `log`, each doubling of
    x is thinned separately, since a logarithmic axis gives its first points more room.
    """
    start = max(int(np.searchsorted(x, low, side="left")) - 1, 0)
    end = min(int(np.searchsorted(x, high, side="right")) + 1, len(x))
    x, y = x[start:end], y[start:end]
    if len(x) <= most:
        return x, y
    if log:
        return _thin_doublings(x, y, most)
    return _thin_bins(x, y, math.ceil(len(x) / (most // 2)))


def _thin_doublings(x: Array, y: Array, most: int) -> tuple[Array, Array]:
    first = int(np.searchsorted(x, 0, side="right"))
    if first == len(x):
        return x[:0], y[:0]
    doublings = max(math.ceil(math.log2(float(x[-1]) / float(x[first]))), 1)
    edges = float(x[first]) * 2.0 ** np.arange(1, doublings)
    bounds = [first, *np.searchsorted(x, edges).tolist(), len(x)]
    pairs = max(most // doublings // 2 - 1, 1)  # plus one for points that fill no bin
    parts: list[tuple[Array, Array]] = []
    for start, end in pairwise(bounds):
        size = max(math.ceil((end - start) / pairs), 1)
        full = end - (end - start) % size
        parts.append(_thin_bins(x[start:full], y[start:full], size))
        parts.append(_thin_bins(x[full:end], y[full:end], end - full))
    return np.concatenate([part for part, _ in parts]), np.concatenate([part for _, part in parts])


def _thin_bins(x: Array, y: Array, size: int) -> tuple[Array, Array]:
    """Keep the minimum and maximum of every `size` points, and the points that fill no bin."""
    if size <= 2:
        return x, y
    bins = len(x) // size
    body = y[: bins * size].reshape(bins, size)
    lowest = np.argmin(np.where(np.isnan(body), np.inf, body), axis=1)
    highest = np.argmax(np.where(np.isnan(body), -np.inf, body), axis=1)
    offsets = np.arange(bins) * size
    pairs = np.stack(
        [np.minimum(lowest, highest) + offsets, np.maximum(lowest, highest) + offsets], axis=1
    )
    indices = np.concatenate([pairs.ravel(), np.arange(bins * size, len(x))])
    return x[indices], y[indices]


def step_axis(curves: Sequence[Curve], view: View | None = None) -> Axis:
    """Return an axis from step 0 to the last step; a single point lies inside the frame.

    `view`: provides the epochs that the lane of events shows.
    """
    last = max((float(curve.x[-1]) for curve in curves if curve.x.size), default=0.0)
    if view is not None and view.diverged is not None:  # keep its mark in view
        last = max(last, float(view.diverged))
    single = all(curve.x.size <= 1 for curve in curves)
    epoch = view.run.steps_per_epoch if view is not None and view.run is not None else 0
    return Axis(label="step", limits=(0.0, max(2 * last if single else last, _LEAST)), epoch=epoch)


def with_step_cursor(scene: Scene, step: int | None) -> Scene:
    """Draw the cursor at the step that is looked back at on the charts over steps."""
    if step is None or not any(chart.has_step_axis for chart in scene.charts):
        return scene
    charts = (replace(c, cursor=float(step)) if c.has_step_axis else c for c in scene.charts)
    return replace(scene, charts=tuple(charts))


def class_names(view: View, labels: Array) -> tuple[str, ...]:
    """Return the name of each class in `labels`, or its number if it has no known name."""
    names = view.run.probe_set.class_names if view.run is not None else ()
    if view.pictures is not None:
        names = view.pictures.probe_set.class_names  # another set, perhaps with drawn examples
    count = int(labels.max()) + 1 if labels.size else 0
    return tuple(names[label] if label < len(names) else str(label) for label in range(count))


def named_axis(label: str, names: Sequence[str]) -> Axis:
    """Return an axis with a place for each index from 0, at most about ten of them named."""
    stride = max(1, -(-len(names) // 10))
    ticks = tuple((float(index), names[index]) for index in range(0, len(names), stride))
    return Axis(label, limits=(-0.5, len(names) - 0.5), ticks=ticks)


def example_values(view: View) -> Values:
    """List the probe examples as the values of an option."""
    if view.run is None:
        return ()
    labels = np.array(view.run.probe_set.labels)
    names = class_names(view, labels)
    return tuple((str(i), f"example {i}, {names[int(label)]}") for i, label in enumerate(labels))


def example_axis(labels: Array, names: Sequence[str], label: str = "example, by class") -> Axis:
    """Return an axis over examples, with a line between classes and a name at their middle."""
    n = int(labels.size)
    changes = np.flatnonzero(np.diff(labels)) + 1
    starts = np.concatenate([[0], changes]).astype(int) if n else np.zeros(0, dtype=int)
    ends = np.concatenate([changes, [n]]).astype(int) if n else np.zeros(0, dtype=int)
    ticks = tuple(
        ((start + end - 1) / 2, _shorten_class(names[int(labels[start])]))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    lines = tuple(float(change) - 0.5 for change in changes.tolist())
    return Axis(label=label, limits=(-0.5, max(n, 1) - 0.5), ticks=ticks, lines=lines)


def example_labels(labels: Array, names: Sequence[str]) -> tuple[str, ...]:
    """Return 'example 12, class 3' for each example, for the cursor."""
    return _label_examples(tuple(labels.tolist()), tuple(names))


@lru_cache(maxsize=8)  # every matrix of a probe set has the same
def _label_examples(labels: tuple[int, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"example {i}, class {names[int(c)]}" for i, c in enumerate(labels))


def example_pairs(
    view: View,
    labels: Array,
    key: str,
    title: str,
    matrix: Matrix,
    column: int,
    classes_named: bool = True,
) -> Chart:
    """Return a square chart of `matrix`, whose rows and columns are these examples.

    `classes_named`: name the classes along y too, as the leftmost of several charts does.
    """
    names, rows = class_names(view, labels), example_rows(view, labels)
    tags, axis = example_labels(labels, names), example_axis(labels, names, "class")
    return Chart(
        key=key,
        title=title,
        x=axis,
        y=axis if classes_named else replace(axis, label="", ticks=()),
        matrix=replace(
            matrix,
            row_name="example",
            column_name="example",
            row_labels=tags,
            column_labels=tags,
            row_examples=rows,
            column_examples=rows,
        ),
        column=column,
        square=True,
    )


def example_rows(view: View, labels: Array) -> tuple[int, ...]:
    """Return which probe example each row of a reading is, counted from 0.

    A reading of fewer examples takes every n-th. Empty if the probe examples are unknown, or it is
    unclear which of them were read.
    """
    if view.pictures is None:
        return ()
    return _match_rows(view.pictures.probe_set.labels, tuple(labels.tolist()))


@lru_cache(maxsize=64)
def _match_rows(known: tuple[int, ...], seen: tuple[int, ...]) -> tuple[int, ...]:
    count = len(known)
    if seen and len(seen) < count and known[: len(seen)] == seen and known[len(seen)] > max(seen):
        return tuple(range(len(seen)))  # all but the drawn ones, which have no gates
    steps = {1 << shift for shift in range(count.bit_length())}  # halved repeatedly
    steps |= {max((count // _FEWEST) >> shift, 1) for shift in range(count.bit_length())}
    matches = {tuple(range(0, count, step)) for step in steps if known[::step] == seen}
    return matches.pop() if len(matches) == 1 else ()


def _shorten_class(name: str) -> str:
    """Cut a long name in the middle: classes often differ at their ends."""
    return name if len(name) <= 10 else f"{name[:5]}…{name[-4:]}"
