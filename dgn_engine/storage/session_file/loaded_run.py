"""A recorded run as the window shows it: the events that panels draw, and one of its frames."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import NOT_RECORDED, Frame, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import FramesRecorded, HistoryReplayed, RunShown
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import ProbeRequest, ProbeSetChanged
from dgn_engine.storage.runs.drawn_events import drawn_history
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.session_reader import UnpackedSession
from dgn_engine.storage.session_file.untrusted_run import plain_event, plain_frame


@dataclass(frozen=True)
class LoadedRun:
    """A recorded run that was read; `session`: the file it was unpacked from, if any."""

    folder: Path
    name: str
    started: RunStarted
    events: HistoryReplayed
    frame: Frame | None
    status: str
    step: int
    session: UnpackedSession | None = None
    lines: int = 0  # number of log lines read

    @property
    def config(self) -> RunConfig:
        """The initial configuration, with the latest probe set."""
        chosen = [e for e in self.events.events if isinstance(e, ProbeSetChanged)]
        config = self.started.config
        if not chosen:
            return config
        return replace(config, probe_examples=chosen[-1].examples, probe_set=chosen[-1].choice)

    def events_as(self, number: int, before: str) -> tuple[Event, ...]:
        """Return the events that show it as run `number`; `before`: folder of the previous run."""
        file = self.session
        return (
            replace(self.started, run=number, inspected=""),
            self.events,
            RunShown(
                self.name,
                self.status,
                self.step,
                file.file_name if file else "",
                file.saved if file else "",
                json.dumps(file.window) if file else "null",
                before,
            ),
            FramesRecorded(str(self.folder), foreign=file is not None),
        )

    def frame_for(self, number: int, requests: Iterable[ProbeRequest]) -> Frame:
        """Return the recorded readings; older ones say so, and missing ones are noted as such."""
        recorded = self.frame.readings if self.frame is not None else {}
        readings = {name: self._as_recorded(reading) for name, reading in recorded.items()}
        for request in requests:
            readings.setdefault(
                request.probe,
                Reading(
                    request.probe,
                    self.step,
                    facts={"fault": NOT_RECORDED},
                    absent="Not recorded; press Run to continue from here and compute it.",
                ),
            )
        epoch = self.step / max(self.started.steps_per_epoch, 1)
        return Frame(number, self.step, epoch, 0.0, None, readings)

    def _as_recorded(self, reading: Reading) -> Reading:
        """Mark a reading as final; if the run continued after it, its remark says so."""
        if self.status == "running":  # more will follow
            return reading
        words = [reading.remark] if reading.remark else []
        if reading.step != self.step:
            words.append(f"latest up to step {self.step:,}")
        return replace(reading, interval=0.0, remark=" · ".join(words))


def read_run(
    folder: Path,
    session: UnpackedSession | None = None,
    at: int | None = None,
    framed: bool = True,
) -> LoadedRun:
    """Read a run as it is, or as it was at a recorded step.

    `framed`: a frame of exactly that step is needed, not only scores.

    Raises:
        UserError: It names the nearest recorded steps.
    """
    reader = RunReader(folder)
    started = reader.start_event
    if started is None:
        raise UserError(f"{folder.name} was stopped before it started: there is nothing to show.")
    happened = reader.log.each_event()
    if at is not None:
        happened = (event for event in happened if getattr(event, "step", 0) <= at)
    events = drawn_history(happened)  # first: this also gives the summary of the log
    step = reader.step if session is None else session.step
    if at is not None:
        step = reader.frame_of_step(at).step if framed else reader.scores_at(at).step
    frame = reader.latest_frame(step)
    if session is not None and frame is not None:
        frame = plain_frame(frame)
        events = replace(events, events=tuple(map(plain_event, events.events)))
    return LoadedRun(
        folder=folder,
        name=folder.name if session is None else session.name,
        started=started,
        events=events,
        frame=frame,
        status=reader.status if session is None else session.status,
        step=step,
        session=session,
        lines=reader.log.lines_read,
    )
