"""A file in which torch, NumPy or safetensors would read something else than dgn is refused."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import ParsedFile, UnreadableFile
from dgn_engine.storage.checkpoints.reader_child import read_contents
from tests.faults import ambiguous_files
from tests.faults.ambiguous_files import EVIL, Archive, Member, written
from tests.faults.differential import compare, read_inertly, table
from tests.faults.pickle_assembly import (
    ONES,
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
from tests.faults.reference_readers import ReferenceReaders
from tests.faults.sandbox import Sandbox

SAMPLE, IN_THE_CHILD = 12, 1  # files of each kind; `make faults` tries many more
OTHER = np.full(4, 666, "<f4").tobytes()
TREE = {"w": tensor()}
HONEST = (
    Member(b"a/data.pkl", make_pickle(TREE)),
    Member(b"a/data/0", ONES),
    Member(b"a/version", b"3\n"),
)


def npy(code: str = "<f4", body: bytes = ONES, shape: str = "(4,)") -> bytes:
    head = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + body


def archive(*more: Member, **fields: Any) -> bytes:
    return written(Archive((*more, *HONEST), as_torch=False, **fields))


def arrays(*members: tuple[str, bytes]) -> bytes:
    made = tuple(Member(name.encode(), data) for name, data in members)
    return written(Archive(made, as_torch=False))


def changed(index: int, **fields: Any) -> bytes:
    honest = Archive(HONEST, as_torch=False)
    return written(honest.changed(index, **fields))


def second_list(**fields: Any) -> bytes:
    decoys = (HONEST[0], replace(HONEST[1], data=OTHER), HONEST[2])
    return archive(decoys=decoys, **fields)


def path_field(name: bytes) -> bytes:
    body = b"\1" + bytes(4) + name
    return b"\x75\x70" + struct.pack("<H", len(body)) + body


def two_of_one_key(**how: Any) -> dict[str, Any]:
    return {"w": tensor(), "v": tensor((2,), (1,), 0, storage("0", **how))}


def view(key: str, first: int, size: int, of: str = "0") -> Reference:
    return Reference((*storage(of).what, (key, first, size)))


def view_of_all() -> Reference:
    return Reference((*storage().what, None))


def with_checksum_of_tar(content: bytes) -> bytes:
    head = content[:148] + b" " * 8 + content[156:512].ljust(356, b"\0")
    return head[:148] + b"%06o\0 " % sum(head) + head[156:] + content[512:]


def safetensors(body: bytes = ONES, size: int = 0) -> bytes:
    entry = {"dtype": "U8", "shape": [len(body)], "data_offsets": [0, len(body)]}
    head = json.dumps({"w": entry}).encode().ljust(size)
    return struct.pack("<Q", len(head)) + head + body


SIZE_64 = b"\1\0\x10\0" + struct.pack("<QQ", 16, 16)
REFUSED: dict[str, bytes] = {
    "DATA.PKL before data.pkl": archive(Member(b"a/DATA.PKL", EVIL)),
    "DATA.PKL alone": changed(0, name=b"a/DATA.PKL"),
    "DATA/0 before data/0": archive(Member(b"a/DATA/0", OTHER)),
    "BYTEORDER": archive(Member(b"a/BYTEORDER", b"big")),
    "a folder before that of the pickle": archive(Member(b"b/x", b"")),
    "a folder within the folder": changed(0, name=b"a/b/data.pkl"),
    "a member that torch does not write": archive(Member(b"a/data/extra", ONES)),
    "bytes behind the pickle": changed(0, data=make_pickle(TREE) + EVIL),
    "a folder of DOS": changed(1, listed={"outer": 0x10}),
    "a member on another disk": changed(1, listed={"disk": 1}),
    "patched data": changed(1, local={"flags": 0x20}, listed={"flags": 0x20}),
    "other flags in the header": changed(1, local={"flags": 0x800}),
    "another method in the header": changed(1, local={"method": 8}),
    "another size in the header": changed(1, local={"size": 8}),
    "another checksum in the header": changed(1, local={"crc": 7}),
    "a second name": changed(1, listed={"extra": path_field(b"a/data/1")}),
    "two sizes of 64 bits": changed(1, listed={"extra": SIZE_64 * 2}),
    "half an extra field": changed(1, listed={"extra": SIZE_64[:-1]}),
    "two lists": second_list(),
    "two lists, the other first": second_list(decoys_first=True),
    "two lists of 64 bits": second_list(end_64={}, second_end_64=True),
    "a record of 64 bits that says otherwise": archive(end_64={5: 2, 6: 2}),
    "a locator that leads elsewhere": archive(end_64={}, locator={1: 0}),
    "a longer list than is said": archive(end={2: 2, 3: 2}),
    "an npz that is a file of torch": archive(Member(b"x.npy", npy())),
    "an npz that is a file of torch, by its bytes": archive(Member(b"a/data/1", npy())),
    "x and x.npy": arrays(("x.npy", npy()), ("x", b"text")),
    "x.npy and x.npy.npy": arrays(("x.npy.npy", npy()), ("x.npy", npy(body=OTHER))),
    "white space that NumPy does not take": npy().replace(b", }\n", b"}\n\n"),
    "a long number of Python 2 in a header of version 3": (
        b"\x93NUMPY\3\0" + npy()[8:10] + bytes(2) + npy(shape="(4L,)")[10:]
    ),
    "one storage as two types": torch_zip(two_of_one_key(kind="IntStorage")),
    "one storage of two lengths": torch_zip(two_of_one_key(count=2)),
    "one storage on two devices": torch_zip(
        {"v": tensor((2,), (1,), 0, storage("0", 4, "FloatStorage", "meta")), **TREE}
    ),
    "a view in a zip archive": torch_zip({"w": tensor((2,), (1,), 0, view("7", 0, 2))}),
    "one storage as two types, before 1.6": legacy(two_of_one_key(kind="IntStorage")),
    "one view in two places": legacy(
        {"a": tensor((2,), (1,), 0, view("7", 0, 2)), "b": tensor((2,), (1,), 0, view("7", 2, 2))}
    ),
    "a view with the key of a storage": legacy(
        {"a": tensor((2,), (1,), 0, view("0", 2, 2)), "b": tensor((2,), (1,), 0)}
    ),
    "an array that is a tar archive": with_checksum_of_tar(npy(body=bytes(600), shape="(150,)")),
    "safetensors that are a tar archive": with_checksum_of_tar(safetensors(bytes(2000), 400)),
    "an old file that is a tar archive": with_checksum_of_tar(
        legacy({"w": tensor(), "x": "x" * 600})
    ),
}


# instructions of a pickle that torch and numpy do not write

OTHERS = {"0": ONES, "1": OTHER}
HOOKS = Call("collections", "OrderedDict")
PLACE = (storage("1"), 0, (4,), (1,))
BYTES = Reference(("storage", Name("torch.storage", "UntypedStorage"), "0", "cpu", 16))
SEQUENTIAL = Name(torch.nn.Sequential.__module__, "Sequential")


def other() -> Call:
    return tensor((4,), (1,), 0, storage("1"))


def then(thing: Any, *after: Any, code: bytes = b"b") -> Raw:
    return Raw(encode_thing(thing) + b"".join(map(encode_thing, after)) + code)


def pairs(*entries: tuple[Any, Any], start: Any = None) -> Raw:
    filled = (
        b"(" + b"".join(encode_thing(key) + encode_thing(value) for key, value in entries) + b"u"
    )
    return Raw(
        encode_thing({} if start is None else start)[: 1 if start is None else None] + filled
    )


def rebuilt(name: str, *arguments: Any) -> Call:
    module = "torch._tensor" if "from_type" in name else "torch._utils"
    return Call(module, f"_rebuild_{name}", arguments)


def noted(notes: Any, name: str = "tensor_v2", *more: Any) -> Call:
    store = BYTES if more else storage()
    return rebuilt(name, store, 0, (4,), (1,), False, HOOKS, *more, notes)


def parameter(*more: Any) -> Call:
    return rebuilt("parameter_with_state" if more else "parameter", tensor(), True, HOOKS, *more)


def subclassed(state: Any) -> Call:
    inner = (Name("torch._utils", "_rebuild_tensor_v2"), Name("torch", "Tensor"))
    return rebuilt("from_type_v2", *inner, (storage(), 0, (4,), (1,), False, HOOKS), state)


def module(weight: Any) -> Raw:
    state = {"_parameters": {"weight": weight}, "_buffers": {}, "_modules": {}}
    return then(Raw(encode_thing(Name(torch.nn.Linear.__module__, "Linear")) + b")\x81"), state)


F32 = Name("torch", "float32")
TREES: dict[str, Any] = {
    "a state of a tensor": {"w": then(tensor(), PLACE)},
    "a state of a tensor with another": {"w": then(tensor(), (other(),))},
    "a state of a parameter": {"w": then(parameter(), PLACE)},
    "a state of a variable": {"w": then(parameter(), (other(), 0, False, False, HOOKS))},
    "data in the state of a parameter": {"w": parameter({"data": other()})},
    "data in the slots of a parameter": {"w": parameter((None, {"data": other()}))},
    "data in the state of a subclass": {"w": subclassed({"data": other()})},
    "numbers in the state of a subclass": {"w": subclassed((None, {"real": 5}))},
    "notes in a counter": {"w": noted(Call("collections", "Counter", ({"neg": True},)))},
    "notes that say no": {"w": noted({"neg": False})},
    "a type of a tensor over another": {"w": rebuilt("tensor_v3", *PLACE, False, HOOKS, F32)},
    "a key twice": pairs(("w", tensor()), ("w", 5)),
    "a key twice, later": then({"w": tensor()}, "w", None, code=b"s"),
    "a key twice, as a number": pairs((1, tensor()), (True, 0)),
    "a key twice, as another number": pairs((0.0, tensor()), (0, 7)),
    "a key twice, in pairs": Call("collections", "OrderedDict", ([["w", tensor()], ["w", 5]],)),
    "a key twice, in a counter": then(
        Call("collections", "Counter", ({"w": tensor()},)), "w", other(), code=b"s"
    ),
    "a key in UTF-8 of Python 2": pairs((Raw(b"U\2\xc3\xa9"), tensor()), ("\u00e9", other())),
    "keys that their class compares": pairs(
        (Call("decimal", "Decimal", ("1",)), tensor()), (1, other())
    ),
    "pairs that are not used": Raw(
        encode_thing(Name("collections", "OrderedDict"))
        + encode_thing(([["w", tensor()]],))
        + b"\x81"
    ),
    "a second state of a module": then(module(tensor()), {"_parameters": {"weight": other()}}),
    "a module with arguments": Call(SEQUENTIAL.module, SEQUENTIAL.name, (module(tensor()),)),
    "a module that is appended": then(module(tensor()), module(other()), code=b"a"),
    "a module that is set": then(module(tensor()), -1, module(other()), code=b"s"),
    "a deque that forgets": Call("collections", "deque", ((tensor(), other()), 1)),
    "a state of a list": then([tensor()], {"w": other()}),
}


@pytest.mark.parametrize("name", TREES)
def test_a_pickle_that_torch_does_not_write_is_refused(name: str) -> None:
    with pytest.raises(UnreadableFile):
        read_contents(torch_zip(TREES[name], OTHERS))


def test_the_type_of_a_tensor_of_another_device_is_its_own() -> None:
    for dtype, arrays in (("float32", ["w"]), ("int8", [])):
        made = rebuilt(
            "device_tensor_from_cpu_tensor", tensor(), Name("torch", dtype), "cpu", False
        )
        assert [*read_contents(torch_zip({"w": made, "v": other()}, OTHERS)).arrays] == [
            *arrays,
            "v",
        ]


def pickled_array(kind: Any, *after: Any, code: bytes = b"b") -> bytes:
    call = ("numpy._core.multiarray", "_reconstruct", (Name("numpy", "ndarray"), (0,), b"b"))
    made = Call(*call, (1, (4,), kind, False, ONES))
    return make_pickle({"w": then(made, *after, code=code) if after else made}, 3)


def f4(order: Any = "<", *rest: Any, code: str = "f4", copied: bool = True) -> Call:
    state = (3, order, *(rest or (None, None, None, -1, -1, 0)))
    return Call("numpy", "dtype", (code, False, copied), state)


TYPES: dict[str, Any] = {
    "a code with an order": f4(code=">f4"),
    "no state": Call("numpy", "dtype", ("f4", False, True)),
    "a shared type": f4(">", copied=False),
    "an order in bytes": f4(b">"),
    "a state of another version": Call(
        "numpy", "dtype", ("f4", False, True), (">", None, None, -1, -1)
    ),
    "a type within": f4("<", (f4(code="i4"), (1,)), None, None, -1, -1, 0),
    "fields of another type": f4("<", None, ("a",), {"a": (f4(code="i4"), 0)}, 4, 4, 0),
    "another size": f4("<", None, None, None, 8, 8, 0),
    "addresses of objects": f4("|", None, None, None, -1, -1, 0, code="O8"),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_that_numpy_does_not_write_is_refused(name: str) -> None:
    calls = CallRecorder()
    with pytest.raises(UnreadableFile):
        read_contents(pickled_array(TYPES[name]), "", calls)
    shared = ("numpy.dtype",) if name == "a shared type" else ()
    wanted = () if name == "no state" else (*shared, "numpy.dtype.__setstate__")
    assert calls.would_call == wanted


def test_an_array_that_is_changed_after_it_was_made_is_refused() -> None:
    assert read_contents(pickled_array(f4())).arrays["w"].tolist() == [1, 1, 1, 1]
    again = (1, (1,), f4(), False, b"\0\0\x80?")
    for content in (pickled_array(f4(), 0, 7, code=b"s"), pickled_array(f4(), again)):
        with pytest.raises(UnreadableFile):
            read_contents(content)
    for order in "faK":
        made = Call("numpy._core.numeric", "_frombuffer", (ONES, f4(), (2, 2), order))
        with pytest.raises(UnreadableFile):
            read_contents(make_pickle({"w": made}, 3))


def test_a_tensor_beyond_its_view_is_refused_and_a_view_begins_at_its_byte() -> None:
    with pytest.raises(UnreadableFile):
        read_contents(legacy({"w": tensor((3,), (1,), 0, view("7", 1, 1))}))
    numbers = np.arange(1, 4, dtype="<f4").tobytes()
    kept = Reference((*storage("0", 16, "ByteStorage").what, ("7", 2, 12)))
    made = rebuilt("tensor_v3", kept, 0, (3,), (1,), False, HOOKS, F32)
    content = legacy({"w": made}, {"0": (16, b"xx" + numbers + b"xx")})
    assert read_contents(content).arrays["w"].tolist() == loaded(content)["w"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["UntypedStorage", "Tensor", "FloatTensor"])
def test_names_that_are_given_to_a_storage_are_warned_of(name: str) -> None:
    calls = CallRecorder()
    made = Raw(encode_thing(Name("torch", name)) + b")" + encode_thing({"allocator": 1}) + b"\x92")
    read_contents(torch_zip({"w": tensor(), "x": made}), "", calls)
    assert calls.would_call == (f"torch.{name}",)


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_of_two_readings_is_refused(name: str) -> None:
    with pytest.raises(UnreadableFile):
        read_contents(REFUSED[name])


def test_what_these_files_are_made_of_is_read() -> None:
    for content in (archive(), archive(end_64={}), changed(1, listed={"extra": SIZE_64})):
        assert read_contents(content).arrays["w"].tolist() == [[1, 1], [1, 1]]
    for content in (torch_zip(two_of_one_key()), legacy(two_of_one_key())):
        assert [*read_contents(content).arrays] == ["w", "v"]
    views = {
        "a": tensor((2,), (1,), 0, view("7", 0, 2)),
        "b": tensor((2,), (1,), 0, view("8", 2, 2)),
    }
    assert [*read_contents(legacy(views)).arrays] == ["a", "b"]
    assert read_contents(safetensors(bytes(2000), 400)).arrays["w"].size == 2000
    assert read_contents(npy()).arrays["array"].tolist() == [1, 1, 1, 1]


def test_arrays_whose_names_differ_in_their_case_are_two() -> None:
    found = read_contents(arrays(("W.npy", npy()), ("w.npy", npy(body=OTHER))))
    assert (found.arrays["W"][0], found.arrays["w"][0]) == (1, 666)


def test_an_array_is_one_by_its_first_bytes() -> None:
    assert [*read_contents(arrays(("x", npy()))).arrays] == ["x"]


def loaded(content: bytes) -> dict[str, torch.Tensor]:
    found = torch.load(io.BytesIO(content), weights_only=True)
    assert isinstance(found, dict)
    return found


def untyped(dtype: str) -> Call:
    kept = Reference(("storage", Name("torch.storage", "UntypedStorage"), "0", "cpu", 16))
    arguments = (kept, 0, (4,), (1,), False)
    rest = (Call("collections", "OrderedDict"), Name("torch", dtype))
    return Call("torch._utils", "_rebuild_tensor_v3", (*arguments, *rest))


@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_bytes_are_turned_by_the_type_of_the_storage_as_in_torch(dtype: str) -> None:
    numbers = np.arange(1, 5, dtype="<i4").tobytes()
    content = torch_zip({"w": untyped(dtype)}, {"0": numbers}, byteorder=b"big")
    assert read_contents(content).arrays["w"].tolist() == loaded(content)["w"].tolist()
    content = torch_zip({"w": tensor()}, {"0": numbers}, byteorder=b"big")
    assert read_contents(content).arrays["w"].tolist() == loaded(content)["w"].tolist()


def test_an_old_file_of_the_other_byte_order_is_read_as_in_torch() -> None:
    content = legacy({"w": tensor(store=view_of_all())}, little=False)
    assert (
        read_contents(content).arrays["w"].tolist()
        == loaded(content)["w"].tolist()
        == [[1, 1], [1, 1]]
    )


def pickle_in_safetensors(body: bytes) -> bytes:
    """The bytes of a header's length begin a pickle that goes on in its notes and its numbers."""
    content = ambiguous_files.pickle_in_safetensors(body)
    assert safe_names(content) == ["w"]
    return content


