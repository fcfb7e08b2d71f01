"""The engine without its thread: obeys commands, takes steps, publishes what was seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from dgn_engine.errors import UserError
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.events import (
    EngineReady,
    Event,
    Finished,
    Paused,
    RecordingPaused,
    Refused,
    Running,
    Working,
)
from dgn_engine.protocol.failure import failure
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.wording import in_words
from dgn_engine.session.capabilities import catalogue
from dgn_engine.session.command_handlers import InRun, execute, why_no_run
from dgn_engine.session.confirm_discard import discard_confirmation
from dgn_engine.session.frame_publisher import FramePublisher
from dgn_engine.session.frozen_network import InspectedNetwork
from dgn_engine.session.open_commands import FileCommands, OfFiles, ground_of, inspect
from dgn_engine.session.run_library import LoadedRun, OfRuns, RunLibrary, recalled, routed
from dgn_engine.session.undo import UndoHistory
from dgn_engine.storage.runs.run_folder import RunFolder, new_folder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import Recording, begin_recording, continue_run
from dgn_engine.training.run import Run
from dgn_engine.training.step_rate import StepRate

PATIENCE = 4.0  # seconds that the folder of a run that ends may take to be finished


class Engine:
    """Holds at most one run. `obey` and `advance` never raise: trouble becomes events."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        publish: Callable[[Frame], None],
        data_root: str = "",
        runs_root: str = "",
    ) -> None:
        """`runs_root`: where every run writes its folder; empty: none is written."""
        self._tell = emit
        self._publish = publish
        self._data_root = data_root
        self._runs_root = runs_root
        self._recording: Recording | None = None
        self.run: Run | None = None
        self._inspection: InspectedNetwork | None = None  # then there is no run
        self.running = False
        self._runs = 0
        self._stop_at: int | None = None
        self._requests: tuple[do.ProbeRequest, ...] = ()
        self._opening = FileCommands(emit)
        self._shelf = RunLibrary(emit, runs_root)
        self._publishing = FramePublisher(publish, self._opening.beside)
        self._undoing = UndoHistory(self._emit, lambda: self.run, self._opening.name_of)

    def announce(self) -> None:
        """Say what can be chosen."""
        known = catalogue(Path(self._data_root) if self._data_root else None)
        self._emit(EngineReady(known, torch.__version__))

    def obey(self, command: do.Command) -> None:
        """Carry out one command between two steps; the answer is an event."""
        self._attempt(in_words(command), lambda: self._undoing.around(command, self._obey))

    def advance(self) -> None:
        """Take one step if the run is running, then read and publish what is due."""
        if (found := self._shelf.ready()) is not None:
            self._attempt(f"show {found.name}", lambda: self._show(found))
        run = self.run
        if run is None:
            return self._look_still()
        try:
            if self.running:
                if run.advance():
                    self._publishing.rate.tick(run.pace)
                self._stop_where_due(run)
            frame = self._publishing.look(run, self.running)
            self._opening.beside.look()
            if self._recording is not None:
                if frame is not None:
                    self._recording.on_frame(frame)
                self._recording.tick()
        except Exception as error:
            self._fail("Training stopped by a fault", error)

    def next_step_in(self) -> float | None:
        """Seconds until the next step by the run's pace; None while nothing runs."""
        return self._publishing.rate.wait() if self.run is not None and self.running else None

    def close(self) -> None:
        """End child processes, finish the run's folder and forget the run."""
        self._opening.close()
        self._shelf.close()
        self._end_recording()
        self.run = self._inspection = None
        self.running = False

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError as refusal:
            self._emit(Refused(what, str(refusal)))
        except Exception as error:  # the session must outlive any fault
            self._fail(f"{what} failed", error)

    def _obey(self, command: do.Command) -> None:
        command = routed(command)
        asked = discard_confirmation(command, self.run, self._recording)
        match command:
            case _ if asked is not None:
                self._emit(asked)
            case do.StartRun():
                self._start(command)
            case do.ContinueRun():
                self._continue(command)
            case do.Watch():
                self._watch(command.requests)
            case do.InspectFile():
                self._inspect(command)
            case _ if isinstance(command, OfRuns):
                frame = None if self.run is None else self._publishing.frame(self.run, self.running)
                self._shelf.obey(command, self._recording, frame)
            case do.Resume() | do.Advance() | do.Reset() if self._shelf.found is not None:
                self._go_on(self._shelf.found, command)
            case _ if isinstance(command, OfFiles):
                self._opening.obey(command, self.run or self._inspection)
            case do.Shutdown():
                self.close()
            case _:
                self._obey_in_run(self._needed(in_words(command)), command)

    def _obey_in_run(self, run: Run, command: InRun) -> None:
        match command:
            case do.Resume():
                self._resume(run, None)
            case do.Advance():
                self._resume(run, run.step_count + max(1, command.steps))
            case do.Pause():
                self._pause(run)
            case do.Reset():
                self._start(do.StartRun(run.config, paused=not self.running))
            case _:
                execute(run, command)

    def _start(self, command: do.StartRun) -> None:
        """The old run goes on unless the new one can begin."""
        run = Run(self._runs + 1, command.config, self._emit, self._report, live=True)
        self._take(run, command.paused)
        if self._runs_root:
            try:
                folder = new_folder(Path(self._runs_root), command.config)
                self._recording = begin_recording(folder, run, self._emit)
            except (
                UserError
            ) as refusal:  # a run that cannot be recorded can be watched all the same
                self._emit(RecordingPaused(f"{refusal} This run is not recorded."))
        run.tell_settings()

    def _continue(self, command: do.ContinueRun) -> None:
        """The old run goes on unless the recorded one can."""
        folder = RunFolder(Path(command.folder))
        try:
            run, told = continue_run(folder, self._runs + 1, self._emit, self._report, live=True)
            known = recalled(RunReader(folder.path).events)
        except BaseException:
            folder.close()
            raise
        self._take(run, command.paused or run.finished)
        self._tell(known)
        self._tell(told)
        self._recording = Recording(folder, run, self._emit)
        run.tell_settings()

    def _take(self, run: Run, paused: bool) -> None:
        """In the place of the old one, whose folder is finished."""
        self._end_recording()
        self._shelf.put_back()
        run.observation.watch(self._requests)
        self._runs += 1
        self.run, self._stop_at, self._inspection = run, None, None
        self.running = not paused
        self._publishing.rate = StepRate()
        self._emit(run.started(paused))
        self._opening.beside.go_over(ground_of(run))

    def _inspect(self, command: do.InspectFile) -> None:
        """The run goes on unless the network can be shown."""
        shown = self.run or self._inspection
        found = inspect(self._opening, command, self._runs + 1, shown, self._emit, self._report)
        self._end_recording()
        self._shelf.put_back()
        self._runs += 1
        self.run, self._inspection, self.running = None, found, False
        self._watch(self._requests)
        self._emit(found.started())
        self._opening.forget(command.ticket)
        self._opening.beside.go_over(ground_of(found))

    def _show(self, found: LoadedRun) -> None:
        """A recorded run in the place of what went on."""
        aside = self._recording
        self._end_recording()
        self._shelf.put_back(found)
        self._runs += 1
        self.run, self._inspection, self.running = None, None, False
        for event in found.told(self._runs, str(aside.path) if aside is not None else ""):
            self._tell(event)
        self._watch(self._requests)
        self._opening.beside.go_over(None)

    def _go_on(self, found: LoadedRun, command: do.Resume | do.Advance | do.Reset) -> None:
        """From what is on show to a run that trains."""
        if isinstance(command, do.Reset):
            self._start(do.StartRun(found.started.config))
        else:
            self._continue(do.ContinueRun(str(self._shelf.home()), paused=True))
            self._obey(command)

    def _watch(self, requests: tuple[do.ProbeRequest, ...]) -> None:
        if self._shelf.found is not None:
            self._publish(self._shelf.found.frame_now(self._runs, requests))
        self._requests = requests
        self._opening.beside.watch(requests)
        for shown in (self.run, self._inspection):
            if shown is not None:
                shown.observation.watch(requests)

    def _look_still(self) -> None:
        """One probe at a time; what does not change is not read twice."""
        shown = self._inspection
        try:
            beside = self._opening.beside
            if shown is not None and (shown.standing.look(beside.gates) or beside.look()):
                self._publish(shown.frame(beside.readings))
        except Exception as error:
            self._fail("Inspecting stopped by a fault", error)

    def _end_recording(self, sound: bool = True) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close(sound, PATIENCE)

    def _resume(self, run: Run, stop_at: int | None) -> None:
        if run.diverged:
            raise UserError(
                f"The run diverged at step {run.step_count}; reset it or start another."
            )
        if run.finished:
            run.total_steps = 0  # asked for more than was planned: until stopped
        self._stop_at = stop_at
        self.running = True
        self._publishing.rate = StepRate()
        self._emit(Running(run.step_count))

    def _pause(self, run: Run) -> None:
        self.running = False
        self._stop_at = None
        self._emit(Paused(run.step_count))

    def _stop_where_due(self, run: Run) -> None:
        if run.diverged:
            self.running = False
        elif run.finished:
            self.running = False
            self._emit(Finished(run.step_count))
        elif run.measuring.pending:
            return  # its scores belong to the step that was asked for
        elif self._stop_at is not None and run.step_count >= self._stop_at:
            self._pause(run)

    def _needed(self, what: str) -> Run:
        if self.run is None:
            inspected = self._inspection.name if self._inspection is not None else ""
            recorded = self._shelf.found.name if self._shelf.found is not None else ""
            raise UserError(why_no_run(what, inspected, recorded))
        return self.run

    def _emit(self, event: Event) -> None:
        if self._recording is not None:
            self._recording.on_event(event)
        self._tell(event)

    def _report(self, what: str, fraction: float | None) -> None:
        self._emit(Working(what, fraction))

    def _fail(self, what: str, error: Exception) -> None:
        self.running = False
        self._emit(failure(what, error))
        self._end_recording(sound=False)
        if self.run is not None:
            self._emit(Paused(self.run.step_count))
