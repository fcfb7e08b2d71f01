"""Record a run: what is written when, so that at most ten seconds can be lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from dgn_engine.data import Examples
from dgn_engine.errors import UserError
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import (
    SAMPLES,
    FramesRecorded,
    RecordingMended,
    RecordingPaused,
    RecordingResumed,
    RecordThinned,
    RunContinued,
)
from dgn_engine.protocol.training import (
    Finished,
    Measured,
    RegimeSwapped,
    Rewired,
    RunStarted,
    SettingChanged,
)
from dgn_engine.protocol.watching import ProbeSetChanged
from dgn_engine.storage.inner_path import InnerPath
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.branch_origin import origin_of
from dgn_engine.storage.runs.log import is_logged, log_word
from dgn_engine.storage.runs.recorder import Recorder, WriteMarker
from dgn_engine.storage.runs.run_checkpoints import Snapshot
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.training.devices import device_name
from dgn_engine.training.readings.watch_budget import SHARED
from dgn_engine.training.run import Report, Run
from dgn_engine.training.run_snapshot import capture_run, restore_run

CHECKPOINT_EVERY = 5.0  # seconds; more if copying the weights takes long,
LATEST = 9.0  # up to this
COPY_SHARE = 0.4  # of the watch budget, for copying weights
FRAME_EVERY = 1.0  # seconds; more if writing takes long,
FRAME_LATEST = 5.0  # up to this
FRAME_SHARE = 0.2  # of the watch budget, for the recorder's thread
NOTES_EVERY = 2.0  # seconds after which waiting scores are passed on for writing
PATIENCE = 30.0  # seconds a required frame waits for the disk
# Changes after which the next frame is recorded, and events that their writer logs itself.
_CHANGES = (RegimeSwapped, WeightsTaken, Rewired, SettingChanged, ProbeSetChanged)
_WRITTEN = (RecordingPaused, RecordingResumed, RecordingMended, RunContinued, RecordThinned)


class Recording:
    """The recording of one run: never changes a weight or waits for the disk.

    All methods run in the training thread; the recorder writes in a thread of its own.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: Run,
        emit: Callable[[Event], None],
        every: float = CHECKPOINT_EVERY,
    ) -> None:
        """Start recording into a folder.

        Args:
            folder: Folder of the run, held until `close`.
            run: The run.
            emit: Takes events about the recording.
            every: Seconds between two checkpoints, at least.
        """
        self._run = run
        self._emit = emit
        self._every = every
        self._recorder = Recorder(folder)
        self.before_checkpoint: Callable[[], None] = lambda: None  # writes what must come first
        self._saved = self._framed = self._noted = time.monotonic()
        self._state: tuple[int, int] = (-1, 0)  # step and changes of the last checkpoint
        self._changes = 0
        self._due_at_once = False
        self._frame_due = True
        self._billed = 0.0  # processor seconds of the recorder charged so far
        self._end_written = False  # `Finished`, since the folder was opened
        self._framed_at = 0.0  # recorder's processor seconds at the last frame
        run.recorded = True
        emit(FramesRecorded(str(self.path)))
        run.control.before_change = lambda change: self.write_checkpoint(f"before {change}")

    @property
    def path(self) -> Path:
        """Return the folder of the run.

        Returns:
            Its last known path.
        """
        return self._recorder.folder.path

    @property
    def root(self) -> InnerPath:
        """Return the root through which files are written into the folder.

        Returns:
            Follows the folder if it is moved.
        """
        return self._recorder.folder.root

    @property
    def pause_reason(self) -> str:
        """Return why nothing can be written at the moment.

        Returns:
            One sentence; '' if recording works.
        """
        return self._recorder.paused

    def on_event(self, event: Event) -> None:
        """Log an event, and note whether it calls for a frame or a checkpoint.

        Args:
            event: Any event of the run.
        """
        if isinstance(event, Measured):
            # Small networks emit hundreds of these per second, already in plain form: logging
            # one is cheaper than timing it.
            self._recorder.write_note(log_word(event), vars(event), soon=False)
            return
        if isinstance(event, _WRITTEN):
            return
        if is_logged(event):
            began = self._run.budget.busy()
            self._recorder.write_note(
                log_word(event), to_plain(event), not isinstance(event, SAMPLES)
            )
            self._charge_budget(self._run.budget.busy() - began)
        if isinstance(event, _CHANGES):
            self._changes += 1
            self._frame_due = True
        if isinstance(event, RegimeSwapped) and event.undone:
            self._due_at_once = True  # a kill must not bring back what was undone
        if isinstance(event, Finished):
            self.write_checkpoint("final")
            self._frame_due = True
            self._end_written = True

    def on_frame(self, frame: Frame, needed: bool = False, patience: float = 0.0) -> None:
        """Record a frame if one is due.

        Frames are due at most every `FRAME_EVERY` seconds, and after changes of the run.

        Args:
            frame: What the probes read.
            needed: Whether to record it in any case.
            patience: Seconds to wait for the disk.
        """
        now = time.monotonic()
        due = needed or self._frame_due or now - self._framed >= self._frame_every()
        if due and self._recorder.add_frame(frame, patience):
            self._framed, self._frame_due = now, False
            self._framed_at = self._recorder.busy

    def _frame_every(self) -> float:
        """Return the seconds between two frames that keep recording within its budget share."""
        spent = SHARED * (self._recorder.busy - self._framed_at)
        return min(
            max(FRAME_EVERY, self._run.budget.minimum_spacing(spent, FRAME_SHARE)), FRAME_LATEST
        )

    def tick(self) -> None:
        """Emit the recorder's events, and write a checkpoint if one is due.

        Call it between two steps.
        """
        for event in self._recorder.take_events():
            self._emit(event)
        if (busy := self._recorder.busy) != self._billed:
            self._charge_budget(busy - self._billed, own=False)
            self._billed = busy
        now = time.monotonic()
        if now - self._noted >= self._run.budget.background_interval(NOTES_EVERY):
            self._recorder.flush_notes()
            self._noted = now
        due = now - self._saved >= self._every and not self._recorder.is_saving
        if due or self._due_at_once:
            self._due_at_once = False
            if self._state != (self._run.step_count, self._changes):
                self.write_checkpoint()
            self._saved = now

    def write_checkpoint(self, kept: str = "") -> None:
        """Copy the state of the run and queue it for writing.

        Args:
            kept: Why the checkpoint must not be replaced by newer ones; '' if it may.
        """
        began, busy = time.monotonic(), self._run.budget.busy()
        self.before_checkpoint()
        snapshot = capture_run(self._run)
        self._charge_budget(self._run.budget.busy() - busy)
        if snapshot is None:
            return
        self._recorder.save_checkpoint(snapshot, kept)
        self._state = (self._run.step_count, self._changes)
        self._saved = time.monotonic()
        share = COPY_SHARE * self._run.budget.share
        self._every = max(self._every, min(LATEST, (self._saved - began) / share))

    def _charge_budget(self, seconds: float, own: bool = True) -> None:
        self._run.budget.charge("recording", seconds, own)

    def mark_checkpoint(self) -> WriteMarker:
        """Queue a checkpoint of the current state.

        Returns:
            Done once the checkpoint is on disk.
        """
        if self._state != (self._run.step_count, self._changes):
            self.write_checkpoint()
        return self._recorder.mark_written()

    def flush(self) -> WriteMarker:
        """Return a marker of everything recorded so far.

        Returns:
            Done once all of it is on disk.
        """
        return self._recorder.mark_written()

    def hold_checkpoints(self, steps: Collection[int]) -> None:
        """Protect checkpoints from being replaced by newer ones, until the next call or the end.

        Args:
            steps: Steps of the checkpoints; all others lose their protection.
        """
        self._recorder.folder.held = frozenset(steps)

    def close(
        self,
        sound: bool = True,
        timeout: float = 30.0,
        last: Callable[[], None] = lambda: None,
    ) -> bool:
        """Write a last checkpoint and release the folder.

        Args:
            sound: Whether the run is between two steps. After an exception it may not be, and its
                last checkpoint is better.
            timeout: Seconds to wait for the disk.
            last: Called by the writing thread after everything else, before the manifest is
                written.

        Returns:
            Whether everything is on disk.
        """
        if sound and self._state != (self._run.step_count, self._changes):
            self.write_checkpoint()
        if sound and not self._run.diverged:
            step = {"step": self._run.step_count}
            if not self._run.is_finished:
                self._recorder.write_note("Closed", step)  # marks a regular end
            elif not self._end_written:  # a finished run was opened again
                self._recorder.write_note("Finished", step)
        # Break the reference cycle between run and recording.
        self._run.control.before_change = lambda _change: None
        self._recorder.before_close = last
        whole = self._recorder.close(timeout)
        for event in self._recorder.take_events():
            self._emit(event)
        return whole


