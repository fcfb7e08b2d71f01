"""A scalar over the steps of a run in bounded memory: of a long one not every point."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dgn_engine.protocol.frames import Array

MOST_POINTS = 1 << 17  # that are held of one curve
_FIRST_CAPACITY = 256
# Of a point: its number, counted from 0, those that are no number left out; its step; its value.
_NONE: tuple[int, int, float] = 0, 0, math.nan


class ThinnedCurve:
    """Steps (int64) and values (float64), append-only.

    While there are at most `most` points all of them are held. Then every second one goes, and of
    those that follow every second one is taken; and so on. The first, the last, the lowest and the
    highest are always there. NaN breaks the line: it stays until there are too many.

    Arrays that were handed out keep their content.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._steps = np.empty(min(_FIRST_CAPACITY, most), dtype=np.int64)
        self._values = np.empty(min(_FIRST_CAPACITY, most), dtype=np.float64)
        self._length = 0
        self._every = 1
        self._numbers = 0  # points so far that are numbers
        self._low = self._high = self._last = _NONE
        self._points: tuple[Array, Array] | None = None
        self.count = 0  # of all points that were appended

    @property
    def drawn(self) -> int:
        """How many points are held."""
        return len(self.points()[0])

    def append(self, step: int, value: float) -> None:
        """Hundreds a second come here while a small network trains."""
        self.count += 1
        self._points = None
        if value != value:  # NaN
            self._push(step, value)
            return
        number = self._numbers
        self._numbers += 1
        self._last = number, step, value
        if not self._low[2] <= value:
            self._low = self._last
        if not self._high[2] >= value:
            self._high = self._last
        if number % self._every == 0:
            self._push(step, value)

    def points(self) -> tuple[Array, Array]:
        """All points that are held, read-only; without a copy as long as those are all."""
        if self._points is None:
            steps, values = self._steps[: self._length], self._values[: self._length]
            others = {p for p in (self._low, self._high, self._last) if p[0] % self._every}
            if others:
                extra = sorted(others)
                places = np.searchsorted(steps, [point[1] for point in extra], side="right")
                steps = np.insert(steps, places, [point[1] for point in extra])
                values = np.insert(values, places, [point[2] for point in extra])
            steps.flags.writeable = values.flags.writeable = False
            self._points = steps, values
        return self._points

    def _push(self, step: int, value: float) -> None:
        if self._length == self._most:
            self._halve()
            if not math.isnan(value) and (self._numbers - 1) % self._every:
                return
        if self._length == len(self._steps):
            self._move(lambda array: array, min(2 * self._length, self._most))
        self._steps[self._length] = step
        self._values[self._length] = value
        self._length += 1

    def _halve(self) -> None:
        """Take every second number out; NaN too, where a quarter of all are such."""
        breaks = np.isnan(self._values[: self._length])
        kept = np.cumsum(~breaks) % 2 == 1  # the first number, the third …
        kept[breaks] = True
        if breaks.sum() > self._most // 4:
            kept[breaks] = np.arange(breaks.sum()) % 2 == 0
        self._length = int(kept.sum())
        self._every *= 2
        self._move(lambda array: array[: len(kept)][kept], self._most)

    def _move(self, chosen: Callable[[Array], Array], capacity: int) -> None:
        """Into new arrays: the old ones may be held by others."""
        arrays = chosen(self._steps), chosen(self._values)
        self._steps = np.empty(capacity, dtype=np.int64)
        self._values = np.empty(capacity, dtype=np.float64)
        for target, source in zip((self._steps, self._values), arrays, strict=True):
            target[: len(source)] = source
