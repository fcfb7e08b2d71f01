"""Functions that run on a Dask worker; tasks and updates are passed as JSON."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from distributed import get_worker

from dgn_engine import __version__
from dgn_engine.storage.runs.folder_layout import LOCK
from dgn_engine.sweep.unit import UnitTask, UnitUpdate


def describe_worker(root: str) -> str:
    """Return the worker's process, version and whether it sees the sweep's folder, as JSON."""
    return json.dumps(
        {
            "pid": os.getpid(),
            "host": platform.node(),
            "version": __version__,
            "sees": (Path(root) / LOCK).exists(),
        }
    )


def carry_out_here(text: str, topic: str) -> str:
    """Execute the task in `text` and return its last update.

    If it is cancelled or its client dies, the unit is saved and ended. Its last update is then sent
    as an event, since nobody waits for the result.
    """
    from dgn_engine.sweep.workers.attempt import attempt_unit
    from dgn_engine.sweep.workers.unit_child import DEVICE_FAULT

    worker: Any = get_worker()
    key = worker.get_current_task()

    def send_update(update: UnitUpdate) -> None:
        worker.log_event(topic, update.to_text())

    def is_cancelled() -> bool:
        task = worker.state.tasks.get(key)
        wanted = task is not None and task.state in ("executing", "long-running")
        return not wanted or worker.status.name not in ("running", "paused")

    last = attempt_unit(UnitTask.from_text(text), send_update, is_cancelled)
    if last.state == "lost":
        os._exit(DEVICE_FAULT)  # the GPU is unusable in this process; the nanny starts a new one
    if is_cancelled():
        send_update(last)
    return last.to_text()
