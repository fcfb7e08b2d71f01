"""A stream beside the one that trains, and the one thread that works on it.

Light and heavy readings share both, so that they never compete with each other for the card. On a
CPU, where tests use it, only the stream is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

T = TypeVar("T")


class SideStream:
    """Runs work beside training, one piece after another, in the order in which it came."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's stub
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dgn-card-readings")
        self._newest: Future[Any] | None = None

    def record_event(self) -> torch.cuda.Event | None:
        """Return an event of all that the calling thread has queued so far; None on a CPU."""
        if self._stream is None:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stub
        event.record(torch.cuda.current_stream(self._device))
        return event

    def wait_for(self, event: torch.cuda.Event | None) -> None:
        """Let what is queued here from now on come after this event."""
        if self._stream is not None and event is not None:
            self._stream.wait_event(event)

    def synchronize(self) -> None:
        """Wait until all that was queued here is done."""
        if self._stream is not None:
            with contextlib.suppress(RuntimeError):  # the thread that trains meets the same fault
                self._stream.synchronize()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Do this work on the side; it is done when the card is."""

        def on_the_side() -> T:
            with self._current():
                return work()

        future = self._thread.submit(on_the_side)
        self._newest = future
        return future

    @property
    def has_waiting(self) -> bool:
        """Whether work was submitted that has not begun."""
        newest = self._newest
        return newest is not None and not (newest.running() or newest.done())

    def close(self) -> None:
        """End the thread; what it is at is finished first."""
        self._thread.shutdown(wait=True)

    @contextmanager
    def _current(self) -> Iterator[None]:
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            try:
                yield
            finally:
                self.synchronize()
