import io
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import checkpoint_reader, reader_child, wire
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile
from tests.daily import nightly
from tests.faults.fuzzing import small_files
from tests.faults.honest_files import saved
from tests.faults.hostile_archives import npz
from tests.faults.hostile_headers import Evil
from tests.refusals import refused


def parsed(content: bytes) -> CheckpointContents:
    """What the child answers to these bytes, here and without its limits."""
    pipe = io.BytesIO()
    reader_child.answer(content, pipe)
    pipe.seek(0)
    return wire.receive(pipe, 1 << 30)


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


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"model": state, "optimizer": {"state": {0: torch.zeros(2)}}},
        lambda state: {"model_state_dict": state, "loss": 0.5},
        lambda state: {f"module.{k}": v for k, v in state.items()},
        lambda state: {f"_orig_mod.module.{k}": v for k, v in state.items()},
        lambda state: {k: nn.Parameter(v) for k, v in state.items()},
    ],
)
def test_the_usual_wrappings_come_off(wrap: Callable[[dict[str, torch.Tensor]], object]) -> None:
    state = {"a.weight": torch.randn(2, 2), "a.bias": torch.randn(2)}
    assert list(parsed(saved(wrap(state))).arrays) == ["a.weight", "a.bias"]


def test_names_arrive_as_plain_text() -> None:
    found = parsed(saved({"a\nb\u202ec<b>": torch.ones(1), "x" * 999: torch.ones(1)}))
    first, second = found.arrays
    assert first == "a\\nb\\u202ec<b>"
    assert len(second) == 300


# Hostile files, through the child process.


@pytest.mark.parametrize("zipped", [True, *nightly(False)])  # parsed in test_would_call
def test_code_in_a_pickle_is_named_and_never_run(zipped: bool, tmp_path: Path) -> None:
    canary, path = tmp_path / "canary", tmp_path / "evil.pt"
    thing = {"a": torch.zeros(2), "evil": Evil(canary)}
    path.write_bytes(saved(thing, _use_new_zipfile_serialization=zipped))
    listing = read_tensors(path)
    assert list(listing.arrays) == ["a"]
    assert listing.ignored == ("evil (posix.mkdir)",)
    assert not canary.exists()


def test_a_file_that_is_code_alone_is_refused_with_the_name_of_what_it_would_call(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(saved(Evil(tmp_path / "canary")))
    with pytest.raises(UserError, match=r"it would call (posix|nt|os)\.mkdir; nothing was run\.$"):
        read_tensors(path)
    assert not (tmp_path / "canary").exists()


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


def test_a_hanging_child_is_ended(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checkpoint_reader, "confined_command", instead("import time; time.sleep(600)")
    )
    with refused("ended"):
        read_tensors(small, timeout=0.05)


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
    assert parsed(content).arrays
    for length in range(len(content)):
        with pytest.raises(UnreadableFile):
            parsed(content[:length])


@pytest.mark.parametrize("kind", SMALL_FILES)
def test_a_file_with_any_byte_flipped_is_read_or_refused_but_never_breaks(kind: str) -> None:
    content = SMALL_FILES[kind]
    for place in range(len(content)):
        for flip in (0xFF, 0x01):
            flipped = bytearray(content)
            flipped[place] ^= flip
            try:
                parsed(bytes(flipped))
            except UnreadableFile:
                continue
