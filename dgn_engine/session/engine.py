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
from dgn_engine.session.known_plug_ins import local_catalogue
from dgn_engine.session.live_branch import Branches
from dgn_engine.session.opened_files import (
    FileTarget,
    OpenedFiles,
    file_target_of,
    target_without_network,
)
from dgn_engine.session.reading_commands import ReadingCommands
from dgn_engine.session.run_commands import RunCommands, discard_question
from dgn_engine.session.run_library import is_session_file
from dgn_engine.session.session_state import Handler, SessionState
from dgn_engine.session.training_loop import TrainingLoop
from dgn_engine.session.undo import UndoHistory
from dgn_engine.training.run import Run

LOOK_EVERY = 0.03  # seconds between two checks of what is due, if steps are quicker
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
            state.emit,
            lambda ticket: opened.listing_of(ticket).file_name,
            readings.apply_probe_choice,
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
        in_run, on_shown, freeing = state.in_run, state.on_shown, self._with_memory_release
        return {
            training.StartRun: run_commands.start_run,
            training.EstimateRun: loop.emit_estimate,
            # By now nothing is being read.
            training.CancelLoading: lambda _: self._cancelled.clear(),
            training.Resume: run_commands.resume_training,
            training.Advance: run_commands.resume_training,
            training.Pause: in_run(lambda run, _: loop.pause_run(run)),
            training.Reset: run_commands.reset_run,
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
            watching.Watch: lambda c: state.watch_probes(c.requests),
            watching.SetWatchShare: loop.set_share,
            watching.ReportWindow: loop.charge_window,
            watching.CancelReading: on_shown(readings.cancel_readings),
            watching.GoOnReading: on_shown(readings.resume_readings),
            watching.SetProbeExamples: on_shown(readings.choose_number),
            watching.ChooseProbeSet: on_shown(readings.choose_set),
            watching.ChooseMisclassified: on_shown(readings.choose_misclassified),
            watching.ListExamples: on_shown(readings.list_examples),
            files.OpenFile: self._open_file,
            files.PickTensors: lambda c: opened.pick_tensors(
                c.ticket, c.tensors, self._file_target()
            ),
            files.SayReading: lambda c: opened.set_reading(
                c.ticket, c.reading, self._file_target()
            ),
            files.CloseFile: freeing(lambda c: opened.close_file(c.ticket)),
            files.TakeGates: on_shown(opened.take_gates),
            files.TakeWeights: on_shown(opened.take_weights),
            files.BeginWithBiases: in_run(
                lambda run, c: run_commands.restart_with_biases(run, c, self._dispatch_command)
            ),
            files.InspectFile: run_commands.inspect_file,
            files.CheckNetwork: lambda c: opened.check_against_data(c, self._file_target()),
            files.TrainOn: run_commands.train_inspected,
            files.SaveWeights: in_run(lambda run, c: run.save_weights(Path(c.path))),
            runs.ContinueRun: run_commands.continue_recorded,
            runs.ContinueLast: run_commands.continue_last,
            runs.KeepRun: run_commands.keep_run,
            runs.ListRuns: library.list_runs,
            runs.NoteRun: library.save_notes,
            runs.DeleteRun: library.delete_recorded,
            runs.ThinRuns: library.thin_out,
            runs.ExportRun: library.export_to_file,
            runs.ReadCurves: library.read_curves,
            runs.ShowRun: lambda c: library.read_folder(c, state.recording),
            runs.OpenSession: library.open_session,
            runs.SaveSession: run_commands.save_session,
            branches.StartBranch: lambda c: branch.start_branch(c, run_commands.resumed_run_for(c)),
            branches.StopBranch: lambda _: branch.stop_branch(),
            branches.ListCheckpoints: lambda c: branch.list_checkpoints(c, loop.seconds_a_step()),
            branches.HoldCheckpoint: lambda c: branch.hold_checkpoint(c, loop.seconds_a_step()),
            branches.CompareFile: on_shown(
                lambda c, shown: opened.compare_file(c.ticket, shown, comparison)
            ),
            branches.CompareRun: lambda c: comparison.compare_run(
                c, state.shown_network, library.shown is not None
            ),
            branches.CompareHeld: in_run(
                lambda run, c: comparison.compare_earlier_step(
                    c, run, lambda: 0 if state.run is None else state.run.number
                )
            ),
            branches.CloseComparison: freeing(
                lambda _: comparison.close(shown=state.shown_network)
            ),
            messages.Shutdown: lambda _: self.close(),
        }

    @property
    def run(self) -> Run | None:
        return self.state.run

    @property
    def running(self) -> bool:
        return self.state.running

    def emit_ready(self) -> None:
        version = str(torch.__version__)  # to read torch's own type, the viewer would load torch
        self.state.emit(messages.EngineReady(local_catalogue(self._data_root), version))

    def handle_command(self, command: messages.Command) -> None:
        """Carry out one command between two steps; events are the answer."""
        self._look_at = 0.0
        run = self.run
        if run is not None and isinstance(command, _ASIDE):
            run.budget.overhead.interrupt_quiet()
        elif run is not None and not isinstance(command, watching.ReportWindow):
            run.budget.overhead.discard_measurements()
        began = None if run is None else run.budget.mark()
        self._report_errors(command.in_words(), lambda: self._dispatch_command(command))
        if run is not None and began is not None and not command.changes_run:
            run.budget.charge_since("commands", began)
        shown = self.state.shown_network
        if shown is not None and shown.probe_schedule.dropped:
            shown.probe_schedule.dropped = False
            self._publish_shown()  # before the next step, which may take long

    def advance(self, is_idle: Callable[[], bool] = lambda: False) -> None:
        """Take steps if the run is running, then do what is due.

        Quick steps follow each other until the next check of what is due, or until `is_idle`,
        called after each of them, returns False because a command has arrived.
        """
        run = self.run
        try:
            if run is not None and self.running:
                overhead = run.budget.overhead
                self._loop.take_steps(run, overhead.quiet_until or self._look_at, is_idle)
                if self.running and (overhead.is_quiet() or time.monotonic() < self._look_at):
                    return
            began = None if run is None else run.budget.mark()
            self._read_due()
            if run is not None and began is not None:
                run.budget.charge_since("checks", began)
        except Exception as error:
            self._fail_run("Training stopped on an internal error", error)
        self._look_at = time.monotonic() + self._look_every

    def _read_due(self) -> None:
        """Read, publish and record what is due, and collect the results of threads and
        processes."""
        state = self.state
        state.unused.release_due()
        if (loaded := state.library.take_loaded()) is not None:
            self._report_errors(f"show {loaded.name}", lambda: self._runs.show_loaded(loaded))
        run = state.run
        # A run with a pace leaves a GPU idle between steps, so readings need not wait.
        trains = run is not None and state.running and not run.control.pace
        heard = state.executors.executor.deliver_answers(
            run.budget if run is not None and trains else None
        )
        self._branches.poll_branch(run)
        if run is not None:
            self._loop.read_due(run, heard)
            return
        self._report_errors(
            "follow the run", lambda: state.library.follow_shown(state.publish_recorded)
        )
        try:
            self._read_inspected(heard)
        except Exception as error:
            self._fail_run("Inspecting stopped on an internal error", error)

    def _read_inspected(self, heard: bool) -> None:
        """Compute one probe at a time; a network that does not change is read once."""
        inspected, comparison = self.state.inspected, self.state.comparison
        if inspected is None:
            return
        read = inspected.read_next(comparison.other_gates, comparison.other_network)
        if read or comparison.read_next() or heard:
            self._publish_shown()
        inspected.score_next()

    def _publish_shown(self) -> None:
        frame = self._loop.make_frame()
        if frame is not None:
            self.state.publish(frame)

    def next_step_in(self) -> float | None:
        """Return the seconds until the next step at the run's pace; None while nothing runs."""
        return self._loop.next_step_in()

    def close(self) -> None:
        """Stop child processes, finish the run's folder and drop the run."""
        self._loop.record_last_step()  # while the comparison is still open
        self._branches.close()
        self._heavy.release_readings(self.state.shown_network)
        self._files.close()
        self.state.executors.executor.close()
        self.state.library.close()
        self._loop.end_recording()
        self.state.run = self.state.inspected = None
        self.state.running = False

    def _report_errors(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError as refusal:
            self.state.emit(messages.Refused.from_error(what, refusal))
        except Exception as error:  # the session must survive any internal error
            self._fail_run(f"{what} failed", error)

    def _dispatch_command(self, command: messages.Command) -> None:
        question = discard_question(command, self.state.run, self.state.recording)
        if question is not None:
            self.state.emit(question)
        else:
            self._undo.execute_undoable(command, self.state.run, self.handlers[type(command)])

    def _open_file(self, command: files.OpenFile) -> None:
        """Open a file; a session is opened as one, whatever its name."""
        path = Path(command.path)
        if is_session_file(path):
            self._dispatch_command(runs.OpenSession(command.path))
        else:
            self._files.open_file(path, command.purpose, self._file_target())

    def _file_target(self) -> FileTarget:
        shown = self.state.shown_network
        return target_without_network() if shown is None else file_target_of(shown)

    def _with_memory_release(self, act: Handler) -> Handler:
        """Wrap a handler that frees memory, so that it is returned to the system."""

        def handle(command: messages.Command) -> None:
            act(command)
            self.state.unused.schedule_release()

        return handle

    def _fail_run(self, what: str, error: Exception) -> None:
        self.state.running = False
        self.state.emit(messages.Failed.from_exception(what, error))
        self._loop.end_recording(sound=False)
        self._branches.release_checkpoints()
        if self.run is not None:
            self.state.emit(training.Paused(self.run.step_count))
