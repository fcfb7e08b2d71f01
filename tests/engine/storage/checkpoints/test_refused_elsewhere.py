"""What safetensors or torch refuse is refused here; what they read of a shard is read here."""

from __future__ import annotations

import io
import json
import pickletools
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.reader_child import read
from tests.faults.hostile_archives import zipped
from tests.faults.pickle_assembly import Call, coded, pickled, tensor, torch_zip

pytestmark = pytest.mark.usefixtures("read_here")

NUMBERS = np.array([1, 2], "<f4").tobytes()
W = '"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def in_safetensors(head: str, body: bytes = NUMBERS) -> bytes:
    return len(head).to_bytes(8, "little") + head.encode() + body


def second(dtype: str, shape: str, begin: int, end: int) -> str:
    return f'"v":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}'


def beside(entry: str, more: int) -> bytes:
    """`w`, and behind it this entry with so many bytes."""
    return in_safetensors("{" + W + "," + entry + "}", NUMBERS + bytes(more))


REFUSED = {
    "a note that is NaN": in_safetensors('{"__metadata__":{"a":NaN},' + W + "}"),
    "a note that is a number": in_safetensors('{"__metadata__":{"a":1},' + W + "}"),
    "notes in a list": in_safetensors('{"__metadata__":["a"],' + W + "}"),
    "notes in an empty list": in_safetensors('{"__metadata__":[],' + W + "}"),
    "half a letter": in_safetensors("{" + W.replace('"w"', '"\\ud800"') + "}"),
    "an unknown type": beside(second("XYZ", "[2]", 8, 16), 8),
    "a shape that is a text": beside(second("F32", '""', 8, 12), 4),
    "a shape that is a table": beside(second("F32", "{}", 8, 12), 4),
    "minus nought": in_safetensors("{" + W.replace("[0,8]", "[-0,8]") + "}"),
    "half a byte": beside(second("F4", "[3]", 8, 10), 2),
    "a number too few": beside(second("C64", "[2]", 8, 16), 8),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_safetensors_refuses_is_refused(name: str) -> None:
    with pytest.raises(safetensors.SafetensorError):
        safetensors.torch.load(REFUSED[name])
    with pytest.raises(UnreadableFile):
        read(REFUSED[name])


def test_notes_may_be_null_and_types_that_are_not_read_are_ignored() -> None:
    found = read(beside('"__metadata__":null,' + second("C64", "[1]", 8, 16), 8))
    assert found.arrays["w"].tolist() == [1, 2]
    assert found.ignored == ("v (C64)",)


@pytest.mark.parametrize("version", [None, b"999999\n", b"x", b"0\n", b"", b"11"])
def test_an_archive_of_a_version_that_torch_does_not_read_is_refused(version: bytes | None) -> None:
    members = {"a/data.pkl": pickled({"w": tensor()}), "a/data/0": np.ones(4, "<f4").tobytes()}
    if version is not None:
        members["a/version"] = version
    content = zipped(members)
    with pytest.raises(RuntimeError, match="version"):
        torch.load(io.BytesIO(content))
    with pytest.raises(UnreadableFile, match="version"):
        read(content)
    for known in (b"1", b"3\n", b"10\n"):
        assert list(read(zipped({**members, "a/version": known})).arrays) == ["w"]


def test_a_shard_is_taken_as_it_is(tmp_path: Path) -> None:
    """A table called 'model' in it is no state dict that a training loop wrapped."""
    index = tmp_path / "m.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"w": "a.bin"}}))
    (tmp_path / "a.bin").write_bytes(torch_zip({"model": {"w": tensor()}, "n": 1}))
    with pytest.raises(UserError, match=r"a\.bin"):
        read_tensors(index)
    (tmp_path / "a.bin").write_bytes(torch_zip({"w": tensor(), "n": 1}))
    assert list(read_tensors(index).arrays) == ["w"]
    index.write_text(json.dumps({"weight_map": {"model.w": "a.bin", "w": "a.bin"}}))
    (tmp_path / "a.bin").write_bytes(torch_zip({"model": {"w": tensor()}, "w": tensor()}))
    assert list(read_tensors(index).arrays) == ["model.w", "w"]


def test_an_averaged_model_is_read_as_its_state_dict(tmp_path: Path) -> None:
    model = torch.optim.swa_utils.AveragedModel(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    for saved, start in ((model, ""), ({"ema": model}, "ema.")):
        torch.save(saved, tmp_path / "net.pt")
        found = read_tensors(tmp_path / "net.pt", as_saved=True)
        expected = model.state_dict()
        assert list(found.arrays) == [f"{start}{name}" for name in expected]
        for name, wanted in expected.items():
            np.testing.assert_array_equal(found.arrays[f"{start}{name}"], wanted.numpy())


CALL = coded(Call("os", "system", ("reboot",)))


@pytest.mark.parametrize(
    "hidden",
    [
        b"\x96" + (8).to_bytes(8, "little") + bytes(8) + b"K\0K\1s0",
        b"I" + b" " * 5000 + b"1\n0",
        b"S'" + b"a" * 5000 + b"'\n0",
    ],
    ids=["a change of bytes", "a long number", "a long text"],
)
def test_safetensors_hide_no_pickle_behind_what_is_not_read_here(hidden: bytes) -> None:
    """The length says: pass over 30 bytes; what follows passes over the rest of the header."""
    body = hidden + CALL + b"."
    length = ord("B") + (30 << 8)
    tail = f'"}},"w":{{"dtype":"U8","shape":[{len(body)}],"data_offsets":[0,{len(body)}]}}}}'
    head = '{"__metadata__":{"a":"'.ljust(27, "x")
    while (rest := length - len(head) - 2) > 126:
        head += "U" + chr(size := min(126, rest - 92)) + "x" * size
    head += ("U" + chr(rest)).ljust(rest + 2 - len(tail), "x") + tail
    content = in_safetensors(head, body)
    assert [op.name for op, _, _ in pickletools.genops(content)][-2:] == ["REDUCE", "STOP"]
    with pytest.raises(UnreadableFile, match="at once"):
        read(content)
