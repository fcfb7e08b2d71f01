"""Who may read what is written: the user alone, unless they share it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.training import Measured
from dgn_engine.storage.atomic_write import SHARED, make_folders, make_private, write_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.run_folder import RunFolder
from tests.engine.storage.runs import short_run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights are others elsewhere")


@pytest.fixture(autouse=True)
def everything_allowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(SHARED, raising=False)
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> set[int]:
    """Of a folder and everything in it."""
    return {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


def recorded(path: Path) -> Path:
    folder = RunFolder(path) if path.exists() and any(path.iterdir()) else None
    folder = folder or RunFolder.create(path, RunConfig())
    folder.write_note("Measured", to_plain(Measured(1, 0.0, 0.5, 0.5)))
    folder.add_frame(short_run.make_frame(1))
    folder.add_checkpoint(short_run.make_snapshot(1), "")
    folder.close()
    return path


def test_a_run_and_the_folders_made_for_it_are_for_the_user_alone(tmp_path: Path) -> None:
    recorded(tmp_path / "runs" / "one")
    assert modes(tmp_path / "runs") == {0o700, 0o600}


@pytest.mark.parametrize(("umask", "expected"), [(0o022, {0o755, 0o644}), (0o007, {0o770, 0o660})])
def test_a_shared_run_is_as_the_umask_says(
    umask: int, expected: set[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARED, "1")
    os.umask(umask)
    recorded(tmp_path / "runs" / "one")
    assert modes(tmp_path / "runs") == expected


def test_a_folder_that_is_there_stays_as_it_is_and_decides_for_what_is_put_into_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine").mkdir(mode=0o750)
    recorded(tmp_path / "mine")  # an empty folder becomes a run
    assert modes(tmp_path / "mine") == {0o750, 0o640}
    run = recorded(tmp_path / "runs" / "one")
    for path in (run, *run.rglob("*")):  # chmod -R go+rX
        path.chmod(0o755 if path.is_dir() else 0o644)
    recorded(run)
    assert modes(run) == {0o755, 0o644}


def test_a_file_is_for_those_who_may_enter_its_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    write_file(tmp_path / "figure.pdf", b"")
    assert stat.S_IMODE((tmp_path / "figure.pdf").stat().st_mode) == 0o644
    make_folders(tmp_path / "deep" / "er")
    make_folders(inner_folder(tmp_path / "deep") / "inner")
    write_file(tmp_path / "deep" / "x", b"")
    assert modes(tmp_path / "deep") == {0o700, 0o600}


def test_a_copy_is_private_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copy" / "deep").mkdir(parents=True)
    (tmp_path / "copy" / "deep" / "x").touch()
    monkeypatch.setenv(SHARED, "1")
    make_private(tmp_path / "copy")
    assert modes(tmp_path / "copy") == {0o755, 0o644}
    monkeypatch.setenv(SHARED, "0")
    make_private(tmp_path / "copy")
    assert modes(tmp_path / "copy") == {0o700, 0o600}
