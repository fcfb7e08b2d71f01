"""Ends a process some time after its parent, also in the middle of a long calculation.

For children that save their work when their parent is gone. Those that have nothing to save are
killed at once (`process.end_with_parent`).
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

LEAVE = 20.0  # seconds that a process has to save and end when its parent is gone
ORPHANED = 1  # its exit code where it did not
_EVERY = 0.5  # seconds between two looks, where the system gives no handle of the parent


def end_after_parent() -> None:
    """End this process `LEAVE` seconds after its parent, by a thread: the main thread may be in a
    call of a library that returns late or never."""
    parent = os.getppid()
    threading.Thread(target=_watch, args=(LEAVE, parent), name="dgn-orphan", daemon=True).start()


def _watch(seconds: float, parent: int) -> None:
    spawned_by = multiprocessing.parent_process()
    if spawned_by is not None:
        spawned_by.join()
    else:
        while os.getppid() == parent:
            time.sleep(_EVERY)
    time.sleep(seconds)
    os._exit(ORPHANED)
