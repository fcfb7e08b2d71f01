"""Reads recorded frames in a thread of the window, so that neither it nor the engine waits.

Of requests the newest wins: who drags a slider sees where it is, not where it was. Frames of a run
that is not recorded are packed by the same thread.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.views.frame_source import Source

_SHARE = 0.05  # of its time that looking at the folder of a run in progress may take
_LEAST = 0.5  # seconds between two such looks,
_MOST = 5.0  # at most: a computer that slept during a look has not looked all that time


@dataclass(frozen=True)
class StepRequest:
    """The last recorded step at or before `step`, or, `moved`, so many recorded steps later than
    it, earlier where that is negative; not its `frame`: which steps there are."""

    source: Source
    step: int = 0
    moved: int = 0
    frame: bool = True


@dataclass(frozen=True)
class StepFound:
    """The answer: all recorded steps, the frame, or why there is none; what reading took."""

    request: StepRequest
    steps: tuple[int, ...] = ()
    frame: Frame | None = None
    trouble: str = ""
    seconds: float = 0.0  # of the processor


class PastReader(QObject):
    """`found(StepFound)` and `kept(seconds of the processor)` are emitted in its thread: connect
    them queued."""

    found = Signal(object)
    kept = Signal(float)

    def __init__(
        self, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._clock = clock
        self._wake = threading.Condition()
        self._wanted: StepRequest | None = None
        self._arrived: tuple[HeldFrames, Frame] | None = None  # to be packed
        self._closed = False
        self._thread: threading.Thread | None = None
        # Of the thread alone:
        self._source: Source | None = None
        self._steps: RecordedSteps | HeldFrames | None = None
        self._next_look = 0.0

    def ask(self, request: StepRequest) -> None:
        """Read this; what was asked before and has not been begun is not wanted any more."""
        with self._wake:
            if self._closed:
                return
            self._wanted = request
            self._rouse()

    def keep(self, held: HeldFrames, frame: Frame) -> None:
        """Hold this frame; one that came before and still waits is not wanted any more."""
        with self._wake:
            if self._closed:
                return
            self._arrived = held, frame
            self._rouse()

    def close(self) -> None:
        """End the thread after what it reads now."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _rouse(self) -> None:
        if self._thread is None:
            name = "dgn-past-reader"
            self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
            self._thread.start()
        self._wake.notify()

    def _serve(self) -> None:
        while True:
            with self._wake:
                while self._wanted is None and self._arrived is None and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
                request, self._wanted = self._wanted, None
                arrived = None
                if request is None:  # somebody who waits for a step comes first
                    arrived, self._arrived = self._arrived, None
            if request is not None:
                self.found.emit(self._answer(request))
            if arrived is not None:
                began = time.thread_time()
                arrived[0].add(arrived[1])
                self.kept.emit(time.thread_time() - began)

    def _answer(self, request: StepRequest) -> StepFound:
        began = time.thread_time()
        try:
            steps = self._look(request.source)
            if not request.frame:
                return StepFound(request, steps.steps)
            step = _moved(steps.steps, request.step, request.moved)
            frame = steps.at(step)
        except UserError as error:
            known = self._steps.steps if self._steps is not None else ()
            return StepFound(request, known, trouble=str(error))
        return StepFound(request, steps.steps, frame, seconds=time.thread_time() - began)

    def _look(self, source: Source) -> RecordedSteps | HeldFrames:
        """The steps of this source, as they were at the last look or, now and then, as they are."""
        now = self._clock()
        if self._steps is None or source != self._source:
            self._steps, self._source = source.frames(), source
        elif now >= self._next_look:
            self._steps.renew()
        else:
            return self._steps
        took = self._clock() - now
        self._next_look = now + took + min(max(took / _SHARE, _LEAST), _MOST)
        return self._steps


def _moved(steps: tuple[int, ...], step: int, by: int) -> int:
    """The recorded step so many places from a step; the first or the last where there are fewer."""
    if not by or not steps:
        return step
    place = bisect_right(steps, step) - 1 + by if by > 0 else bisect_left(steps, step) + by
    return steps[min(max(place, 0), len(steps) - 1)]
