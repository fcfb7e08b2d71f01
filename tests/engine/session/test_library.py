"""Recorded runs and session files without a thread of the engine: read, saved, adopted, refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event, Failed, Refused
from dgn_engine.protocol.runs import (
    CurvesRead,
    DeleteRun,
    HistoryReplayed,
    ListRuns,
    OpenSession,
    ReadCurves,
    RunCurves,
    SaveSession,
    SessionSaved,
    ShowRun,
)
from dgn_engine.session import run_library
from dgn_engine.session.run_library import RunLibrary
from dgn_engine.storage.runs.recorder import WriteMarker
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.storage.session_file.session_writer import SavePoint
from tests.engine.session.conftest import STARTED
from tests.refusals import refused

FRAME = Frame(1, 40, 0.0, 0.0, None)
HISTORY = HistoryReplayed(())


class Library:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Event] = []
        self.saved: list[tuple[Any, ...]] = []
        monkeypatch.setattr(run_library, "remove_abandoned", lambda: [])
        monkeypatch.setattr(run_library, "save_session", lambda *given: self.saved.append(given))
        monkeypatch.setattr(run_library, "RunReader", lambda _: SimpleNamespace(step=77))
        self.library = RunLibrary(self.events.append, str(root))

    def wait(self) -> None:
        for thread in self.library._threads.threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    library = Library(tmp_path, monkeypatch)
    yield library
    library.library.close()


def recording(lines: int = 12, paused: str = "", done: bool = True) -> Any:
    """That of a run in progress, whose mark is done or never will be."""
    mark = WriteMarker(lines)
    if done:
        mark.done.set()
    return SimpleNamespace(path=Path("/runs/a"), pause_reason=paused, mark_checkpoint=lambda: mark)


def loaded(folder: Path, session: Any = None) -> LoadedRun:
    return LoadedRun(folder, "the name", STARTED, HISTORY, None, "finished", 40, session)


SAVE = SaveSession("/x/a.dgn", '{"theme": "dark"}')
WINDOW = {"theme": "dark"}


def test_the_run_in_progress_is_saved_at_the_frame_and_the_line_that_it_is_at(
    made: Library,
) -> None:
    made.library.save_session(SAVE, recording(), FRAME)
    made.wait()
    point = SavePoint(40, 12, FRAME)
    assert made.saved == [(Path("/runs/a"), Path("/x/a.dgn"), point, WINDOW, "a")]
    assert made.events == [SessionSaved(40, "/x/a.dgn")]


def test_the_run_that_is_shown_is_saved_whole_under_its_name(made: Library, tmp_path: Path) -> None:
    made.library.shown = loaded(tmp_path)
    made.library.save_session(SAVE, recording(), FRAME)
    made.wait()
    assert made.saved == [(tmp_path, Path("/x/a.dgn"), None, WINDOW, "the name")]
    assert made.events == [SessionSaved(77, "/x/a.dgn")]


def test_what_is_not_recorded_is_not_saved_and_the_reason_is_said(
    made: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given, kind in (
        ((None, FRAME), "not-recorded"),
        ((recording(), None), "not-recorded"),
        ((recording(paused="no space."), FRAME), "recording-paused"),
    ):
        with refused(kind):
            made.library.save_session(SAVE, *given)
    monkeypatch.setattr(run_library, "PATIENCE", 0.01)
    for late in (recording(done=False), recording(lines=-1)):
        made.library.save_session(SAVE, late, FRAME)
        made.wait()
        late_refusal = made.events.pop()
        assert isinstance(late_refusal, Refused)
        assert (late_refusal.kind, late_refusal.value) == ("slow-disk", "/runs/a")
    made.library.save_session(SAVE, recording(lines=0), FRAME)
    made.wait()
    assert made.events == [SessionSaved(40, "/x/a.dgn")]


def test_the_run_in_progress_is_not_shown_as_a_recorded_one(made: Library) -> None:
    with refused("in-use", value="a"):
        made.library.read_folder(ShowRun("/runs/a"), recording())


def test_a_fault_of_a_thread_is_told_with_its_words(
    made: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(_: Path) -> None:
        raise ValueError("a fault made for the test")

    monkeypatch.setattr(run_library, "_read", fault)
    made.library.read_folder(ShowRun("/runs/b"), recording())
    assert {thread.name for thread in made.library._threads.threads} == {"dgn-library"}
    assert all(thread.daemon for thread in made.library._threads.threads)
    made.wait()
    failed = made.events.pop()
    assert isinstance(failed, Failed)
    assert "show b: a fault made for the test" in failed.what
    assert "Traceback" in failed.traceback
    assert made.library.take_loaded() is None


def test_what_is_refused_while_it_is_closed_is_not_told(
    made: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(_: Path) -> LoadedRun:
        assert go_on.wait(60)
        raise UserError("it was cancelled.")

    monkeypatch.setattr(run_library, "_read", slow)
    made.library.read_folder(ShowRun("/runs/b"), None)
    threading.Timer(0.01, go_on.set).start()
    made.library.close()
    assert made.events == []


def test_a_run_that_was_read_is_taken_once(made: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    run = loaded(Path("/runs/b"))
    monkeypatch.setattr(run_library, "_read", lambda _: run)
    made.library.read_folder(ShowRun("/runs/b"), recording())
    made.wait()
    assert made.library.take_loaded() is run
    assert made.library.take_loaded() is None


def test_a_session_is_copied_among_the_runs_before_it_goes_on_and_a_run_is_not(
    made: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted: list[tuple[Any, ...]] = []

    def adopt(*given: Any) -> Path:
        adopted.append(given)
        return Path("/adopted")

    monkeypatch.setattr(run_library, "adopt_run", adopt)
    made.library.shown = loaded(tmp_path / "b")
    assert made.library.folder_to_continue() == tmp_path / "b"
    made.library.shown = loaded(tmp_path / "b", SimpleNamespace())
    assert made.library.folder_to_continue() == Path("/adopted")
    assert adopted == [(tmp_path / "b", tmp_path, "the name")]
    nowhere = RunLibrary(made.events.append, "")
    nowhere.shown = loaded(tmp_path / "b", SimpleNamespace())
    assert nowhere.folder_to_continue() == tmp_path / "b"  # nothing is recorded there
    nowhere.shown = None
    nowhere.close()
    made.library.shown = None


def test_what_was_unpacked_goes_when_another_run_is_shown_and_a_recorded_run_stays(
    made: Library, tmp_path: Path
) -> None:
    unpacked, mine = tmp_path / "u" / "run", tmp_path / "m" / "run"
    for folder in (unpacked, mine):
        folder.mkdir(parents=True)
    made.library.replace_shown(loaded(unpacked, SimpleNamespace()))
    made.library.replace_shown(loaded(mine))
    assert not unpacked.parent.exists()
    made.library.close_shown()
    assert made.library.shown is None
    assert mine.exists()


def test_sessions_are_unpacked_into_one_private_place_that_goes_with_the_library(
    made: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[Path] = []

    def unpack(path: Path, place: Path, cancelled: threading.Event) -> None:
        assert (path, cancelled.is_set()) == (Path("/x/a.dgn"), False)
        places.append(place)
        raise UserError("It is none.", kind="damaged")

    monkeypatch.setattr(run_library, "unpack_session", unpack)
    for _ in range(2):
        made.library.open_session(OpenSession("/x/a.dgn"))
        made.wait()
    assert places[0] == places[1]
    assert places[0].is_dir()
    assert made.events == [Refused("open a.dgn", "It is none.", "damaged")] * 2
    made.library.close()
    assert not places[0].exists()


def test_a_session_whose_run_cannot_be_shown_leaves_nothing_unpacked(
    made: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "u" / "run"
    folder.mkdir(parents=True)
    session = SimpleNamespace(folder=folder)
    monkeypatch.setattr(run_library, "unpack_session", lambda *_: session)

    def refuse(place: Path, of: Any) -> None:
        assert (place, of) == (folder, session)
        raise UserError("It is empty.")

    monkeypatch.setattr(run_library, "_read", refuse)
    made.library.open_session(OpenSession("/x/a.dgn"))
    made.wait()
    assert not folder.parent.exists()
    assert made.events == [Refused("open a.dgn", "It is empty.")]


def test_a_list_that_was_begun_before_a_run_was_deleted_does_not_come_after(
    made: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, begun, go_on = ["a"], threading.Event(), threading.Event()

    def slow_list(_root: str) -> Any:
        seen = tuple(there)
        if seen:
            begun.set()
            go_on.wait(60)
        return SimpleNamespace(runs=seen)

    monkeypatch.setattr(run_library, "list_runs", slow_list)
    monkeypatch.setattr(run_library, "check_removable", lambda _folder: None)
    monkeypatch.setattr(run_library, "delete_run", lambda _folder: there.clear())
    made.library.list_runs(ListRuns())
    assert begun.wait(60)  # the first list holds the run and is not told yet
    made.library.delete_recorded(DeleteRun(str(tmp_path / "a")))
    while there:
        time.sleep(0.01)
    time.sleep(0.2)  # for the second list to come first, were it not held back
    go_on.set()
    made.wait()
    assert [event.runs for event in made.events] == [("a",), ()]  # type: ignore[attr-defined]


def test_only_the_newest_request_for_curves_is_answered(
    made: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, gone = threading.Event(), threading.Event()

    def read(folder: Path) -> RunCurves:
        if folder.name == "slow":
            going.set()
            assert gone.wait(60)
        if folder.name == "damaged":
            raise UserError("damaged", kind="damaged")
        return RunCurves(str(folder), folder.name, {})

    monkeypatch.setattr(run_library, "read_curves", read)
    made.library.read_curves(ReadCurves(("slow",)))
    assert going.wait(60)
    made.library.read_curves(ReadCurves(("a", "damaged")))
    gone.set()
    made.wait()
    (answer,) = [event for event in made.events if isinstance(event, CurvesRead)]
    assert ([run.name for run in answer.runs], answer.requested) == (["a"], ("a", "damaged"))
