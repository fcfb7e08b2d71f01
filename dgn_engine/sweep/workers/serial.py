"""One unit after another, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dgn_engine.sweep.attempt import UnitTask, attempt_task
from dgn_engine.sweep.executor import Told, UnitProgress
from dgn_engine.sweep.scheduler import carry_out
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.unit_update import UnitUpdate


class SerialExecutor:
    """The simplest executor; see `Executor`."""

    def run(
        self,
        units: Sequence[Unit],
        root: Path,
        told: Callable[[UnitProgress], None],
        stop: Callable[[], bool],
    ) -> dict[str, Told]:
        """Carry the units out in `root`."""
        return carry_out(_Alone(), units, root, told, stop)


class _Alone:
    """A crew of one: it works while it is waited for."""

    def __init__(self) -> None:
        self._task: UnitTask | None = None
        self._tell: Callable[[UnitUpdate], None]
        self._stop: Callable[[], bool]

    @contextmanager
    def gather(
        self, units: Sequence[Unit], tell: Callable[[UnitUpdate], None], stop: Callable[[], bool]
    ) -> Iterator[None]:
        self._tell, self._stop = tell, stop
        yield

    def take(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        self._task = ready[0]
        return ready[:1]

    def work(self, seconds: float) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            self._tell(attempt_task(task, self._tell, self._stop))
        else:
            time.sleep(seconds)

    def interrupt(self) -> None:
        """It has asked for itself."""
