"""What was read of a listed folder lies in the user's cache: private, ignored where it is damaged,
and never in the folder itself.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.cli import main
from dgn_engine.errors import UserError
from dgn_engine.storage.runs import index, index_entry, list_cache
from tests.faults.hostile_runs import make_honest


@pytest.fixture
def root(memory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two runs; its list is kept in `memory`/cache."""
    monkeypatch.setattr(list_cache, "user_cache", lambda: memory / "cache")
    for seed, name in enumerate(("a", "b")):
        make_honest(memory / "runs" / name, seed)
    return memory / "runs"


@pytest.fixture
def read_anew(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that were read, and not taken from the cache."""
    names: list[str] = []
    before = index_entry._read

    def counted(folder: Path, stamp: str) -> index_entry.IndexEntry:
        names.append(folder.name)
        return before(folder, stamp)

    monkeypatch.setattr(index_entry, "_read", counted)
    return names


@pytest.fixture
def nobody() -> Iterator[None]:
    """Root may do everything, so it is somebody else for the time being."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


def names(root: Path) -> list[str]:
    return [entry.name for entry in index.read_index(root)]


def kept(root: Path) -> Path:
    return list_cache.cache_file(root)


def test_nothing_is_written_into_a_folder_that_is_listed(root: Path) -> None:
    before = sorted(root.rglob("*"))
    assert main(["runs", "list", str(root)]) == 0
    assert sorted(root.rglob("*")) == before


def test_a_linked_index_is_not_followed(root: Path, memory: Path) -> None:
    target = memory / "precious.sqlite"
    with closing(sqlite3.connect(target)) as precious, precious:
        precious.execute("CREATE TABLE runs (a)")
        precious.execute("INSERT INTO runs VALUES ('mine')")
    content = target.read_bytes()
    (root / "index.sqlite").symlink_to(target)
    assert names(root) == ["a", "b"]
    assert main(["runs", "list", str(root), "--rebuild"]) == 0
    assert target.read_bytes() == content
    assert (root / "index.sqlite").is_symlink()


def test_an_index_of_an_older_version_is_neither_read_nor_removed(root: Path) -> None:
    """An endless view would be read for ever."""
    with closing(sqlite3.connect(root / "index.sqlite")) as old, old:
        endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
        old.execute(f"CREATE VIEW runs AS {endless} SELECT * FROM c")
        old.execute("PRAGMA user_version = 2")
    content = (root / "index.sqlite").read_bytes()
    assert names(root) == ["a", "b"]
    assert (root / "index.sqlite").read_bytes() == content


def test_a_second_list_reads_no_run(root: Path, read_anew: list[str]) -> None:
    first = index.read_index(root)
    assert read_anew == ["a", "b"]
    assert repr(index.read_index(root)) == repr(first)
    assert read_anew == ["a", "b"]
    index.forget_index(root)
    assert repr(index.read_index(root)) == repr(first)
    assert read_anew == ["a", "b", "a", "b"]


@pytest.mark.parametrize("mask", [0, 0o077])
def test_a_list_is_private_whatever_the_umask_is(root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        names(root)
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept(root).stat().st_mode) == 0o600
    assert stat.S_IMODE(kept(root).parent.stat().st_mode) == 0o700


def test_another_folder_at_the_same_path_has_a_list_of_its_own(
    root: Path, read_anew: list[str]
) -> None:
    names(root)
    first = kept(root)
    root.rename(root.with_name("away"))
    make_honest(root / "a", seed=7)
    assert kept(root) != first
    assert [entry.seed for entry in index.read_index(root)] == [7]


def changed(root: Path, change: Callable[[dict[str, Any]], object]) -> bytes:
    tree = json.loads(kept(root).read_bytes())
    change(tree)
    return json.dumps(tree).encode()


DAMAGE: dict[str, Callable[[Path], bytes]] = {
    "nothing": lambda root: b"",
    "half of it": lambda root: kept(root).read_bytes()[:100],
    "zeros": lambda root: bytes(999),
    "no UTF-8": lambda root: b"\xff\xfe",
    "a list": lambda root: b"[]",
    "5,000 levels": lambda root: b"[" * 5000,
    "another folder's": lambda root: changed(root, lambda t: t["of"].append(1)),
    "no runs": lambda root: changed(root, lambda t: t.pop("runs")),
    "a list of runs": lambda root: changed(root, lambda t: t.update(runs=[1])),
    "words for runs": lambda root: changed(root, lambda t: t.update(runs={"a": "x", "b": 1})),
    "a seed beyond counting": lambda root: changed(
        root, lambda t: t["runs"]["a"].update(seed=1 << 63)
    ),
    "a step below zero": lambda root: changed(root, lambda t: t["runs"]["a"].update(step=-1)),
    "an accuracy of seven": lambda root: changed(root, lambda t: t["runs"]["a"].update(best=7.0)),
    "a part too few": lambda root: changed(root, lambda t: t["runs"]["a"].pop("seed")),
    "a part too many": lambda root: changed(root, lambda t: t["runs"]["a"].update(colour=1)),
    "a net of no kind": lambda root: changed(root, lambda t: t["runs"]["a"].update(net=7)),
    "a net without end": lambda root: changed(
        root, lambda t: t["runs"]["a"].update(net="x" * 5000)
    ),
    "notes of no kind": lambda root: changed(root, lambda t: t["runs"]["a"].update(notes=[])),
    "an accuracy that is a word": lambda root: changed(
        root, lambda t: t["runs"]["a"].update(best="nan")
    ),
    "an accuracy that is true": lambda root: changed(
        root, lambda t: t["runs"]["a"].update(best=True)
    ),
    "perhaps a checkpoint": lambda root: changed(
        root, lambda t: t["runs"]["a"].update(resumable=1)
    ),
    "a stamp of no kind": lambda root: changed(root, lambda t: t["runs"]["a"].update(stamp=[])),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_list_is_made_anew(
    damage: str, root: Path, read_anew: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    first = repr(index.read_index(root))
    sound = kept(root).read_bytes()
    kept(root).write_bytes(DAMAGE[damage](root))
    assert repr(index.read_index(root)) == first
    assert "a" in read_anew[2:]
    assert repr(index.read_index(root)) == first
    assert capsys.readouterr() == ("", "")
    assert kept(root).read_bytes() == sound


def precious(memory: Path) -> Path:
    path = memory / "precious"
    path.write_text("mine")
    return path


def test_a_link_in_the_place_of_a_list_is_not_followed(root: Path, memory: Path) -> None:
    names(root)
    target = precious(memory)
    kept(root).unlink()
    kept(root).symlink_to(target)
    assert names(root) == ["a", "b"]
    assert target.read_text() == "mine"
    assert not kept(root).is_symlink()


def test_a_link_in_the_place_of_the_folder_of_lists_is_not_followed(
    root: Path, memory: Path
) -> None:
    other = memory / "other"
    other.mkdir(mode=0o700)
    (memory / "cache").mkdir()
    (memory / "cache" / list_cache.FOLDER).symlink_to(other)
    assert names(root) == ["a", "b"]
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_of_lists_that_others_may_enter_is_not_used(
    mode: int, root: Path, read_anew: list[str]
) -> None:
    names(root)
    kept(root).parent.chmod(mode)
    assert names(root) == ["a", "b"]
    assert len(read_anew) == 4


def test_a_list_that_others_may_write_is_not_read(root: Path, read_anew: list[str]) -> None:
    names(root)
    kept(root).chmod(0o666)
    names(root)
    assert len(read_anew) == 4


@pytest.mark.parametrize("thing", ["fifo", "folder", "device"])
def test_what_is_no_list_holds_nobody_up(thing: str, root: Path) -> None:
    names(root)
    path = kept(root)
    path.unlink()
    if thing == "fifo":
        os.mkfifo(path, 0o600)
    elif thing == "folder":
        path.mkdir(0o700)
    else:
        path.symlink_to("/dev/zero")
    for _ in range(2):
        assert names(root) == ["a", "b"]


@pytest.mark.parametrize("place", ["", "/dev/null", "/proc/nowhere", "relative"])
def test_runs_are_listed_where_no_cache_can_be(
    place: str, root: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(memory)
    (memory / "relative").write_text("a file")
    monkeypatch.setattr(list_cache, "user_cache", lambda: Path(place or "/proc/1/nothing"))
    for _ in range(2):
        assert names(root) == ["a", "b"]


def test_runs_are_listed_where_nobody_knows_the_home_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(list_cache, "user_cache", homeless)
    assert names(root) == ["a", "b"]
    assert main(["runs", "list", str(root), "--rebuild"]) == 0


@pytest.mark.parametrize("name", ["open", "rename", "mkdir", "fstat"])
def test_runs_are_listed_on_a_full_disk(
    name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(root)
    sound = kept(root).read_bytes()
    make_honest(root / "c", seed=3)

    class Full:
        def __getattr__(self, asked: str) -> Any:
            return self.refuse if asked == name else getattr(os, asked)

        def refuse(self, *_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = kept(root)
    with monkeypatch.context() as patched:
        patched.setattr(list_cache, "os", Full())
        assert sorted(names(root)) == ["a", "b", "c"]
    if name != "mkdir":
        assert path.read_bytes() == sound
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_lists_that_nobody_asked_for_in_a_long_time_go(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_cache, "_LISTS", 3)
    folders = [root, *(root.with_name(f"runs{number}") for number in range(4))]
    for age, folder in enumerate(folders):
        if folder is not root:
            make_honest(folder / "a")
        names(folder)
        os.utime(kept(folder), (100 + age, 100 + age))
    assert [kept(folder).exists() for folder in folders] == [False, False, True, True, True]


# the folder that is listed


def test_a_folder_that_may_not_be_listed_is_one_sentence(
    root: Path, memory: Path, nobody: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = memory.parent / f"{memory.name}-closed"
    folder.mkdir()
    folder.chmod(0)
    try:
        with pytest.raises(UserError, match="cannot be listed: Permission denied"):
            index.read_index(folder)
        assert main(["runs", "list", str(folder)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert index.newest_resumable(folder) is None
    finally:
        folder.rmdir()


def test_a_file_is_no_folder_of_runs(
    root: Path, memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "list", str(precious(memory))]) == 2
    assert "cannot be listed: Not a directory" in capsys.readouterr().err
