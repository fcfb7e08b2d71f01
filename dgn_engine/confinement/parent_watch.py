"""End a process with its parent, or some time after it, even during a long calculation.

A child may be orphaned before it runs a line of ours. So each gets its parent's process id in its
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

LEAVE = 20.0  # seconds for a process to save and end after its parent
ORPHANED = 1  # its exit code if it did not
_EVERY = 0.5  # seconds between checks, if the system gives no handle of the parent
_PARENT_ENDS = 1  # PR_SET_PDEATHSIG of prctl(2)


@cache
def _parent_pid() -> int:
    """Return the process that started this one, as far as is known."""
    parent = os.environ.pop(PARENT, "")  # children of this process get another one
    # On Windows a launcher may be in between, and the id of a dead parent does not change.
    return int(parent) if parent.isdecimal() and sys.platform != "win32" else os.getppid()


def end_with_parent() -> None:
    """Be killed when the thread that started this process ends, if the kernel can (Linux).

    Ends now if the parent is already gone. On other systems a child ends when it reads or writes
    the closed pipe, or when its time is over. Call it after `process.unshare_network`, because the
    kernel forgets it when rights change.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PARENT_ENDS, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != _parent_pid():
        os._exit(ORPHANED)


def end_after_parent() -> None:
    """End this process `LEAVE` seconds after its parent, from a thread.

    The main thread may be in a library call that returns late or never. For children that save
    their work when their parent is gone.
    """
    threading.Thread(
        target=_watch_parent, args=(LEAVE, _parent_pid()), name="dgn-orphan", daemon=True
    ).start()


def _watch_parent(seconds: float, parent: int) -> None:
    # A process started by multiprocessing has imported it.
    spawning = sys.modules.get("multiprocessing.process")
    spawned_by = spawning and spawning.parent_process()
    if spawned_by is not None:
        spawned_by.join()
    else:
        while os.getppid() == parent:
            time.sleep(_EVERY)
    time.sleep(seconds)
    os._exit(ORPHANED)
