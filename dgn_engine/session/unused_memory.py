"""Return unused memory to the system.

glibc keeps freed memory in the middle of its heaps: after a dozen large networks that is more than
everything in use. `malloc_trim` returns it, except for the free end of each thread's heap, up to 64
MB apiece; so all threads of the program share the main heap.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Finished, Paused

M_ARENA_MAX = -8  # from glibc's malloc.h
AGAIN = 5.0  # seconds until panels, recorder and reading process have released it too


def use_one_heap() -> None:
    """Make all threads allocate from the main heap; does nothing with other C libraries.

    Call it before the process starts a thread, and only in the program's own process: a thread
    keeps its heap, and a host program may want one for each thread.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    set_option.argtypes, set_option.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    set_option(M_ARENA_MAX, 1)


def release_free_memory() -> None:
    """Return free pages to the system; does nothing with other C libraries."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    trim(0)


class UnusedMemory:
    """Decides when to return memory: once a network is released, and again a little later; or some
    time after a run has stopped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: list[float] = []

    def schedule_release(self) -> None:
        """Schedule the release: a network was just dropped."""
        now = self._clock()
        self._due = [now, now + AGAIN]

    def on_event(self, event: Event) -> None:
        """Schedule the release of a step's activations if the run stopped, but not at once: it may
        continue soon."""
        if isinstance(event, Paused | Finished):
            now = self._clock()
            self._due = [*(due for due in self._due if due <= now), now + AGAIN]

    def release_due(self) -> None:
        """Return memory if that is due; called between two steps."""
        if self._due and self._clock() >= self._due[0]:
            del self._due[0]
            release_free_memory()
