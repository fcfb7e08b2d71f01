"""A thread that draws figures without touching Qt; the window collects the results."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from PySide6.QtCore import QObject, QTimer

_LOOK_MS = 15
_PATIENCE = 30.0  # seconds to wait for a figure on close


@dataclass
class _FigureJob:
    make: Callable[[], Any]
    done: Callable[[Any], object]
    kind: str
    result: Any = None
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            self.result = self.make()
        except Exception as error:  # raised again in the GUI thread
            self.result = error
        finally:
            self.ended.set()


class FigureThread(QObject):
    """Runs one job after the other, each in its own thread."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting: deque[_FigureJob] = deque()
        self._job: _FigureJob | None = None
        self._thread: threading.Thread | None = None
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._collect_result)

    @property
    def is_busy(self) -> bool:
        return self._job is not None

    def run_job(
        self, make: Callable[[], Any], done: Callable[[Any], object], kind: str = ""
    ) -> None:
        """Call `make` in a thread, then `done` here with its result or exception.

        Of the waiting jobs of one `kind`, only the newest is run.
        """
        if kind:
            self.drop_jobs(kind)
        self._waiting.append(_FigureJob(make, done, kind))
        self._start_next_job()

    def drop_jobs(self, kind: str) -> None:
        """Drop waiting jobs of a kind, and the result of one in progress."""
        self._waiting = deque(job for job in self._waiting if job.kind != kind)
        if self._job is not None and self._job.kind == kind:
            self._job.done = lambda _: None

    def close(self) -> None:
        """Wait for the job in progress; start no other."""
        self._waiting.clear()
        self._look.stop()
        if self._thread is not None:
            self._thread.join(_PATIENCE)
        self._job = self._thread = None

    def _start_next_job(self) -> None:
        if self._job is not None or not self._waiting:
            return
        self._job = self._waiting.popleft()
        self._thread = threading.Thread(target=self._job.run, name="dgn-figure", daemon=True)
        self._thread.start()
        self._look.start()

    def _collect_result(self) -> None:
        job = self._job
        if job is None or not job.ended.is_set():
            return
        assert self._thread is not None
        self._thread.join()
        self._job = self._thread = None
        self._look.stop()
        self._start_next_job()
        job.done(job.result)
