"""Files and folders that are whole or not there, and what a killed writer has left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from dgn_engine.errors import UserError
from dgn_engine.storage import atomic_write
from dgn_engine.storage.atomic_write import save_file
from dgn_engine.storage.checkpoints.save_network import save_network
from dgn_engine.storage.inner_path import as_inner_path


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
    gone = as_inner_path(tmp_path / "gone.part")
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
    part = atomic_write._part_path(as_inner_path(tmp_path / "new")).full_path
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


# Networks.


def test_a_network_is_saved_whole_with_its_notes_and_nothing_else(tmp_path: Path) -> None:
    shared = torch.randn(3, 4)
    state = {"a": shared, "tied": shared, "view": shared.t(), "b": torch.tensor(1.0)}
    save_network(tmp_path / "new" / "w.safetensors", state, {"step": "7"})
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["w.safetensors"]
    with safe_open(tmp_path / "new" / "w.safetensors", "pt") as file:
        assert file.metadata() == {"step": "7"}
        assert all(torch.equal(file.get_tensor(name), t) for name, t in state.items())


def test_the_same_network_and_notes_are_the_same_bytes(tmp_path: Path) -> None:
    path, notes = tmp_path / "w.safetensors", {f"k{n}": 'é"\n' * n for n in range(8)}
    state = {"a": torch.randn(3, 4), "b": torch.tensor([1, 2, 3])}
    contents = set()
    for items in (notes.items(), reversed(notes.items()), *[notes.items()] * 8):
        save_network(path, state, dict(items))
        contents.add(path.read_bytes())
    assert len(contents) == 1
    with safe_open(path, "pt") as file:
        assert file.metadata() == notes
        assert all(torch.equal(file.get_tensor(name), t) for name, t in state.items())


def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"old")

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        UserError, match=r"Cannot write .*w\.safetensors: No space left on device\."
    ):
        save_network(path, {"a": torch.zeros(2)}, {})
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write"):
        save_file(tmp_path / "file" / "w.safetensors", b"")
