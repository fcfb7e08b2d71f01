"""The engine without its thread: obeys commands, takes steps, publishes what was seen."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import torch

from dgn_engine.data import catalogue as data_entries
from dgn_engine.devices import available_devices
from dgn_engine.files import OpenedFiles
from dgn_engine.nets import net_entries
from dgn_engine.probes import all_probes
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.events import (
    EngineReady,
    Event,
    Failed,
    Finished,
    Measured,
    Paused,
    RecordingPaused,
    Refused,
    RegimeSwapped,
    Rewired,
    Running,
    Traced,
    Working,
)
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.wording import in_words
from dgn_engine.rate import Rate
from dgn_engine.recording import Recording, begin_recording, continue_run
from dgn_engine.refusal import Refusal
from dgn_engine.regimes import regime_entries
from dgn_engine.run import Run
from dgn_engine.runs.folder import RunFolder, new_folder
from dgn_engine.runs.reader import RunReader

PUBLISH_EVERY = 0.04  # seconds, for the position and the rate; new readings go out at once
PATIENCE = 4.0  # seconds that the folder of a run that ends may take to be finished
SHOWN_AGAIN = (Measured, Traced, RegimeSwapped, Rewired)  # of a run that is continued


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
        self.running = False
        self._runs = 0
        self._stop_at: int | None = None
        self._requests: tuple[do.ProbeRequest, ...] = ()
        self._rate = Rate()
        self._published = 0.0
        self._files = OpenedFiles(emit)

    def announce(self) -> None:
        """Say what can be chosen."""
        root = Path(self._data_root) if self._data_root else None
        known = Catalogue(
            regimes=regime_entries(),
            nets=net_entries(),
            data=data_entries(root),
            probes=tuple(all_probes()),
            devices=available_devices(),
        )
        self._emit(EngineReady(known, torch.__version__))

    def obey(self, command: do.Command) -> None:
        """Carry out one command between two steps; the answer is an event."""
        try:
            self._obey(command)
        except Refusal as refusal:
            self._emit(Refused(in_words(command), str(refusal)))
        except Exception as error:  # the session must outlive any fault
            self._fail(f"{in_words(command)} failed", error)

    def advance(self) -> None:
        """Take one step if the run is running, then read and publish what is due."""
        run = self.run
        if run is None:
            return
        try:
            if self.running:
                if run.advance():
                    self._rate.tick(run.pace)
                self._stop_where_due(run)
            self._look(run, catch_up=not self.running)
            if self._recording is not None:
                self._recording.tick()
        except Exception as error:
            self._fail("Training stopped by a fault", error)

    def next_step_in(self) -> float | None:
        """Seconds until the next step by the run's pace; None while nothing runs."""
        if self.run is None or not self.running:
            return None
        return self._rate.wait()

    def close(self) -> None:
        """End child processes, finish the run's folder and forget the run."""
        self._files.close()
        self._end_recording()
        self.run = None
        self.running = False

    def _obey(self, command: do.Command) -> None:
        match command:
            case do.StartRun():
                self._start(command)
            case do.ContinueRun():
                self._continue(command)
            case do.Watch():
                self._requests = command.requests
                if self.run is not None:
                    self.run.observation.watch(command.requests)
            case do.OpenFile():
                self._files.open(Path(command.path), self._needed("open a file").architecture)
            case do.CloseFile():
                self._files.forget(command.ticket)
            case do.Shutdown():
                self.close()
            case _:
                self._obey_in_run(self._needed(in_words(command)), command)

    def _obey_in_run(self, run: Run, command: do.Command) -> None:
        match command:
            case do.Resume():
                self._resume(run, None)
            case do.Advance():
                self._resume(run, run.step_count + max(1, command.steps))
            case do.Pause():
                self._pause(run)
            case do.Reset():
                self._start(do.StartRun(run.config, paused=not self.running))
            case do.SwapRegime():
                run.swap(command.regime, command.restart_value)
            case do.TakeGates():
                opened = self._files.take(command.ticket, run.architecture)
                run.take_gates(opened.match, opened.name, command.restart_value)
                self._files.forget(command.ticket)
            case do.Rewire():
                run.rewire(command.order)
            case do.SetLearningRate():
                run.set_learning_rate(command.learning_rate)
            case do.SetBeta():
                run.set_beta(command.beta)
            case do.SetValueInput():
                run.set_value_input(command.value_input)
            case do.SetPace():
                run.set_pace(command.steps_per_second)
            case do.SaveWeights():
                run.save(Path(command.path))
            case (
                do.StartRun()
                | do.ContinueRun()
                | do.Watch()
                | do.OpenFile()
                | do.CloseFile()
                | do.Shutdown()
            ):
                raise AssertionError(f"{command} is obeyed elsewhere")
            case _:
                assert_never(command)

    def _start(self, command: do.StartRun) -> None:
        """The old run goes on unless the new one can begin."""
        run = Run(self._runs + 1, command.config, self._emit, self._report, live=True)
        self._take(run, command.paused)
        if self._runs_root:
            try:
                folder = new_folder(Path(self._runs_root), command.config)
                self._recording = begin_recording(folder, run, self._emit)
            except Refusal as refusal:  # a run that cannot be recorded can be watched all the same
                self._emit(RecordingPaused(f"{refusal} This run is not recorded."))
        run.tell_settings()

    def _continue(self, command: do.ContinueRun) -> None:
        """The old run goes on unless the recorded one can."""
        folder = RunFolder(Path(command.folder))
        try:
            known = RunReader(folder.path).events
            run, told = continue_run(folder, self._runs + 1, self._emit, self._report, live=True)
        except BaseException:
            folder.close()
            raise
        self._take(run, command.paused or run.finished)
        for event in known:
            if isinstance(event, SHOWN_AGAIN):
                self._tell(event)
        self._tell(told)
        self._recording = Recording(folder, run, self._emit)
        run.tell_settings()

    def _take(self, run: Run, paused: bool) -> None:
        """In the place of the old one, whose folder is finished."""
        self._end_recording()
        run.observation.watch(self._requests)
        self._runs += 1
        self.run, self._stop_at = run, None
        self.running = not paused
        self._rate = Rate()
        self._emit(run.started(paused))

    def _end_recording(self, sound: bool = True) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.close(sound, PATIENCE)

    def _resume(self, run: Run, stop_at: int | None) -> None:
        if run.diverged:
            raise Refusal(f"The run diverged at step {run.step_count}; reset it or start another.")
        if run.finished:
            run.total_steps = 0  # asked for more than was planned: until stopped
        self._stop_at = stop_at
        self.running = True
        self._rate = Rate()
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

    def _look(self, run: Run, catch_up: bool) -> None:
        due = run.observation.due(run.step_count, catch_up)
        if due:
            run.observation.look(due, run.sight(), run.step_count)
        now = time.monotonic()
        if due or catch_up or now - self._published >= PUBLISH_EVERY:
            self._published = now
            frame = self._frame(run)
            self._publish(frame)
            if due and self._recording is not None:
                self._recording.on_frame(frame)

    def _frame(self, run: Run) -> Frame:
        rate = self._rate.per_second() if self.running else 0.0
        left = run.total_steps - run.step_count
        return Frame(
            run=run.number,
            step=run.step_count,
            epoch=run.trainer.epoch,
            steps_per_second=rate,
            eta_seconds=left / rate if run.total_steps and rate > 0 else None,
            readings=dict(run.observation.readings),
        )

    def _needed(self, what: str) -> Run:
        if self.run is None:
            raise Refusal(f"There is no run: start one before you {what}.")
        return self.run

    def _emit(self, event: Event) -> None:
        if self._recording is not None:
            self._recording.on_event(event)
        self._tell(event)

    def _report(self, what: str, fraction: float | None) -> None:
        self._emit(Working(what, fraction))

    def _fail(self, what: str, error: Exception) -> None:
        self.running = False
        self._emit(Failed(f"{what}: {type(error).__name__}: {error}", traceback.format_exc()))
        self._end_recording(sound=False)
        if self.run is not None:
            self._emit(Paused(self.run.step_count))
