"""Files that are a pickle as well, or hide one, and those that only seem to."""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch
from safetensors import torch as safetensors_of_torch

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.double_formats import check_not_pickle
from dgn_engine.storage.checkpoints.pickle_file import NoCalls
from dgn_engine.storage.checkpoints.reader_child import read_contents
from dgn_engine.storage.checkpoints.torch_files import MAGIC
from tests.daily import nightly
from tests.faults.ambiguous_files import Archive, Member, written
from tests.faults.hostile_archives import zipped
from tests.faults.pickle_assembly import ONES, Call, encode_thing, make_pickle, tensor, torch_zip

NAMES = (
    "feature.weights.0",
    "value.biases.1",
    "0.weight",
    "conv1.weight",
    "layer1.0.bn1.bias",
    "w",
)


def one_number(name: str, length: int) -> bytes:
    """A file with one number, whose header has this length, a multiple of 8."""
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    header = json.dumps({name: entry}, separators=(",", ":")).encode().ljust(length)
    assert len(header) == length
    return struct.pack("<Q", length) + header + struct.pack("<f", 1.0)


@pytest.mark.parametrize("name", [*NAMES[:2], *nightly(*NAMES[2:])])
def test_a_header_of_any_length_is_no_pickle(name: str) -> None:
    """3,160 bytes begin as a text that ends in the header, 11,912 as the whole pickle of True."""
    for length in range(88, 1 << 17, 8):
        check_not_pickle(one_number(name, length), NoCalls())


