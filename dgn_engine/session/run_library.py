"""Recorded runs and session files: read and written in threads of their own, shown in turn."""

from __future__ import annotations

import json
import queue
import shutil
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.events import (
    Event,
    Failed,
    HistoryReplayed,
    Measured,
    ProbeScalars,
    Refused,
    RegimeSwapped,
    Rewired,
    RunShown,
    RunStarted,
    SessionSaved,
    SettingChanged,
    WeightsTaken,
)
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.wording import in_words
from dgn_engine.storage.runs.listing import listed
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.validate import plain_event, shown
from dgn_engine.storage.session_file.archive_format import ENDING
from dgn_engine.storage.session_file.session_reader import (
    UnpackedSession,
    adopt,
    is_session,
    unpack,
)
from dgn_engine.storage.session_file.session_writer import SavePoint, save_session
from dgn_engine.storage.session_file.temp_dirs import PrivateTempDir, remove_abandoned
from dgn_engine.training.recording import Recording

OfRuns = do.ListRuns | do.ShowRun | do.OpenSession | do.SaveSession
PATIENCE = 30.0  # seconds that the disk may take for the checkpoint of a session
_SHOWN_AGAIN = (Measured, ProbeScalars, RegimeSwapped, WeightsTaken, Rewired, SettingChanged)


def recalled(events: Iterable[Event]) -> HistoryReplayed:
    """Of what a run went through, all that is drawn."""
    return HistoryReplayed(tuple(event for event in events if isinstance(event, _SHOWN_AGAIN)))


def routed(command: do.Command) -> do.Command:
    """A file is opened as what it is: a session too may have been dropped under any name."""
    if isinstance(command, do.OpenFile):
        path = Path(command.path)
        if path.suffix == ENDING or is_session(path):
            return do.OpenSession(command.path)
    return command


@dataclass(frozen=True)
class LoadedRun:
    """A recorded run that was read. `session`: the file that it was unpacked from, if any."""

    folder: Path
    name: str
    started: RunStarted
    events: HistoryReplayed
    frame: Frame | None
    status: str
    step: int
    session: UnpackedSession | None = None

    def told(self, number: int, aside: str) -> tuple[Event, ...]:
        """The events that put it on show as run `number`."""
        file = self.session
        return (
            replace(self.started, run=number, inspected=""),
            self.events,
            RunShown(
                self.name,
                self.status,
                self.step,
                file.file_name if file else "",
                file.saved if file else "",
                json.dumps(file.look) if file else "null",
                aside,
            ),
        )

    def frame_now(self, number: int, requests: Iterable[do.ProbeRequest]) -> Frame:
        """What was recorded; of what is looked at and was not, that it was not."""
        readings = dict(self.frame.readings) if self.frame is not None else {}
        for request in requests:
            readings.setdefault(
                request.probe,
                Reading(
                    request.probe,
                    self.step,
                    facts={"fault": "not recorded"},
                    absent="It was not recorded; Run goes on from here and reads it again.",
                ),
            )
        epoch = self.frame.epoch if self.frame is not None else 0.0
        return Frame(number, self.step, epoch, 0.0, None, readings)


