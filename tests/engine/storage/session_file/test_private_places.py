"""What a killed program left of opened sessions is removed at the next start, and nothing else."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dgn_engine.errors import UserError
from dgn_engine.session.run_library import RunLibrary
from dgn_engine.storage import lock
from dgn_engine.storage.session_file import session_reader, temp_dirs
from dgn_engine.storage.session_file.temp_dirs import LOCK, PREFIX, PrivateTempDir, remove_abandoned
from tests.refusals import refused

LIVING = """
import sys, time
from dgn_engine.storage.session_file.temp_dirs import PrivateTempDir
place = PrivateTempDir()
(place.path / "unpacked").mkdir()
(place.path / "unpacked" / "log.jsonl").write_text("{}")
print(place.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the system's, for here and for the processes that are started."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def owner() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", LIVING], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_the_next_start_removes_what_a_killed_program_left(root: Path) -> None:
    process, place = owner()
    try:
        assert remove_abandoned() == []  # its owner lives
        assert (place / "unpacked" / "log.jsonl").exists()
    finally:
        end(process)
    assert place.parent == root
    library = RunLibrary(lambda _event: None, "")
    library.close()  # waits for it
    assert not place.exists()


def dead(root: Path) -> Path:
    """A place whose owner is dead, as a kill leaves it."""
    left = root / f"{PREFIX}left"
    (left / "unpacked").mkdir(parents=True)
    left.chmod(0o700)
    (left / LOCK).touch()
    owner = lock.LockHolder(2**22 + 5, platform.node(), lock.boot_id(), (left / LOCK).stat().st_ino)
    (left / LOCK).write_text(json.dumps(vars(owner)))
    return left


def linked(left: Path) -> None:
    """The place is a link to a folder of the user's."""
    left.rename(left.parent / "documents")
    left.symlink_to(left.parent / "documents")


def lock_is_a_link(left: Path) -> None:
    (left / LOCK).rename(left.parent / "elsewhere.lock")
    (left / LOCK).symlink_to(left.parent / "elsewhere.lock")


def open_to_a_group(left: Path) -> None:
    left.chmod(0o770)


def open_to_others(left: Path) -> None:
    left.chmod(0o707)


def of_another_machine(left: Path) -> None:
    held = left / LOCK
    held.write_text(held.read_text().replace('"host": "', '"host": "other-'))


def not_locked_yet(left: Path) -> None:
    (left / LOCK).write_text("")


def without_lock(left: Path) -> None:
    (left / LOCK).unlink()


def copied(left: Path) -> None:
    """Its lock speaks of another file."""
    (left / LOCK).rename(left / "old")
    shutil.copy(left / "old", left / LOCK)


def a_file(left: Path) -> None:
    shutil.rmtree(left)
    left.write_text("notes")


@pytest.mark.parametrize(
    "change",
    [
        linked,
        lock_is_a_link,
        open_to_a_group,
        open_to_others,
        of_another_machine,
        not_locked_yet,
        without_lock,
        copied,
        a_file,
    ],
)
def test_nothing_else_is_touched(root: Path, change: Callable[[Path], None]) -> None:
    left = dead(root)
    change(left)
    assert remove_abandoned() == []
    assert left.exists()


def test_another_user_s_folder_is_not_touched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = dead(root)
    monkeypatch.setattr(temp_dirs.os, "getuid", lambda: os.geteuid() + 1)
    assert remove_abandoned() == []
    assert left.exists()


def test_a_link_inside_is_removed_and_not_followed(root: Path) -> None:
    kept = root / "documents"
    kept.mkdir()
    (kept / "thesis.tex").write_text("x")
    left = dead(root)
    (left / "unpacked" / "link").symlink_to(kept)
    assert remove_abandoned() == [left]
    assert (kept / "thesis.tex").exists()


def test_a_place_of_ones_own_goes_with_its_owner(root: Path) -> None:
    place = PrivateTempDir()
    assert oct(place.path.stat().st_mode)[-3:] == "700"
    assert remove_abandoned() == []
    place.remove_folder()
    assert list(root.iterdir()) == []


def test_a_place_that_cannot_be_removed_hides_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [root / f"{PREFIX}{name}" for name in "abcd"]
    for place in places:
        place.mkdir(mode=0o700)
    remove = shutil.rmtree

    def stuck(path: Path) -> None:
        if path in places[1:3]:
            raise OSError(13, "Permission denied")
        remove(path)

    monkeypatch.setattr(stuck, "avoids_symlink_attacks", True, raising=False)
    monkeypatch.setattr(temp_dirs.shutil, "rmtree", stuck)
    monkeypatch.setattr(temp_dirs, "is_abandoned", lambda lock: lock.name == LOCK)
    assert set(remove_abandoned(root)) == {places[0], places[3]}
    assert {path.name for path in root.iterdir()} == {place.name for place in places[1:3]}
    assert remove_abandoned(root / "nowhere") == []


def test_a_place_that_cannot_be_removed_does_not_hide_why_a_session_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UserError("a.dgn: no.", kind="made-up")

    def stuck(_: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(13, "Permission denied")

    monkeypatch.setattr(session_reader, "ask_child", refuse)
    monkeypatch.setattr(session_reader.shutil, "rmtree", stuck)
    with refused("made-up"):
        session_reader.unpack_session(root / "a.dgn", root)
