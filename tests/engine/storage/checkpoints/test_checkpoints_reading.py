import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.storage.checkpoints import checkpoint_reader
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from tests.daily import nightly
from tests.faults import sparse_files
from tests.faults.answered import read_answer
from tests.faults.fuzzing import small_files
from tests.faults.honest_files import saved
from tests.faults.hostile_archives import npz
from tests.refusals import refused

# Honest files, through the child process.


def test_a_torch_file_is_listed_in_its_order_with_its_numbers(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    path = tmp_path / "net.safetensors"  # the name lies; the content decides
    torch.save({"state_dict": network.state_dict(), "epoch": 7}, path)
    listing = read_tensors(path)
    assert list(listing.arrays) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    for name, tensor in network.state_dict().items():
        assert np.array_equal(listing.arrays[name], tensor.numpy())
    assert listing.dtypes["0.weight"] == "float32"
    assert listing.ignored == ("epoch (int)",)
    assert listing.file_name == "net.safetensors"


def test_files_of_one_index_and_a_part_of_them_go_through_the_child(tmp_path: Path) -> None:
    index = tmp_path / "model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"ema.module.w": "a.bin", "net.w": "a.bin"}}))
    state = {"ema.module.w": torch.ones(2, 2), "net.w": torch.zeros(2, 2)}
    torch.save(state, tmp_path / "a.bin")
    assert list(read_tensors(index).arrays) == list(state)
    assert list(read_tensors(index, part="ema").arrays) == ["module.w"]


# Honest files, by the parser alone.


def test_names_arrive_as_plain_text() -> None:
    found = read_answer(saved({"a\nb\u202ec<b>": torch.ones(1), "x" * 999: torch.ones(1)}))
    first, second = found.arrays
    assert first == "a\\nb\\u202ec<b>"
    assert len(second) == 300


# Hostile files, through the child process.


def test_no_answer_in_time_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "slow.npz"
    path.write_bytes(npz(False, a=np.ones(3)))
    with refused("ended") as told:
        read_tensors(path, timeout=0.01)
    assert "10 ms" in str(told.error)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.npz"
    path.write_bytes(npz(False, a=np.ones(3)))
    return path


def instead(code: str) -> Callable[[str, float], list[str]]:
    return lambda _module, _timeout: [sys.executable, "-c", code]


def test_reading_can_be_cancelled(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checkpoint_reader, "confined_command", instead("import time; time.sleep(600)")
    )
    cancelled = threading.Event()
    threading.Timer(0.05, cancelled.set).start()
    with refused("ended"):
        read_tensors(small, cancelled=cancelled)


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("import os; os.abort()", -6),
        ("raise SystemExit(3)", 3),
        ("print('nonsense')", 0),
        ("print('[]')", 0),
        *nightly(("print('{}')", 0)),
        *nightly(
            ("print({'tensors': [{'name': 'a', 'shape': [1 << 40], 'dtype': 'float32'}]})", 0)
        ),
    ],
)
def test_a_child_that_dies_or_babbles_is_a_sentence(
    code: str, ended: int, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_reader, "confined_command", instead(code))
    with refused("refused", value=ended):
        read_tensors(small)


def children() -> set[str]:
    """Process ids, of those that ended and were not waited for too."""
    threads = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {child for thread in threads for child in (thread / "children").read_text().split()}


@pytest.mark.skipif(sys.platform != "linux", reason="children are read in /proc")
def test_nothing_of_a_child_is_left(small: Path) -> None:
    processes, threads = children(), threading.active_count()
    read_tensors(small)
    assert threading.active_count() == threads
    assert children() <= processes


# Damaged bytes, by the parser alone; every hostile kind is in test_checkpoints_corpus.


SMALL_FILES = {name: small_files()[name] for name in ("safetensors", "npy", "npz, compressed")}


@pytest.mark.parametrize("kind", SMALL_FILES)
def test_a_file_cut_at_any_byte_is_refused(kind: str) -> None:
    content = SMALL_FILES[kind]
    assert read_answer(content).arrays
    for length in range(len(content)):
        with pytest.raises(UnreadableFile):
            read_answer(content[:length])


@pytest.mark.parametrize("kind", SMALL_FILES)
def test_a_file_with_any_byte_flipped_is_read_or_refused_but_never_breaks(kind: str) -> None:
    content = SMALL_FILES[kind]
    for place in range(len(content)):
        for flip in (0xFF, 0x01):
            flipped = bytearray(content)
            flipped[place] ^= flip
            try:
                read_answer(bytes(flipped))
            except UnreadableFile:
                continue


# Files of gigabytes: known by their first bytes, read as far as they are taken.

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
