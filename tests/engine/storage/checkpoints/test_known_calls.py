"""A call of a harmless name is harmless only as its library writes it; another is named, opaque."""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import io
import pathlib
import pickle
import types
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.reader_child import read_contents
from tests.faults.odd_calls import misread
from tests.faults.pickle_assembly import (
    Call,
    Name,
    Raw,
    encode_thing,
    make_pickle,
    storage,
    tensor,
    torch_zip,
)
from tests.faults.reference_readers import ReferenceReaders

DRAWS = 120
W = np.arange(3, dtype=np.float32)
ARRAY = Raw(pickle.dumps(W, 2)[2:-1])
ADDRESSES = b"A" * 8  # that a forged type takes for those of objects


def warned(content: bytes) -> tuple[list[str], tuple[str, ...]]:
    calls = CallRecorder()
    found = read_contents(content, "", calls)
    return [*found.arrays], calls.would_call


def forged(maker: Any, flags: int = 0) -> Raw:
    """A type of numbers with a state that NumPy does not write."""
    return Raw(encode_thing(maker) + encode_thing((3, "|", None, None, None, 8, 4, flags)) + b"b")


def of_class(module: str, name: str) -> Raw:
    return forged(Call("numpy", "dtype", (Name(module, name), False, True)))


def reconstructed(kind: Any) -> Raw:
    made = Call("numpy._core.multiarray", "_reconstruct", (Name("numpy", "ndarray"), (0,), b"b"))
    return Raw(encode_thing(made) + encode_thing((1, (1,), kind, False, ADDRESSES)) + b"b")


NEW = b"\x81"
OBJECTS = Call("numpy", "dtype", ("O",))
TEXTS = Call("numpy.dtypes", "StrDType", (2,))
REBUILD, TYPE_OF_F4 = ("torch._tensor", "_rebuild_from_type_v2"), ("f4", False, True)
ARRAYS, SCALAR = ("numpy", "ndarray"), ("numpy._core.multiarray", "scalar")
GENERATOR = "numpy.random._pickle", "__bit_generator_ctor"
COPYREG = "copyreg", "_reconstructor"
# Calls that give what no loader of weights gives → a name that must be said.
ODD: dict[str, tuple[Any, str]] = {
    "an array of addresses": (Call(*ARRAYS, ((1,), OBJECTS, ADDRESSES)), "numpy.ndarray"),
    "a new array of addresses": (
        Raw(encode_thing(Name(*ARRAYS)) + encode_thing(((1,), OBJECTS, ADDRESSES)) + NEW),
        "numpy.ndarray",
    ),
    "a type by its code alone": (OBJECTS, "numpy.dtype"),
    "a type by a dictionary": (Call("numpy", "dtype", ({"names": ["a"]},)), "numpy.dtype"),
    "a type that is shared": (Call("numpy", "dtype", ("f4", False, False)), "numpy.dtype"),
    "a type of texts": (forged(TEXTS, 5), "numpy.dtypes.StrDType"),
    "a number of a type of texts": (Call(*SCALAR, (forged(TEXTS, 5), ADDRESSES)), ".".join(SCALAR)),
    "a number without a state of its type": (Call(*SCALAR, (OBJECTS, ADDRESSES)), ".".join(SCALAR)),
    "a generator that is a type": (
        forged(Call(*GENERATOR, (Name("numpy.dtypes", "Int8DType"),))),
        ".".join(GENERATOR),
    ),
    "copyreg of a type": (
        forged(Call(*COPYREG, (Name("numpy", "dtype"), Name("numpy", "dtype"), "O"))),
        ".".join(COPYREG),
    ),
    "an array by a builder of tensors": (
        Call(*REBUILD, (Name(*ARRAYS), Name(*ARRAYS), ((1,),), None)),
        ".".join(REBUILD),
    ),
    "a type by a builder of tensors": (
        Call(*REBUILD, (Name("numpy", "dtype"), Name("builtins", "object"), TYPE_OF_F4, (3,))),
        ".".join(REBUILD),
    ),
    "numbers of another type": (Call("numpy", "int8", (ARRAY,)), "numpy.int8"),
    "arguments that are a list": (
        Call("collections", "OrderedDict", [[["a", ARRAY]]]),
        "collections.OrderedDict",
    ),
    "sides that are tensors": (Call("torch", "Size", ([ARRAY],)), "torch.Size"),
    "a state for a date": (
        Raw(
            encode_thing(Call("datetime", "date", (b"\7\xea\1\1",)))
            + encode_thing({"a": ARRAY})
            + b"b"
        ),
        "datetime.date.__setstate__",
    ),
    **{
        f"{name} of {what}": (Call("builtins", name, (given,)), f"builtins.{name}")
        for name in ("bool", "bytearray", "bytes", "complex", "float", "int", "str", "tuple")
        for what, given in (("an array", ARRAY), ("a dictionary", {"weight": ARRAY}))
    },
    "set of a dictionary": (Call("builtins", "set", ({"weight": ARRAY},)), "builtins.set"),
}


