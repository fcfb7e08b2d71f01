"""What Python would call or import to load a file is named, also beside honest tensors."""

from __future__ import annotations

import collections
import io
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile
from dgn_engine.storage.checkpoints.harmless_names import LOADS_BYTES
from tests.faults.answered import read_answer
from tests.faults.hostile_archives import zipped
from tests.faults.hostile_headers import npy_header
from tests.faults.pickle_assembly import (
    Call,
    Name,
    Raw,
    Reference,
    encode_thing,
    legacy,
    make_pickle,
    storage,
    tensor,
    torch_zip,
)

CALL = encode_thing(Call("os", "system", ("reboot",)))
SYSTEM, BUILT = Name("os", "system"), "json.loads.__setstate__"
LINEAR, LOADS = torch.nn.Linear.__module__, ("torch.storage", "_load_from_bytes")
TYPED, DEFAULTS = ("torch._tensor", "_rebuild_from_type_v2"), ("collections", "defaultdict")


def refusal(content: bytes) -> str:
    with pytest.raises(UnreadableFile) as refused:
        read_answer(content)
    return str(refused.value)


def beside(code: bytes, frame: Callable[[Any], bytes] = torch_zip) -> CheckpointContents:
    """A file with a tensor and a value for which these instructions are run and thrown away."""
    return read_answer(frame({"w": tensor(), "n": Raw(code + b"0N")}))


def called(module: str, name: str, *arguments: Any) -> bytes:
    return encode_thing(Call(module, name, arguments))


# Instructions that leave one value on the stack → what is called.
WAYS = {
    "REDUCE": (CALL, "os.system"),
    "NEWOBJ": (encode_thing(SYSTEM) + encode_thing(("x",)) + b"\x81", "os.system"),
    "NEWOBJ_EX": (encode_thing(SYSTEM) + b")" + encode_thing({"a": 1}) + b"\x92", "os.system"),
    "INST": (b"(" + encode_thing("x") + b"ios\nsystem\n", "os.system"),
    "OBJ": (b"(" + encode_thing(SYSTEM) + encode_thing("x") + b"o", "os.system"),
    "STACK_GLOBAL": (
        encode_thing("os") + encode_thing("system") + b"\x93" + encode_thing(("x",)) + b"R",
        "os.system",
    ),
    "a name of protocol 0": (b"cos\nsystem\n(S'x'\ntR", "os.system"),
    "Python 2's name": (encode_thing(Call("__builtin__", "eval", ("1",))), "builtins.eval"),
    "BUILD of a function": (
        encode_thing(Name("json", "loads")) + encode_thing({"a": 1}) + b"b",
        BUILT,
    ),
    "arguments that are a list": (encode_thing(SYSTEM) + encode_thing(["x"]) + b"R", "os.system"),
    "what a call gave": (
        called("operator", "attrgetter", "system") + encode_thing((Name("os", "path"),)) + b"R",
        "operator.attrgetter(…)",
    ),
    "a function that is handed on": (called(*DEFAULTS, Name("os", "getpid")), "os.getpid"),
    "a builder's own function": (
        called(*TYPED, SYSTEM, Name("torch", "Tensor"), ("x",), {}),
        "os.system",
    ),
    "copyreg": (called("copyreg", "_reconstructor", Name("a", "B"), SYSTEM, "x"), "os.system"),
    "the class of an array": (
        called("numpy.core.multiarray", "_reconstruct", Name("numpy", "memmap"), (0,), b"b"),
        "numpy.memmap",
    ),
    "the class of a storage": (
        encode_thing(Reference(("storage", Name("os", "FloatStorage"), "0", "cpu", 4))),
        "os.FloatStorage",
    ),
    "what a builder gave": (
        called("torch._utils", "_rebuild_wrapper_subclass", Name("a", "B")) + b")R",
        "tensor(…)",
    ),
    "an object in the place of a builder's function": (
        called(*TYPED, Call(LINEAR, "Identity"), Name("builtins", "int"), (), None),
        ".".join(TYPED),
    ),
    "an object that makes defaults": (
        called(*DEFAULTS, Call("argparse", "Namespace")),
        ".".join(DEFAULTS),
    ),
    "bytes that a call makes": (called(*LOADS, Call("builtins", "bytes", ([128],))), LOADS_BYTES),
    "bytes that are no storage": (called(*LOADS, b"\x80\2N."), LOADS_BYTES),
    "a storage that is cut off": (called(*LOADS, legacy(Raw(b"N\x97"), {})), LOADS_BYTES),
    "a pickle in a pickle": (called("pickle", "loads", b"\x80\2" + CALL + b"."), "os.system"),
    "a pickle in a pickle as text": (called(*LOADS, f"\x80\2{CALL.decode()}."), "os.system"),
    "a file of torch in a pickle": (called(*LOADS, torch_zip({"a": Raw(CALL)})), "os.system"),
    "an old file of torch in a pickle": (
        called("io", "BytesIO", legacy({"a": Raw(CALL)}, {})),
        "os.system",
    ),
    "a method of a class that is harmless": (
        called(LINEAR, "Linear.forward"),
        f"{LINEAR}.Linear.forward",
    ),
    "a module in a harmless one": (called("torch", "os.system", "x"), "torch.os.system"),
}


