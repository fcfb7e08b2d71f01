"""The recording of a run: what is written when, so that at most ten seconds can be lost."""

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
from dgn_engine.protocol.training import Finished, Measured, RegimeSwapped, Rewired, SettingChanged
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
from dgn_engine.training.run_snapshot import capture, restore

CHECKPOINT_EVERY = 5.0  # seconds, or more where copying the weights takes long:
LATEST = 9.0  # but no more than this
COPY_SHARE = 0.4  # of the budget of watching that copying may take
FRAME_EVERY = 1.0  # seconds, or more where writing takes long:
FRAME_LATEST = 5.0  # but no more than this
FRAME_SHARE = 0.2  # of the budget of watching that the recorder's thread may take
NOTES_EVERY = 0.5  # seconds between two looks at the scores that wait to be written
PATIENCE = 30.0  # seconds that a frame waits for the disk where it must be written
# After these the next frame is recorded; of the others their writer has written them.
_CHANGES = (RegimeSwapped, WeightsTaken, Rewired, SettingChanged, ProbeSetChanged)
_WRITTEN = (RecordingPaused, RecordingResumed, RecordingMended, RunContinued, RecordThinned)


class Recording:
    """Passes one run to its recorder. Nothing here changes a weight or waits for the disk."""

    def __init__(
        self,
        folder: RunFolder,
        run: Run,
        emit: Callable[[Event], None],
        every: float = CHECKPOINT_EVERY,
    ) -> None:
        self._run = run
        self._emit = emit
        self._every = every
        self._recorder = Recorder(folder)
        self.before_checkpoint: Callable[[], None] = lambda: None  # what is to be on disk by then
        self._saved = self._framed = self._noted = time.monotonic()
        self._state: tuple[int, int] = (-1, 0)  # step, changes: what the last checkpoint shows
        self._changes = 0
        self._due_at_once = False
        self._frame_due = True
        self._billed = 0.0  # processor seconds of the recorder
        self._framed_at = 0.0  # of these when the last frame was taken
        run.recorded = True
        emit(FramesRecorded(str(self.path)))
        run.control.before_change = lambda change: self.checkpoint(f"before {change}")

    @property
    def path(self) -> Path:
        """Where the run lies, as far as is known."""
        return self._recorder.folder.path

    @property
    def root(self) -> InnerPath:
        """Of what is written into its folder."""
        return self._recorder.folder.root

    @property
    def paused(self) -> str:
        """Why nothing can be written now, in one sentence; empty where it can."""
        return self._recorder.paused

    def on_event(self, event: Event) -> None:
        if isinstance(event, Measured):
            # Hundreds a second of a small network, and plain already: this costs less than to
            # measure what it costs.
            self._recorder.note(log_word(event), vars(event), soon=False)
            return
        if isinstance(event, _WRITTEN):
            return
        if is_logged(event):
            began = self._run.budget.busy()
            self._recorder.note(log_word(event), to_plain(event), not isinstance(event, SAMPLES))
            self._charge(self._run.budget.busy() - began)
        if isinstance(event, _CHANGES):
            self._changes += 1
            self._frame_due = True
        if isinstance(event, RegimeSwapped) and event.undone:
            self._due_at_once = True  # a kill is not to bring back what was undone
        if isinstance(event, Finished):
            self.checkpoint("final")
            self._frame_due = True

    def on_frame(self, frame: Frame, needed: bool = False, patience: float = 0.0) -> None:
        """Write what the probes saw, once in `_frame_every` seconds and next to events; `needed`:
        in any case, if the disk takes it within `patience` seconds."""
        now = time.monotonic()
        due = needed or self._frame_due or now - self._framed >= self._frame_every()
        if due and self._recorder.add_frame(frame, patience):
            self._framed, self._frame_due = now, False
            self._framed_at = self._recorder.busy

    def _frame_every(self) -> float:
        """Seconds between two frames, such that recording keeps to its share of the budget."""
        spent = SHARED * (self._recorder.busy - self._framed_at)
        return min(max(FRAME_EVERY, self._run.budget.spacing(spent, FRAME_SHARE)), FRAME_LATEST)

    def tick(self) -> None:
        """Between two steps: write a checkpoint where one is due, emit the recorder's events."""
        for event in self._recorder.take_events():
            self._emit(event)
        if (busy := self._recorder.busy) != self._billed:
            self._charge(busy - self._billed, own=False)
            self._billed = busy
        now = time.monotonic()
        if now - self._noted >= self._run.budget.unprompted(NOTES_EVERY):
            self._recorder.pass_on()
            self._noted = now
        due = now - self._saved >= self._every and not self._recorder.saving
        if due or self._due_at_once:
            self._due_at_once = False
            if self._state != (self._run.step_count, self._changes):
                self.checkpoint()
            self._saved = now

    def checkpoint(self, kept: str = "") -> None:
        """Copy the run and have the copy written."""
        began, busy = time.monotonic(), self._run.budget.busy()
        self.before_checkpoint()
        snapshot = capture(self._run)
        self._charge(self._run.budget.busy() - busy)
        if snapshot is None:
            return
        self._recorder.checkpoint(snapshot, kept)
        self._state = (self._run.step_count, self._changes)
        self._saved = time.monotonic()
        share = COPY_SHARE * self._run.budget.share
        self._every = max(self._every, min(LATEST, (self._saved - began) / share))

    def _charge(self, seconds: float, own: bool = True) -> None:
        self._run.budget.charge("recording", seconds, own)

    def mark(self) -> WriteMarker:
        """Write a checkpoint now; returns a marker that is done when it is on disk."""
        if self._state != (self._run.step_count, self._changes):
            self.checkpoint()
        return self._recorder.mark()

    def flush(self) -> WriteMarker:
        """Return a marker that is done when all that was recorded until now is on disk."""
        return self._recorder.mark()

    def hold(self, steps: Collection[int]) -> None:
        """Keep the checkpoints of these steps, and only these, where newer ones would replace them,
        until other steps are given or the recording ends."""
        self._recorder.folder.held = frozenset(steps)

    def close(
        self,
        sound: bool = True,
        timeout: float = 30.0,
        last: Callable[[], None] = lambda: None,
    ) -> bool:
        """Write a last checkpoint and release the folder; whether all is on disk.

        `sound`: the run is between two steps. After an exception it may not, and its last
        checkpoint is better. `last`: called by the thread that writes, when all else is there and
        before the folder is described in its manifest.
        """
        if sound and self._state != (self._run.step_count, self._changes):
            self.checkpoint()
        if sound and not (self._run.finished or self._run.diverged):
            self._recorder.note("Closed", {"step": self._run.step_count})  # it did not crash
        # Else run and recording keep each other alive.
        self._run.control.before_change = lambda _change: None
        self._recorder.before_close = last
        whole = self._recorder.close(timeout)
        for event in self._recorder.take_events():
            self._emit(event)
        return whole