@pytest.mark.parametrize("way", ODD)
def test_a_call_that_no_library_writes_is_named_and_nothing_of_it_is_read(way: str) -> None:
    thing, name = ODD[way]
    arrays, calls = warned(make_pickle({"w": ARRAY, "x": thing}, 3))
    assert arrays == ["w"]
    assert name in calls
    honest = torch_zip({"w": tensor(), "x": thing})
    assert name in warned(honest)[1]


@pytest.mark.parametrize(
    "kind",
    [
        ("collections", "OrderedDict"),
        ("__builtin__", "object"),
        ("torch", "Size"),
        ("torch", "float32"),
        ("numpy", "float32"),
        ("builtins", "int"),
        ("datetime", "date"),
    ],
)
def test_a_type_of_a_class_that_makes_none_is_refused(kind: tuple[str, str]) -> None:
    calls = CallRecorder()
    with pytest.raises(UnreadableFile):
        read_contents(make_pickle({"w": ARRAY, "x": reconstructed(of_class(*kind))}), "", calls)
    assert calls.would_call == ("numpy.dtype.__setstate__",)


def test_a_container_that_is_filled_after_a_call_copied_it_adds_nothing() -> None:
    call = encode_thing(Name("builtins", "tuple")) + b"h\xf0\x85Rq\xf1"
    later = Raw(b"]q\xf00" + call + b"0h\xf0" + encode_thing(ARRAY) + b"a0h\xf1")
    content = make_pickle({"w": ARRAY, "x": later})
    assert warned(content)[0] == [name for name, held in pickle.loads(content).items() if len(held)]


@pytest.mark.parametrize("protocol", [2, 4])
def test_text_for_bytes_is_that_of_bytes(protocol: int) -> None:
    numbers = W.tobytes().decode("latin-1")
    kind = Raw(pickle.dumps(W.dtype, 2)[2:-1])
    made = encode_thing(
        Call("numpy._core.multiarray", "_reconstruct", (Name("numpy", "ndarray"), (0,), b"b"))
    )
    for text, sound in ((numbers, True), (numbers[:-1] + "\u1234", False)):
        content = make_pickle(
            Raw(made + encode_thing((1, (3,), kind, False, text)) + b"b"), protocol
        )
        if sound:
            assert (
                read_contents(content).arrays["tensor"].tolist() == pickle.loads(content).tolist()
            )
            continue
        for act in (read_contents, pickle.loads):
            with pytest.raises((UnreadableFile, ValueError)):
                act(content)


@pytest.mark.parametrize(
    "start",
    [b"\x80\6", b"\x80\xff", b"\x80\4\x95" + b"\xff" * 7 + b"\0", b"\x80\4\x95" + b"\xff" * 8],
)
def test_a_start_that_pickle_refuses_is_refused(start: bytes) -> None:
    content = start + encode_thing({"w": ARRAY}) + b"."
    with pytest.raises((ValueError, pickle.UnpicklingError, OverflowError)):
        pickle.loads(content)
    with pytest.raises(UnreadableFile):
        read_contents(content)


@pytest.mark.parametrize("module", ["torch", "numpy"])
def test_a_type_of_numbers_is_no_class_of_storages(module: str) -> None:
    name = Name(module, "float32")
    store = storage()
    made = type(store)(("storage", name, *store.what[2:]))
    assert warned(torch_zip({"w": tensor(store=made)}))[0] == []


