"""Files of gigabytes: known by their first bytes, read in place, as far as they are taken."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from dgn_engine.storage.checkpoints import checkpoint_reader
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from tests.daily import nightly
from tests.faults import sparse_files
from tests.refusals import refused

LARGE = 3 << 30


@pytest.fixture
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a file of holes takes no room: not in memory, where it may."""
    room = tmp_path_factory.mktemp("large")
    probe = room / "probe"
    with probe.open("wb") as file:
        file.truncate(LARGE)
    if probe.stat().st_blocks > 1 << 16:
        pytest.skip("this file system has no holes")
    probe.unlink()
    return room


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
    with refused("too-large") as told:
        read_tensors(room / "x.safetensors")
    assert all(words in str(told.error) for words in ("6 GiB", "4 GiB", "--part"))


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        *((b"\0", "no-checkpoint"), (b"\x93NUMPY", "too-large")),
        *nightly((b"GGUF", "other-format"), (b"\x80\2", "too-large"), (b"PK\3\4", "cut-off")),
    ],
)
def test_other_large_files_are_known_by_their_first_bytes(
    start: bytes, kind: str, room: Path
) -> None:
    with (room / "x.pt").open("wb") as file:
        file.write(start)
        file.truncate(LARGE)
    with refused(kind):
        read_tensors(room / "x.pt")


def test_a_file_that_is_cut_off_while_it_is_read_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGBUS)"
    (tmp_path / "x.pt").write_bytes(b"abc")
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(checkpoint_reader, "confined_command", lambda *_: command)
    with refused("refused", value=-signal.SIGBUS):
        read_tensors(tmp_path / "x.pt")
