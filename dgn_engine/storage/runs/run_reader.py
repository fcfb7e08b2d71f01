"""Read a run folder: configuration, series, events, frames and checkpoints.

Reading takes no lock and changes nothing; a run can be read while it is being written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Diverged, Measured, RegimeSwapped, RunStarted
from dgn_engine.storage import lock
from dgn_engine.storage.inner_path import Anchor, InnerPath, inner_folder
from dgn_engine.storage.runs import folder_layout, frame_files, run_checkpoints, run_info
from dgn_engine.storage.runs.log import is_whole
from dgn_engine.storage.runs.log_summary import Outcome
from dgn_engine.storage.runs.recorded_log import RecordedLog

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Frame

Status = Outcome | Literal["running"]
_Stepped = TypeVar("_Stepped", frame_files.StoredFrame, Measured, run_checkpoints.StoredCheckpoint)


class RunReader:
    """Reads a run; raises `UserError` if there is none, or its `run.json` is damaged.

    Each part is read once, on demand; create another reader to see later changes. `shown`: how
    messages name the run if not by its folder, for a session.
    """

    def __init__(self, path: Path, shown: str = "") -> None:
        self.path = path
        self.name = shown or path.name  # in messages
        self.root = InnerPath(Anchor(path, shown))  # path for all reading
        self._was_written = False  # when its log was first read
        folder_layout.refuse_links(path)
        self.info: dict[str, Any] = run_info.read_run_info(self.root)

    @cached_property
    def config(self) -> RunConfig:
        return run_info.config_of(self.info)

    @cached_property
    def start_event(self) -> RunStarted | None:
        """The event that opened the run; None if it was never built."""
        return run_info.started_of(self.info, self.config)

    @cached_property
    def log(self) -> RecordedLog:
        self._was_written = self._is_written  # first: its writer may end during reading
        return RecordedLog(self.root, self.info)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All events in memory; `log.each_event` streams them."""
        return tuple(self.log.each_event())

    @property
    def measured_events(self) -> tuple[Measured, ...]:
        return tuple(event for event in self.events if isinstance(event, Measured))

    @cached_property
    def frames(self) -> tuple[frame_files.StoredFrame, ...]:
        """The frames that count, in step order; open one with `frame_of_step`."""
        return tuple(frame_files.scan_frames(self.root / folder_layout.FRAMES))

    def frame_of_step(self, step: int) -> Frame:
        """Return the last frame of exactly this step, with only the readings of that step.

        Raises:
            UserError: There is none; it names the nearest.
        """
        if not self.frames:
            raise UserError(
                f"{self.name} has no frames: readings are recorded in the window, and by "
                "`dgn train --record npk`.",
                kind="no-frames",
            )
        frame = frame_files.read_frame(self._of_step(self.frames, step, "frame"))
        of_step = {n: reading for n, reading in frame.readings.items() if reading.step == step}
        return replace(frame, readings=of_step)

    def scores_at(self, step: int) -> Measured:
        """Return the scores of exactly this step; a `UserError` names the nearest otherwise."""
        measured = self.measured_events
        if not measured:
            raise UserError(f"{self.name} has no scores.", kind="no-scores")
        return self._of_step(measured, step, "scores")

    def _of_step(self, recorded: Sequence[_Stepped], step: int, what: str) -> _Stepped:
        """Return the last item of this step; a `UserError` names the nearest otherwise."""
        of_step = [item for item in recorded if item.step == step]
        if not of_step:
            near = _nearest_steps(step, [item.step for item in recorded])
            raise UserError(
                f"{self.name} has no {what} at step {step:,}; {_in_words(near)}.",
                kind="no-step",
                value=near,
            )
        return of_step[-1]

    def latest_frame(self, step: int) -> Frame | None:
        """Return the last frame at or before a step, or None; readings may be older."""
        index = bisect_right([frame.step for frame in self.frames], step)
        return frame_files.read_frame(self.frames[index - 1]) if index else None

    @property
    def checkpoints(self) -> tuple[run_checkpoints.StoredCheckpoint, ...]:
        """The intact checkpoints, oldest first (large files are not hashed)."""
        return tuple(checkpoint_ for checkpoint_ in self._all_checkpoints if checkpoint_.is_intact)

    @cached_property
    def _all_checkpoints(self) -> tuple[run_checkpoints.StoredCheckpoint, ...]:
        folder = self.root / folder_layout.CHECKPOINTS
        try:
            return tuple(run_checkpoints.scan_checkpoints(folder, thorough=False))
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {error.strerror}.") from None

    def find_checkpoint(self, step: int | None = None) -> run_checkpoints.StoredCheckpoint:
        """Return the newest checkpoint, or the newest of exactly this step.

        Raises:
            UserError: There is none, or a newer one is damaged.
        """
        if not self.checkpoints:
            raise UserError(f"{self.name} has no checkpoint.", kind="no-checkpoint")
        newest = self.checkpoints[-1]
        if step is not None:
            newest = self._of_step(self.checkpoints, step, "checkpoint")
        for damaged in (damaged for damaged in self._all_checkpoints if not damaged.is_intact):
            # Never use an older state as the newest, or as the last of its step.
            newer = _step_and_order(damaged) > _step_and_order(newest) and (
                step is None or damaged.step == step
            )
            if newer and step is None:
                raise UserError(
                    f"{damaged.damaged_path} {damaged.trouble}; the newest intact checkpoint of "
                    f"{self.name} is at step {newest.step:,}: {self.name}@{newest.step}.",
                    kind="damaged",
                    value=damaged.damaged_path.relative_name,
                    way_out=f"{self.name}@{newest.step}",
                )
            if newer:
                raise UserError(
                    f"{damaged.damaged_path} {damaged.trouble}.",
                    kind="damaged",
                    value=damaged.damaged_path.relative_name,
                )
        return newest

    @property
    def step(self) -> int:
        """The last step that anything is known about."""
        logged = self.log.summary.step
        folder = self.root / folder_layout.CHECKPOINTS
        try:
            names = folder.list_entries()
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {error.strerror}.") from None
        keys = (folder_layout.checkpoint_key(name) for name in names)
        if all(key is None or key[0] <= logged for key in keys):
            return logged
        return max(logged, *(checkpoint_.step for checkpoint_ in self.checkpoints[-1:]), 0)

    @property
    def diverged_at(self) -> int | None:
        """The step at which it diverged; None if it did not, or this was undone."""
        step = None
        for event in self.log.each_event():
            if isinstance(event, Diverged):
                step = event.step
            elif isinstance(event, RegimeSwapped) and event.undone:
                step = None
        return step

    @property
    def outcome(self) -> Outcome:
        """The end of the run, by its log.

        'stopped' if someone stopped it before its end, 'interrupted' if the log has no end.
        """
        return self.log.summary.outcome

    @property
    def status(self) -> Status:
        """'running' while a process writes it, otherwise its `outcome`.

        The log is read again if the run ended since it was first read.
        """
        if self._is_written:
            return "running"
        if self._was_written:
            return RecordedLog(self.root, run_info.read_run_info(self.root)).summary.outcome
        return self.outcome

    @property
    def _is_written(self) -> bool:
        return lock.find_lock_holder(self.root / folder_layout.LOCK) is not None