def test_whole_numbers_have_no_gradient() -> None:
    hooks = Call("collections", "OrderedDict")
    for kind, trained, sound in (("Int", True, False), ("Int", False, True), ("Float", True, True)):
        place = (storage("0", 4, f"{kind}Storage"), 0, (4,), (1,), trained, hooks)
        content = torch_zip({"w": Call("torch._utils", "_rebuild_tensor_v2", place)})
        if sound:
            assert warned(content)[0] == ["w"]
            continue
        with pytest.raises(RuntimeError):
            torch.load(io.BytesIO(content))
        with pytest.raises(UnreadableFile):
            read_contents(content)


def test_no_random_call_is_read_otherwise_than_pickle_and_torch_read_it(tmp_path: Path) -> None:
    with ReferenceReaders(tmp_path) as readers:
        judged = misread(range(DRAWS), readers)
    assert judged.wrong == []
    assert judged.warned > DRAWS // 5
    assert judged.equal > DRAWS // 40


RECORD = [("a", "<f4"), ("b", "<f8")]
KINDS: dict[str, Any] = {
    "whole numbers": int,
    "texts of three": "U3",
    "dates": "M8[s]",
    "numbers of both orders in aligned fields": np.dtype([("a", "<f4"), ("b", ">i2")], align=True),
    "subarrays": [("pos", "f4", (3,)), ("n", "i4")],
    "records in records": [("a", RECORD), ("n", "i4")],
    "titles": [(("title", "a"), "f4"), ("b", "i2")],
    "aligned fields": np.dtype([("a", "i1"), ("b", "f8")], align=True),
    "objects in aligned fields": np.dtype([("a", "i1"), ("o", "O")], align=True),
    "metadata": np.dtype("f4", metadata={"a": 1}),
    "metadata of dates": np.dtype("M8[D]", metadata={"a": 1}),
    "gaps": np.dtype({"names": ["a"], "formats": ["f4"], "offsets": [4], "itemsize": 16}),
    "records": np.dtype((np.record, RECORD)),
    "texts": np.dtypes.StringDType(),
    "texts and None": np.dtypes.StringDType(na_object=None),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_beside_those_of_any_type_are_read(kind: str, protocol: int) -> None:
    beside = np.zeros(2, KINDS[kind])
    things = {"x": beside, "y": beside[:0], "t": beside.dtype, "s": beside[0]}
    arrays, calls = warned(pickle.dumps({"w": W, **things}, protocol))
    assert (arrays[0], calls) == ("w", ())
    assert len(arrays) == (3 if kind in ("metadata", "whole numbers") else 1)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_values_of_every_maker_are_kept_without_a_warning(protocol: int) -> None:
    when = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1), "x"))
    things = [
        *(1j, b"", b"\xff", bytearray(b"ab"), {1, "a"}, frozenset("ab"), range(3), slice(1, 2)),
        *(when, when.date(), when.timetz(), datetime.timedelta(1), decimal.Decimal("1.5")),
        *(fractions.Fraction(1, 3), pathlib.PurePosixPath("a/b"), uuid.UUID(int=3)),
        *(types.SimpleNamespace(a=1), collections.deque([1], 3), collections.Counter("ab")),
        *(np.float32(1), np.str_("a"), np.bytes_(b"a"), np.datetime64("2020"), np.float32),
        *(np.dtype("f4"), type(np.dtype("f4")), np.random.default_rng(0), np.random.RandomState(0)),
        *(np.random.SeedSequence(3), torch.device("cuda", 1), torch.Size([1, 2]), torch.float16),
    ]
    assert warned(pickle.dumps({"w": W, "x": things}, protocol))[1] == ()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_hooks_of_a_spectral_norm_are_those_of_torch() -> None:
    content = io.BytesIO()
    torch.save(nn.utils.spectral_norm(nn.Linear(3, 2)), content)
    arrays, calls = warned(content.getvalue())
    assert ("weight_orig" in arrays, calls) == (True, ())
    hook = encode_thing(Name(nn.Module.__module__, "_WrappedHook")) + b")\x81"
    held = Raw(hook + encode_thing({"hook": Name("os", "getpid"), "with_module": False}) + b"b")
    recorder = CallRecorder()
    read_contents(torch_zip({"w": tensor(), "x": held}), "", recorder)
    assert recorder.would_look_up == ("os.getpid",)
