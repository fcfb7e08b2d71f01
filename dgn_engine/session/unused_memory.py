"""Hands memory that nobody uses any more back to the system.

glibc keeps what was freed in the middle of its heaps, of each thread: after a dozen large networks
that is more than everything in use.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

AGAIN = 5.0  # seconds after which panels, recorder and reading process have let go of it, too


def give_back() -> None:
    """Have free pages taken out of the process; nothing happens where the C library is another."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    trim(0)


class UnusedMemory:
    """When memory is given back: once a network was let go, and once more a while later."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: list[float] = []

    def expect(self) -> None:
        """A network was let go a moment ago."""
        now = self._clock()
        self._due = [now, now + AGAIN]

    def give_back_due(self) -> None:
        """Between two steps: give back what is due."""
        if self._due and self._clock() >= self._due[0]:
            del self._due[0]
            give_back()
