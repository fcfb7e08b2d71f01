"""Ends a process with its parent, or some time after it, also in the middle of a long calculation.

A child may be alone before it runs a line of ours. So each is told the number of its parent in its
environment (`child_process.python_environment`), and compares.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from functools import cache

from dgn_engine.confinement.start_folder import PARENT

LEAVE = 20.0  # seconds that a process has to save and end when its parent is gone
ORPHANED = 1  # its exit code where it did not
_EVERY = 0.5  # seconds between two looks, where the system gives no handle of the parent
_PARENT_ENDS = 1  # of prctl(2): PR_SET_PDEATHSIG


@cache
def _parent() -> int:
    """Return the process that started this one; as far as is known, where it was not told."""
    told = os.environ.pop(PARENT, "")  # children of this process are told another
    # On Windows a small program may stand between both, and a parent that is gone keeps its number.
    return int(told) if told.isdecimal() and sys.platform != "win32" else os.getppid()


def end_with_parent() -> None:
    """Be killed when the thread that started this process ends, where the kernel can do so (Linux);
    end now where the parent is gone already.

    Elsewhere a child ends when it reads or writes the closed pipe, or its time is over. After
    `process.cut_off`: new rights make the kernel forget it.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PARENT_ENDS, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != _parent():
        os._exit(ORPHANED)


def end_after_parent() -> None:
    """End this process `LEAVE` seconds after its parent, by a thread: the main thread may be in a
    call of a library that returns late or never.

    For children that save their work when their parent is gone.
    """
    threading.Thread(target=_watch, args=(LEAVE, _parent()), name="dgn-orphan", daemon=True).start()


def _watch(seconds: float, parent: int) -> None:
    # Whom multiprocessing has started, has imported it.
    spawning = sys.modules.get("multiprocessing.process")
    spawned_by = spawning and spawning.parent_process()
    if spawned_by is not None:
        spawned_by.join()
    else:
        while os.getppid() == parent:
            time.sleep(_EVERY)
    time.sleep(seconds)
    os._exit(ORPHANED)
