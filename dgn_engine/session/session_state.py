"""What a session shows now: a run that trains, a network that is inspected, or a recorded run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import Diverged
from dgn_engine.protocol.watching import ProbeRequest, ProbesLeft
from dgn_engine.session.comparison import Comparison
from dgn_engine.session.finite_state import WayBack
from dgn_engine.session.frozen_network import InspectedNetwork
from dgn_engine.session.readable_network import ReadableNetwork
from dgn_engine.session.run_library import RunLibrary
from dgn_engine.session.unused_memory import UnusedMemory
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.recording import Recording
from dgn_engine.training.run import Run

Handler = Callable[[Any], object]


class SessionState:
    """At most one of a run, a network that is inspected, and a recorded run of the library; what it
    is compared with, and what is watched of it.

    `emit_unrecorded`: events that are no part of the record of the run; `publish`: frames.
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
        self.running = False
        self.inspected: InspectedNetwork | None = None  # then there is no run
        self.number = 0  # of what is shown, from 1
        self.requests: tuple[ProbeRequest, ...] = ()
        self.way_back = WayBack()  # of the run
        self.unused = UnusedMemory()

    def emit(self, event: Event) -> None:
        """Record an event of the run, and pass it on."""
        if isinstance(event, Diverged) and self.run is not None:
            event = self.way_back.add_to(event, self.run, self.recording)
        if self.recording is not None:
            self.recording.on_event(event)
        self.emit_unrecorded(event)

    @property
    def shown(self) -> ReadableNetwork | None:
        return self.run or self.inspected

    def run_for(self, command: Command) -> Run:
        """Return the run in progress; raises `UserError` where there is none."""
        if self.run is not None:
            return self.run
        if self.inspected is not None:
            raise UserError(
                f"{self.inspected.name} is inspected, not trained: begin a new run first.",
                kind="only-inspected",
                value=self.inspected.name,
            )
        if self.library.shown is not None:
            name = self.library.shown.name
            words = f"{name} is only shown: Run goes on with it first."
            raise UserError(words, kind="only-shown", value=name)
        asked = command.in_words()
        words = f"There is no run: start one before you {asked}."
        raise UserError(words, kind="no-run", value=asked)

    def in_run(self, act: Callable[[Run, Any], object]) -> Handler:
        """Return a handler that needs a run that trains."""
        return lambda command: act(self.run_for(command), command)

    def on_shown(self, act: Callable[[Any, ReadableNetwork], object]) -> Handler:
        """Return a handler that needs a run, or a network that is inspected."""
        return lambda command: act(command, self.shown or self.run_for(command))

    def replace(self, run: Run | None = None, inspected: InspectedNetwork | None = None) -> None:
        """Show this, in the place of what was left; neither: a recorded run."""
        self.run, self.inspected, self.running = run, inspected, False
        self.number += 1

    def watch(self, requests: tuple[ProbeRequest, ...]) -> None:
        left = {one.probe for one in self.requests} - {one.probe for one in requests}
        if left and self.run is not None:
            self.emit(ProbesLeft(self.run.step_count, tuple(sorted(left))))
        self.requests = requests
        if self.library.shown is not None:
            self.publish_recorded(self.library.shown)
        self.comparison.watch(requests)
        if self.shown is not None:
            self.shown.probe_schedule.watch(requests)

    def publish_recorded(self, loaded: LoadedRun) -> None:
        self.publish(loaded.frame_for(self.number, self.requests))
