"""A run's folder that somebody else changes, moves, removes or replaces while it is recorded."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import RecordingMended, RecordingPaused
from dgn_engine.protocol.training import Measured
from dgn_engine.storage import lock
from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.log import LogWriter
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.runs.short_run import SteppedRecorder, make_frame, make_snapshot

MENDED = (folder_layout.LOCK, folder_layout.LOG, folder_layout.RUN)


class Recorded:
    """A recorder that works when it is told, in the thread of the test."""

    def __init__(self, path: Path) -> None:
        self.recorder = SteppedRecorder(RunFolder.create(path, RunConfig()))
        self.step = 0
        self.events: list[Event] = []

    def go_on(self) -> None:
        """A score, a frame and a checkpoint of one more step."""
        self.step += 1
        step, recorder = self.step, self.recorder
        recorder.write_note("Measured", to_plain(Measured(step, 0.0, 0.5, 0.5)))
        recorder.add_frame(make_frame(step))
        recorder.save_checkpoint(make_snapshot(step))
        recorder.mark_written()
        recorder.work()
        self.events += recorder.take_events()

    def remarks(self) -> list[str]:
        return [one.remark for one in self.events if isinstance(one, RecordingMended)]

    def pauses(self) -> list[str]:
        return [one.reason for one in self.events if isinstance(one, RecordingPaused)]

    def close(self) -> bool:
        return self.recorder.end()


@pytest.fixture
def run(tmp_path: Path) -> Recorded:
    recorded = Recorded(tmp_path / "run")
    recorded.go_on()
    return recorded


def assert_whole(path: Path, steps: int) -> None:
    assert [one.step for one in RunReader(path).measured_events] == list(range(1, steps + 1))
    assert RunReader(path).checkpoints[-1].step == steps
    assert [one for one in find_damage(path) if not one.harmless] == []


@pytest.mark.parametrize("name", MENDED)
def test_a_file_that_is_deleted_in_mid_run_is_made_anew_and_said(
    name: str, run: Recorded, tmp_path: Path
) -> None:
    (tmp_path / "run" / name).unlink()
    run.go_on()
    run.go_on()
    assert run.pauses() == []
    (remark,) = run.remarks()
    assert name in remark
    assert "was missing" in remark
    assert lock.find_lock_holder(tmp_path / "run" / folder_layout.LOCK) is not None
    assert run.close()
    assert_whole(tmp_path / "run", 3)
    assert "RecordingMended" in [line.name for line in RunReader(tmp_path / "run").log.lines]


@pytest.mark.parametrize("thing", ["file", "folder", "link"])
def test_what_lies_in_the_place_of_the_log_is_put_aside(
    thing: str, run: Recorded, tmp_path: Path
) -> None:
    path = tmp_path / "run" / folder_layout.LOG
    path.unlink()
    (tmp_path / "precious").write_text("precious")
    if thing == "file":
        path.write_text("precious")
    elif thing == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "precious")
    run.go_on()
    assert run.pauses() == []
    assert len(run.remarks()) == 1
    assert run.close()
    assert_whole(tmp_path / "run", 2)
    assert (tmp_path / "precious").read_text() == "precious"
    (aside,) = (tmp_path / "run" / "damaged").iterdir()
    if thing == "file":
        assert aside.read_text() == "precious"


def test_a_log_that_is_cut_goes_on_and_the_gap_is_named(run: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "run" / folder_layout.LOG
    run.go_on()
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("r+b") as file:
        file.truncate(len(lines[0]) + 7)
    run.go_on()
    assert "was cut" in run.remarks()[0]
    assert run.close()
    reader = RunReader(tmp_path / "run")
    assert [one.step for one in reader.measured_events] == [1, 3]
    assert reader.log.all_contents.missing == ((1, 1),)
    assert reader.log.all_contents.damaged == ()


def test_a_lock_that_another_took_is_not_taken_back(run: Recorded, tmp_path: Path) -> None:
    path = tmp_path / "run" / folder_layout.LOCK
    path.unlink()
    other = lock.Lock(path)
    other.acquire()
    run.go_on()
    assert "written by process" in run.pauses()[0]
    other.release()
    run.recorder.retry()
    run.go_on()
    assert run.close()
    assert_whole(tmp_path / "run", 3)


def test_a_run_whose_folder_is_renamed_is_recorded_under_the_new_name(
    run: Recorded, tmp_path: Path
) -> None:
    (tmp_path / "run").rename(tmp_path / "run2")
    run.go_on()
    assert run.pauses() == []
    (remark,) = run.remarks()
    assert f"{tmp_path / 'run'} was moved to {tmp_path / 'run2'}" in remark
    assert run.events[-1] == RecordingMended(run.remarks()[0], 2, str(tmp_path / "run2"))
    (tmp_path / "run2").rename(tmp_path / "run")
    run.go_on()
    assert run.recorder.folder.path == tmp_path / "run"
    assert run.close()
    assert_whole(tmp_path / "run", 3)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def stranger(place: Path) -> dict[str, bytes]:
    """Another run at a place; what is in it."""
    other = RunFolder.create(place, RunConfig())
    other.write_note("Measured", to_plain(Measured(7, 0.0, 0.5, 0.5)))
    other.close()
    return contents(place)


def contents(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }


def a_file(place: Path) -> dict[str, bytes]:
    place.mkdir()
    (place / "mine").write_text("precious")
    return contents(place)


@pytest.mark.parametrize("replace", [stranger, a_file])
def test_nothing_is_written_into_a_folder_that_took_the_place_of_the_runs(
    replace: Callable[[Path], Any], run: Recorded, tmp_path: Path
) -> None:
    """What is in memory is written to where its folder was moved, at the end."""
    (tmp_path / "run").rename(tmp_path / "moved")
    before = replace(tmp_path / "run")
    for _ in range(3):
        run.go_on()
    (reason,) = run.pauses()
    assert "another folder is in its place" in reason
    assert str(tmp_path / "moved") in reason
    assert contents(tmp_path / "run") == before
    assert run.close()
    assert contents(tmp_path / "run") == before
    assert_whole(tmp_path / "moved", 4)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_whose_folder_is_removed_is_not_recorded_and_comes_back_with_it(
    replaced: bool, run: Recorded, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    shutil.rmtree(tmp_path / "run")
    before = stranger(tmp_path / "run") if replaced else {}
    run.go_on()
    (reason,) = run.pauses()
    assert "was removed" in reason
    assert ("another folder is in its place" in reason) == replaced
    run.recorder.retry()
    assert run.recorder.paused
    if replaced:
        assert contents(tmp_path / "run") == before
        shutil.rmtree(tmp_path / "run")
    (tmp_path / "copy").rename(tmp_path / "run")
    run.recorder.retry()
    assert not run.recorder.paused
    run.go_on()
    assert run.close()
    assert_whole(tmp_path / "run", 3)


@pytest.mark.parametrize("replaced", [False, True])
def test_what_is_in_memory_of_a_removed_run_goes_into_a_folder_beside_it(
    replaced: bool, run: Recorded, tmp_path: Path
) -> None:
    (tmp_path / "run-recovered").mkdir()  # somebody else's
    shutil.rmtree(tmp_path / "run")
    before = stranger(tmp_path / "run") if replaced else {}
    for _ in range(2):
        run.go_on()
    assert "was removed" in run.pauses()[0]
    assert run.close()
    run.events += run.recorder.take_events()
    (remark,) = run.remarks()
    assert str(tmp_path / "run") in remark
    assert str(tmp_path / "run-recovered-2") in remark
    assert list((tmp_path / "run-recovered").iterdir()) == []
    assert (tmp_path / "run").exists() == replaced
    assert not replaced or contents(tmp_path / "run") == before
    assert_whole(tmp_path / "run-recovered-2", 3)
    assert run.recorder.folder.path == tmp_path / "run-recovered-2"
    again = RunFolder(tmp_path / "run-recovered-2")
    assert again.newest_checkpoint is not None
    assert again.newest_checkpoint.step == 3
    again.close()


def test_a_folder_that_is_gone_is_not_made_again_for_its_weights(
    run: Recorded, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "run")
    for root in (run.recorder.folder.root, inner_folder(tmp_path / "run")):
        with pytest.raises(UserError, match="No such file or directory"):
            save_file(root / folder_layout.WEIGHTS, b"")
        with pytest.raises(UserError, match="No such file or directory"):
            save_file(root / folder_layout.KEPT / "best.safetensors", b"")
    before = stranger(tmp_path / "run")
    with pytest.raises(UserError, match="No such file or directory"):
        save_file(run.recorder.folder.root / folder_layout.WEIGHTS, b"")
    assert contents(tmp_path / "run") == before
    run.close()


def test_handles_that_are_stale_are_opened_anew(
    run: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a server of files was started again: the same folder by other handles."""

    def stale(_: object) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(LogWriter, "read_back", stale)
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "copy").rename(tmp_path / "run")
    run.go_on()
    run.recorder.retry()
    run.go_on()
    assert run.close()
    assert_whole(tmp_path / "run", 3)
    assert not (tmp_path / "run" / "damaged").exists()


def test_a_run_that_never_began_is_discarded_and_nothing_in_its_place(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", RunConfig())
    (tmp_path / "run").rename(tmp_path / "moved")
    before = stranger(tmp_path / "run")
    folder.discard_folder()
    assert contents(tmp_path / "run") == before
    folder = RunFolder.create(tmp_path / "new", RunConfig())
    folder.discard_folder()
    assert not (tmp_path / "new").exists()
