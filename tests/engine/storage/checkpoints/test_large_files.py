"""Files of gigabytes: known by their first bytes, read in place, as far as they are taken."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import checkpoint_reader, file_content, limits, wire
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.file_content import ContentStream, content_of
from tests.faults import sparse_files

LARGE = 3 << 30


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder in which a file of holes takes no room."""
    probe = tmp_path / "probe"
    with probe.open("wb") as file:
        file.truncate(LARGE)
    if probe.stat().st_blocks > 1 << 16:
        pytest.skip("this file system has no holes")
    probe.unlink()
    return tmp_path


def test_of_large_safetensors_a_part_is_taken(room: Path) -> None:
    sparse_files.safetensors(room / "x.safetensors", LARGE)
    found = read_tensors(room / "x.safetensors", part="net")
    assert {name: array.shape for name, array in found.arrays.items()} == {
        "w": (sparse_files.SIDE, sparse_files.SIDE)
    }


def test_of_a_large_file_of_torch_a_part_is_taken_and_the_rest_is_not_even_checked(
    room: Path,
) -> None:
    sparse_files.torch_zip(room / "x.pt", LARGE, sound=False)
    found = read_tensors(room / "x.pt", part="net")
    assert list(found.arrays) == ["w"]


def test_more_numbers_than_are_taken_at_once_are_refused_with_what_to_do(room: Path) -> None:
    sparse_files.safetensors(room / "x.safetensors", LARGE, "F16")  # six gigabytes as float32
    with pytest.raises(
        UserError, match=r"holds 6 GiB of numbers, of which at most 4 GiB .*\(--part\)"
    ):
        read_tensors(room / "x.safetensors")


@pytest.mark.parametrize(
    ("start", "verdict"),
    [
        (b"\0", "is no checkpoint that is read here"),
        (b"GGUF", "GGUF"),
        (b"\x93NUMPY", "larger than 2 GiB, which only safetensors and files of torch since 1.6"),
        (b"\x80\2", "larger than 2 GiB"),
        (b"PK\3\4", "cut off"),
    ],
)
def test_other_large_files_are_known_by_their_first_bytes(
    start: bytes, verdict: str, room: Path
) -> None:
    with (room / "x.pt").open("wb") as file:
        file.write(start)
        file.truncate(LARGE)
    with pytest.raises(UserError, match=verdict):
        read_tensors(room / "x.pt")


def test_what_cannot_be_mapped_is_read() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(b"abc")
    with os.fdopen(reading, "rb") as file:
        assert content_of(file) == b"abc"


def test_a_small_file_is_read_and_a_larger_one_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(limits.HEADER))
    with path.open("rb") as file:
        assert isinstance(content_of(file), bytes)
    path.write_bytes(bytes(limits.HEADER + 1))
    with path.open("rb") as file:
        assert not isinstance(content_of(file), bytes)


def test_the_stream_of_a_content_reads_and_seeks_as_a_file_does() -> None:
    content = bytes(range(200))
    ours: IO[bytes] = io.BufferedReader(ContentStream(content), 16)
    theirs = io.BytesIO(content)
    for file in (ours, theirs):
        file.seek(-3, io.SEEK_END)
    assert ours.read() == theirs.read()
    for file in (ours, theirs):
        file.seek(5)
        file.seek(7, io.SEEK_CUR)
    assert (ours.read(30), ours.tell()) == (theirs.read(30), theirs.tell())
    assert (ours.seek(500), ours.read()) == (theirs.seek(500), theirs.read())
    with pytest.raises(OSError, match="before"):
        ContentStream(content).seek(-1)


def test_slices_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_content, "_SLICE", 7)
    view = memoryview(bytes(range(50)))
    assert b"".join(file_content.sliced(None, view)) == bytes(view)
    assert list(file_content.sliced(None, view[:0])) == []


def test_numbers_that_do_not_fit_into_free_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", np.ones(1000))
    monkeypatch.setattr(wire, "_SMALL", 1000)
    monkeypatch.setattr(wire, "free_memory", lambda: 5000.0)
    with pytest.raises(UserError, match=r"^x\.npy does not fit in memory\.$"):
        read_tensors(tmp_path / "x.npy")


def test_a_file_that_is_cut_off_while_it_is_read_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGBUS)"
    (tmp_path / "x.pt").write_bytes(b"abc")
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(checkpoint_reader, "confined_command", lambda *_: command)
    with pytest.raises(UserError, match="was cut off while it was read"):
        read_tensors(tmp_path / "x.pt")
