"""The state of a session: a training run, an inspected network, or a recorded run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import Diverged
from dgn_engine.protocol.watching import ProbeRequest, ProbesLeft
from dgn_engine.session.comparison import Comparison
from dgn_engine.session.finite_state import RecoveryPoint
from dgn_engine.session.frozen_network import InspectedNetwork
from dgn_engine.session.readable_network import ReadableNetwork
from dgn_engine.session.run_library import RunLibrary
from dgn_engine.session.unused_memory import UnusedMemory
from dgn_engine.session.unwritten_log import UnwrittenLog
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.recording import Recording
from dgn_engine.training.run import Run

Handler = Callable[[Any], object]


class SessionState:
    """The state of a session: what is shown (a run, an inspected network, or a recorded run of the
    library), what it is compared with, and what is watched.

    `emit_unrecorded` takes events that do not belong to the run's record; `publish` takes frames.
    """

    def __init__(
        self, emit: Callable[[Event], None], publish: Callable[[Frame], None], runs_root: str
    ) -> None:
        self.emit_unrecorded = emit
        self.publish = publish
        self.runs_root = runs_root
        self.executors = ExecutorChoice()
        self.comparison = Comparison(emit, self.executors)
        self.library = RunLibrary(emit, runs_root)
        self.run: Run | None = None
        self.recording: Recording | None = None
        self.unwritten: UnwrittenLog | None = None  # of a run that was started unrecorded
        self.running = False
        self.inspected: InspectedNetwork | None = None  # exclusive with `run`
        self.number = 0  # of what is shown, from 1
        self.requests: tuple[ProbeRequest, ...] = ()
        self.way_back = RecoveryPoint()  # of the run
        self.unused = UnusedMemory()

    def emit(self, event: Event) -> None:
        """Record an event of the run, and emit it."""
        if isinstance(event, Diverged) and self.run is not None:
            event = self.way_back.add_finite_state(event, self.run, self.recording)
        if self.recording is not None:
            self.recording.on_event(event)
        elif self.unwritten is not None:
            self.unwritten.on_event(event)
        self.unused.on_event(event)
        self.emit_unrecorded(event)

    @property
    def shown_network(self) -> ReadableNetwork | None:
        return self.run or self.inspected

    def run_for(self, command: Command) -> Run:
        """Return the current run; raises `UserError` if there is none."""
        if self.run is not None:
            return self.run
        if self.inspected is not None:
            raise UserError(
                f"{self.inspected.name} is inspected, not trained: start a new run first.",
                kind="only-inspected",
                value=self.inspected.name,
            )
        if self.library.shown is not None:
            name = self.library.shown.name
            words = f"{name} is only shown: choose Run to resume it first."
            raise UserError(words, kind="only-shown", value=name)
        asked = command.in_words()
        words = f"There is no run: start one before you {asked}."
        raise UserError(words, kind="no-run", value=asked)

    def in_run(self, act: Callable[[Run, Any], object]) -> Handler:
        """Return a handler for commands that need a training run."""
        return lambda command: act(self.run_for(command), command)

    def on_shown(self, act: Callable[[Any, ReadableNetwork], object]) -> Handler:
        """Return a handler for commands that need a run or an inspected network."""
        return lambda command: act(command, self.shown_network or self.run_for(command))

    def set_shown(self, run: Run | None = None, inspected: InspectedNetwork | None = None) -> None:
        """Show a run or an inspected network; with neither, a recorded run."""
        self.run, self.inspected, self.running = run, inspected, False
        self.number += 1

    def watch_probes(self, requests: tuple[ProbeRequest, ...]) -> None:
        dropped = {request.probe for request in self.requests} - {
            request.probe for request in requests
        }
        if dropped and self.run is not None:
            self.emit(ProbesLeft(self.run.step_count, tuple(sorted(dropped))))
        self.requests = requests
        if self.library.shown is not None:
            self.publish_recorded(self.library.shown)
        self.comparison.watch_probes(requests)
        if self.shown_network is not None:
            self.shown_network.probe_schedule.watch(requests)

    def publish_recorded(self, loaded: LoadedRun) -> None:
        self.publish(loaded.frame_for(self.number, self.requests))
