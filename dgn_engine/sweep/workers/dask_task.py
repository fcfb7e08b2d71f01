"""What runs on a Dask worker: one unit, its progress told as events, text in and text out.

Also a preload of workers on this machine: `dask_setup` makes them deaf to Ctrl-C, which the
terminal sends to them too; who started them tells them to stop.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import threading
from pathlib import Path
from typing import Any

from distributed import get_worker

from dgn_engine import __version__
from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.sweep.attempt import attempt


def introduce(root: str) -> str:
    """Who this worker is, and whether it sees the sweep's folder, as JSON."""
    return json.dumps(
        {
            "pid": os.getpid(),
            "host": platform.node(),
            "version": __version__,
            "sees": (Path(root) / LOCK).exists(),
        }
    )


def carry_out_here(text: str, topic: str) -> str:
    """Attempt the task in `text`. Who cancels it, or dies, makes it save itself and end; then its
    last word goes the way of its progress, because nobody waits for the result.
    """
    worker: Any = get_worker()
    key = worker.get_current_task()

    def tell(news: str) -> None:
        worker.log_event(topic, news)

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        wanted = task is not None and task.state in ("executing", "long-running")
        return not wanted or worker.status.name not in ("running", "paused")

    answer = attempt(text, tell, unwanted)
    if unwanted():
        tell(answer)
    return answer


def dask_setup(_worker: object) -> None:
    """Called by Dask in a worker that is told to preload this module."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
