"""A scalar over the steps of a run in bounded memory: long curves are thinned out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dgn_engine.protocol.frames import Array

MOST_POINTS = 1 << 17  # kept of one curve
_FIRST_CAPACITY = 256
# A point: its index among the points that are not NaN, its step, its value.
_NONE: tuple[int, int, float] = 0, 0, math.nan


class ThinnedCurve:
    """An append-only curve of steps (int64) and values (float64).

    Up to `most` points are all kept. Then every second one is dropped, and of the following points
    every second one is kept; and so on. The first, last, lowest and highest points are always
    included. NaN breaks the line, and is kept until there are too many of them.

    Arrays that were returned never change.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._steps = np.empty(min(_FIRST_CAPACITY, most), dtype=np.int64)
        self._values = np.empty(min(_FIRST_CAPACITY, most), dtype=np.float64)
        self._length = 0
        self._every = 1
        self._numbers = 0  # points so far that are not NaN
        self._low = self._high = self._last = _NONE
        self._points: tuple[Array, Array] | None = None
        self.count = 0  # of all appended points

    @property
    def point_count(self) -> int:
        """The number of points that are kept."""
        return len(self.points()[0])

    def append(self, step: int, value: float) -> None:
        """Append a point; a small network calls this hundreds of times a second."""
        self.count += 1
        self._points = None
        if value != value:  # NaN
            self._push_point(step, value)
            return
        number = self._numbers
        self._numbers += 1
        self._last = number, step, value
        if not self._low[2] <= value:
            self._low = self._last
        if not self._high[2] >= value:
            self._high = self._last
        if number % self._every == 0:
            self._push_point(step, value)

    def points(self) -> tuple[Array, Array]:
        """Return all kept points, read-only, and without copying while no point was dropped."""
        if self._points is None:
            steps, values = self._steps[: self._length], self._values[: self._length]
            others = {p for p in (self._low, self._high, self._last) if p[0] % self._every}
            if others:
                extra = sorted(others)
                positions = np.searchsorted(steps, [point[1] for point in extra], side="right")
                steps = np.insert(steps, positions, [point[1] for point in extra])
                values = np.insert(values, positions, [point[2] for point in extra])
            steps.flags.writeable = values.flags.writeable = False
            self._points = steps, values
        return self._points

    def _push_point(self, step: int, value: float) -> None:
        if self._length == self._most:
            self._drop_half()
            if not math.isnan(value) and (self._numbers - 1) % self._every:
                return
        if self._length == len(self._steps):
            self._copy_points(lambda array: array, min(2 * self._length, self._most))
        self._steps[self._length] = step
        self._values[self._length] = value
        self._length += 1

    def _drop_half(self) -> None:
        """Drop every second number, and every second NaN if more than a quarter of all points are
        NaN."""
        breaks = np.isnan(self._values[: self._length])
        keep = np.cumsum(~breaks) % 2 == 1  # the first number, the third …
        keep[breaks] = True
        if breaks.sum() > self._most // 4:
            keep[breaks] = np.arange(breaks.sum()) % 2 == 0
        self._length = int(keep.sum())
        self._every *= 2
        self._copy_points(lambda array: array[: len(keep)][keep], self._most)

    def _copy_points(self, chosen: Callable[[Array], Array], capacity: int) -> None:
        """Copy the points to new arrays, since callers may have the old ones."""
        arrays = chosen(self._steps), chosen(self._values)
        self._steps = np.empty(capacity, dtype=np.int64)
        self._values = np.empty(capacity, dtype=np.float64)
        for target, source in zip((self._steps, self._values), arrays, strict=True):
            target[: len(source)] = source
