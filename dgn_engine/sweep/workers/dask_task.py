"""What runs on a Dask worker: one unit; its updates are events, tasks and updates are JSON.

Also a preload of the workers that we start: `dask_setup` lets them ignore Ctrl-C and a closed
terminal, which reach them too (the process that started them stops them), and lets those that are
jobs of Slurm end in order when they are told that their time is nearly up.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
import threading
from pathlib import Path
from typing import Any

from distributed import get_worker

from dgn_engine import __version__
from dgn_engine.confinement.start_folder import distrust_start_folder
from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.sweep.unit import UnitUpdate


def introduce(root: str) -> str:
    """Return who this worker is, and whether it sees the sweep's folder, as JSON."""
    return json.dumps(
        {
            "pid": os.getpid(),
            "host": platform.node(),
            "version": __version__,
            "sees": (Path(root) / LOCK).exists(),
        }
    )


def carry_out_here(text: str, topic: str) -> str:
    """Attempt the task in `text`.

    Where it is cancelled, or its client dies, it saves itself and ends; then its last update goes
    the way of its progress, because nobody waits for the result.
    """
    from dgn_engine.sweep.workers.attempt import attempt
    from dgn_engine.sweep.workers.unit_child import DEVICE_FAULT

    worker: Any = get_worker()
    key = worker.get_current_task()

    def send(update: str) -> None:
        worker.log_event(topic, update)

    def unwanted() -> bool:
        task = worker.state.tasks.get(key)
        wanted = task is not None and task.state in ("executing", "long-running")
        return not wanted or worker.status.name not in ("running", "paused")

    answer = attempt(text, send, unwanted)
    if UnitUpdate.from_text(answer).state == "lost":
        os._exit(DEVICE_FAULT)  # its card serves this process no more; its nanny starts another
    if unwanted():
        send(answer)
    return answer


def dask_setup(_worker: object) -> None:
    """Called by Dask in a worker, or a nanny, that is told to preload this module."""
    if "SLURM_JOB_ID" in os.environ or multiprocessing.parent_process() is not None:
        distrust_start_folder()  # it is no process of somebody else's
    if threading.current_thread() is not threading.main_thread():
        return
    if "SLURM_JOB_ID" in os.environ:  # SIGTERM is Dask's own way to end in order
        signal.signal(signal.SIGUSR1, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        return
    for name in ("SIGINT", "SIGHUP", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