@contextmanager
def writing_to(folder: RunFolder) -> Iterator[None]:
    """Refuse with a reason if writing to a run's folder fails in the block.

    Args:
        folder: Folder of the run.

    Yields:
        Nothing.

    Raises:
        UserError: The disk refuses a write.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"Cannot write the run to {folder.path}: {why}.") from None


def begin_recording(
    folder: RunFolder,
    run: Run,
    emit: Callable[[Event], None],
    every: float = CHECKPOINT_EVERY,
    started: RunStarted | None = None,
) -> Recording:
    """Record a run from now on.

    Args:
        folder: New folder of the run.
        run: The run, before its first step or later.
        emit: Takes events about the recording.
        every: Seconds between two checkpoints, at least.
        started: How it started; None if it has not taken a step yet.

    Returns:
        The recording.

    Raises:
        UserError: The folder cannot be written to.
    """
    with writing_to(folder):
        began = started or run.started_event(paused=False)
        folder.info.record_start(began, run.fingerprint, torch.get_num_threads())
    return Recording(folder, run, emit, every)


def check_trained_here(path: Path, info: Mapping[str, Any]) -> None:
    """Check that a run was trained here and not watched in another program.

    Args:
        path: Folder of the run.
        info: What the folder says about it.

    Raises:
        UserError: Another program trained the run, so it cannot be continued here.
    """
    by = str(dict(info.get("started", {})).get("watched", ""))
    if by:
        raise UserError(
            f"{path.name} was trained by another program ({by}): continue it there. Here you can "
            "view it and make its figures.",
            kind="other-program",
            value=by,
        )


def restore_recorded(
    run: Run, snapshot: Snapshot | None, path: Path, info: Mapping[str, Any]
) -> str:
    """Restore a run from its checkpoint, with the same number of threads.

    Args:
        run: The run, just created for the folder.
        snapshot: Its checkpoint; None to start from its seed.
        path: Folder of the run.
        info: What the folder says about it.

    Returns:
        Why it may differ in the last bits, or ''.

    Raises:
        UserError: Its data have changed.
    """
    if info.get("data_fingerprint", run.fingerprint) != run.fingerprint:
        raise UserError(
            f"{path} was trained on other data: {run.config.data.name} now has a different "
            "fingerprint.",
            kind="other-data",
            value=run.config.data.name,
        )
    threads = int(info.get("threads", torch.get_num_threads()))
    if threads <= (os.cpu_count() or 1):
        torch.set_num_threads(threads)
    if snapshot is not None:
        restore_run(run, snapshot)
    if "started" not in info:
        return ""
    return run_info.reason_not_exact(info, device_name(run.device), torch.get_num_threads())


def continue_run(
    folder: RunFolder,
    number: int,
    emit: Callable[[Event], None],
    report: Report,
    live: bool,
    examples: Examples | None = None,
    *,
    reclaimed: float = 0.0,
) -> tuple[Run, RunContinued]:
    """Create the run of a folder in the state of its newest sound checkpoint, or from its seed.

    Args:
        folder: Folder of the run.
        number: Number of the run in this session.
        emit: Takes its events.
        report: Called with a description of the progress, and the share done or None.
        live: Whether a window shows the run.
        examples: Examples of its configuration, if they are loaded already.
        reclaimed: Bytes freed before its first step.

    Returns:
        The run, and the event to log.

    Raises:
        UserError: Its data have changed, or its configuration cannot be carried out.
    """
    known = folder.info.tree
    check_trained_here(folder.path, known)
    snapshot = folder.newest_snapshot()
    if snapshot is None and (origin := origin_of(known)) is not None:
        raise UserError(
            f"{folder.path} has no checkpoint yet: start the branch of {origin.parent} "
            f"from step {origin.step:,} again.",
            kind="no-checkpoint",
            value=origin.step,
        )
    recorded = snapshot is not None
    run = Run(
        number, folder.info.config, emit, report, live, recorded, examples, reclaimed=reclaimed
    )
    remark = restore_recorded(run, snapshot, folder.path, known)
    if "started" not in known:
        folder.info.record_start(
            run.started_event(paused=False), run.fingerprint, torch.get_num_threads()
        )
    continued = RunContinued(run.step_count, remark, str(folder.path))
    with writing_to(folder):
        folder.resume_from_newest(to_plain(continued))
    return run, continued
