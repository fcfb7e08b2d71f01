import io
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
from dgn_engine.storage.checkpoints.save_network import save_network
from tests.faults.fuzzing import small_files
from tests.faults.honest_files import saved
from tests.faults.hostile_archives import npz
from tests.faults.hostile_headers import Evil


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


def test_our_own_file_comes_back_bit_for_bit_in_the_order_of_its_layers(tmp_path: Path) -> None:
    state = {f"value.weights.{i}": torch.randn(3, 2) for i in range(12)}
    save_network(tmp_path / "own.safetensors", state, {"regime": "ReLU"})
    listing = read_tensors(tmp_path / "own.safetensors")
    assert list(listing.arrays) == list(state)
    assert all(np.array_equal(listing.arrays[name], t.numpy()) for name, t in state.items())
    assert listing.metadata["regime"] == "ReLU"


def test_the_legacy_format_of_torch_is_read(tmp_path: Path) -> None:
    state = {"w": torch.arange(6.0).reshape(2, 3)}
    path = tmp_path / "old.pth"
    path.write_bytes(saved(state, _use_new_zipfile_serialization=False))
    assert np.array_equal(read_tensors(path).arrays["w"], state["w"].numpy())


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_arrives_as_float32(dtype: torch.dtype) -> None:
    tensor = torch.randn(4, 3).to(dtype)
    found = parsed(saved({"w": tensor}))
    assert found.arrays["w"].dtype == np.float32
    assert np.array_equal(found.arrays["w"], tensor.float().numpy())
    assert found.dtypes["w"] == str(dtype).removeprefix("torch.")


def test_half_precision_of_safetensors_arrives_as_float32(tmp_path: Path) -> None:
    tensors = {"b": torch.randn(4).bfloat16(), "h": torch.randn(3).half()}
    save_network(tmp_path / "h", tensors, {})
    found = parsed((tmp_path / "h").read_bytes())
    assert np.array_equal(found.arrays["b"], tensors["b"].float().numpy())
    assert np.array_equal(found.arrays["h"], tensors["h"].float().numpy())


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_is_read_whatever_the_order_of_its_numbers_and_bytes(compressed: bool) -> None:
    a = np.asfortranarray(np.arange(6.0).reshape(2, 3)).astype(">f4")
    found = parsed(npz(compressed, a=a, empty=np.zeros((0, 3)), scalar=np.float64(2)))
    assert np.array_equal(found.arrays["a"], a)
    assert found.arrays["empty"].shape == (0, 3)
    assert found.arrays["scalar"].shape == ()


def test_npy_is_read() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.eye(3))
    assert np.array_equal(parsed(buffer.getvalue()).arrays["array"], np.eye(3))


def test_what_is_no_dense_tensor_of_numbers_is_named_and_left_aside() -> None:
    thing = {
        "w": torch.ones(2, 2),
        "sparse": torch.eye(2).to_sparse(),
        "complex": torch.zeros(2, dtype=torch.complex64),
        "giant": torch.zeros(1).expand(2**40),
        "name": "a text",
    }
    found = parsed(saved(thing))
    assert list(found.arrays) == ["w"]
    assert found.ignored == (
        "sparse (a sparse tensor)",
        "complex (complex64)",
        "giant (repeats its numbers more often than it has any)",
        "name (str)",
    )


def test_names_arrive_as_plain_text() -> None:
    found = parsed(saved({"a\nb\u202ec<b>": torch.ones(1), "x" * 999: torch.ones(1)}))
    first, second = found.arrays
    assert first == "a\\nb\\u202ec<b>"
    assert len(second) == 300


# Hostile files, through the child process.


@pytest.mark.parametrize("zipped", [True, False])
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
    with pytest.raises(UserError, match=r"^slow\.npz was not read within 10 ms"):
        read_tensors(path, timeout=0.01)


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
    with pytest.raises(UserError, match=r"was not read within 0\.3 s"):
        read_tensors(small, timeout=0.3)


def test_reading_can_be_cancelled(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checkpoint_reader, "confined_command", instead("import time; time.sleep(600)")
    )
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    with pytest.raises(UserError, match="cancelled"):
        read_tensors(small, cancelled=cancelled)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("import os; os.abort()", r"ended its process \(signal 6\)"),
        ("raise SystemExit(3)", r"ended its process \(exit code 3\)"),
        ("print('nonsense')", "was refused"),
        ("print('[]')", "was refused"),
        ("print('{}')", "was refused"),
        (
            'print(\'{"tensors": [{"name": "a", "shape": [1099511627776], '
            '"dtype": "float32"}], "ignored": [], "metadata": {}}\')',
            "was refused",
        ),
    ],
)
def test_a_child_that_dies_or_babbles_is_a_sentence(
    code: str, verdict: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_reader, "confined_command", instead(code))
    with pytest.raises(UserError, match=verdict):
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


# Not even opened.


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        read_tensors(tmp_path)


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(UserError, match="not a regular file"):
        read_tensors(tmp_path / "pipe.pt")


def test_a_device_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zero.pt").symlink_to("/dev/zero")
    with pytest.raises(UserError, match="not a regular file"):
        read_tensors(tmp_path / "zero.pt")


def test_a_missing_an_empty_and_a_giant_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^gone\.pt cannot be opened"):
        read_tensors(tmp_path / "gone.pt")
    (tmp_path / "empty.pt").touch()
    with pytest.raises(UserError, match="is empty"):
        read_tensors(tmp_path / "empty.pt")
    with (tmp_path / "giant.pt").open("wb") as file:
        file.truncate(65 << 30)
    with pytest.raises(UserError, match="larger than 64 GiB"):
        read_tensors(tmp_path / "giant.pt")


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


def test_a_torch_file_cut_anywhere_is_refused() -> None:
    content = saved({"w": torch.ones(3, 3)})
    for length in range(1, len(content), 97):
        with pytest.raises(UnreadableFile):
            parsed(content[:length])


def test_a_torch_file_with_a_wrong_checksum_is_refused() -> None:
    content = bytearray(saved({"w": torch.full((64,), 7.0)}))
    content[content.index(torch.full((64,), 7.0).numpy().tobytes()) + 8] ^= 1
    with pytest.raises(UnreadableFile, match="checksum"):
        parsed(bytes(content))
