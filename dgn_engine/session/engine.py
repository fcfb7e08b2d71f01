"""The engine without its thread: carries out commands, takes steps, publishes what was read.

Open it to see what a command does: `Engine._all_handlers` is the table of all handlers.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dgn_engine.errors import UserError
from dgn_engine.protocol import branches, files, messages, runs, training, watching
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import ContinueRun, DiscardConfirmation, OpenSession, RunEnding
from dgn_engine.protocol.watching import ReportWindow, SetWatchShare
from dgn_engine.session.file_commands import FileCommands, Shown
from dgn_engine.session.finite_state import FiniteState, find_finite_state
from dgn_engine.session.frame_publisher import FramePublisher, StepRate
from dgn_engine.session.frozen_network import InspectedNetwork
from dgn_engine.session.known_plug_ins import catalogue_here
from dgn_engine.session.live_branch import Branches
from dgn_engine.session.reading_commands import ReadingCommands
from dgn_engine.session.run_estimate import estimate_run
from dgn_engine.session.run_library import RunLibrary, is_session_file
from dgn_engine.session.undo import UndoHistory
from dgn_engine.session.unused_memory import UnusedMemory
from dgn_engine.storage.runs.drawn_events import drawn_history
from dgn_engine.storage.runs.index import newest_resumable
from dgn_engine.storage.runs.run_folder import RunFolder, create_named
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.text.written_numbers import number
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.readings.watch_budget import DRAWING, SHARE
from dgn_engine.training.recording import Recording, begin_recording, continue_run
from dgn_engine.training.run import MAKING, Run
from dgn_engine.training.run_snapshot import BACK_FROM_DIVERGENCE, put_back

MOMENT = 0.5  # seconds that the probes may take for the last frame of a run that is left
LOOK_EVERY = 0.005  # seconds between two looks at what is due, where steps are quicker
PATIENCE = 4.0  # seconds that the folder of a run that ends may take to be finished
# What a page asks for while it is seen: steps and readings cost afterwards what they did before.
_ASIDE = (
    branches.ListCheckpoints,
    branches.HoldCheckpoint,
    runs.ListRuns,
    training.EstimateRun,
    runs.ReadCurves,
    runs.NoteRun,
)
Handler = Callable[[Any], None]


def discard_question(
    command: Command, run: Run | None, recording: Recording | None
) -> DiscardConfirmation | None:
    """Ask before an unrecorded run is replaced; None where nothing would be lost."""
    if not isinstance(command, RunEnding) or command.discard:
        return None
    if run is None or not run.step_count:
        return None
    safe = run.recorded if recording is None else not recording.paused
    if safe:  # without a recording: it failed, and its folder has the run up to then
        return None
    where = command.path if isinstance(command, OpenSession) else command.folder
    shown = not isinstance(command, ContinueRun)
    anyway = replace(command, discard=True)
    return DiscardConfirmation(run.step_count, Path(where).name, shown, anyway)


class WatchCommands:
    """Keeps the user's share for the runs that follow."""

    def __init__(self) -> None:
        self._share = SHARE

    def employ(self, run: Run) -> None:
        """A run begins: it is watched as the user wants it."""
        run.budget.share = self._share

    def set_share(self, command: SetWatchShare, run: Run | None) -> None:
        """Raises `UserError` for what is no share."""
        share = command.share
        if not 0.0 < share <= 1.0:
            raise UserError(f"A share of {number(share)} is none: give one above 0, and at most 1.")
        self._share = share
        if run is not None:
            self.employ(run)

    def charge_window(self, command: ReportWindow, run: Run | None) -> None:
        """A window in another process delays training only where both need the same core."""
        apart = command.process != os.getpid()
        if run is None or (apart and (os.cpu_count() or 1) > torch.get_num_threads()):
            return
        run.budget.charge(DRAWING, command.drawing, own=False)
        run.budget.charge("window", command.other, own=False)