def _step_and_order(checkpoint: run_checkpoints.StoredCheckpoint) -> tuple[int, int]:
    """Return its step, and its count among those of that step, by name."""
    return folder_layout.checkpoint_key(checkpoint.path.name) or (checkpoint.step, 0)


def frames_in_words(frames: Sequence[frame_files.StoredFrame]) -> str:
    """Return '3 steps, 0 to 135'; '' if there are none."""
    steps = sorted({frame.step for frame in frames})
    if not steps:
        return ""
    if not steps[1:]:
        return f"only step {steps[0]:,}"
    return f"{len(steps):,} steps, {steps[0]:,} to {steps[-1]:,}"


def _nearest_steps(step: int, steps: Sequence[int]) -> tuple[int, ...]:
    """Return the last step before this one and the first after it."""
    near = [max((other for other in steps if other < step), default=None)]
    near += [min((other for other in steps if other > step), default=None)]
    return tuple(other for other in near if other is not None)


def _in_words(near: Sequence[int]) -> str:
    """Return 'the nearest are at steps 0 and 200'."""
    words = " and ".join(f"{step:,}" for step in near)
    return f"the nearest {'are at steps' if near[1:] else 'is at step'} {words}"


def words_of_losses(folder: Path) -> str:
    """Describe what the log of a run has lost, as part of a sentence; '' if nothing."""
    with suppress(UserError, OSError):
        if is_whole(inner_folder(folder) / folder_layout.LOG, 0):
            return ""
        return RunReader(folder).log.lost_in_words
    return ""
