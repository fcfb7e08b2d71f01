"""What was read of a listed folder lies in the user's cache: private, ignored where it is damaged,
and never in the folder itself.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dgn_engine.cli import main
from dgn_engine.errors import UserError
from dgn_engine.storage.runs import index, index_database, index_entry
from dgn_engine.storage.runs.run_notes import RunNotes, write_notes
from tests.engine.storage.places import not_root
from tests.faults.hostile_runs import make_honest


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two runs; its list is kept in `tmp_path`/cache."""
    monkeypatch.setattr(index_database, "user_cache", lambda: tmp_path / "cache")
    read_anew.clear()
    for seed, name in enumerate(("a", "b")):
        make_honest(tmp_path / "runs" / name, seed)
    return tmp_path / "runs"


read_anew: list[str] = []  # the names of the runs that were read, and not taken from the cache


def entries(root: Path) -> list[index_entry.IndexEntry]:
    def counted(folder: Path, stamp: str) -> index_entry.IndexEntry | None:
        read_anew.append(folder.name)
        return index_entry.read_entry(folder, stamp)

    return index.read_index(root, counted)


def names(root: Path) -> list[str]:
    return [entry.name for entry in entries(root)]


def kept() -> Path:
    return index_database.database_path()


def rows_in() -> list[tuple[bytes, bytes, int]]:
    with closing(sqlite3.connect(kept())) as database:
        return database.execute("SELECT name, facts, crc FROM runs ORDER BY name").fetchall()


def test_nothing_is_written_into_a_folder_that_is_listed(root: Path) -> None:
    before = sorted(root.rglob("*"))
    assert main(["runs", "list", str(root)]) == 0
    assert sorted(root.rglob("*")) == before


def test_a_second_list_reads_no_run(root: Path) -> None:
    first = entries(root)
    assert read_anew == ["a", "b"]
    assert repr(entries(root)) == repr(first)
    assert read_anew == ["a", "b"]
    index.forget_index(root)
    assert repr(entries(root)) == repr(first)
    assert read_anew == ["a", "b", "a", "b"]


