"""Reads recorded frames in a thread, so that neither the window nor the engine waits.

Only the newest request counts: while the slider is dragged, intermediate steps are skipped. The
same thread packs the frames of a run that is not recorded.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.views.frame_source import FrameSource

_WAITING = 4  # frames that wait to be packed
_SHARE = 0.05  # share of the time spent listing the folder of a run in progress
_LEAST = 0.5  # minimum seconds between two listings
_MOST = 5.0  # maximum: the computer may have slept during a listing


@dataclass(frozen=True)
class StepRequest:
    """Request for the last recorded step at or before `step`, shifted by `moved` recorded steps.

    Without `frame`, only the list of recorded steps is requested.
    """

    source: FrameSource
    step: int = 0
    moved: int = 0
    frame: bool = True


@dataclass(frozen=True)
class StepFound:
    """Answer to a request: all recorded steps, and the frame or the reason why there is none."""

    request: StepRequest
    steps: tuple[int, ...] = ()
    frame: Frame | None = None
    trouble: str = ""
    seconds: float = 0.0  # CPU time of reading


class PastReader(QObject):
    """Reader thread for frames.

    `found(StepFound)` and `kept(cpu_seconds)` are emitted in this thread: use queued connections.
    """

    found = Signal(object)
    kept = Signal(float)

    def __init__(
        self, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._clock = clock
        self._wake = threading.Condition()
        self._wanted: StepRequest | None = None
        self._arrived: deque[tuple[HeldFrames, Frame]] = deque(maxlen=_WAITING)  # to be packed
        self._closed = False
        self._thread: threading.Thread | None = None
        # Used by the thread only:
        self._source: FrameSource | None = None
        self._steps: RecordedSteps | HeldFrames | None = None
        self._next_look = 0.0

    def submit_request(self, request: StepRequest) -> None:
        """Read this step; replaces a request that has not started."""
        with self._wake:
            if self._closed:
                return
            self._wanted = request
            self._wake_thread()

    def hold_frame(self, held: HeldFrames, frame: Frame) -> None:
        """Pack this frame; the oldest is dropped if too many have not been packed yet."""
        with self._wake:
            if self._closed:
                return
            self._arrived.append((held, frame))
            self._wake_thread()

    def close(self) -> None:
        """End the thread once it has finished its current read."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _wake_thread(self) -> None:
        if self._thread is None:
            name = "dgn-past-reader"
            self._thread = threading.Thread(target=self._serve_requests, name=name, daemon=True)
            self._thread.start()
        self._wake.notify()

    def _serve_requests(self) -> None:
        while True:
            with self._wake:
                while self._wanted is None and not self._arrived and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
                request, self._wanted = self._wanted, None
                to_pack = None
                if request is None:  # requests take precedence over packing
                    to_pack = self._arrived.popleft()
            if request is not None:
                self.found.emit(self._read_step(request))
            if to_pack is not None:
                began = time.thread_time()
                to_pack[0].pack_frame(to_pack[1])
                self.kept.emit(time.thread_time() - began)

    def _read_step(self, request: StepRequest) -> StepFound:
        began = time.thread_time()
        try:
            steps = self._list_steps(request.source)
            if not request.frame:
                return StepFound(request, steps.steps)
            step = _shift_step(steps.steps, request.step, request.moved)
            frame = steps.frame_at(step)
        except UserError as error:
            known = self._steps.steps if self._steps is not None else ()
            return StepFound(request, known, trouble=str(error))
        return StepFound(request, steps.steps, frame, seconds=time.thread_time() - began)

    def _list_steps(self, source: FrameSource) -> RecordedSteps | HeldFrames:
        """Return the steps of this source, listing them again only now and then."""
        now = self._clock()
        if self._steps is None or source != self._source:
            self._steps, self._source = source.open_frames(), source
        elif now >= self._next_look:
            self._steps.refresh_steps()
        else:
            return self._steps
        elapsed = self._clock() - now
        self._next_look = now + elapsed + min(max(elapsed / _SHARE, _LEAST), _MOST)
        return self._steps


def _shift_step(steps: tuple[int, ...], step: int, by: int) -> int:
    """Return the step `by` recorded steps away, clamped to the first and last."""
    if not by or not steps:
        return step
    index = bisect_right(steps, step) - 1 + by if by > 0 else bisect_left(steps, step) + by
    return steps[min(max(index, 0), len(steps) - 1)]
