"""Commands that start, resume or end a run, and what is shown in its place."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol import files, runs, training
from dgn_engine.protocol.messages import Command, Refused, Working
from dgn_engine.protocol.runs import ContinueRun, DiscardConfirmation, OpenSession, RunEnding
from dgn_engine.session.finite_state import RecoveryPoint
from dgn_engine.session.frozen_network import InspectedNetwork
from dgn_engine.session.live_branch import Branches
from dgn_engine.session.opened_files import OpenedFiles
from dgn_engine.session.reading_commands import ReadingCommands
from dgn_engine.session.session_state import SessionState
from dgn_engine.session.training_loop import TrainingLoop
from dgn_engine.session.undo import UndoHistory
from dgn_engine.session.unwritten_log import UnwrittenLog
from dgn_engine.storage.runs.drawn_events import drawn_history
from dgn_engine.storage.runs.index import newest_resumable
from dgn_engine.storage.runs.run_folder import RunFolder, create_named
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.training.recording import Recording, begin_recording, continue_run
from dgn_engine.training.run import MAKING, Run


def discard_question(
    command: Command, run: Run | None, recording: Recording | None
) -> DiscardConfirmation | None:
    """Return a confirmation before an unrecorded run is replaced; None if nothing would be lost."""
    if not isinstance(command, RunEnding) or command.discard:
        return None
    if run is None or not run.step_count:
        return None
    safe = run.recorded if recording is None else not recording.pause_reason
    if safe:  # without a recording it failed, and its folder has everything up to then
        return None
    where = command.path if isinstance(command, OpenSession) else command.folder
    shown = not isinstance(command, ContinueRun)
    anyway = replace(command, discard=True)
    return DiscardConfirmation(run.step_count, Path(where).name, shown, anyway)


class RunCommands:
    """Replaces what a session shows. Methods raise `UserError`, and then nothing is replaced."""

    def __init__(
        self,
        state: SessionState,
        loop: TrainingLoop,
        readings: ReadingCommands,
        opened: OpenedFiles,
        undo: UndoHistory,
        branches: Branches,
        cancelled: threading.Event,
    ) -> None:
        """`cancelled` is set by another thread to stop data that are being read."""
        self._state, self._loop, self._readings = state, loop, readings
        self._opened, self._undo, self._branches = opened, undo, branches
        self._cancelled = cancelled

    def start_run(self, command: training.StartRun) -> None:
        state = self._state
        self._readings.prepare_executor(command.config)
        run = Run(
            state.number + 1,
            command.config,
            state.emit,
            self._report_progress,
            live=True,
            examples=None if state.run is None else state.run.examples_for(command.config.data),
            checkpoints=bool(state.runs_root),
            reclaimed=self._reclaimable_bytes(),
        )
        self._replace_and_record(run, command.paused, command.recorded)

    def keep_run(self, command: runs.KeepRun) -> None:
        """Record a run that was started unrecorded.

        Its log begins with all scores and changes so far; frames and checkpoints begin now.
        """
        state, run = self._state, self._state.run_for(command)
        if state.unwritten is None:
            raise UserError("This run is recorded already.", kind="recorded")
        if not state.runs_root:
            raise UserError("Runs are not recorded: --no-record was given.", kind="not-recorded")
        folder = create_named(Path(state.runs_root), run.config)
        recording = begin_recording(folder, run, state.emit, started=state.unwritten.started)
        state.unwritten.write_to(recording)
        state.recording, state.unwritten = recording, None
        recording.write_checkpoint()

    def save_session(self, command: runs.SaveSession) -> None:
        """Save what is shown as a session file; a run that was started unrecorded is kept first."""
        if self._state.unwritten is not None and self._state.runs_root:
            self.keep_run(runs.KeepRun())
        frame = self._loop.make_frame()
        self._state.library.save_session(command, self._state.recording, frame)

    def train_inspected(self, command: files.TrainOn) -> None:
        state = self._state
        if state.inspected is None:
            words = "No network is being inspected: open a file as a network first."
            raise UserError(words, kind="not-inspected")
        run, event = state.inspected.start_training_run(
            state.number + 1, command.regime, self._report_progress
        )
        self._replace_and_record(run, command.paused)
        state.emit(event)

    def restart_with_biases(
        self, old: Run, command: files.BeginWithBiases, execute: Callable[[Command], None]
    ) -> None:
        """Start a run with biases, and copy gates or weights into it by a command that can be
        undone."""
        config = self._opened.config_with_biases(command, old)
        self.start_run(training.StartRun(config, paused=not self._state.running))
        if command.purpose == "gates":
            execute(files.TakeGates(command.ticket, command.restart_value))
        else:
            execute(files.TakeWeights(command.ticket))

    def reset_run(self, command: training.Reset) -> None:
        recorded = self._state.library.shown
        if recorded is not None:
            self.start_run(training.StartRun(recorded.config))
        else:
            config = self._state.run_for(command).config
            paused, is_recorded = not self._state.running, self._state.unwritten is None
            self.start_run(training.StartRun(config, paused, is_recorded))

    def continue_recorded(self, command: runs.ContinueRun) -> None:
        state, folder = self._state, RunFolder(Path(command.folder))
        try:
            folder.require_sound_checkpoint()
            run, continued = continue_run(
                folder,
                state.number + 1,
                state.emit,
                self._report_progress,
                live=True,
                reclaimed=self._reclaimable_bytes(),
            )
            reader = RunReader(folder.path)
            history = replace(drawn_history(reader.log.each_event()), began=reader.start_event)
            self._check_cancelled()
        except BaseException:
            folder.close()
            raise
        self._replace_run(run, command.paused or run.is_finished)
        state.emit_unrecorded(history)
        state.emit_unrecorded(continued)
        state.recording = Recording(folder, run, state.emit)
        run.control.emit_settings()

    def continue_last(self, command: runs.ContinueLast) -> None:
        """Resume the newest run; if that fails, report why and start a new one."""
        root = self._state.runs_root
        folder = newest_resumable(Path(root)) if root else None
        if folder is not None:
            try:
                return self.continue_recorded(runs.ContinueRun(str(folder), command.paused))
            except UserError as refusal:
                self._state.emit(Refused.from_error(command.in_words(), refusal))
        return self.start_run(training.StartRun(command.otherwise, command.paused))

    def resume_training(self, command: training.Resume | training.Advance) -> None:
        """Continue training; a recorded run that is only shown is resumed first."""
        steps = command.steps if isinstance(command, training.Advance) else None
        self._loop.resume_steps(self.resumed_run_for(command), steps)

    def resumed_run_for(self, command: Command) -> Run:
        """Return the current run, paused if it was a recorded one that was only shown."""
        library = self._state.library
        if library.shown is not None:
            folder = str(library.folder_to_continue())
            self.continue_recorded(runs.ContinueRun(folder, paused=True))
        return self._state.run_for(command)

    def go_back(self, run: Run) -> None:
        """Restore the newest finite state of a diverged run; it stays paused."""
        self._state.way_back.restore_finite_state(run, self._undo, self._state.emit)
        self._loop.pause_run(run)

    def inspect_file(self, command: files.InspectFile) -> None:
        state, shown = self._state, self._state.shown_network
        device = RunConfig().device if shown is None else shown.config.device
        state.executors.prepare_executor(device)  # loads while the network is built
        opened = self._opened.inspection_request(command, shown)
        inspected = InspectedNetwork(state.number + 1, opened, state.emit, self._report_progress)
        self._check_cancelled()
        self.close_current()
        state.library.close_shown()
        state.set_shown(inspected=inspected)
        self._readings.use_executor(inspected)
        state.watch_probes(state.requests)
        for event in (
            inspected.started_event(),
            inspected.offered_event(),
            inspected.scored_event(),
        ):
            state.emit(event)
        self._opened.close_file(command.ticket)
        self._readings.emit_probe_examples(inspected)

    def show_loaded(self, loaded: LoadedRun) -> None:
        state = self._state
        before = "" if state.recording is None else str(state.recording.path)
        self.close_current()
        state.library.replace_shown(loaded, before)
        state.set_shown()
        for event in loaded.events_as(state.number, before):
            state.emit_unrecorded(event)
        state.watch_probes(state.requests)
        state.comparison.reopen_for(None)

    def close_current(self) -> None:
        """Finish what is shown: its folder, its readings, its undo history."""
        self._loop.end_recording()
        self._state.unwritten = None
        self._branches.release_checkpoints()
        self._readings.release_readings(self._state.shown_network)
        self._undo.clear_history()
        self._state.way_back = RecoveryPoint()
        self._state.unused.schedule_release()

    def _replace_and_record(self, run: Run, paused: bool, recorded: bool = True) -> None:
        """Replace the current run by a new one, and start to record it unless not `recorded`."""
        state = self._state
        self._replace_run(run, paused, recorded)
        ignored = run.find_ignored(live=True, recorded=bool(state.runs_root))
        if ignored:
            state.emit(training.SettingsIgnored(tuple(setting.sentence for setting in ignored)))
        if state.runs_root and recorded:
            try:
                folder = create_named(Path(state.runs_root), run.config)
                state.recording = begin_recording(folder, run, state.emit)
            except UserError as refusal:  # the run can still be watched
                state.emit(runs.RecordingPaused(f"{refusal} This run is not recorded."))
        run.control.emit_settings()

    def _replace_run(self, run: Run, paused: bool, recorded: bool = True) -> None:
        """Replace the current run, and finish its folder; `recorded`: the new one will have one."""
        state = self._state
        self._check_cancelled()  # the last report may be seconds ago
        self.close_current()
        state.library.close_shown()
        self._readings.use_executor(run)
        run.probe_schedule.watch(state.requests)
        state.set_shown(run)
        self._loop.attach_run(run, paused)
        started = replace(run.started_event(paused), unrecorded=not recorded)
        state.unwritten = None if recorded else UnwrittenLog(started)
        state.emit(started)
        self._readings.emit_probe_examples(run)

    def _reclaimable_bytes(self) -> float:
        """Return the bytes that are freed when the current run is replaced."""
        return 0.0 if self._state.run is None else float(self._state.run.memory.reclaimed_at_end)

    def _report_progress(self, what: str, fraction: float | None) -> None:
        self._check_cancelled(what)
        self._state.emit(Working(what, fraction, can_cancel=True))

    def _check_cancelled(self, what: str = "") -> None:
        """Raise `UserError` if the user has cancelled what is being read or made."""
        if self._cancelled.is_set():
            task = what if what == MAKING else "Reading the data"
            raise UserError(f"{task} was cancelled.", kind="cancelled", value=task)
