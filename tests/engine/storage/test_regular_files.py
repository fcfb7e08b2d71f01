"""What lies in the place of a file and is none: nobody waits for it or reads it for ever."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.experiments.report import document, reproduction_progress
from dgn_engine.experiments.report.reproduction_progress import PROGRESS
from dgn_engine.experiments.report.result_layout import RESULTS
from dgn_engine.storage import lock
from dgn_engine.storage.regular_files import (
    Digest,
    NotRegular,
    content_digest,
    digest_file,
    open_regular,
    read_regular,
    read_text,
)
from dgn_engine.storage.runs import folder_layout, index
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader

THINGS = ("fifo", "device", "folder", "giant", "link to nothing")


def put(thing: str, path: Path) -> None:
    """In the place of a file."""
    path.unlink(missing_ok=True)
    if thing == "fifo":
        os.mkfifo(path)
    elif thing == "device":
        path.symlink_to("/dev/zero")
    elif thing == "folder":
        path.mkdir()
    elif thing == "giant":  # of holes: it takes no room
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        path.symlink_to(path.with_name("nothing"))


@pytest.mark.parametrize("thing", THINGS)
def test_only_a_regular_file_of_bounded_size_is_opened(thing: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    put(thing, path)
    for read in (read_regular, read_text, digest_file, lambda path: open_regular(path, 1 << 30)):
        with pytest.raises(FileNotFoundError if "nothing" in thing else NotRegular):
            read(path)


def test_a_regular_file_is_read_to_its_last_byte(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9000
    (tmp_path / "x").write_bytes(content)
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert read_regular(tmp_path / "link", len(content)) == content
    sha256 = hashlib.sha256(content).hexdigest()
    assert digest_file(tmp_path / "x") == content_digest(content) == Digest(len(content), sha256)
    with pytest.raises(NotRegular, match="larger than"):
        read_regular(tmp_path / "x", len(content) - 1)


@pytest.mark.wide
@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("name", [folder_layout.RUN, folder_layout.LOG])
def test_a_run_without_its_files_is_damaged_and_the_others_are_listed(
    thing: str, name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = RunFolder.create(run.parent / "two", RunConfig())
    other.close()
    put(thing, run / name)
    statuses = {entry.name: entry.status for entry in index.read_index(run.parent)}
    assert statuses == {"one": "damaged", "two": "interrupted"}
    assert main(["runs", "show", str(run)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["train", "--resume", str(run)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("thing", ["fifo", "device", "folder"])
def test_a_lock_that_is_none_holds_nobody_up(thing: str, run: Path) -> None:
    put(thing, run / folder_layout.LOCK)
    assert lock.find_lock_holder(run / folder_layout.LOCK) is None
    if thing != "device":  # here a link
        assert RunReader(run).status == "interrupted"
    with pytest.raises(UserError, match=r"Cannot write|'lock' in it is a link"):
        RunFolder(run)


@pytest.mark.parametrize("thing", THINGS)
def test_results_and_old_indices_that_are_no_files_are_told_of_or_passed_over(
    thing: str, run: Path
) -> None:
    put(thing, run / RESULTS)
    put(thing, run / PROGRESS)
    put(thing, run.parent / "index.sqlite")
    with pytest.raises(UserError):
        document.read_document(run)
    with pytest.raises(UserError):
        reproduction_progress.read_progress(run)
    assert [entry.name for entry in index.read_index(run.parent)] == ["one"]
