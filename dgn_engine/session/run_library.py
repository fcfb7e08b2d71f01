"""Recorded runs and session files: listed, read and written in threads."""

from __future__ import annotations

import json
import queue
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dgn_engine.config import RunConfig
from dgn_engine.data import data_sets, load_examples
from dgn_engine.data._normalisation import parse_normalisation
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event, Refused
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.protocol.runs import (
    CurvesRead,
    DeleteRun,
    ExportRun,
    ListRuns,
    NoteRun,
    OpenSession,
    ReadCurves,
    RunExported,
    RunsThinned,
    SaveSession,
    SessionSaved,
    ShowRun,
    ThinRuns,
)
from dgn_engine.protocol.watching import ProbeExamples, ProbeSetChanged
from dgn_engine.session.followed_run import LIVE, FollowedRun
from dgn_engine.session.reporting_threads import ReportingThreads
from dgn_engine.storage.runs import thin_runs
from dgn_engine.storage.runs.folder_layout import is_same_folder
from dgn_engine.storage.runs.index import list_runs
from dgn_engine.storage.runs.recorded_curves import read_curves
from dgn_engine.storage.runs.run_notes import RunNotes, write_notes
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.run_removal import check_removable, delete_run
from dgn_engine.storage.session_file.archive_format import ENDING
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.storage.session_file.loaded_run import read_run as _read
from dgn_engine.storage.session_file.session_reader import adopt_run, is_session, unpack_session
from dgn_engine.storage.session_file.session_writer import SavePoint, export_run, save_session
from dgn_engine.storage.session_file.temp_dirs import PrivateTempDir, remove_abandoned
from dgn_engine.training.device_data import choose_probe_set, drawn_inputs
from dgn_engine.training.probe_pictures import make_pictures
from dgn_engine.training.recording import Recording

PATIENCE = 30.0  # seconds to wait for the checkpoint of a session to be written


def recorded_examples(loaded: LoadedRun) -> ProbeExamples:
    """Return the pictures of the run's last probe set, or why there are none.

    Nothing is downloaded, and no folder named by a file from elsewhere is read.
    """
    config, digest = loaded.config, loaded.started.probe_set.digest
    for event in loaded.events.events:
        digest = event.digest if isinstance(event, ProbeSetChanged) else digest
    why = _why_not_read(config, loaded.session is not None)
    if not why:
        try:
            examples = load_examples(config.data)
            choice = ProbeChoice.parse(config.probe_set)
            chosen = choose_probe_set(examples, config.probe_examples, config.seed, choice)
            if chosen.digest == digest:
                rows = list(chosen.indices[: len(chosen.indices) - chosen.drawn])
                own, how = drawn_inputs(choice, examples.train_x.shape[1:]), config.data.normalise
                normalise = parse_normalisation(how)
                own = own if normalise is None else normalise(own)
                x = examples.train_x[rows]
                return make_pictures(chosen, np.concatenate([x, own]) if len(own) else x, how)
            why = f"the examples of {config.data.name} on this machine differ from the run's"
        except UserError as refusal:
            why = str(refusal).rstrip(".")
    known = loaded.started.probe_set
    return ProbeExamples(known, missing=f"The examples cannot be shown: {why}.")


def _why_not_read(config: RunConfig, foreign: bool) -> str:
    name = config.data.name.partition(":")[0]
    entry = data_sets().get(name)
    if entry is None:
        return f"there is no data set '{config.data.name}' on this machine"
    if foreign and (entry.takes_path or config.data.root):
        return "a session file's data paths are not trusted; choose Run to read them"
    root = Path(config.data.root) if config.data.root else None
    return "" if entry.available(root) else f"{config.data.name} is not on this machine"


def is_session_file(path: Path) -> bool:
    """Return whether a file is a session, by its name or its content."""
    return path.suffix == ENDING or is_session(path)


