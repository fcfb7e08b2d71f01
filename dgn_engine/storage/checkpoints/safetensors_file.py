"""Read safetensors from bytes: a bounded JSON header, then plain numbers.

The `safetensors` library accepts a repeated name, copies every tensor and does not say which tensor
is wrong, so the header is checked here. What it refuses is refused here, too. It ignores further
entries of a tensor that its JSON parser accepts, which nests to 128 and has no numbers beyond a
float's; the format has no such entries, so they are refused.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    AGAIN,
    LAYOUT,
    Array,
    ParsedFile,
    UnreadableFile,
    dtype_width,
    is_sound,
    natural_key,
)
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.text.printable import is_utf8, plain_text

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
_OF_TENSOR = frozenset(("dtype", "shape", "data_offsets"))
# Unsupported types, with the bits of a number.
_OTHERS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "C64": 64,
}


def looks_like_safetensors(content: Content) -> bool:
    """Check for eight bytes of length, then an opening brace."""
    return content[8:9] == b"{"


def read_safetensors(content: Content) -> ParsedFile:
    """Return every tensor of a known type; raises `UnreadableFile` if the header is wrong."""
    start = 8 + int.from_bytes(content[:8], "little")
    if start > len(content):
        raise UnreadableFile(
            f"is cut off, or not safetensors: its header is longer than the file; {AGAIN}",
            kind="cut-off",
        )
    if start > limits.HEADER:
        raise UnreadableFile("has a safetensors header of unreasonable size", kind="too-large")
    try:
        head = json.loads(
            str(content[8:start], "utf-8"),
            object_pairs_hook=_distinct_names,
            parse_constant=_no_constant,
            parse_int=_parse_integer,
        )
    except (ValueError, RecursionError) as error:
        if "int_max_str_digits" in str(error):
            error = ValueError("a number of unreasonable length")
        raise UnreadableFile(
            f"has an invalid safetensors header ({plain_text(str(error))})", kind="damaged"
        ) from None
    metadata = head.pop("__metadata__", None)
    if metadata is None:
        metadata = {}
    texts = isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())
    if not texts or not all(map(is_utf8, (*head, *metadata, *metadata.values()))):
        raise UnreadableFile(
            "has a safetensors header with names or metadata that are not text", kind="wrong-type"
        )
    if len(head) > limits.MEMBERS:
        raise UnreadableFile(f"declares {len(head):,} tensors, which is too many", kind="too-many")
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    ignored: list[str] = []
    room = len(content) - start
    entries = {name: _check_entry(name, entry, room) for name, entry in head.items()}
    _check_cover([(begin, end) for _, _, begin, end in entries.values()], room)
    # The format sorts alphabetically, '10' before '2'; layers are in natural order.
    for name in sorted(head, key=natural_key):
        code, shape, begin, _ = entries[name]
        dtype = _DTYPES.get(code)
        if dtype is None:
            ignored.append(f"{name} ({plain_text(code, 40)})")
            continue
        flat = np.frombuffer(content, np.dtype(LAYOUT[dtype]), math.prod(shape), start + begin)
        arrays[name], dtypes[name] = flat.reshape(shape), dtype
    return ParsedFile("", arrays, dtypes, tuple(ignored), metadata, "safetensors")


def _check_entry(name: str, entry: Any, room: int) -> tuple[str, tuple[int, ...], int, int]:
    """Return type, shape, begin and end of a tensor in the `room` bytes after the header."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        if type(entry["shape"]) is not list or type(entry["data_offsets"]) is not list:
            raise TypeError
    except (TypeError, KeyError, ValueError):
        raise UnreadableFile(
            f"has a header without the type, shape or position of {plain_text(name)}",
            kind="damaged",
            value=name,
        ) from None
    if more := entry.keys() - _OF_TENSOR:
        raise UnreadableFile(
            f"has a header with more than the type, shape and position of {plain_text(name)} "
            f"({plain_text(min(more), 40)})",
            kind="unknown-key",
            value=name,
        )
    whole = type(begin) is int and type(end) is int and begin >= 0
    if not whole or not is_sound(shape) or not isinstance(dtype, str):
        raise UnreadableFile(
            f"has a header with an impossible shape or position of {plain_text(name)}",
            kind="wrong-shape",
            value=name,
        )
    if not begin <= end <= room:
        raise UnreadableFile(
            f"is cut off, or its header is wrong: {plain_text(name)} ends outside the "
            f"file; {AGAIN}",
            kind="cut-off",
            value=name,
        )
    if dtype not in _DTYPES and dtype not in _OTHERS:
        raise UnreadableFile(
            f"has {plain_text(name)} in an unknown type ({plain_text(dtype, 40)})",
            kind="unknown-type",
            value=name,
        )
    bits = 8 * dtype_width(_DTYPES[dtype]) if dtype in _DTYPES else _OTHERS[dtype]
    if math.prod(shape) * bits != 8 * (end - begin):
        raise UnreadableFile(
            f"declares a shape for {plain_text(name)} that does not match its size",
            kind="wrong-length",
            value=name,
        )
    return dtype, shape, begin, end


def _check_cover(places: list[tuple[int, int]], room: int) -> None:
    """Check that each byte belongs to one tensor, as the format demands: nothing may hide."""
    reached = 0
    for begin, end in (*sorted(places), (room, room)):
        if begin < reached:
            raise UnreadableFile("has a header in which tensors overlap", kind="overlap")
        if begin > reached:
            raise UnreadableFile("has bytes that belong to none of its tensors", kind="stray-bytes")
        reached = end


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _parse_integer(digits: str) -> int:
    if digits == "-0":
        raise ValueError("-0 is not an integer")
    return int(digits)


def _distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a repeated name")
    return table