class Engine:
    """Holds at most one run. `obey` and `advance` never raise: trouble becomes events."""

    def __init__(
        self,
        emit: Callable[[messages.Event], None],
        publish: Callable[[Frame], None],
        data_root: str = "",
        runs_root: str = "",
        cancelled: threading.Event | None = None,
    ) -> None:
        """`runs_root`: where every run writes its folder; empty: none is written. `cancelled`: set
        by another thread, it ends the reading of data that is in progress."""
        self._cancelled = cancelled or threading.Event()
        self._emit_unrecorded = emit
        self._publish = publish
        self._data_root = data_root
        self._runs_root = runs_root
        self._recording: Recording | None = None
        self.run: Run | None = None
        self._inspected: InspectedNetwork | None = None  # then there is no run
        self.running = False
        self._runs = 0
        self._stop_at: int | None = None
        self._look_at = 0.0  # when what is due is looked at again
        self._unused = UnusedMemory()
        self._requests: tuple[watching.ProbeRequest, ...] = ()
        self._executors = ExecutorChoice()
        self._files = opened = FileCommands(emit, self._executors)
        self._heavy = ReadingCommands(self._emit, self._executors, opened.comparison)
        self._library = RunLibrary(emit, runs_root)
        self._publisher = FramePublisher(publish, opened.comparison)
        self._finite: FiniteState | None = None  # what a diverged run can be put back to
        self._gone_back_to: FiniteState | None = None  # held, for a run that diverges once more
        self._tried: set[int] = set()  # steps of states that led to divergence once more
        self._undo = UndoHistory(self._emit, opened.name_of, self._heavy.choose)
        self._watching = WatchCommands()
        self._branches = Branches(self._emit, opened.comparison, runs_root)
        self.handlers = self._all_handlers()

    def _all_handlers(self) -> dict[type[messages.Command], Handler]:
        """Return what carries out each command, in the order of the modules of `protocol`."""
        opened, readings, library = self._files, self._heavy, self._library
        budget, branch, undo = self._watching, self._branches, self._undo
        in_run, on_shown = self._in_run, self._on_shown
        return {
            training.StartRun: self._start,
            training.EstimateRun: self._estimate,
            # Nothing is being read any more.
            training.CancelLoading: lambda _: self._cancelled.clear(),
            training.Resume: self._resume,
            training.Advance: self._resume,
            training.Pause: in_run(lambda run, _: self._pause(run)),
            training.Reset: self._reset,
            training.GoBack: in_run(lambda run, _: self._go_back(run)),
            training.SwapRegime: in_run(lambda run, c: run.swap(c.regime, c.restart_value)),
            training.Rewire: in_run(lambda run, c: run.rewire(c.order)),
            training.Rotate: in_run(lambda run, c: run.rotate(c.rotation, c.shift)),
            training.SetLearningRate: in_run(lambda run, c: run.set_learning_rate(c.learning_rate)),
            training.SetBeta: in_run(lambda run, c: run.set_beta(c.beta)),
            training.SetValueInput: in_run(lambda run, c: run.set_value_input(c.value_input)),
            training.SetPace: in_run(lambda run, c: run.set_pace(c.steps_per_second)),
            training.Undo: lambda _: undo.undo(self.run),
            training.UndoSetting: lambda _: undo.undo_setting(self.run),
            training.UndoMany: lambda c: undo.undo_many(c, self.run),
            training.Redo: lambda _: undo.redo(self.run),
            watching.Watch: lambda c: self._watch(c.requests),
            watching.SetWatchShare: lambda c: budget.set_share(c, self.run),
            watching.ReportWindow: lambda c: budget.charge_window(c, self.run),
            watching.CancelReading: on_shown(readings.cancel),
            watching.GoOnReading: on_shown(readings.resume),
            watching.SetProbeExamples: on_shown(readings.choose_number),
            watching.ChooseProbeSet: on_shown(readings.choose_set),
            watching.ChooseMisclassified: on_shown(readings.choose_misclassified),
            watching.ListExamples: on_shown(readings.list_examples),
            files.OpenFile: self._open_file,
            files.PickTensors: on_shown(opened.pick),
            files.SayReading: on_shown(opened.say),
            files.CloseFile: self._close_file,
            files.TakeGates: on_shown(opened.take_gates),
            files.TakeWeights: on_shown(opened.take_weights),
            files.BeginWithBiases: in_run(self._begin_with_biases),
            files.InspectFile: on_shown(self._inspect),
            files.CheckNetwork: on_shown(opened.check),
            files.TrainOn: self._train_on,
            files.SaveWeights: in_run(lambda run, c: run.save(Path(c.path))),
            runs.ContinueRun: self._continue,
            runs.ContinueLast: self._continue_last,
            runs.ListRuns: library.list_runs,
            runs.NoteRun: library.note,
            runs.DeleteRun: library.delete,
            runs.ThinRuns: library.thin,
            runs.ExportRun: library.export,
            runs.ReadCurves: library.read_curves,
            runs.ShowRun: lambda c: library.read(c, self._recording),
            runs.OpenSession: library.open_session,
            runs.SaveSession: self._save_session,
            branches.StartBranch: in_run(lambda run, c: branch.start(c, run, self._recording)),
            branches.StopBranch: lambda _: branch.stop(),
            branches.ListCheckpoints: in_run(lambda run, _: self._list_checkpoints(run)),
            branches.HoldCheckpoint: self._hold_checkpoint,
            branches.CompareFile: on_shown(opened.compare_file),
            branches.CompareRun: lambda c: opened.compare_run(
                c, self._shown, library.shown is not None
            ),
            branches.CompareHeld: in_run(lambda run, c: opened.compare_held(c, run, self._number)),
            branches.CloseComparison: self._close_comparison,
            messages.Shutdown: lambda _: self.close(),
        }

    def announce(self) -> None:
        self._emit(messages.EngineReady(catalogue_here(self._data_root), torch.__version__))

    def obey(self, command: messages.Command) -> None:
        """Carry out one command between two steps; the answer is an event."""
        self._look_at = 0.0
        if self.run is not None and isinstance(command, _ASIDE):
            self.run.budget.overhead.disturb()
        elif self.run is not None and not isinstance(command, watching.ReportWindow):
            self.run.budget.overhead.forget()
        self._attempt(command.in_words(), lambda: self._execute(command))
        if self._shown is not None and self._shown.probe_schedule.dropped:
            self._shown.probe_schedule.dropped = False
            self._publish(self._frame_of(self._shown))  # before the next step, which may be long

    def advance(self) -> None:
        """Take one step if the run is running; then see what is due, after quick steps not after
        each of them: looking would cost a fiftieth of the smallest ones."""
        run = self.run
        try:
            if run is not None and self.running:
                self._step(run)
                quiet = run.budget.overhead.is_quiet()
                if self.running and (quiet or time.monotonic() < self._look_at):
                    return
            self._look()
        except Exception as error:
            self._fail("Training stopped by a fault", error)
        self._look_at = time.monotonic() + LOOK_EVERY

    def _step(self, run: Run) -> None:
        if not run.step_count:
            self._show_due(run, running=False)  # before the first step
        began = time.perf_counter()
        if run.advance():
            self._publisher.rate.tick(run.pace, time.perf_counter() - began)
        self._stop_where_due(run)

    def _look(self) -> None:
        """Read, publish and record what is due, and hear what others have done."""
        self._unused.give_back_due()
        if (loaded := self._library.take_loaded()) is not None:
            self._attempt(f"show {loaded.name}", lambda: self._show(loaded))
        run = self.run
        # A run with a pace leaves a card idle between its steps.
        trains = run is not None and self.running and not run.pace
        heard = self._executors.executor.latest(run.budget if run is not None and trains else None)
        self._branches.poll(run)
        if run is None:
            self._attempt("follow the run", lambda: self._library.follow(self._publish_shown))
            self._read_inspected(heard)
            return
        self._show_due(run, self.running, heard)
        self._read_compared(run)
        if self._recording is not None:
            self._recording.tick()
        run.budget.settle(self.running, run.pace > 0.0)
        if self.running and not run.pace:
            run.budget.overhead.begin_if_due()

    def _show_due(self, run: Run, running: bool, heard: bool = False) -> None:
        """Read, publish and record what is due; where the run stands still, all of it is recorded,
        so that a run that is opened again shows what was seen when it was left."""
        frame = self._publisher.publish_due(run, running, heard)
        if run.diverged:  # a reading may have seen it first
            self.running = False
        if frame is not None and self._recording is not None:
            needed = not running and not run.probe_schedule.busy
            self._recording.on_frame(frame, needed)

    def _read_compared(self, run: Run) -> None:
        began = run.budget.busy()
        if self._files.comparison.read_next():
            run.budget.charge("readings", run.budget.busy() - began)

    def next_step_in(self) -> float | None:
        """Seconds until the next step by the run's pace; None while nothing runs."""
        if self._inspected is not None and self._inspected.scoring:
            return 0.0
        return self._publisher.rate.wait() if self.run is not None and self.running else None

    def close(self) -> None:
        """End child processes, finish the run's folder and forget the run."""
        if self.run is not None and self.running:
            self._see_the_end(self.run)  # while there is what it may be compared with
        self._branches.close()
        self._heavy.release(self._shown)
        self._files.close()
        self._executors.executor.close()
        self._library.close()
        self._end_recording()
        self.run = self._inspected = None
        self.running = False

    # Commands

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError as refusal:
            self._emit(messages.Refused(what, str(refusal)))
        except Exception as error:  # the session must outlive any fault
            self._fail(f"{what} failed", error)

    def _execute(self, command: messages.Command) -> None:
        question = discard_question(command, self.run, self._recording)
        if question is not None:
            self._emit(question)
        else:
            self._undo.remember(command, self.run, self.handlers[type(command)])

    def _in_run(self, act: Callable[[Run, Any], None]) -> Handler:
        """A handler that needs a run that trains."""
        return lambda command: act(self._run_for(command), command)

    def _run_for(self, command: messages.Command) -> Run:
        if self.run is not None:
            return self.run
        if self._inspected is not None:
            raise UserError(
                f"{self._inspected.name} is inspected, not trained: begin a new run first."
            )
        if self._library.shown is not None:
            raise UserError(f"{self._library.shown.name} is only shown: Run goes on with it first.")
        raise UserError(f"There is no run: start one before you {command.in_words()}.")

    def _on_shown(self, act: Callable[[Any, Shown], None]) -> Handler:
        """A handler that needs a run, or a network that is inspected."""

        def handle(command: messages.Command) -> None:
            act(command, self._shown or self._run_for(command))

        return handle

    def _number(self) -> int:
        """Of the run that is trained; 0 where there is none."""
        return 0 if self.run is None else self.run.number

    @property
    def _shown(self) -> Shown | None:
        return self.run or self._inspected

    def _start(self, command: training.StartRun) -> None:
        """The old run goes on unless the new one can begin."""
        self._heavy.expect(command.config)
        run = Run(
            self._runs + 1,
            command.config,
            self._emit,
            self._report,
            live=True,
            examples=None if self.run is None else self.run.examples_for(command.config.data),
            checkpoints=bool(self._runs_root),
            reclaimed=self._reclaimed,
        )
        self._begin(run, command.paused)

    def _estimate(self, command: training.EstimateRun) -> None:
        recorded, seconds = bool(self._runs_root), self._seconds_a_step() if self.running else None
        self._emit_unrecorded(estimate_run(command.config, self.run, recorded, seconds))

    def _seconds_a_step(self) -> float | None:
        """Return what a step of the run takes without a pace; None where that is not known."""
        run, rate = self.run, self._publisher.rate
        if run is None:
            return None
        if run.device.type == "cpu":
            return rate.seconds_a_step()
        # Steps on a card end after they were taken here: only at full speed their rate says it.
        return 1.0 / rate.per_second() if rate.per_second() and not run.pace else None

    @property
    def _reclaimed(self) -> float:
        """Bytes that the run in progress gives back when another takes its place."""
        return 0.0 if self.run is None else float(self.run.memory.lasting)

    def _train_on(self, command: files.TrainOn) -> None:
        """The network stays inspected unless a run of it can begin."""
        if self._inspected is None:
            raise UserError("No network is inspected: open a file as a network first.")
        run, told = self._inspected.trained_on(self._runs + 1, command.regime, self._report)
        self._begin(run, command.paused)
        self._emit(told)

    def _begin_with_biases(self, old: Run, command: files.BeginWithBiases) -> None:
        """The old run goes on unless the file fits one with biases; the copy can be undone."""
        config = self._files.check_with_biases(command, old)
        self._start(training.StartRun(config, paused=not self.running))
        if command.purpose == "gates":
            self._execute(files.TakeGates(command.ticket, command.restart_value))
        else:
            self._execute(files.TakeWeights(command.ticket))

    def _begin(self, run: Run, paused: bool) -> None:
        """Put a run that has just been made in the place of the old one, and record it."""
        self._replace_run(run, paused)
        ignored = run.ignored(live=True, recorded=bool(self._runs_root))
        if ignored:
            self._emit(training.SettingsIgnored(tuple(one.sentence for one in ignored)))
        if self._runs_root:
            try:
                folder = create_named(Path(self._runs_root), run.config)
                self._recording = begin_recording(folder, run, self._emit)
            except UserError as refusal:  # it can be watched all the same
                self._emit(runs.RecordingPaused(f"{refusal} This run is not recorded."))
        run.emit_settings()

    def _continue(self, command: runs.ContinueRun) -> None:
        """The old run goes on unless the recorded one can."""
        folder = RunFolder(Path(command.folder))
        try:
            run, continued = continue_run(
                folder,
                self._runs + 1,
                self._emit,
                self._report,
                live=True,
                reclaimed=self._reclaimed,
            )
            reader = RunReader(folder.path)
            history = replace(drawn_history(reader.log.each_event()), began=reader.started)
            self._check_cancelled()
        except BaseException:
            folder.close()
            raise
        self._replace_run(run, command.paused or run.finished)
        self._emit_unrecorded(history)
        self._emit_unrecorded(continued)
        self._recording = Recording(folder, run, self._emit)
        run.emit_settings()

    def _continue_last(self, command: runs.ContinueLast) -> None:
        """A run that cannot go on is refused in a sentence, and the other one begins."""
        folder = newest_resumable(Path(self._runs_root)) if self._runs_root else None
        if folder is not None:
            try:
                return self._continue(runs.ContinueRun(str(folder), command.paused))
            except UserError as refusal:
                self._emit(messages.Refused(command.in_words(), str(refusal)))
        return self._start(training.StartRun(command.otherwise, command.paused))

    def _replace_run(self, run: Run, paused: bool) -> None:
        """Put `run` in the place of the old one, whose folder is finished."""
        self._check_cancelled()  # since the last report, which may be seconds ago
        self._leave()
        self._library.close_shown()
        self._heavy.use_executor(run)
        run.probe_schedule.watch(self._requests)
        self._watching.employ(run)
        self._runs += 1
        self.run, self._stop_at, self._inspected = run, None, None
        self.running = not paused
        self._publisher.rate = StepRate()
        self._emit(run.started(paused))
        self._heavy.meet(run)

    def _resume(self, command: training.Resume | training.Advance) -> None:
        if self._library.shown is not None:
            self._continue(runs.ContinueRun(str(self._library.folder_to_continue()), paused=True))
        run = self._run_for(command)
        if run.diverged:
            back = "" if self._finite is None else f"go back to step {self._finite.step:,}, "
            raise UserError(
                f"The run diverged at step {run.step_count:,}; {back}reset it or start another."
            )
        if run.finished:
            run.total_steps = 0  # asked for more than was planned: until stopped
        steps = max(1, command.steps) if isinstance(command, training.Advance) else None
        self._stop_at = None if steps is None else run.step_count + steps
        self.running = True
        self._publisher.rate = StepRate()
        self._emit(training.Running(run.step_count))

    def _go_back(self, run: Run) -> None:
        """Put a diverged run back to its newest finite state; it stays paused."""
        if not run.diverged or self._finite is None:
            why = "no earlier state of it is kept" if run.diverged else "it has not diverged"
            raise UserError(f"The run cannot go back: {why}.")
        self._undo.leave_out(self._finite.step)
        state = self._finite.snapshot
        put_back(run, state, "going back", BACK_FROM_DIVERGENCE, self._emit)
        # A checkpoint of this step would be the same state once more.
        self._tried |= {self._finite.step, run.step_count}
        self._gone_back_to, self._finite = self._finite, None
        self._pause(run)

    def _with_way_back(self, event: training.Diverged) -> training.Diverged:
        """The event with the state that the run can be put back to, which is held from now on."""
        run = self.run
        if run is None:
            return event
        self._finite = found = find_finite_state(run, self._recording, self._tried)
        if found is None:
            return event
        return replace(event, back_to=found.step, stored=found.stored)

    def _reset(self, command: training.Reset) -> None:
        if self._library.shown is not None:
            self._start(training.StartRun(self._library.shown.config))
        else:
            self._start(training.StartRun(self._run_for(command).config, paused=not self.running))

    def _pause(self, run: Run) -> None:
        self.running = False
        self._stop_at = None
        run.settle()
        self._emit(training.Paused(run.step_count))

    def _watch(self, requests: tuple[watching.ProbeRequest, ...]) -> None:
        if self._library.shown is not None:
            self._publish(self._library.shown.frame_for(self._runs, requests))
        left = {one.probe for one in self._requests} - {one.probe for one in requests}
        if left and self.run is not None:
            self._emit(watching.ProbesLeft(self.run.step_count, tuple(sorted(left))))
        self._requests = requests
        self._files.comparison.watch(requests)
        if self._shown is not None:
            self._shown.probe_schedule.watch(requests)

    def _publish_shown(self, loaded: LoadedRun) -> None:
        self._publish(loaded.frame_for(self._runs, self._requests))

    def _frame_of(self, shown: Shown) -> Frame:
        if isinstance(shown, Run):
            return self._publisher.frame(shown, self.running)
        comparison = self._files.comparison
        return shown.frame(comparison.readings, comparison.number)

    def _open_file(self, command: files.OpenFile) -> None:
        """A session is opened as one, under whatever name it was dropped."""
        if is_session_file(Path(command.path)):
            self._execute(runs.OpenSession(command.path))
        else:
            self._on_shown(self._files.open)(command)

    def _list_checkpoints(self, run: Run) -> None:
        seconds = self._seconds_a_step() or 0.0
        self._branches.list_checkpoints(run.number, self._recording, seconds)

    def _hold_checkpoint(self, command: branches.HoldCheckpoint) -> None:
        self._branches.hold_checkpoint(command, self._recording)
        if command.step is not None:
            self._list_checkpoints(self._run_for(command))

    def _inspect(self, command: files.InspectFile, shown: Shown) -> None:
        """The run goes on unless the network can be shown."""
        self._executors.prepare(shown.config.device)  # it is loaded while the network is made
        opened = self._files.opened(command, shown)
        inspected = InspectedNetwork(self._runs + 1, opened, self._emit, self._report)
        self._check_cancelled()
        self._leave()
        self._library.close_shown()
        self._runs += 1
        self.run, self._inspected, self.running = None, inspected, False
        self._heavy.use_executor(inspected)
        self._watch(self._requests)
        for event in (inspected.started(), inspected.offered(), inspected.scored()):
            self._emit(event)
        self._files.forget(command.ticket)
        self._heavy.meet(inspected)

    def _close_comparison(self, _: branches.CloseComparison) -> None:
        self._files.close_comparison(self._shown)
        self._unused.expect()

    def _close_file(self, command: files.CloseFile) -> None:
        self._files.forget(command.ticket)
        self._unused.expect()

    def _save_session(self, command: runs.SaveSession) -> None:
        frame = None if self.run is None else self._publisher.frame(self.run, self.running)
        self._library.save_session(command, self._recording, frame)

    def _show(self, loaded: LoadedRun) -> None:
        """Show a recorded run in the place of the run in progress."""
        before = "" if self._recording is None else str(self._recording.path)
        self._leave()
        self._library.replace_shown(loaded, before)
        self._runs += 1
        self.run, self._inspected, self.running = None, None, False
        for event in loaded.events_as(self._runs, before):
            self._emit_unrecorded(event)
        self._watch(self._requests)
        self._files.comparison.renew(None)

    # Steps

    def _read_inspected(self, heard: bool) -> None:
        """Read one probe at a time; what does not change is not read twice."""
        inspected, comparison = self._inspected, self._files.comparison
        try:
            if inspected is not None and (
                inspected.network.read_next(comparison.gates) or comparison.read_next() or heard
            ):
                self._publish(inspected.frame(comparison.readings, comparison.number))
            if inspected is not None:
                inspected.score_next()
        except Exception as error:
            self._fail("Inspecting stopped by a fault", error)

    def _stop_where_due(self, run: Run) -> None:
        if run.diverged:
            self.running = False
        elif run.finished:
            self.running = False
            self._emit(training.Finished(run.step_count))
        elif run.evaluation.pending:
            return  # its scores belong to the step that was asked for
        elif self._stop_at is not None and run.step_count >= self._stop_at:
            self._pause(run)

    def _see_the_end(self, run: Run) -> None:
        """Record the last step with what can be read in a moment."""
        try:
            if self._recording is not None and run.probe_schedule.seconds < MOMENT:
                self._show_due(run, running=False)
        except Exception as error:  # it ends all the same
            self._emit_unrecorded(messages.Failed.from_exception("The last frame failed", error))

    def _leave(self) -> None:
        """Finish what is shown: its folder, its readings, its history of changes."""
        self._end_recording()
        self._heavy.release(self._shown)
        self._undo.forget()
        self._finite, self._gone_back_to, self._tried = None, None, set()
        self._unused.expect()

    def _end_recording(self, sound: bool = True) -> None:
        if sound and self.run is not None and self.running:
            self._see_the_end(self.run)
        recording, self._recording = self._recording, None
        self._branches.release()
        if recording is not None:
            recording.close(sound, PATIENCE)

    def _emit(self, event: messages.Event) -> None:
        if isinstance(event, training.Diverged):
            event = self._with_way_back(event)
        if self._recording is not None:
            self._recording.on_event(event)
        self._emit_unrecorded(event)

    def _report(self, what: str, fraction: float | None) -> None:
        self._check_cancelled(what)
        self._emit(messages.Working(what, fraction, can_cancel=True))

    def _check_cancelled(self, what: str = "") -> None:
        """Raise `UserError` where the user has cancelled what is being read or made."""
        if self._cancelled.is_set():
            named = what if what == MAKING else "Reading the data"
            raise UserError(f"{named} was cancelled.")

    def _fail(self, what: str, error: Exception) -> None:
        self.running = False
        self._emit(messages.Failed.from_exception(what, error))
        self._end_recording(sound=False)
        if self.run is not None:
            self._emit(training.Paused(self.run.step_count))
