"""Hands memory that nobody uses any more back to the system.

glibc keeps what was freed in the middle of its heaps: after a dozen large networks that is more
than everything in use. `malloc_trim` returns it, except for the free end of each heap that belongs
to a thread, up to 64 MB apiece; so all threads of the program share the main heap.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

M_ARENA_MAX = -8  # of glibc's malloc.h
AGAIN = 5.0  # seconds after which panels, recorder and reading process have let go of it, too


def use_one_heap() -> None:
    """Have all threads allocate from the main heap; nothing happens where the C library is another.

    Call it before the process starts a thread, and only in a process that is the program's own: a
    thread that has a heap keeps it, and a host program may want its threads to have heaps.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    set_option.argtypes, set_option.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    set_option(M_ARENA_MAX, 1)


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
