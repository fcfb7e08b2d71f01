"""What the reading child says to its parent: one JSON line of bounded size, then raw numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    Array,
    ParsedFile,
    UnreadableFile,
    decoded,
    is_sound,
    plain,
    sent_as,
    whole_bytes,
)
from dgn_engine.storage.checkpoints.stated_layers import as_json, received

DTYPES = ("<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1")
LINE = 64 << 20


@dataclass(frozen=True)
class _Entry:
    name: str
    shape: tuple[int, ...]
    dtype: str  # as the file had it
    stored: str  # as it follows


def send(contents: ParsedFile, pipe: IO[bytes]) -> None:
    """Write the whole answer."""
    entries = [
        {
            "name": name,
            "shape": array.shape,
            "dtype": contents.dtypes[name],
            "stored": sent_as(contents.dtypes[name]),
        }
        for name, array in contents.arrays.items()
    ]
    head = {
        "tensors": entries,
        "ignored": contents.ignored,
        "metadata": contents.metadata,
        "kind": contents.kind,
        "layers": as_json(contents.layers),
    }
    pipe.write(json.dumps(head).encode() + b"\n")
    for name, array in contents.arrays.items():  # one after another: each is a copy at most
        pipe.write(whole_bytes(decoded(array, contents.dtypes[name])))
    pipe.flush()


def refuse(reason: str, pipe: IO[bytes]) -> None:
    """Write why there are no tensors."""
    pipe.write(json.dumps({"refused": plain(reason, 600)}).encode() + b"\n")
    pipe.flush()


def receive(pipe: IO[bytes], most: int) -> ParsedFile:
    """Read an answer and believe nothing of it.

    Raises `UnreadableFile` with the child's reason, `ValueError` where the answer is no answer,
    `EOFError` where it is cut.
    """
    line = pipe.readline(LINE)
    if not line.endswith(b"\n"):
        raise EOFError("the answer is cut")
    head = json.loads(line)
    if "refused" in head:
        raise UnreadableFile(plain(str(head["refused"]), 600))
    entries = list(_entries(head["tensors"]))
    total = sum(math.prod(e.shape) * np.dtype(e.stored).itemsize for e in entries)
    if total > most or len(entries) > limits.MEMBERS:
        raise ValueError("the answer is larger than allowed")
    return ParsedFile(
        arrays={e.name: _numbers(pipe, e) for e in entries},
        dtypes={e.name: e.dtype for e in entries},
        ignored=tuple(plain(str(line)) for line in head["ignored"]),
        metadata={str(k): str(v) for k, v in head["metadata"].items()},
        kind=plain(str(head["kind"]), 40),
        layers=received(head["layers"]),
    )


def _entries(told: list[dict[str, Any]]) -> Iterator[_Entry]:
    for one in told:
        shape = tuple(one["shape"])
        if not is_sound(shape):
            raise ValueError("a shape is not a shape")
        if one["stored"] not in DTYPES:
            raise ValueError("a type is not a type")
        yield _Entry(plain(str(one["name"])), shape, plain(str(one["dtype"])), one["stored"])


def _numbers(pipe: IO[bytes], entry: _Entry) -> Array:
    array = np.empty(entry.shape, dtype=entry.stored)
    flat = whole_bytes(array)
    done = 0
    while done < len(flat):
        got = pipe.readinto(flat[done:])  # type: ignore[attr-defined] # IO[bytes] leaves it out
        if not got:
            raise EOFError("the answer is cut")
        done += got
    return array
