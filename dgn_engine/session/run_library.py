"""Recorded runs and session files: listed, read and written, each in a thread of its own."""

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
from dgn_engine.data._normalisation import normalisation
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
from dgn_engine.storage.session_file.session_reader import adopt, is_session, unpack
from dgn_engine.storage.session_file.session_writer import SavePoint, export_run, save_session
from dgn_engine.storage.session_file.temp_dirs import PrivateTempDir, remove_abandoned
from dgn_engine.training.device_data import choose_probe_set, drawn_inputs
from dgn_engine.training.probe_pictures import pictures_of
from dgn_engine.training.recording import Recording

PATIENCE = 30.0  # seconds that the disk may take for the checkpoint of a session


def recorded_examples(loaded: LoadedRun) -> ProbeExamples:
    """The pictures of the probe set that the run was read on last, or why there are none.

    Nothing is downloaded, and no folder is read that a file from elsewhere names.
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
                made = normalisation(how)
                own = own if made is None else made(own)
                x = examples.train_x[rows]
                return pictures_of(chosen, np.concatenate([x, own]) if len(own) else x, how)
            why = f"the examples of {config.data.name} here are others than those of the run"
        except UserError as refusal:
            why = str(refusal).rstrip(".")
    known = loaded.started.probe_set
    return ProbeExamples(known, missing=f"No pictures of the examples: {why}.")


def _why_not_read(config: RunConfig, foreign: bool) -> str:
    name = config.data.name.partition(":")[0]
    entry = data_sets().get(name)
    if entry is None:
        return f"there is no data set '{config.data.name}' here"
    if foreign and (entry.takes_path or config.data.root):
        return "a session file does not say where data are read; Run reads them"
    root = Path(config.data.root) if config.data.root else None
    return "" if entry.available(root) else f"{config.data.name} is not on this machine"


def is_session_file(path: Path) -> bool:
    """Whether this is a session, by its name or, under any name, by its content."""
    return path.suffix == ENDING or is_session(path)


class RunLibrary:
    """Lists, reads and writes recorded runs; at most one of them is shown.

    Trouble in its threads becomes events.
    """

    def __init__(self, emit: Callable[[Event], None], runs_root: str) -> None:
        self._emit = emit
        self._root = runs_root
        self._loaded: queue.SimpleQueue[LoadedRun] = queue.SimpleQueue()
        self._temp_dir: PrivateTempDir | None = None
        self._listing = threading.Lock()
        self.shown: LoadedRun | None = None
        self._followed: FollowedRun | None = None  # it, while another process writes it
        self._threads = ReportingThreads(emit)
        self._threads.start("dgn-library", remove_abandoned)

    def _begin(self, command: Command, act: Callable[[], None]) -> None:
        what = command.in_words()
        self._threads.begin("dgn-library", act, what, f"Could not {what}")

    def list_runs(self, command: ListRuns) -> None:
        self._begin(command, self._emit_runs)

    def _emit_runs(self) -> None:
        """List and tell without a break: a list begun before a run was deleted would come after
        the one without it."""
        with self._listing:
            self._emit(list_runs(self._root))

    def note(self, command: NoteRun) -> None:
        def write() -> None:
            write_notes(Path(command.folder), RunNotes(command.name, command.notes))
            self._emit_runs()

        self._begin(command, write)

    def delete(self, command: DeleteRun) -> None:
        """The run that is shown stays, and so does one that is being written."""
        folder = Path(command.folder)
        if self.shown is not None and is_same_folder(folder, self.shown.folder):
            words = f"{folder.name} is shown now: show another run first."
            raise UserError(words, kind="in-use", value=folder.name)
        check_removable(folder)

        def delete() -> None:
            delete_run(folder)
            self._emit_runs()

        self._begin(command, delete)

    def thin(self, command: ThinRuns) -> None:
        """One that is being written stays as it is."""

        def thin() -> None:
            told: list[str] = []
            found = thin_runs.plan(Path(self._root))
            freed = thin_runs.thin(found.folders, told.append)
            self._emit(RunsThinned(found.outcome(freed), "\n".join(told)))
            self._emit_runs()

        self._begin(command, thin)

    def export(self, command: ExportRun) -> None:
        folder, path = Path(command.folder), Path(command.path)
        self._begin(command, lambda: self._emit(RunExported(export_run(folder, path))))

    def read_curves(self, command: ReadCurves) -> None:
        """One that cannot be read is refused, and the others are told all the same."""

        def read() -> None:
            found = []
            for folder in command.folders:
                try:
                    found.append(read_curves(Path(folder)))
                except UserError as refusal:
                    self._emit(Refused.from_error(command.in_words(), refusal))
            self._emit(CurvesRead(tuple(found)))

        self._begin(command, read)

    def read(self, command: ShowRun, recording: Recording | None) -> None:
        """Read a folder; `recording` is that of the run in progress, which is not shown."""
        folder = Path(command.folder)
        if recording is not None and is_same_folder(folder, recording.path):
            raise UserError(
                f"{folder.name} is the run in progress.", kind="in-use", value=folder.name
            )
        self._begin(command, lambda: self._found(_read(folder)))

    def open_session(self, command: OpenSession) -> None:
        if self._temp_dir is None:
            self._temp_dir = PrivateTempDir()
        path, place = Path(command.path), self._temp_dir.path
        self._begin(command, lambda: self._found(self._unpacked(path, place)))

    def save_session(
        self, command: SaveSession, recording: Recording | None, frame: Frame | None
    ) -> None:
        """Write the run that is shown, or the run in progress with its `recording` and `frame`."""
        window: Any = json.loads(command.window)
        path, shown = Path(command.path), self.shown
        if shown is not None:
            self._begin(command, lambda: self._write(path, shown.folder, shown.name, None, window))
            return
        if recording is None or frame is None:
            words = "there is no recorded run, and a session is made of what was recorded."
            raise UserError(words, kind="not-recorded")
        if recording.paused:
            raise UserError(recording.paused, kind="recording-paused")
        marker, folder = recording.mark(), recording.path

        def write() -> None:
            if not marker.done.wait(PATIENCE) or marker.lines < 0:
                words = f"the disk of {folder} does not take what is recorded."
                raise UserError(words, kind="slow-disk", value=folder)
            point = SavePoint(frame.step, marker.lines, frame)
            self._write(path, folder, folder.name, point, window)

        self._begin(command, write)

    def take_loaded(self) -> LoadedRun | None:
        try:
            return self._loaded.get_nowait()
        except queue.Empty:
            return None

    def folder_to_continue(self) -> Path:
        """The folder in which the run that is shown goes on; one from a session is copied first."""
        assert self.shown is not None
        if self.shown.session is None or not self._root:
            return self.shown.folder
        return adopt(self.shown.folder, Path(self._root), self.shown.name)

    def replace_shown(self, loaded: LoadedRun | None, ended: str = "") -> None:
        """Show this run, or none; `ended`: the folder of the run that ended for it. What was
        unpacked for the one before is removed."""
        before, self.shown = self.shown, loaded
        live = loaded is not None and loaded.status == LIVE and loaded.session is None
        self._followed = FollowedRun(loaded, ended) if loaded is not None and live else None
        if before is not None and before.session is not None:
            shutil.rmtree(before.folder.parent, ignore_errors=True)

    def follow(self, publish: Callable[[LoadedRun], None]) -> None:
        """Tell what another process wrote since of the run on show; `publish` shows its frame."""
        followed = self._followed
        if followed is None:
            return
        try:
            news = followed.news()
        except (OSError, UserError) as error:  # it was moved or deleted
            self._followed = None
            raise UserError(
                f"The run is not followed any more: {error}", kind="not-followed"
            ) from None
        self.shown = news.now
        if news.again:
            self._followed = None
            self.read(ShowRun(str(news.now.folder)), None)
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
        """Wait for what is being read or written, and remove what was unpacked."""
        self._threads.close(PATIENCE)
        self.close_shown()
        if self._temp_dir is not None:
            self._temp_dir.remove()

    def _write(
        self, path: Path, folder: Path, name: str, point: SavePoint | None, window: Any
    ) -> None:
        save_session(folder, path, point, window, name)
        self._emit(SessionSaved(RunReader(folder).step if point is None else point.step, str(path)))

    def _unpacked(self, path: Path, place: Path) -> LoadedRun:
        session = unpack(path, place, self._threads.closing)
        try:
            return _read(session.folder, session)
        except BaseException:
            shutil.rmtree(session.folder.parent, ignore_errors=True)
            raise

    def _found(self, loaded: LoadedRun) -> None:
        """Show the run, and the pictures of its examples as soon as they are read."""
        self._loaded.put(loaded)
        pictures = recorded_examples(loaded)
        if not self._threads.closing.is_set():
            self._emit(pictures)