@pytest.mark.parametrize("mask", [0, 0o077])
def test_a_list_is_private_whatever_the_umask_is(root: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        names(root)
    finally:
        os.umask(before)
    assert stat.S_IMODE(kept().stat().st_mode) == 0o600
    assert stat.S_IMODE(kept().parent.stat().st_mode) == 0o700


def test_another_folder_at_the_same_path_has_a_list_of_its_own(root: Path) -> None:
    names(root)
    root.rename(root.with_name("away"))
    make_honest(root / "a", seed=7)
    assert [entry.seed for entry in entries(root)] == [7]


def changed(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what the database says of run a; its checksum is as it should be."""
    with closing(sqlite3.connect(kept())) as database, database:
        query = "SELECT root, name, facts FROM runs WHERE name = ?"
        key, name, facts = database.execute(query, (b"a",)).fetchone()
        tree = json.loads(facts)
        change(tree)
        content = json.dumps(tree).encode()
        crc = index_database._entry_checksum(key, name, content)
        database.execute("UPDATE runs SET facts = ?, crc = ? WHERE name = ?", (content, crc, name))


def executed(root: Path, script: str) -> None:
    with closing(sqlite3.connect(kept())) as database:
        database.executescript(script)


def rewritten(root: Path, change: Callable[[bytes], bytes]) -> None:
    kept().write_bytes(change(kept().read_bytes()))


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
DAMAGE: dict[str, Callable[[Path], object]] = {
    "nothing": lambda root: rewritten(root, lambda raw: b""),
    "half of it": lambda root: rewritten(root, lambda raw: raw[: len(raw) // 2]),
    "no database": lambda root: rewritten(root, lambda raw: b"\xff\xfe"),
    "a later format of SQLite": lambda root: rewritten(
        root, lambda raw: raw[:18] + b"\x09\x09" + raw[20:]
    ),
    "another version": lambda root: executed(root, "PRAGMA user_version = 7"),
    "no table": lambda root: executed(root, "DROP TABLE runs"),
    "an endless view": lambda root: executed(
        root, f"DROP TABLE runs; CREATE VIEW runs AS {ENDLESS} SELECT * FROM c"
    ),
    "a trigger": lambda root: executed(
        root, "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"
    ),
    "an accuracy that was flipped": lambda root: executed(
        root, "UPDATE runs SET facts = replace(facts, '\"step\": 4', '\"step\": 5')"
    ),
    "facts of another run": lambda root: executed(
        root, "UPDATE runs SET facts = (SELECT facts FROM runs WHERE name = x'62')"
    ),
    "no facts": lambda root: executed(root, "UPDATE runs SET facts = NULL"),
    "half a character": lambda root: executed(root, "UPDATE runs SET crc = CAST(x'ff' AS TEXT)"),
    "a seed beyond counting": lambda root: changed(root, lambda t: t.update(seed=1 << 63)),
    "a step below zero": lambda root: changed(root, lambda t: t.update(step=-1)),
    "an accuracy of seven": lambda root: changed(root, lambda t: t.update(best=7.0)),
    "notes that are a list": lambda root: changed(root, lambda t: t.update(notes=[])),
    "an accuracy that is a word": lambda root: changed(root, lambda t: t.update(best="nan")),
    "another name": lambda root: changed(root, lambda t: t.update(name="b")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_list_is_made_anew(
    damage: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = repr(entries(root))
    sound = rows_in()
    DAMAGE[damage](root)
    assert repr(entries(root)) == first
    assert "a" in read_anew[2:]
    again = len(read_anew)
    assert repr(entries(root)) == first
    assert len(read_anew) == again
    assert capsys.readouterr() == ("", "")
    assert rows_in() == sound
    assert stat.S_IMODE(kept().stat().st_mode) == 0o600


def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_text("mine")
    return path


def test_a_link_in_the_place_of_a_list_is_not_followed(root: Path, tmp_path: Path) -> None:
    names(root)
    target = precious(tmp_path)
    kept().unlink()
    kept().symlink_to(target)
    assert names(root) == ["a", "b"]
    assert target.read_text() == "mine"
    assert not kept().is_symlink()


def test_a_link_in_the_place_of_the_folder_of_lists_is_not_followed(
    root: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / index_database.FOLDER).symlink_to(other)
    assert names(root) == ["a", "b"]
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_of_lists_that_others_may_enter_is_not_used(mode: int, root: Path) -> None:
    names(root)
    kept().parent.chmod(mode)
    assert names(root) == ["a", "b"]
    assert len(read_anew) == 4


@pytest.mark.parametrize("thing", ["fifo", "folder", "device"])
def test_what_is_no_list_holds_nobody_up(thing: str, root: Path) -> None:
    names(root)
    path = kept()
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
    place: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relative").write_text("a file")
    monkeypatch.setattr(index_database, "user_cache", lambda: Path(place or "/proc/1/nothing"))
    for _ in range(2):
        assert names(root) == ["a", "b"]


@pytest.mark.parametrize(("owner", "name"), [(os, "scandir"), (sqlite3, "connect")])
def test_a_sound_list_stays_where_the_disk_fails(
    owner: ModuleType, name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(root)
    sound = kept().read_bytes()
    make_honest(root / "c", seed=3)
    real = getattr(owner, name)

    def refuse(path: Any, *given: Any, **named: Any) -> Any:
        if Path(path) in (kept(), kept().parent):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, refuse)
        assert sorted(names(root)) == ["a", "b", "c"]
    assert kept().read_bytes() == sound
    assert [one.name for one in kept().parent.iterdir()] == [kept().name]


@pytest.mark.parametrize("code", ["SQLITE_FULL", "SQLITE_BUSY", "SQLITE_READONLY"])
def test_what_cannot_be_written_now_stays_as_it_was(
    code: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(root)
    sound = kept().read_bytes()
    make_honest(root / "c", seed=3)
    real = sqlite3.connect

    class Refusing(sqlite3.Connection):
        def executemany(self, *_: object) -> sqlite3.Cursor:
            error = sqlite3.OperationalError("not now")
            error.sqlite_errorcode = getattr(sqlite3, code)
            raise error

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", lambda *a, **n: real(*a, factory=Refusing, **n))
        for _ in range(2):
            assert sorted(names(root)) == ["a", "b", "c"]
    assert kept().read_bytes() == sound


def test_a_list_is_read_where_it_cannot_be_written(root: Path, tmp_path: Path) -> None:
    """As on a disk that is mounted for reading."""
    with not_root(tmp_path):
        names(root)
        kept().chmod(0o400)
        kept().parent.chmod(0o500)
        assert names(root) == ["a", "b"]
        assert read_anew == ["a", "b"]
        make_honest(root / "c", seed=3)
        for _ in range(2):
            assert names(root) == ["a", "b", "c"]
        assert read_anew == ["a", "b", "c", "c"]
        kept().parent.chmod(0o700)


def test_a_database_that_is_too_large_is_begun_anew(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = root.with_name("other")
    make_honest(other / "a")
    names(other)
    names(root)
    assert len(rows_in()) == 3
    monkeypatch.setattr(index_database, "_MOST", kept().stat().st_size - 1)
    make_honest(root / "c", seed=3)
    assert sorted(names(root)) == ["a", "b", "c"]
    assert [name for name, _, _ in rows_in()] == [b"a", b"b", b"c"]


def test_what_older_versions_left_in_the_folder_goes(root: Path) -> None:
    kept().parent.mkdir(mode=0o700, parents=True)
    (kept().parent / "0123.json").write_text("{}")
    names(root)
    assert [one.name for one in kept().parent.iterdir()] == [kept().name]


@pytest.mark.parametrize("thing", ["fifo", "link", "zeros"])
def test_a_journal_that_somebody_left_holds_nobody_up(
    thing: str, root: Path, tmp_path: Path
) -> None:
    first = repr(entries(root))
    journal = kept().with_name(f"{kept().name}-journal")
    if thing == "fifo":
        os.mkfifo(journal, 0o600)
    elif thing == "link":
        journal.symlink_to(precious(tmp_path))
    else:
        journal.write_bytes(bytes(4096))
        journal.chmod(0o600)
    for _ in range(2):
        assert repr(entries(root)) == first
    assert not journal.is_fifo()
    assert precious(tmp_path).read_text() == "mine"


def test_only_what_changed_is_read_and_what_went_is_forgotten(root: Path) -> None:
    names(root)
    make_honest(root / "c", seed=3)
    shutil.rmtree(root / "a")
    write_notes(root / "b", RunNotes("a name"))
    assert [entry.given_name for entry in entries(root)] == ["a name", ""]
    assert sorted(read_anew) == ["a", "b", "b", "c"]
    assert [name for name, _, _ in rows_in()] == [b"b", b"c"]


def test_a_run_that_changes_while_it_is_read_is_read_again(root: Path) -> None:
    def meanwhile(folder: Path, stamp: str) -> index_entry.IndexEntry | None:
        entry = index_entry.read_entry(folder, stamp)
        write_notes(folder, RunNotes("a name"))
        return entry

    assert {entry.given_name for entry in index.read_index(root, meanwhile)} == {""}
    assert {entry.given_name for entry in index.read_index(root)} == {"a name"}


def test_several_processes_list_at_once(root: Path) -> None:
    """Each as if it were alone, from the first list on."""
    for number in range(20):
        shutil.copytree(root / "a", root / f"copy-{number}")
    code = (
        "import sys, pathlib\n"
        "from dgn_engine.storage.runs import index, index_database\n"
        "index_database.user_cache = lambda: pathlib.Path(sys.argv[2])\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "for _ in range(6):\n"
        "    index.forget_index(root) if _ % 3 == 2 else None\n"
        "    print(len(index.read_index(root)), {one.step for one in index.read_index(root)})\n"
    )
    words = [sys.executable, "-c", code, str(root), str(kept().parent.parent)]
    children = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [child.communicate() for child in children]
    assert {line for out, _ in answers for line in out.splitlines()} == {"22 {4}"}
    assert {error for _, error in answers} == {""}
    assert len(rows_in()) == 22


# the folder that is listed


def test_a_folder_that_may_not_be_listed_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    with not_root(tmp_path):
        with pytest.raises(UserError, match="cannot be listed: Permission denied"):
            index.read_index(folder)
        assert main(["runs", "list", str(folder)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert index.newest_resumable(folder) is None
    folder.chmod(0o700)
