"""How far the axes of a chart reach, and curves thinned to what a screen can show."""

from __future__ import annotations

import math

import numpy as np

from dgn_viewer.scene.elements import Array, Axis, Chart, finite_range

Range = tuple[float, float]


def chart_range(chart: Chart) -> tuple[Range, Range]:
    """(x, y) of everything in the chart, in data units; positive where the axis is logarithmic."""
    if chart.matrix is not None:
        rows, columns = chart.matrix.values.shape
        return (-0.5, columns - 0.5), (-0.5, rows - 0.5)
    xs = [curve.x for curve in chart.curves if curve.x.size]
    ys = [curve.y for curve in chart.curves if curve.y.size]
    return _reach(chart.x, xs, 0.0), _reach(chart.y, ys, 0.05)


def _reach(axis: Axis, parts: list[Array], padding: float) -> Range:
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


def thinned(x: Array, y: Array, low: float, high: float, most: int = 2000) -> tuple[Array, Array]:
    """The part of an ascending curve seen in [low, high] in at most `most` points.

    Each bin keeps its least and its greatest value, so that no spike is lost.
    """
    start = max(int(np.searchsorted(x, low, side="left")) - 1, 0)
    end = min(int(np.searchsorted(x, high, side="right")) + 1, len(x))
    x, y = x[start:end], y[start:end]
    if len(x) <= most:
        return x, y
    size = math.ceil(len(x) / (most // 2))
    bins = len(x) // size
    body = y[: bins * size].reshape(bins, size)
    lowest = np.argmin(np.where(np.isnan(body), np.inf, body), axis=1)
    highest = np.argmax(np.where(np.isnan(body), -np.inf, body), axis=1)
    offsets = np.arange(bins) * size
    pairs = np.stack(
        [np.minimum(lowest, highest) + offsets, np.maximum(lowest, highest) + offsets], axis=1
    )
    kept = np.concatenate([pairs.ravel(), np.arange(bins * size, len(x))])
    return x[kept], y[kept]
