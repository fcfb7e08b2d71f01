"""Write a run's folder in a separate thread; when the disk fails, wait and try again."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.runs import RecordingMended, RecordingPaused, RecordingResumed
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.log import SYNC_EVERY, log_word
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder

RETRY = 2.0  # seconds between attempts while recording is paused
HELD_LINES = 200_000  # of the log, in memory meanwhile
TOGETHER = 256  # lines that wait to be written, at most
WAITING_FRAMES = 4  # further frames are dropped: the disk is slower than the probes


class _Note(NamedTuple):
    name: str
    fields: Mapping[str, Any]


# Lines are written together: each wake-up and each system call delays training.
_NoteBatch = tuple[_Note, ...]


@dataclass(frozen=True)
class _Checkpoint:
    snapshot: Snapshot
    kept: str


@dataclass
class WriteMarker:
    """A position in the order of writing.

    `done` is set once everything before it is on disk, and `lines` of the log (-1: recording is
    paused, so it is not).
    """

    lines: int = -1
    done: threading.Event = field(default_factory=threading.Event)


_Job = _NoteBatch | _Checkpoint | Frame | WriteMarker


class _WaitingJobs:
    """Jobs that wait in memory until they can be written; `lost`: lines that did not fit."""

    def __init__(self, most: int) -> None:
        """`most`: approximate number of lines."""
        self._most = most
        self.jobs: deque[_Note | _Checkpoint | Frame] = deque()
        self.lost = 0

    def add_job(self, job: _Note | _Checkpoint | Frame) -> None:
        """Add a job; only the newest checkpoint is kept."""
        if isinstance(job, _Checkpoint):
            self.jobs = deque(other for other in self.jobs if not isinstance(other, _Checkpoint))
        elif len(self.jobs) >= self._most:
            lines = ((n, job_) for n, job_ in enumerate(self.jobs) if isinstance(job_, _Note))
            stays = RecordingPaused.__name__
            del self.jobs[next(n for n, line in lines if line.name != stays)]
            self.lost += 1
        self.jobs.append(job)


class Recorder:
    """Accepts jobs at any time without waiting for the disk; its events report problems."""

    def __init__(
        self, folder: RunFolder, retry: float = RETRY, held_lines: int = HELD_LINES
    ) -> None:
        self.folder = folder
        self._retry = retry
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._events: deque[Event] = deque()
        folder.tell = self._events.append
        self._room = threading.Semaphore(WAITING_FRAMES)
        self._later: list[_Note] = []  # used by the calling thread
        self.before_close: Callable[[], None] = lambda: None  # writes last into the folder
        self._ended = threading.Event()
        self._saving = threading.Event()  # a checkpoint waits or is being written
        # Used by the writing thread only:
        self._step = 0
        self._waiting = _WaitingJobs(held_lines)
        self._tried = 0.0
        self.busy = 0.0  # processor seconds used by its thread
        self.paused = ""  # the reason; '' if not paused
        self._thread = threading.Thread(target=self._run_thread, name="dgn-recorder", daemon=True)
        self._thread.start()

    @property
    def is_saving(self) -> bool:
        """True until the last checkpoint is on disk."""
        return self._saving.is_set() and not self.paused

    def write_note(self, name: str, fields: Mapping[str, Any], soon: bool = True) -> None:
        """Write a line; unless `soon`, with the next one or on `flush_notes`.

        Waking the writing thread delays the caller.
        """
        self._later.append(_Note(name, fields))
        if soon or len(self._later) >= TOGETHER:
            self.flush_notes()

    def flush_notes(self) -> None:
        """Write the lines that wait for the next one now."""
        later, self._later = self._later, []
        if later and not self._ended.is_set():
            self._jobs.put(tuple(later))

    def add_frame(self, frame: Frame, patience: float = 0.0) -> bool:
        """Write a frame, unless too many wait for `patience` seconds; return whether accepted."""
        if self.paused or not self._room.acquire(timeout=patience):
            return False
        self._queue_job(frame)
        return True

    def save_checkpoint(self, snapshot: Snapshot, kept: str = "") -> None:
        """Write a checkpoint, unless it is not finite: then the last finite one stays."""
        self._saving.set()
        self._queue_job(_Checkpoint(snapshot, kept))

    def take_events(self) -> list[Event]:
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until everything so far is on disk; return whether it is."""
        mark = self.mark_written()
        return not self._ended.is_set() and mark.done.wait(timeout) and not self.paused

    def mark_written(self) -> WriteMarker:
        """Mark everything so far; the marker is done once that is on disk."""
        mark = WriteMarker()
        self._queue_job(mark)
        return mark

    def close(self, timeout: float = 30.0) -> bool:
        """Write what waits and close the folder; return whether everything is on disk."""
        self.flush_notes()
        self._jobs.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive() and not self.paused

    def _queue_job(self, job: _Job) -> None:
        if not self._ended.is_set():
            self.flush_notes()
            self._jobs.put(job)

    def _run_thread(self) -> None:
        try:
            while (job := self._next_job()) is not None:
                self._handle_job(job)
                self.busy = time.thread_time()
            if self.paused:
                self._try_again(last=True)
            self.before_close()
        except Exception as error:  # a bug must not end the run
            self.paused = f"The recorder failed: {error}."
            self._events.append(Failed(self.paused, traceback.format_exc()))
        finally:
            self._ended.set()
            self._saving.clear()
            self.folder.close()

    def _next_job(self) -> _Job | None:
        """Wait for the next job; meanwhile sync the log, or retry what waits."""
        while True:
            try:
                return self._jobs.get(timeout=min(self._retry, SYNC_EVERY))
            except queue.Empty:
                if self.paused:
                    self._try_again()
                    continue
                try:
                    self.folder.sync()
                    self._report_repairs()
                except OSError as error:
                    self._pause_recording(error)

    def _handle_job(self, job: _Job) -> None:
        if isinstance(job, Frame):
            self._room.release()
            if not self.paused and not self._try_write(job):
                self._waiting.add_job(
                    job
                )  # so that recording resumes when there is room for a frame
        elif isinstance(job, WriteMarker):
            if not self.paused and self._try_write(job):
                job.lines = self.folder.log.line_count
            job.done.set()
        else:
            parts = job if isinstance(job, tuple) else (job,)
            for part in parts:
                self._step = _step_of(part, self._step)
            waits = bool(self.paused)
            written = not waits and self._try_write(job)
            for part in () if written else parts:
                self._waiting.add_job(part)
            if waits and time.monotonic() - self._tried >= self._retry:
                self._try_again()

    def _try_write(self, job: _Job) -> bool:
        try:
            self._write_job(job)
            self._report_repairs()
        except OSError as error:
            self._pause_recording(error)
            return False
        return True

    def _write_job(self, job: _Job) -> None:
        match job:
            case tuple():
                self.folder.note_all(job)
            case Frame():
                self.folder.add_frame(job)
            case WriteMarker():
                self.folder.sync()
            case _Checkpoint():
                if job.snapshot.weights_finite():
                    self.folder.add_checkpoint(job.snapshot, job.kept)
                self._saving.clear()

    def _report_repairs(self) -> None:
        """Report and log what was mended in the folder."""
        for remark in self.folder.folder.take_remarks():
            event = RecordingMended(remark, self._step, str(self.folder.path))
            self._events.append(event)
            self.folder.write_note(log_word(event), to_plain(event))

    def _pause_recording(self, error: OSError) -> None:
        self._tried = time.monotonic()
        if self.paused:
            return
        self.paused = self._reason_paused(error)
        event = RecordingPaused(self.paused, self._step)
        self._events.append(event)
        self._waiting.jobs.append(_Note(log_word(event), to_plain(event)))

    def _reason_paused(self, error: OSError) -> str:
        return (
            f"Recording to {self.folder.path} is paused: "
            f"{self.folder.folder.reason_unwritable(error)}."
        )

    def _try_again(self, last: bool = False) -> None:
        self._tried = time.monotonic()
        try:
            self.folder.recover_folder(last)
            while self._waiting.jobs:
                job = self._waiting.jobs[0]
                self._write_job((job,) if isinstance(job, _Note) else job)
                self._waiting.jobs.popleft()
            self.folder.sync()  # before the note: if this fails again, it must not be repeated
            event = RecordingResumed(self._step, self._waiting.lost)
            self.folder.write_note(log_word(event), to_plain(event))
            self._report_repairs()
        except OSError as error:
            self.paused = self._reason_paused(error)  # the reason may have changed
            return
        self.paused = ""
        self._waiting.lost = 0
        self._events.append(event)


def _step_of(job: _Note | _Checkpoint, before: int) -> int:
    if isinstance(job, _Checkpoint):
        return job.snapshot.step
    step = job.fields.get("step", before)
    return step if isinstance(step, int) else before