@contextmanager
def written_to(folder: RunFolder) -> Iterator[None]:
    """Raise `UserError` where the disk does not take what is written to a run's folder."""
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
) -> Recording:
    """Record a run that has just been made from its configuration."""
    with written_to(folder):
        folder.info.begin(run.started(paused=False), run.fingerprint, torch.get_num_threads())
    return Recording(folder, run, emit, every)


def check_ours(path: Path, info: Mapping[str, Any]) -> None:
    """Raise `UserError` where another program trained this run, which cannot go on here."""
    by = str(dict(info.get("started", {})).get("watched", ""))
    if by:
        raise UserError(
            f"{path.name} was trained by another program ({by}): go on with it there. Here it can "
            "be shown, and its figures made.",
            kind="other-program",
            value=by,
        )


def restore_recorded(
    run: Run, snapshot: Snapshot | None, path: Path, info: Mapping[str, Any]
) -> str:
    """Put a run that was made for the folder `path` into the state of its checkpoint, on as many
    threads as it had; why it may differ in its last bits, or ''.

    Raises `UserError` where its data are others now.
    """
    if info.get("data_fingerprint", run.fingerprint) != run.fingerprint:
        raise UserError(
            f"{path} was trained on other data: what {run.config.data.name} holds now has another "
            "fingerprint.",
            kind="other-data",
            value=run.config.data.name,
        )
    threads = int(info.get("threads", torch.get_num_threads()))
    if threads <= (os.cpu_count() or 1):
        torch.set_num_threads(threads)
    if snapshot is not None:
        restore(run, snapshot)
    if "started" not in info:
        return ""
    return run_info.why_not_exact(info, device_name(run.device), torch.get_num_threads())


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
    """The run of a folder as its newest sound checkpoint left it, or from its seed if it has none.
    `reclaimed`: as of `Run`.

    Raises `UserError` where the data are not the same, or the configuration cannot be carried out.
    """
    known = folder.info.tree
    check_ours(folder.path, known)
    snapshot = folder.newest_snapshot()
    if snapshot is None and (origin := origin_of(known)) is not None:
        raise UserError(
            f"{folder.path} holds no checkpoint of its own: begin the branch of {origin.parent} "
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
        folder.info.begin(run.started(paused=False), run.fingerprint, torch.get_num_threads())
    continued = RunContinued(run.step_count, remark, str(folder.path))
    with written_to(folder):
        folder.go_on(to_plain(continued))
    return run, continued
