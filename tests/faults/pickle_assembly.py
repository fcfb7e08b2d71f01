"""Files of torch put together by hand: pickles that name anything without importing it."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MAGIC = 0x1950A86A20F9469CFC6C
ONES = b"\0\0\x80?" * 4  # four numbers of float32


@dataclass(frozen=True)
class Name:
    """A global by its name."""

    module: str
    name: str


@dataclass(frozen=True)
class Call:
    """A call of a global, and a state that is given to what it makes."""

    module: str
    name: str
    arguments: Any = ()
    state: Any = None


@dataclass(frozen=True)
class Reference:
    """Something outside the pickle."""

    what: Any


@dataclass(frozen=True)
class Raw:
    """Instructions as they are."""

    code: bytes


def make_pickle(thing: Any, protocol: int = 2) -> bytes:
    return b"\x80" + bytes([protocol]) + encode_thing(thing) + b"."


def encode_thing(thing: Any) -> bytes:
    """The instructions that push a thing."""
    match thing:
        case Raw():
            return thing.code
        case None:
            return b"N"
        case bool():
            return b"\x88" if thing else b"\x89"
        case int() if -(2**31) <= thing < 2**31:
            return b"J" + struct.pack("<i", thing)
        case int():
            size = thing.bit_length() // 8 + 1
            return b"\x8a" + bytes([size]) + thing.to_bytes(size, "little", signed=True)
        case float():
            return b"G" + struct.pack(">d", thing)
        case str():
            text = thing.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(text)) + text
        case bytes():
            return b"B" + struct.pack("<I", len(thing)) + thing
        case tuple():
            return b"(" + b"".join(map(encode_thing, thing)) + b"t"
        case list():
            return b"](" + b"".join(map(encode_thing, thing)) + b"e"
        case dict():
            return (
                b"}(" + b"".join(encode_thing(k) + encode_thing(v) for k, v in thing.items()) + b"u"
            )
        case Name():
            return f"c{thing.module}\n{thing.name}\n".encode()
        case Reference():
            return encode_thing(thing.what) + b"Q"
        case Call():
            made = (
                encode_thing(Name(thing.module, thing.name)) + encode_thing(thing.arguments) + b"R"
            )
            return made if thing.state is None else made + encode_thing(thing.state) + b"b"
    raise TypeError(thing)


def storage(key: str = "0", count: Any = 4, kind: str = "FloatStorage", *more: Any) -> Reference:
    where = more[0] if more else "cpu"
    return Reference(("storage", Name("torch", kind), key, where, count, *more[1:]))


def tensor(shape: Any = (2, 2), strides: Any = (2, 1), offset: Any = 0, store: Any = None) -> Call:
    hooks = Call("collections", "OrderedDict")
    store = storage() if store is None else store
    return Call("torch._utils", "_rebuild_tensor_v2", (store, offset, shape, strides, False, hooks))


def numpy_type(code: str, order: str = "<") -> Call:
    """A `numpy.dtype` as numpy pickles it."""
    _, arguments, state = np.dtype(f"{order}{code}").__reduce__()
    return Call("numpy", "dtype", arguments, state)


def torch_zip(
    tree: Any,
    records: Mapping[str, bytes] | None = None,
    compression: int = zipfile.ZIP_STORED,
    folder: str = "archive",
    **members: bytes,
) -> bytes:
    """As torch writes them now; `tree`: a thing, or the bytes of a pickle."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        archive.writestr(
            f"{folder}/data.pkl", tree if isinstance(tree, bytes) else make_pickle(tree)
        )
        if "byteorder" not in members:
            archive.writestr(f"{folder}/byteorder", b"little")
        for key, numbers in ({"0": ONES} if records is None else records).items():
            archive.writestr(f"{folder}/data/{key}", numbers)
        archive.writestr(f"{folder}/version", b"3\n")
        for name, text in members.items():
            archive.writestr(f"{folder}/{name}", text)
    return content.getvalue()


def legacy(
    tree: Any,
    records: Mapping[str, tuple[int, bytes]] | None = None,
    keys: Any = None,
    little: bool = True,
    version: int = 1001,
) -> bytes:
    """As torch wrote them before 1.6."""
    records = {"0": (4, ONES)} if records is None else records
    system = {"protocol_version": 1001, "little_endian": little, "type_sizes": {}}
    parts = [make_pickle(MAGIC), make_pickle(version), make_pickle(system)]
    parts.append(tree if isinstance(tree, bytes) else make_pickle(tree))
    parts.append(make_pickle(list(records) if keys is None else keys))
    parts += [struct.pack("<q", count) + numbers for count, numbers in records.values()]
    return b"".join(parts)
