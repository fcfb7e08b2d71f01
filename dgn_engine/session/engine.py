"""The engine without its thread: carries out commands, takes steps, publishes readings.

To see what a command does, look it up in `Engine._all_handlers`, the table of all handlers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from dgn_engine.errors import UserError
from dgn_engine.protocol import branches, files, messages, runs, training, watching
from dgn_engine.protocol.frames import Frame
from dgn_engine.session.known_plug_ins import catalogue_here
from dgn_engine.session.live_branch import Branches
from dgn_engine.session.opened_files import OpenedFiles, file_target_of
from dgn_engine.session.reading_commands import ReadingCommands
from dgn_engine.session.run_commands import RunCommands, discard_question
from dgn_engine.session.run_library import is_session_file
from dgn_engine.session.session_state import Handler, SessionState
from dgn_engine.session.training_loop import TrainingLoop
from dgn_engine.session.undo import UndoHistory
from dgn_engine.training.run import Run

LOOK_EVERY = 0.005  # seconds between two checks of what is due, if steps are quicker
# Requests of a visible page: they do not change the cost of later steps and readings.
_ASIDE = (
    branches.ListCheckpoints,
    branches.HoldCheckpoint,
    runs.ListRuns,
    training.EstimateRun,
    runs.ReadCurves,
    runs.NoteRun,
)


class Engine:
    """The engine, with at most one run. `handle_command` and `advance` never raise: errors become
    events."""

    def __init__(
        self,
        emit: Callable[[messages.Event], None],
        publish: Callable[[Frame], None],
        data_root: str = "",
        runs_root: str = "",
        cancelled: threading.Event | None = None,
        look_every: float = LOOK_EVERY,
        loop: Callable[[SessionState], TrainingLoop] = TrainingLoop,
        branches: Callable[[SessionState], Branches] = Branches,
    ) -> None:
        """Create an engine without a run.

        `runs_root` is the folder for the folders of runs; empty: runs are not recorded. `cancelled`
        is set by another thread to stop data that are being read.
        """
        self._cancelled = cancelled or threading.Event()
        self._look_every = look_every
        self._data_root = data_root
        self._look_at = 0.0  # the time of the next check of what is due
        self.state = state = SessionState(emit, publish, runs_root)
        self._files = opened = OpenedFiles(emit)
        self._loop = loop(state)
        self._heavy = readings = ReadingCommands(state.emit, state.executors, state.comparison)
        self._branches = branches(state)
        self._undo = UndoHistory(
            state.emit, lambda ticket: opened.listing(ticket).file_name, readings.choose
        )
        self._runs = RunCommands(
            state, self._loop, readings, opened, self._undo, self._branches, self._cancelled
        )
        self.handlers = self._all_handlers()

    def _all_handlers(self) -> dict[type[messages.Command], Handler]:
        """Return the handler of each command, in the order of the modules of `protocol`."""
        state, loop, run_commands = self.state, self._loop, self._runs
        opened, readings, branch, undo = self._files, self._heavy, self._branches, self._undo
        library, comparison = state.library, state.comparison
        in_run, on_shown, freeing = state.in_run, state.on_shown, self._freeing
        return {
            training.StartRun: run_commands.start,
            training.EstimateRun: loop.estimate,
            # By now nothing is being read.
            training.CancelLoading: lambda _: self._cancelled.clear(),
            training.Resume: run_commands.resume,
            training.Advance: run_commands.resume,
            training.Pause: in_run(lambda run, _: loop.pause(run)),
            training.Reset: run_commands.reset,
            training.GoBack: in_run(lambda run, _: run_commands.go_back(run)),
            training.SwapRegime: in_run(
                lambda run, c: run.control.swap_regime(c.regime, c.restart_value)
            ),
            training.Rewire: in_run(lambda run, c: run.control.rewire_gates(c.order)),
            training.Rotate: in_run(lambda run, c: run.control.rotate_gates(c.rotation, c.shift)),
            training.SetLearningRate: in_run(
                lambda run, c: run.control.set_learning_rate(c.learning_rate)
            ),
            training.SetBeta: in_run(lambda run, c: run.control.set_beta(c.beta)),
            training.SetValueInput: in_run(
                lambda run, c: run.control.set_value_input(c.value_input)
            ),
            training.SetPace: in_run(lambda run, c: run.control.set_pace(c.steps_per_second)),
            training.Undo: lambda _: undo.undo(state.run),
            training.UndoSetting: lambda _: undo.undo_setting(state.run),
            training.UndoMany: lambda c: undo.undo_many(c, state.run),
            training.Redo: lambda _: undo.redo(state.run),
            watching.Watch: lambda c: state.watch(c.requests),
            watching.SetWatchShare: loop.set_share,
            watching.ReportWindow: loop.charge_window,
            watching.CancelReading: on_shown(readings.cancel),
            watching.GoOnReading: on_shown(readings.resume),
            watching.SetProbeExamples: on_shown(readings.choose_number),
            watching.ChooseProbeSet: on_shown(readings.choose_set),
            watching.ChooseMisclassified: on_shown(readings.choose_misclassified),
            watching.ListExamples: on_shown(readings.list_examples),
            files.OpenFile: self._open_file,
            files.PickTensors: on_shown(
                lambda c, shown: opened.pick(c.ticket, c.tensors, file_target_of(shown))
            ),
            files.SayReading: on_shown(
                lambda c, shown: opened.say(c.ticket, c.reading, file_target_of(shown))
            ),
            files.CloseFile: freeing(lambda c: opened.forget(c.ticket)),
            files.TakeGates: on_shown(opened.take_gates),
            files.TakeWeights: on_shown(opened.take_weights),
            files.BeginWithBiases: in_run(
                lambda run, c: run_commands.begin_with_biases(run, c, self._execute)
            ),
            files.InspectFile: on_shown(run_commands.inspect),
            files.CheckNetwork: on_shown(lambda c, shown: opened.check(c, file_target_of(shown))),
            files.TrainOn: run_commands.train_on,
            files.SaveWeights: in_run(lambda run, c: run.save_weights(Path(c.path))),
            runs.ContinueRun: run_commands.continue_recorded,
            runs.ContinueLast: run_commands.continue_last,
            runs.ListRuns: library.list_runs,
            runs.NoteRun: library.note,
            runs.DeleteRun: library.delete,
            runs.ThinRuns: library.thin,
            runs.ExportRun: library.export,
            runs.ReadCurves: library.read_curves,
            runs.ShowRun: lambda c: library.read(c, state.recording),
            runs.OpenSession: library.open_session,
            runs.SaveSession: lambda c: library.save_session(c, state.recording, loop.frame()),
            branches.StartBranch: in_run(lambda run, c: branch.start(c, run)),
            branches.StopBranch: lambda _: branch.stop(),
            branches.ListCheckpoints: in_run(
                lambda run, _: branch.list_checkpoints(run, loop.seconds_a_step())
            ),
            branches.HoldCheckpoint: lambda c: branch.hold_checkpoint(c, loop.seconds_a_step()),
            branches.CompareFile: on_shown(
                lambda c, shown: opened.compare(c.ticket, shown, comparison)
            ),
            branches.CompareRun: lambda c: comparison.compare_run(
                c, state.shown, library.shown is not None
            ),
            branches.CompareHeld: in_run(
                lambda run, c: comparison.compare_held(
                    c, run, lambda: 0 if state.run is None else state.run.number
                )
            ),
            branches.CloseComparison: freeing(lambda _: comparison.close(shown=state.shown)),
            messages.Shutdown: lambda _: self.close(),
        }

    @property
    def run(self) -> Run | None:
        return self.state.run

    @property
    def running(self) -> bool:
        return self.state.running

    def announce(self) -> None:
        self.state.emit(messages.EngineReady(catalogue_here(self._data_root), torch.__version__))

    def obey(self, command: messages.Command) -> None:
        """Carry out one command between two steps; events are the answer."""
        self._look_at = 0.0
        if self.run is not None and isinstance(command, _ASIDE):
            self.run.budget.overhead.interrupt_quiet()
        elif self.run is not None and not isinstance(command, watching.ReportWindow):
            self.run.budget.overhead.discard_measurements()
        self._attempt(command.in_words(), lambda: self._execute(command))
        shown = self.state.shown
        if shown is not None and shown.probe_schedule.dropped:
            shown.probe_schedule.dropped = False
            self._publish_shown()  # before the next step, which may take long

    def advance(self) -> None:
        """Take one step if the run is running, then do what is due.

        After quick steps, what is due is not checked each time: that would cost 2 % of the smallest
        ones.
        """
        run = self.run
        try:
            if run is not None and self.running:
                self._loop.step(run)
                quiet = run.budget.overhead.is_quiet()
                if self.running and (quiet or time.monotonic() < self._look_at):
                    return
            self._read_due()
        except Exception as error:
            self._fail("Training stopped on an internal error", error)
        self._look_at = time.monotonic() + self._look_every

    def _read_due(self) -> None:
        """Read, publish and record what is due, and collect the results of threads and
        processes."""
        state = self.state
        state.unused.give_back_due()
        if (loaded := state.library.take_loaded()) is not None:
            self._attempt(f"show {loaded.name}", lambda: self._runs.show(loaded))
        run = state.run
        # A run with a pace leaves a GPU idle between steps, so readings need not wait.
        trains = run is not None and state.running and not run.control.pace
        heard = state.executors.executor.deliver_answers(
            run.budget if run is not None and trains else None
        )
        self._branches.poll(run)
        if run is not None:
            self._loop.read_due(run, heard)
            return
        self._attempt("follow the run", lambda: state.library.follow(state.publish_recorded))
        try:
            self._read_inspected(heard)
        except Exception as error:
            self._fail("Inspecting stopped on an internal error", error)

    def _read_inspected(self, heard: bool) -> None:
        """Compute one probe at a time; a network that does not change is read once."""
        inspected, comparison = self.state.inspected, self.state.comparison
        if inspected is None:
            return
        if inspected.read_next(comparison.gates) or comparison.read_next() or heard:
            self._publish_shown()
        inspected.score_next()

    def _publish_shown(self) -> None:
        frame = self._loop.frame()
        if frame is not None:
            self.state.publish(frame)

    def next_step_in(self) -> float | None:
        """Return the seconds until the next step at the run's pace; None while nothing runs."""
        return self._loop.next_step_in()

    def close(self) -> None:
        """Stop child processes, finish the run's folder and drop the run."""
        self._loop.show_end()  # while the comparison is still open
        self._branches.close()
        self._heavy.release(self.state.shown)
        self._files.close()
        self.state.executors.executor.close()
        self.state.library.close()
        self._loop.end_recording()
        self.state.run = self.state.inspected = None
        self.state.running = False

    def _attempt(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError as refusal:
            self.state.emit(messages.Refused.from_error(what, refusal))
        except Exception as error:  # the session must survive any internal error
            self._fail(f"{what} failed", error)

    def _execute(self, command: messages.Command) -> None:
        question = discard_question(command, self.state.run, self.state.recording)
        if question is not None:
            self.state.emit(question)
        else:
            self._undo.remember(command, self.state.run, self.handlers[type(command)])

    def _open_file(self, command: files.OpenFile) -> None:
        """Open a file; a session is opened as one, whatever its name."""
        path, shown = Path(command.path), self.state.shown
        if is_session_file(path):
            self._execute(runs.OpenSession(command.path))
        else:
            target = file_target_of(shown or self.state.run_for(command))
            self._files.open(path, command.purpose, target)

    def _freeing(self, act: Handler) -> Handler:
        """Wrap a handler that frees memory, so that it is returned to the system."""

        def handle(command: messages.Command) -> None:
            act(command)
            self.state.unused.expect()

        return handle

    def _fail(self, what: str, error: Exception) -> None:
        self.state.running = False
        self.state.emit(messages.Failed.from_exception(what, error))
        self._loop.end_recording(sound=False)
        self._branches.release()
        if self.run is not None:
            self.state.emit(training.Paused(self.run.step_count))
