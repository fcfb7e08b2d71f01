"""Digests of a log by stretches of its lines, kept up while it is appended to.

A line of another copy of the same run is sound by itself; the stretch that it stands in has another
digest than its writer left.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash

STRETCH = 64  # lines
MOST = 4096  # digests that are written down; of a longer log each is of two stretches, of four …
DIGITS = 16  # of each, as in the names of frames
NONE = "0" * DIGITS  # of a stretch that has no line


class LogDigests:
    """`take` the sound lines in order."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._open: _Hash | None = None

    def take(self, seq: int, raw: bytes) -> None:
        """A line with its end."""
        place = seq // STRETCH
        if place > len(self._done):
            self._finish(place)
        if self._open is None:
            self._open = hashlib.sha256()
        self._open.update(raw)

    def _finish(self, place: int) -> None:
        self._done.append(NONE if self._open is None else self._open.hexdigest()[:DIGITS])
        self._done += [NONE] * (place - len(self._done))
        self._open = None

    def digests(self) -> tuple[int, tuple[str, ...]]:
        """How many lines each is of, and the digests in order."""
        last = [] if self._open is None else [self._open.hexdigest()[:DIGITS]]
        found, lines = [*self._done, *last], STRETCH
        while len(found) > MOST:
            found, lines = [_both(found[n : n + 2]) for n in range(0, len(found), 2)], 2 * lines
        return lines, tuple(found)


def _both(digests: list[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:DIGITS]
