"""Files and folders that are whole or not there, and what a killed writer has left."""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.storage import atomic_write
from dgn_engine.storage.inner_path import inner


def test_leftovers_go_and_one_that_went_by_itself_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.part").touch()
    (tmp_path / "b.part").mkdir()
    (tmp_path / "b.part" / "x").touch()
    (tmp_path / "c.part").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    (tmp_path / "d").touch()
    assert atomic_write.find_leftovers(tmp_path / "nowhere") == []
    found = atomic_write.find_leftovers(tmp_path)
    assert [path.name for path in found] == ["a.part", "b.part", "c.part"]
    gone = inner(tmp_path / "gone.part")
    monkeypatch.setattr(atomic_write, "find_leftovers", lambda _: [*found, gone])
    atomic_write.clear_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "kept"]


def test_a_file_that_replaces_another_is_whole_or_the_other_stays(tmp_path: Path) -> None:
    path = tmp_path / "x"
    atomic_write.write_file(path, b"before")

    def half() -> None:
        with atomic_write.replace_file(path) as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert path.read_bytes() == b"before"
    with atomic_write.replace_file(path) as file:
        file.write(b"after it")
        file.seek(0)
        assert file.read() == b"after it"
    assert path.read_bytes() == b"after it"
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_a_new_folder_takes_the_place_of_an_empty_one_and_of_what_was_left(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    part = atomic_write._part(inner(tmp_path / "new")).whole
    part.mkdir()
    (part / "old").touch()
    atomic_write.write_folder(tmp_path / "new", {"a": b"1", "b": b""})
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == {
        "a": b"1",
        "b": b"",
    }
    with pytest.raises(OSError, match="not empty"):
        atomic_write.write_folder(tmp_path / "new", {"c": b"1"})
    assert [one.name for one in tmp_path.iterdir()] == ["new"]
