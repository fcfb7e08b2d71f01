"""Execute units one after another in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import OnUpdate, Stopped, Unit, UnitTask
from dgn_engine.sweep.workers.attempt import attempt_unit


class SerialExecutor(Executor):
    def workers_in(self, root: Path) -> SerialWorker:
        return SerialWorker()


class SerialWorker:
    """A single worker that runs its task in `poll`."""

    def __init__(self) -> None:
        self._task: UnitTask | None = None
        self._on_update: OnUpdate
        self._stopped: Stopped

    @contextmanager
    def start(self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped) -> Iterator[None]:
        self._on_update, self._stopped = on_update, stopped
        yield

    def submit(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        self._task = ready[0]
        return ready[:1]

    def poll(self, seconds: float) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            update = attempt_unit(task, self._on_update, self._stopped)
            if update.state == "lost":
                raise UserError(
                    f"The GPU failed and can no longer be used by this process; run the same "
                    f"command to resume: {update.trouble.splitlines()[-1]}",
                    kind="no-device",
                )
            self._on_update(update)
        else:
            time.sleep(seconds)

    def interrupt(self) -> None:
        """Do nothing: units poll `stopped` themselves."""
