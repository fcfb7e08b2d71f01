"""Reads a run folder: configuration, series, events, frames and checkpoints.

Reading takes no lock and changes nothing; a run that is being written can be read.
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
from dgn_engine.storage.inner_path import Anchor, InnerPath, inside
from dgn_engine.storage.runs import folder_layout, frame_files, run_checkpoints, run_info
from dgn_engine.storage.runs.log import is_whole
from dgn_engine.storage.runs.log_summary import Outcome
from dgn_engine.storage.runs.recorded_log import RecordedLog

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Frame

Status = Outcome | Literal["running"]
_Stepped = TypeVar("_Stepped", frame_files.StoredFrame, Measured, run_checkpoints.StoredCheckpoint)


class RunReader:
    """Raises `UserError` where there is no run, or its `run.json` is damaged.

    Each part is read when it is asked for, once; make another reader to see what came since.
    `shown`: what sentences call the run, where that is not its folder: the session that it is of.
    """

    def __init__(self, path: Path, shown: str = "") -> None:
        self.path = path
        self.name = shown or path.name  # in sentences
        self.root = InnerPath(Anchor(path, shown))  # of all that is read here
        self._was_written = False  # when its log was first read
        folder_layout.refuse_links(path)
        self.info: dict[str, Any] = run_info.read(self.root)

    @cached_property
    def config(self) -> RunConfig:
        return run_info.config_of(self.info)

    @cached_property
    def started(self) -> RunStarted | None:
        """The event that opened it; None where it was never built."""
        return run_info.started_of(self.info, self.config)

    @cached_property
    def log(self) -> RecordedLog:
        self._was_written = self._is_written  # first: its writer may end while the log is read
        return RecordedLog(self.root, self.info)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """All of them at once; `log.each_event` holds none."""
        return tuple(self.log.each_event())

    @property
    def measured(self) -> tuple[Measured, ...]:
        return tuple(event for event in self.events if isinstance(event, Measured))

    @cached_property
    def frames(self) -> tuple[frame_files.StoredFrame, ...]:
        """The frames that count, in the order of their steps; open one with `frame`."""
        return tuple(frame_files.scan(self.root / folder_layout.FRAMES))

    def frame(self, step: int) -> Frame:
        """The frame of just this step, the last where it has several, with what was read at it
        and nothing that was read before; raises `UserError` naming the nearest where there is none.
        """
        if not self.frames:
            raise UserError(
                f"{self.name} holds no frames: what probes see is recorded in the window, and "
                "by `dgn train --record npk`.",
                kind="no-frames",
            )
        frame = frame_files.read(self._of_step(self.frames, step, "frame"))
        of_step = {n: one for n, one in frame.readings.items() if one.step == step}
        return replace(frame, readings=of_step)

    def scores(self, step: int) -> Measured:
        """The scores of just this step; raises `UserError` naming the nearest where it has none."""
        measured = self.measured
        if not measured:
            raise UserError(f"{self.name} holds no scores.", kind="no-scores")
        return self._of_step(measured, step, "scores")

    def _of_step(self, recorded: Sequence[_Stepped], step: int, what: str) -> _Stepped:
        """The last of this step; raises `UserError` naming the nearest where there is none."""
        of_step = [item for item in recorded if item.step == step]
        if not of_step:
            near = _nearest(step, [item.step for item in recorded])
            raise UserError(
                f"{self.name} has no {what} of step {step:,}; {_in_words(near)}.",
                kind="no-step",
                value=near,
            )
        return of_step[-1]

    def latest_frame(self, step: int) -> Frame | None:
        """The last frame at or before a step; None where there is none. Each reading in it says
        its own step, which may be an earlier one."""
        place = bisect_right([frame.step for frame in self.frames], step)
        return frame_files.read(self.frames[place - 1]) if place else None

    @property
    def checkpoints(self) -> tuple[run_checkpoints.StoredCheckpoint, ...]:
        """The sound ones, oldest first (large files are not hashed here)."""
        return tuple(one for one in self._all_checkpoints if one.sound)

    @cached_property
    def _all_checkpoints(self) -> tuple[run_checkpoints.StoredCheckpoint, ...]:
        folder = self.root / folder_layout.CHECKPOINTS
        try:
            return tuple(run_checkpoints.scan(folder, thorough=False))
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {error.strerror}.") from None

    def checkpoint(self, step: int | None = None) -> run_checkpoints.StoredCheckpoint:
        """The newest, or the newest of just this step; raises `UserError` where there is none, or
        a newer one is damaged."""
        if not self.checkpoints:
            raise UserError(f"{self.name} holds no checkpoint.", kind="no-checkpoint")
        newest = self.checkpoints[-1]
        if step is not None:
            newest = self._of_step(self.checkpoints, step, "checkpoint")
        for one in (one for one in self._all_checkpoints if not one.sound):
            # An older state is not taken for the newest, nor for the last one of its step.
            newer = _place(one) > _place(newest) and (step is None or one.step == step)
            if newer and step is None:
                raise UserError(
                    f"{one.place} {one.trouble}; the newest sound checkpoint of "
                    f"{self.name} is of step {newest.step:,}: {self.name}@{newest.step}.",
                    kind="damaged",
                    value=one.place.within,
                    way_out=f"{self.name}@{newest.step}",
                )
            if newer:
                raise UserError(
                    f"{one.place} {one.trouble}.", kind="damaged", value=one.place.within
                )
        return newest

    @property
    def step(self) -> int:
        """The last step that something is known of."""
        logged = self.log.summary.step
        folder = self.root / folder_layout.CHECKPOINTS
        try:
            names = folder.listing()
        except OSError as error:
            raise UserError(f"{folder} cannot be read: {error.strerror}.") from None
        keys = (folder_layout.checkpoint_key(name) for name in names)
        if all(key is None or key[0] <= logged for key in keys):
            return logged
        return max(logged, *(one.step for one in self.checkpoints[-1:]), 0)

    @property
    def diverged_at(self) -> int | None:
        """The step at which it diverged; None where it did not, or was put back since."""
        step = None
        for event in self.log.each_event():
            if isinstance(event, Diverged):
                step = event.step
            elif isinstance(event, RegimeSwapped) and event.undone:
                step = None
        return step

    @property
    def outcome(self) -> Outcome:
        """How the run ended, by what it wrote; 'stopped' before its end by somebody's will,
        'interrupted' where it says nothing of an end.
        """
        return self.log.summary.outcome

    @property
    def status(self) -> Status:
        """'running' where a process writes it now, else its `outcome`; of a run that ended since
        its log was read here that of its whole log."""
        if self._is_written:
            return "running"
        if self._was_written:
            return RecordedLog(self.root, run_info.read(self.root)).summary.outcome
        return self.outcome

    @property
    def _is_written(self) -> bool:
        return lock.holder(self.root / folder_layout.LOCK) is not None


def _place(checkpoint: run_checkpoints.StoredCheckpoint) -> tuple[int, int]:
    """Its step, and the how many-th at that step it is, by the name."""
    return folder_layout.checkpoint_key(checkpoint.path.name) or (checkpoint.step, 0)


def frames_in_words(frames: Sequence[frame_files.StoredFrame]) -> str:
    """'3 steps, 0 to 135'; empty where there are none."""
    steps = sorted({frame.step for frame in frames})
    if not steps:
        return ""
    if not steps[1:]:
        return f"step {steps[0]:,} alone"
    return f"{len(steps):,} steps, {steps[0]:,} to {steps[-1]:,}"


def _nearest(step: int, steps: Sequence[int]) -> tuple[int, ...]:
    """Of steps that are not this one the last before it and the first after it."""
    near = [max((one for one in steps if one < step), default=None)]
    near += [min((one for one in steps if one > step), default=None)]
    return tuple(one for one in near if one is not None)


def _in_words(near: Sequence[int]) -> str:
    """'the nearest are of steps 0 and 200'."""
    words = " and ".join(f"{one:,}" for one in near)
    return f"the nearest {'are of steps' if near[1:] else 'is of step'} {words}"


def words_of_losses(folder: Path) -> str:
    """What the log of a run has lost, as part of a sentence; '' where nothing."""
    with suppress(UserError, OSError):
        if is_whole(inside(folder) / folder_layout.LOG, 0):
            return ""
        return RunReader(folder).log.lost_in_words
    return ""