@pytest.mark.parametrize("rest", [b"0cos\ngetpid\n)R0N.", b"0}X\x01\x00\x00\x00w]s."])
def test_a_pickle_that_calls_a_function_or_holds_values_is_refused(rest: bytes) -> None:
    """In a header of 3,160 bytes: its length is a text up to the 17th byte of the file."""
    entry = b'":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    header = (b'{"' + b"x" * 7 + rest + entry).ljust(3160)
    content = struct.pack("<Q", 3160) + header + struct.pack("<f", 1.0)
    assert content[17:].startswith(rest)
    with pytest.raises(UnreadableFile, match="both safetensors and a pickle"):
        check_not_pickle(content, NoCalls())


def safe(numbers: bytes, header: bytes) -> bytes:
    """A file whose numbers begin where a line of text in its header ends, for an unpickler."""
    size = ord("B") + 256 * 16
    entry = {"dtype": "U8", "shape": [len(numbers)], "data_offsets": [0, len(numbers)]}
    text = b'{"' + b"a" * 11 + header + b'":' + json.dumps(entry).encode()
    return struct.pack("<Q", size) + text.ljust(size - 2) + b"\n}" + numbers


class ImportedError(Exception):
    """An unpickler would import a name."""


class Importing(pickle.Unpickler):
    """The one of C."""

    def find_class(self, module: str, name: str) -> Any:
        raise ImportedError(module, name)


NAME = b"cos\ngetpid\n)R."
HIDING: dict[str, bytes] = {  # instructions that the unpickler of C passes
    "nothing": b"",
    "an octal number": b"I010\n",
    "a number behind which is a NUL": b"I5\0x\n",
    "a long number and a NUL": b"L5\0x\n",
    "a real number and a NUL": b"F1.5\0\n",
    "a read-only buffer": b"C\1a\x98",
    "a place and a NUL": b"K\1p3\0x\n",
    "a place of 2^20": b"K\1r\0\0\x10\0",
    "no bytes of a number": b"\x8a\0",
    "a mark": b"(0",
    "a frame": b"\x95" + bytes(8),
    "an array of bytes": b"\x96" + bytes(8),
}


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize(
    "name", [NAME, b"\x8c\2os\x8c\6getpid\x93)R.", b"(ios\ngetpid\n."], ids=["c", "x93", "i"]
)
def test_no_number_of_any_notation_hides_a_name(name: bytes, hiding: str) -> None:
    content = safe(HIDING[hiding] + name, b"V")
    assert safetensors.deserialize(content)
    with pytest.raises(ImportedError):
        Importing(io.BytesIO(content)).load()
    calls = CallRecorder()
    with pytest.raises(UnreadableFile, match="both safetensors and a pickle"):
        read_contents(content, "", calls)
    assert "os.getpid" in (*calls.would_call, *calls.would_look_up)


MAGIC_NUMBER = MAGIC.to_bytes(10, "little")


@pytest.mark.parametrize(
    "number",
    [
        pickle.dumps(MAGIC, 2)[2:-1],
        b"\x8b" + struct.pack("<I", 5000) + MAGIC_NUMBER.ljust(5000, b"\0"),
        b"L%dL\n" % MAGIC,
        b"I0x%x\n" % MAGIC,
        b"I0o%o\0x\n" % MAGIC,
    ],
    ids=["as torch writes it", "with zeros", "in a line", "hexadecimal", "octal, and a NUL"],
)
def test_no_notation_of_the_first_number_of_an_old_torch_file_is_passed(number: bytes) -> None:
    content = safe(number + b"." + NAME, b"V")
    assert Importing(io.BytesIO(content)).load() == MAGIC
    with pytest.raises(UnreadableFile, match="both safetensors and a pickle"):
        read_contents(content)


def test_a_package_of_python_that_a_name_in_the_header_imports_is_seen() -> None:
    """The module that a name in a header asks for cannot be there; the package before it can."""
    for name, refused in ((b"cthis.weight", True), (b"conv1.weight", False)):
        content = safe(b"\n\n", name)
        with pytest.raises(ImportedError):
            Importing(io.BytesIO(content)).load()
        if refused:
            with pytest.raises(UnreadableFile, match="both safetensors and a pickle"):
                check_not_pickle(content, NoCalls())
        else:
            check_not_pickle(content, NoCalls())


PARTS = ("conv1", "net", "weight", "bias", "init", "c", "i", "0", "layer1", "t", "l", "e", "重み")
NUMBERS = (bytes(200), b"\n\0\0\0\0\0\0\0" * 25, bytes(range(200)), b"abc de\n" * 25)


def test_honest_safetensors_of_any_header_and_any_numbers_are_no_pickle() -> None:
    """Half of the lengths begin with an instruction that passes over the zeros behind it."""
    rng = random.Random(0)
    for _ in range(10_000):
        name = ".".join(rng.choices(PARTS, k=rng.randrange(1, 5)))
        body = rng.choice((*NUMBERS, rng.randbytes(200)))
        entry = {"dtype": "U8", "shape": [200], "data_offsets": [0, 200]}
        head = json.dumps({name: entry}, separators=(",", ":"), ensure_ascii=False).encode()
        length = rng.choice((rng.randrange(200, 1 << 10), rng.randrange(200, 1 << 17)))
        if rng.random() < 0.5:
            length = length & ~0xFF | 0x100 | rng.choice(b"XUTBCV(IFLS\x8c\x8aN]")
        check_not_pickle(struct.pack("<Q", length) + head.ljust(length) + body, NoCalls())


def test_a_tuple_of_a_text_is_no_network() -> None:
    """As pickle reads a header of 415,784 bytes whose first name begins so."""
    length = 0x065828
    content = one_number("net.0.weight", length)
    assert len(pickle.loads(content)) == 1
    assert [*read_contents(content).arrays] == ["net.0.weight"]


@pytest.mark.parametrize("value", ["1", "null", "[]", "1e999", '"\\ud800"', "[" * 300 + "]" * 300])
def test_an_entry_that_the_format_does_not_have_is_refused(value: str) -> None:
    entry = f'{{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":{value}}}'
    header = f'{{"a":{entry}}}'.encode()
    with pytest.raises(
        UnreadableFile, match=r"more than the type, shape and position of a \(x\)|invalid"
    ):
        read_contents(struct.pack("<Q", len(header)) + header + bytes(4))


EVIL = b"cos\nsystem\n(Vtrue\ntR."
QUOTING: dict[str, list[Any]] = {
    "names that quote a list": [("[('a", "O"), ("b', 'f4')]", "<f4")],
    "names that quote a title": [("[(('t', 'a", "O"), ("b'), 'f4')]", "<f4")],
    "names that quote a list within": [("s", [("[('a", "O"), ("b', 'f4')]", "<f4")])],
    "a name with a quotation mark": [("a'", "O"), ("b", "<f4")],
    "a title": [(("[('a', 'f4')]", "a"), "O")],
    "fields of objects": [("a", "O", (2,))],
}


@pytest.mark.parametrize("name", QUOTING)
def test_no_name_of_a_field_hides_objects_in_an_array(name: str) -> None:
    assert np.lib.format.descr_to_dtype(QUOTING[name]).hasobject
    head = f"{{'descr': {QUOTING[name]!r}, 'fortran_order': False, 'shape': (1,), }}\n".encode()
    odd = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + EVIL
    made = io.BytesIO()
    np.savez(made, w=np.ones(2))
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("meta.npy", odd)
    calls = CallRecorder()
    assert [*read_contents(made.getvalue(), "", calls).arrays] == ["w"]
    assert calls.would_call == ("os.system",)
    calls = CallRecorder()
    with pytest.raises(UnreadableFile):
        read_contents(odd, "", calls)
    assert calls.would_call == ("os.system",)


@pytest.mark.parametrize(
    "fields",
    [
        [("a[", "<f4"), ("b]", "<i4", (2, 3))],
        [("('a', 'O')", "<U3")],
        [(("t", "a"), "|S2")],
        [("a", [("b", "<f4"), ("c", "<M8[ns]")])],
        [("'", "|b1"), ('"', "|u1"), ("\\", "|i1")],
        [("é", "<f4"), ("重", "<f4")],
    ],
)
@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
def test_fields_without_objects_are_no_pickle(fields: list[Any]) -> None:
    made = io.BytesIO()
    np.savez(made, w=np.ones(2), meta=np.zeros(2, fields))
    calls = CallRecorder()
    found = read_contents(made.getvalue(), "", calls)
    assert ([*found.arrays], len(found.ignored), calls.would_call) == (["w"], 1, ())


@pytest.mark.parametrize("third", ["'O'", "('O',)", "'V'", "2"])
def test_a_shape_of_a_field_is_a_shape(third: str) -> None:
    """NumPy takes another type in its place."""
    head = f"{{'descr': [('a', '|V8', {third})], 'fortran_order': False, 'shape': (1,), }}\n"
    made = io.BytesIO()
    np.savez(made, w=np.ones(2))
    with zipfile.ZipFile(made, "a") as archive:
        odd = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + EVIL
        archive.writestr("meta.npy", odd)
    calls = CallRecorder()
    read_contents(made.getvalue(), "", calls)
    assert calls.would_call == ("os.system",)


UTF_8 = {"flags": 0x800}
BIG, LITTLE = b"big", b"little"


def of_torch(folder: bytes, other: bytes, stated: bytes = LITTLE) -> bytes:
    """A file of torch; the folder of its byte order is written in these other bytes."""
    members = ("data.pkl", make_pickle({"w": tensor()})), ("byteorder", stated), ("data/0", ONES)
    made = []
    for inside, data in (*members, ("version", b"3\n")):
        start = other if inside == "byteorder" else folder
        flags = {} if start == b"\x82" else UTF_8
        made.append(Member(start + b"/" + inside.encode(), data, local=flags, listed=flags))
    return written(Archive(tuple(made), as_torch=False))


def test_the_folder_of_an_archive_is_one_in_its_bytes() -> None:
    """torch reads no file in which it has the same letters in other bytes."""
    utf_8, old = "é".encode(), b"\x82"
    ones = [[1, 1], [1, 1]]
    for folder in (utf_8, old):
        assert read_contents(of_torch(folder, folder)).arrays["w"].tolist() == ones
        assert loaded(of_torch(folder, folder)) == ones
        assert loaded(of_torch(folder, folder, BIG)) != ones
    for folder, other in ((utf_8, old), (old, utf_8)):
        content = of_torch(folder, other, BIG)
        assert {name.partition("/")[0] for name in zip_names(content)} == {"é"}
        with pytest.raises((UnicodeDecodeError, RuntimeError)):
            loaded(content)
        with pytest.raises(UnreadableFile, match="in two ways"):
            read_contents(content)


def test_a_folder_is_no_longer_than_torch_reads() -> None:
    assert loaded(of_torch(b"a" * 510, b"a" * 510)) == [[1, 1], [1, 1]]
    assert [*read_contents(of_torch(b"a" * 510, b"a" * 510)).arrays] == ["w"]
    content = of_torch(b"a" * 511, b"a" * 511)
    with pytest.raises(RuntimeError):
        loaded(content)
    with pytest.raises(UnreadableFile, match="a folder name"):
        read_contents(content)


def zip_names(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.namelist()


def loaded(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), weights_only=True)["w"].tolist()


# What safetensors or torch refuse is refused here; what they read of a shard is read.

pytestmark = pytest.mark.usefixtures("no_reader_child")

TWO_NUMBERS = np.array([1, 2], "<f4").tobytes()
W = '"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def in_safetensors(head: str, body: bytes = TWO_NUMBERS) -> bytes:
    return len(head).to_bytes(8, "little") + head.encode() + body


def second(dtype: str, shape: str, begin: int, end: int) -> str:
    return f'"v":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}'


def beside(entry: str, more: int) -> bytes:
    """`w`, and behind it this entry with so many bytes."""
    return in_safetensors("{" + W + "," + entry + "}", TWO_NUMBERS + bytes(more))


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
        safetensors_of_torch.load(REFUSED[name])
    with pytest.raises(UnreadableFile):
        read_contents(REFUSED[name])


def test_notes_may_be_null_and_types_that_are_not_read_are_ignored() -> None:
    found = read_contents(beside('"__metadata__":null,' + second("C64", "[1]", 8, 16), 8))
    assert found.arrays["w"].tolist() == [1, 2]
    assert found.ignored == ("v (C64)",)


@pytest.mark.parametrize("version", [None, b"999999\n", b"x", b"0\n", b"", b"11"])
def test_an_archive_of_a_version_that_torch_does_not_read_is_refused(version: bytes | None) -> None:
    members = {"a/data.pkl": make_pickle({"w": tensor()}), "a/data/0": np.ones(4, "<f4").tobytes()}
    if version is not None:
        members["a/version"] = version
    content = zipped(members)
    with pytest.raises(RuntimeError, match="version"):
        torch.load(io.BytesIO(content))
    with pytest.raises(UnreadableFile, match="version"):
        read_contents(content)
    for known in (b"1", b"3\n", b"10\n"):
        assert list(read_contents(zipped({**members, "a/version": known})).arrays) == ["w"]


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


CALL = encode_thing(Call("os", "system", ("reboot",)))


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
    with pytest.raises(UnreadableFile, match="both safetensors"):
        read_contents(content)