@pytest.mark.wide
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("frame", [torch_zip, legacy])
def test_a_call_beside_honest_tensors_is_named(way: str, frame: Callable[[Any], bytes]) -> None:
    code, name = WAYS[way]
    found = beside(code, frame)
    assert list(found.arrays) == ["w"]
    assert name in found.would_call


def test_calls_in_the_storages_of_a_plain_pickle_are_named() -> None:
    inner = legacy(Raw(CALL + b"0" + encode_thing(storage())))
    made = tensor(store=Call("torch.storage", "_load_from_bytes", (inner,)))
    found = read_answer(make_pickle({"w": made}, 3))
    assert list(found.arrays) == ["w"]
    assert found.would_call == ("os.system",)


@pytest.mark.parametrize("place", range(5))
def test_calls_in_every_pickle_of_an_old_file_are_named(place: int) -> None:
    parts = legacy({"w": tensor()})
    ends, at = [], 0
    for _ in range(5):
        with io.BytesIO(parts) as file:
            file.seek(at)
            unpickler = pickle._Unpickler(file)
            unpickler.persistent_load = unpickler.find_class = lambda *_: lambda *_: None
            unpickler.load()
            at = file.tell()
        ends.append(at)
    begin = [0, *ends][place]
    hurt = parts[:begin] + b"\x80\2" + CALL + b"0" + parts[begin + 2 :]
    found = read_answer(hurt)
    assert found.would_call == ("os.system",)
    assert list(found.arrays) == ["w"]


def test_calls_in_arrays_of_objects_are_named() -> None:
    content = io.BytesIO()
    np.save(content, np.array([None]), allow_pickle=True)
    header = content.getvalue()[: content.getvalue().index(b"\n") + 1]
    said = refusal(header + b"\x80\2" + CALL + b".")
    assert said.endswith("not supported; loading it would call os.system; nothing was run")


def with_objects(pickle: bytes, dtype: str = "'|O'", name: str = "x.npy") -> bytes:
    """An archive of NumPy with numbers in `w` and this pickle as an array of objects, `x`."""
    numbers = io.BytesIO()
    np.save(numbers, np.ones(3))
    members = {"w.npy": numbers.getvalue(), name: npy_header("(1,)", dtype) + pickle}
    return zipped(members, compression=zipfile.ZIP_DEFLATED)


# Instructions that Python carries out and that are not read here.
UNREAD: dict[str, Callable[[], bytes]] = {
    "a number of 300 bytes": lambda: b"\x8b" + (300).to_bytes(4, "little") + b"\1" * 300 + b"0",
    "a line of 5,000 bytes": lambda: b"V" + b"a" * 5000 + b"\n0",
    "instructions without end": lambda: b"N0" * (limits.OPERATIONS // 2 + 1),
    "bytes without end": lambda: b"B" + (33 << 20).to_bytes(4, "little") + bytes(33 << 20) + b"0",
    "a text without end": lambda: (
        (b"X" + (17 << 20).to_bytes(4, "little") + bytes(17 << 20) + b"0") * 2
    ),
    "a change of bytes": lambda: b"\x96" + (8).to_bytes(8, "little") + bytes(8) + b"K\0K\1s0",
}


@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=[pytest.mark.nightly] if "without" in w else []) for w in UNREAD]
)
def test_objects_that_cannot_be_read_to_their_end_may_call_anything(way: str) -> None:
    found = read_answer(with_objects(b"\x80\4" + UNREAD[way]() + CALL + b"."))
    assert list(found.arrays) == ["w"]
    (named,) = found.would_call
    assert named.startswith("something in x")


