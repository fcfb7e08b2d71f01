"""Reading safetensors from bytes: a JSON header with caps, then plain numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from dgn_engine.checkpoints import limits
from dgn_engine.checkpoints.contents import Array, Contents, Unreadable, natural, plain

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}


def looks_like_safetensors(content: bytes) -> bool:
    """Eight bytes of length, then an opening brace."""
    return content[8:9] == b"{"


def read_safetensors(content: bytes) -> Contents:
    """Every tensor of known type; raises `Unreadable` where the header lies."""
    start = 8 + int.from_bytes(content[:8], "little")
    if start > len(content):
        raise Unreadable("is cut off, or not safetensors: its header is longer than the file")
    if start > limits.HEADER:
        raise Unreadable("has a safetensors header of unreasonable size")
    try:
        head = json.loads(content[8:start], object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"has a safetensors header that is not sound ({error})") from None
    metadata = head.pop("__metadata__", {})
    if len(head) > limits.MEMBERS:
        raise Unreadable(f"declares {len(head):,} tensors, which is too many")
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    ignored: list[str] = []
    # The format sorts by name, letter by letter: '10' before '2'. Layers count naturally.
    total = 0
    for name in sorted(head, key=natural):
        dtype, shape, begin, end = _entry(name, head[name], len(content) - start)
        total += end - begin
        if total > len(content):
            raise Unreadable("has a header in which tensors overlap")
        if dtype not in _DTYPES:
            ignored.append(f"{name} ({dtype})")
            continue
        flat = np.frombuffer(content, np.dtype(_DTYPES[dtype]), _count(shape), start + begin)
        if len(flat) * flat.dtype.itemsize != end - begin:
            raise Unreadable(f"declares a shape for {plain(name)} that its bytes do not fill")
        arrays[name] = _from_bfloat(flat).reshape(shape) if dtype == "BF16" else flat.reshape(shape)
        dtypes[name] = dtype.lower()
    notes = metadata.items() if isinstance(metadata, dict) else ()
    return Contents(arrays, dtypes, tuple(ignored), {str(k): str(v) for k, v in notes})


def _entry(name: str, told: Any, room: int) -> tuple[str, tuple[int, ...], int, int]:
    try:
        dtype, shape, (begin, end) = told["dtype"], tuple(told["shape"]), told["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise Unreadable(f"has a header without type, shape and place of {plain(name)}") from None
    whole = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
    if not whole or len(shape) > limits.DIMENSIONS or not isinstance(dtype, str):
        raise Unreadable(f"has a header with an impossible shape or place of {plain(name)}")
    if not begin <= end <= room:
        raise Unreadable(f"is cut off, or its header lies: {plain(name)} ends outside the file")
    itemsize = np.dtype(_DTYPES[dtype]).itemsize if dtype in _DTYPES else 0
    if itemsize and _count(shape) * itemsize != end - begin:
        raise Unreadable(f"declares a shape for {plain(name)} that its bytes do not fill")
    return plain(dtype), shape, begin, end


def _count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _from_bfloat(flat: Array) -> Array:
    """A bfloat16 is the upper half of a float32."""
    return (flat.astype(np.uint32) << 16).view(np.float32)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("one name twice")
    return table