class RunLibrary:
    """At most one recorded run is on show. Trouble becomes events, as everywhere."""

    def __init__(self, emit: Callable[[Event], None], runs_root: str) -> None:
        self._emit = emit
        self._root = runs_root
        self._ready: queue.SimpleQueue[LoadedRun] = queue.SimpleQueue()
        self._place: PrivateTempDir | None = None
        self._closing = threading.Event()
        self.found: LoadedRun | None = None
        cleaner = threading.Thread(target=remove_abandoned, name="dgn-shelf", daemon=True)
        self._threads = [cleaner]  # of what programs that were killed have left
        cleaner.start()

    def obey(self, command: OfRuns, recording: Recording | None, frame: Frame | None) -> None:
        """Begin with it; `recording` and `frame` are those of the run in progress."""
        match command:
            case do.ListRuns():
                self._begin(command, lambda: self._emit(listed(self._root)))
            case do.ShowRun():
                folder = Path(command.folder)
                if recording is not None and folder == recording.path:
                    raise UserError(f"{folder.name} is the run in progress.")
                self._begin(command, lambda: self._ready.put(_read(folder)))
            case do.OpenSession():
                place = self._private_place()
                path = Path(command.path)
                self._begin(command, lambda: self._ready.put(self._unpacked(path, place)))
            case do.SaveSession():
                self._save(command, recording, frame)

    def ready(self) -> LoadedRun | None:
        """A run that was read since the last call."""
        try:
            return self._ready.get_nowait()
        except queue.Empty:
            return None

    def home(self) -> Path:
        """A folder where the run on show may go on: a stranger's is copied among the user's."""
        assert self.found is not None
        if self.found.session is None or not self._root:
            return self.found.folder
        return adopt(self.found.folder, Path(self._root), self.found.name)

    def put_back(self, instead: LoadedRun | None = None) -> None:
        """Show this one, or none; what was unpacked for the one before is removed."""
        before, self.found = self.found, instead
        if before is not None and before.session is not None:
            shutil.rmtree(before.folder.parent, ignore_errors=True)

    def close(self) -> None:
        """Wait for what is being read or written, and remove what was unpacked."""
        self._closing.set()
        for thread in self._threads:
            thread.join(timeout=PATIENCE)
        self.put_back()
        if self._place is not None:
            self._place.remove()

    def _save(
        self, command: do.SaveSession, recording: Recording | None, frame: Frame | None
    ) -> None:
        look: Any = json.loads(command.look)
        path, found = Path(command.path), self.found
        if found is not None:
            self._begin(command, lambda: self._write(path, found.folder, found.name, None, look))
            return
        if recording is None or frame is None:
            raise UserError("there is no recorded run, and a session is made of what was recorded.")
        if recording.paused:
            raise UserError(recording.paused)
        mark, folder = recording.mark(), recording.path

        def write() -> None:
            if not mark.done.wait(PATIENCE) or mark.lines < 0:
                raise UserError(f"the disk of {folder} does not take what is recorded.")
            self._write(path, folder, folder.name, SavePoint(frame.step, mark.lines, frame), look)

        self._begin(command, write)

    def _write(
        self, path: Path, folder: Path, name: str, moment: SavePoint | None, look: Any
    ) -> None:
        save_session(folder, path, moment, look, name)
        self._emit(
            SessionSaved(RunReader(folder).step if moment is None else moment.step, str(path))
        )

    def _unpacked(self, path: Path, place: Path) -> LoadedRun:
        session = unpack(path, place, self._closing)
        try:
            return _read(session.folder, session)
        except BaseException:
            shutil.rmtree(session.folder.parent, ignore_errors=True)
            raise

    def _private_place(self) -> Path:
        """Nobody else may look into it."""
        if self._place is None:
            self._place = PrivateTempDir()
        return self._place.path

    def _begin(self, command: OfRuns, act: Callable[[], None]) -> None:
        what = in_words(command)

        def guarded() -> None:
            try:
                act()
            except UserError as refusal:
                if not self._closing.is_set():
                    self._emit(Refused(what, str(refusal)))
            except Exception as error:  # a fault of ours must not end silently
                self._emit(Failed(f"Could not {what}: {error}.", traceback.format_exc()))

        thread = threading.Thread(target=guarded, name="dgn-shelf", daemon=True)
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()


def _read(folder: Path, session: UnpackedSession | None = None) -> LoadedRun:
    reader = RunReader(folder)
    started = reader.started
    if started is None:
        raise UserError(f"{folder.name} was ended before it began: there is nothing to show.")
    step = reader.step if session is None else session.step
    frame = reader.frame(step)
    events = recalled(reader.events)
    if session is not None and frame is not None:
        frame = shown(frame)
        events = HistoryReplayed(tuple(plain_event(event) for event in events.events))
    return LoadedRun(
        folder=folder,
        name=folder.name if session is None else session.name,
        started=started,
        events=events,
        frame=frame,
        status=reader.status if session is None else session.status,
        step=step,
        session=session,
    )
