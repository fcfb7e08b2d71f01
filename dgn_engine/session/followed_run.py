"""Follow a recorded run that another process is writing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import HistoryReplayed, RunShown
from dgn_engine.protocol.training import Measured
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.drawn_events import CHANGES
from dgn_engine.storage.runs.log import CONTINUED, event_of
from dgn_engine.storage.runs.recorded_log import LogTail
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.loaded_run import LoadedRun

LIVE = "running"  # the status of a run that a process writes


@dataclass(frozen=True)
class RunNews:
    """The news of a followed run since the last check.

    `events` in order, the run as it is `now`, and whether it has something `new` for panels.
    `again`: it was resumed from a checkpoint, and must be read from the start.
    """

    events: tuple[Event, ...]
    now: LoadedRun
    new: bool
    again: bool = False


class FollowedRun:
    """Reads the log and frames of a run as they grow, until it ends."""

    def __init__(self, loaded: LoadedRun, ended: str = "") -> None:
        """`ended` is the folder of the run that ended when this was shown, repeated in the last
        event."""
        self._now, self._before = loaded, ended
        reader = RunReader(loaded.folder)
        self._tail = LogTail(reader.root / folder_layout.LOG, loaded.lines)
        self._steps = RecordedSteps(loaded.folder)
        self.ended = False

    def read_news(self) -> RunNews:
        """Check once; raises `OSError` and `UserError` if the folder cannot be read now."""
        reader = RunReader(self._now.folder)
        status = reader.status  # before the log, so that no last lines are missed
        lines = self._tail.take_lines()
        new_events: list[Event] = []
        changes: list[Event] = []
        step = self._now.step
        for line in lines:
            event = event_of(line)
            step = max(step, int(getattr(event, "step", 0)))
            if isinstance(event, Measured | ProbeScalars):
                new_events.append(event)
            elif isinstance(event, CHANGES):
                changes.append(event)
        if changes:
            new_events.append(HistoryReplayed(tuple(changes), self._now.events.left_out))
        frame = self._newest_frame()
        step = max(step, frame.step if frame is not None else 0)
        new = frame is not self._now.frame or step != self._now.step
        self._now = replace(self._now, frame=frame, step=step, status=status)
        if status != LIVE:
            self.ended = True
            name = self._now.name
            new_events.append(RunShown(name, status, step, replaced=self._before))
        again = any(line.name == CONTINUED for line in lines)
        return RunNews(tuple(new_events), self._now, new, again)

    def _newest_frame(self) -> Frame | None:
        """Return the newest frame; if it is the shown one, the same object."""
        before = self._now.frame
        self._steps.refresh_steps()
        steps = self._steps.steps
        if not steps or (before is not None and steps[-1] == before.step):
            return before
        try:
            return self._steps.frame_at(steps[-1])
        except UserError:  # tried again soon
            return before