class RunLibrary:
    """Lists, reads and writes recorded runs; shows at most one of them.

    Errors in its threads become events.
    """

    def __init__(self, emit: Callable[[Event], None], runs_root: str) -> None:
        self._emit = emit
        self._root = runs_root
        self._loaded: queue.SimpleQueue[LoadedRun] = queue.SimpleQueue()
        self._temp_dir: PrivateTempDir | None = None
        self._listing = threading.Lock()
        self._answering = threading.Lock()  # of the newest request for curves
        self._newest_curves: ReadCurves | None = None
        self.shown: LoadedRun | None = None
        self._followed: FollowedRun | None = None  # the shown run, while another process writes it
        self._threads = ReportingThreads(emit)
        self._threads.start_thread("dgn-library", remove_abandoned)

    def _run_in_thread(self, command: Command, act: Callable[[], None]) -> None:
        what = command.in_words()
        self._threads.start_reporting("dgn-library", act, what, f"Could not {what}")

    def list_runs(self, command: ListRuns) -> None:
        self._run_in_thread(command, self._emit_runs)

    def _emit_runs(self) -> None:
        """List the runs and emit the list under a lock.

        Otherwise a list from before a deletion could be emitted after the one without the run.
        """
        with self._listing:
            self._emit(list_runs(self._root))

    def save_notes(self, command: NoteRun) -> None:
        def write_and_list() -> None:
            write_notes(Path(command.folder), RunNotes(command.name, command.notes))
            self._emit_runs()

        self._run_in_thread(command, write_and_list)

    def delete_recorded(self, command: DeleteRun) -> None:
        """Delete a run, unless it is shown or being written."""
        folder = Path(command.folder)
        if self.shown is not None and is_same_folder(folder, self.shown.folder):
            words = f"{folder.name} is being shown: show another run first."
            raise UserError(words, kind="in-use", value=folder.name)
        check_removable(folder)

        def delete_and_list() -> None:
            delete_run(folder)
            self._emit_runs()

        self._run_in_thread(command, delete_and_list)

    def thin_out(self, command: ThinRuns) -> None:
        """Thin out the oldest runs, except one that is being written."""

        def thin_and_list() -> None:
            lines: list[str] = []
            plan = thin_runs.plan_thinning(Path(self._root))
            freed = thin_runs.thin_folders(plan.folders, lines.append)
            self._emit(RunsThinned(plan.describe_outcome(freed), "\n".join(lines)))
            self._emit_runs()

        self._run_in_thread(command, thin_and_list)

    def export_to_file(self, command: ExportRun) -> None:
        folder, path = Path(command.folder), Path(command.path)
        self._run_in_thread(command, lambda: self._emit(RunExported(export_run(folder, path))))

    def read_curves(self, command: ReadCurves) -> None:
        """Read curves; runs that cannot be read are refused, all others are emitted.

        A request that a newer one has replaced is not answered: its answer could arrive last.
        """
        with self._answering:
            self._newest_curves = command

        def read_each() -> None:
            curves = []
            for folder in command.folders:
                if self._newest_curves is not command:
                    return
                try:
                    curves.append(read_curves(Path(folder)))
                except UserError as refusal:
                    self._emit(Refused.from_error(command.in_words(), refusal))
            with self._answering:
                if self._newest_curves is command:
                    self._emit(CurvesRead(tuple(curves), command.folders))

        self._run_in_thread(command, read_each)

    def read_folder(self, command: ShowRun, recording: Recording | None) -> None:
        """Read a folder; the run in progress, with this `recording`, is refused."""
        folder = Path(command.folder)
        if recording is not None and is_same_folder(folder, recording.path):
            raise UserError(f"{folder.name} is the current run.", kind="in-use", value=folder.name)
        self._run_in_thread(command, lambda: self._queue_loaded(_read(folder)))

    def open_session(self, command: OpenSession) -> None:
        if self._temp_dir is None:
            self._temp_dir = PrivateTempDir()
        path, target = Path(command.path), self._temp_dir.path
        self._run_in_thread(command, lambda: self._queue_loaded(self._unpack_session(path, target)))

    def save_session(
        self, command: SaveSession, recording: Recording | None, frame: Frame | None
    ) -> None:
        """Save the shown run, or the current run with its `recording` and `frame`."""
        window: Any = json.loads(command.window)
        path, shown = Path(command.path), self.shown
        if shown is not None:
            self._run_in_thread(
                command, lambda: self._write_session(path, shown.folder, shown.name, None, window)
            )
            return
        if recording is None or frame is None:
            words = "there is no recorded run, and a session contains only what was recorded."
            raise UserError(words, kind="not-recorded")
        if recording.pause_reason:
            raise UserError(recording.pause_reason, kind="recording-paused")
        marker, folder = recording.mark_checkpoint(), recording.path

        def wait_and_write() -> None:
            if not marker.done.wait(PATIENCE) or marker.lines < 0:
                words = f"the disk of {folder} is too slow or full to record the run."
                raise UserError(words, kind="slow-disk", value=folder)
            point = SavePoint(frame.step, marker.lines, frame)
            self._write_session(path, folder, folder.name, point, window)

        self._run_in_thread(command, wait_and_write)

    def take_loaded(self) -> LoadedRun | None:
        try:
            return self._loaded.get_nowait()
        except queue.Empty:
            return None

    def folder_to_continue(self) -> Path:
        """Return the folder in which the shown run is resumed; a run from a session is copied
        first."""
        assert self.shown is not None
        if self.shown.session is None or not self._root:
            return self.shown.folder
        return adopt_run(self.shown.folder, Path(self._root), self.shown.name)

    def replace_shown(self, loaded: LoadedRun | None, ended: str = "") -> None:
        """Show this run, or none, and delete what was unpacked for the previous one.

        `ended` is the folder of the run that ended for it.
        """
        before, self.shown = self.shown, loaded
        live = loaded is not None and loaded.status == LIVE and loaded.session is None
        self._followed = FollowedRun(loaded, ended) if loaded is not None and live else None
        if before is not None and before.session is not None:
            shutil.rmtree(before.folder.parent, ignore_errors=True)

    def follow_shown(self, publish: Callable[[LoadedRun], None]) -> None:
        """Emit what another process has written to the shown run since; `publish` shows its
        frame."""
        followed = self._followed
        if followed is None:
            return
        try:
            news = followed.read_news()
        except (OSError, UserError) as error:  # moved or deleted
            self._followed = None
            raise UserError(
                f"The run is no longer followed: {error}", kind="not-followed"
            ) from None
        self.shown = news.now
        if news.again:
            self._followed = None
            self.read_folder(ShowRun(str(news.now.folder)), None)
            return
        for event in news.events:
            self._emit(event)
        if news.new:
            publish(news.now)
        if followed.ended:
            self._followed = None

    def close_shown(self) -> None:
        self.replace_shown(None)

    def close(self) -> None:
        """Wait for pending reads and writes, and delete what was unpacked."""
        self._threads.close(PATIENCE)
        self.close_shown()
        if self._temp_dir is not None:
            self._temp_dir.remove_folder()

    def _write_session(
        self, path: Path, folder: Path, name: str, point: SavePoint | None, window: Any
    ) -> None:
        save_session(folder, path, point, window, name)
        self._emit(SessionSaved(RunReader(folder).step if point is None else point.step, str(path)))

    def _unpack_session(self, path: Path, target: Path) -> LoadedRun:
        session = unpack_session(path, target, self._threads.closing)
        try:
            return _read(session.folder, session)
        except BaseException:
            shutil.rmtree(session.folder.parent, ignore_errors=True)
            raise

    def _queue_loaded(self, loaded: LoadedRun) -> None:
        """Queue the run to be shown, then read and emit the pictures of its examples."""
        self._loaded.put(loaded)
        pictures = recorded_examples(loaded)
        if not self._threads.closing.is_set():
            self._emit(pictures)