@pytest.mark.parametrize(
    "dtype",
    [
        "'T'",
        "'object'",
        "'O8'",
        "'object_'",
        "'f4,O'",
        "[('a', '<f4'), ('b', '|O')]",
        "[('a', [('b', '|O')])]",
        "[(('t', 'n'), '|O', (2,))]",
    ],
)
def test_calls_are_named_whatever_the_objects_and_their_type_are_called(dtype: str) -> None:
    for name in ("x.npy", "x"):
        found = read_answer(with_objects(b"\x80\2" + CALL + b".", dtype, name))
        assert ([*found.arrays], found.would_call) == (["w"], ("os.system",))


def test_an_honest_array_of_objects_calls_nothing() -> None:
    content = io.BytesIO()
    np.save(content, np.array([None, "a", 3], object), allow_pickle=True)
    assert "would call" not in refusal(content.getvalue())


def test_what_would_run_before_a_refusal_is_named() -> None:
    for hurt in (b"\x80\2" + CALL + b"0\x82\1.", b"\x80\2" + CALL + b"0R.", b"\x80\2" + CALL):
        assert refusal(torch_zip(hurt)).endswith("it would call os.system; nothing was run")


@pytest.mark.parametrize(
    "old",
    [
        b"(S'x'\nios\nsystem\n.",
        b"I0\n0cos\nsystem\n(S'x'\ntR.",
        b"](cos\nsystem\n(S'x'\ntRa.",
        b"}(cos\nsystem\nS'x'\no0.",
    ],
)
def test_calls_of_old_protocols_are_named_however_they_begin(old: bytes) -> None:
    assert "it would call os.system; nothing was run" in refusal(old)


def test_safetensors_that_are_a_pickle_as_well_are_named() -> None:
    """Byte 0x8c takes the zeros of the length for text; what follows is in the names."""
    call = b"cos\nsystem\n(S'x'\ntR."
    text = b'{"__metadata__": {"a":"'
    skipped = len(text) + 6
    head = text + b'"}}'
    for length in range(len(head) + len(call), 60_000):
        if length & 0xFF == 0x8C and length >> 8 == skipped:
            break
    sound = head[:-3] + b"K" * 3 + b'"}}'
    found = length.to_bytes(8, "little") + (sound + b" " * length)[:length]
    assert "call" not in refusal(found)
    hurt = length.to_bytes(8, "little") + (text + call).ljust(length)
    assert "it would call os.system" in refusal(hurt)


def test_modules_that_would_only_be_imported_are_told_apart() -> None:
    found = beside(encode_thing(Name("antigravity", "geohash")) + b"0" + CALL)
    assert (found.would_call, found.would_import) == (("os.system",), ("antigravity",))
    assert found.would_look_up == ("antigravity.geohash",)


def test_states_of_generators_and_values_are_harmless(tmp_path: Path) -> None:
    tree = {
        "w": torch.ones(2),
        "numpy": np.random.default_rng(0),
        "old": np.random.RandomState(0),
        "python": random.Random(0).getstate(),
        "counter": collections.Counter("aab"),
        "optimiser": torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]),
        "place": tmp_path,
        "number": np.float32(3),
    }
    content = io.BytesIO()
    torch.save(tree, content)
    found = read_answer(content.getvalue())
    assert found.would_call + found.would_look_up == ()


def test_there_is_an_end_to_the_names() -> None:
    code = b"".join(encode_thing(Call("os", f"x{i}")) + b"0" for i in range(1000))
    found = beside(code + b"N")
    assert len(found.would_call) == 201
    assert found.would_call[-1] == "and more than 200"


def test_pickles_in_pickles_in_pickles_end() -> None:
    inner = b"\x80\2" + CALL + b"."
    for _ in range(50):
        inner = make_pickle(Call("pickle", "loads", (inner,)), 3)
    found = read_answer(torch_zip({"w": tensor(), "n": Raw(inner[2:-1])}))
    assert found.would_call == ("pickle.loads",)