def safe_names(content: bytes) -> list[str]:
    import safetensors.numpy

    return [*safetensors.numpy.load(content)]


@pytest.mark.parametrize(
    "body",
    [legacy({"w": tensor(store=view_of_all())}), make_pickle({"w": 1}), EVIL],
    ids=["torch", "dict", "call"],
)
def test_safetensors_that_are_a_pickle_are_refused(body: bytes) -> None:
    content = pickle_in_safetensors(body)
    calls = CallRecorder()
    with pytest.raises(UnreadableFile):
        read_contents(content, "", calls)
    assert calls.would_call == (("os.system",) if body == EVIL else ())


def test_a_text_of_any_length_hides_no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"T" + struct.pack("<I", 1 << 20) + bytes(1 << 20)
    calls = CallRecorder()
    monkeypatch.setattr(limits, "PICKLE", 1000)
    with pytest.raises(UnreadableFile):
        read_contents(pickle_in_safetensors(text + EVIL), "", calls)
    assert calls.would_call == ("os.system",)
    monkeypatch.setattr(limits, "OPERATIONS", 500)
    with pytest.raises(UnreadableFile, match="unterminated"):
        read_contents(pickle_in_safetensors(b"N" * 600 + EVIL))


@pytest.mark.parametrize("size", [0x2E88, 0x2E4E, 0x2E29, 0x2E5D, 0x2E7D, 0x1258, 0x1255])
def test_headers_whose_length_is_a_short_pickle_are_read(size: int) -> None:
    assert read_contents(safetensors(size=size)).arrays["w"].size == len(ONES)


# many files, held against the readers themselves


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceReaders]:
    with ReferenceReaders(tmp_path_factory.mktemp("read")) as found:
        yield found


def test_no_file_is_read_otherwise_than_torch_numpy_and_safetensors_read_it(
    readers: ReferenceReaders,
) -> None:
    found = compare(ambiguous_files.files(0, SAMPLE), readers)
    assert [row.different for row in found.values() if row.different] == [], table(found)
    assert found["as saved"].equal == SAMPLE
    assert sum(row.equal for row in found.values()) > 3 * SAMPLE
    assert sum(row.refused for row in found.values()) > 3 * SAMPLE
    assert readers.deaths == 0


def test_the_child_reads_as_its_code_does_here() -> None:
    with Sandbox() as sandbox:
        for kind, content in ambiguous_files.files(1, IN_THE_CHILD):
            verdict = sandbox.read(content)
            try:
                here: ParsedFile | None = read_inertly(content, CallRecorder())
            except UnreadableFile:
                here = None
            if here is None or not here.arrays:
                assert verdict.contents is None, kind
            else:
                assert verdict.contents is not None, kind
                assert verdict.contents.arrays.keys() == here.arrays.keys()
        assert sandbox.deaths == 0
