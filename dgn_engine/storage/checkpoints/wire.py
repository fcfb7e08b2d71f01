"""The reading child's answer to its parent: one JSON line of bounded size, then raw numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any

import numpy as np

from dgn_engine.confinement.process import Forbidden
from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    LAYOUT,
    TAKES_A_PART,
    Array,
    CheckpointContents,
    ParsedFile,
    UnreadableFile,
    decode_numbers,
    is_sound,
    whole_bytes,
    wire_dtype,
)
from dgn_engine.storage.checkpoints.file_content import Content, release_slices
from dgn_engine.storage.checkpoints.stated_entries import received_entries
from dgn_engine.storage.checkpoints.stated_layers import CHILDREN, check_stated_layers
from dgn_engine.storage.free_memory import free_memory
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import plain_text

_SMALL = 256 << 20  # bytes of numbers that need no check of free memory
_LISTS = ("ignored", "others", "would_call", "would_look_up", "would_import")  # of lines of text
LINE = 64 << 20  # bytes of the JSON line


def send_contents(contents: ParsedFile, pipe: IO[bytes], source: Content | None = None) -> None:
    """Send the answer; at most a slice of the mapped file `source` is kept in memory meanwhile."""
    tensors = [
        {"name": name, "shape": array.shape, "dtype": contents.dtypes[name]}
        for name, array in contents.arrays.items()
    ]
    head = {"tensors": tensors, **to_plain(replace(contents, arrays={}, dtypes={}))}
    pipe.write(json.dumps(head).encode() + b"\n")
    for name, array in contents.arrays.items():  # one at a time, because decoding may copy
        for piece in release_slices(
            source, whole_bytes(decode_numbers(array, contents.dtypes[name]))
        ):
            pipe.write(piece)
    pipe.flush()


@contextmanager
def refusals_to(pipe: IO[bytes]) -> Iterator[None]:
    """Turn whatever a hostile file provokes in the block into one sentence as the answer."""
    try:
        yield
    except (UnreadableFile, Forbidden) as verdict:
        reason, kind = str(verdict), getattr(verdict, "kind", "")
    except MemoryError:
        reason, kind = "needs more memory than its size allows, and was refused", "no-memory"
    except Exception as error:
        reason, kind = f"cannot be read ({type(error).__name__}: {error})", "fault"
    else:
        return
    pipe.write(json.dumps({"refused": plain_text(reason, 600), "kind": kind}).encode() + b"\n")
    pipe.flush()


def receive_contents(
    pipe: IO[bytes], most: int, file_name: str = "", room: int = limits.TAKEN
) -> CheckpointContents:
    """Read and check an untrusted answer with at most `most` bytes of numbers.

    Args:
        room: Bytes of numbers that may still be read after those of other files.

    Raises:
        UnreadableFile: The child's reason.
        ValueError: The answer is invalid.
        EOFError: The answer is cut off.
    """
    head = read_head(pipe)
    tensors = [_check_entry(entry) for entry in head["tensors"]]
    total = sum(
        math.prod(shape) * np.dtype(wire_dtype(dtype)).itemsize for _, shape, dtype in tensors
    )
    if total > most or len(tensors) > limits.MEMBERS:
        raise ValueError("the answer is larger than allowed")
    if total > room:
        raise UnreadableFile(
            "has more tensor data, together with the other files, than the limit of "
            f"{binary_size_in_words(limits.TAKEN)}; {TAKES_A_PART}",
            kind="too-large",
        )
    if total > _SMALL and total > free_memory():
        raise MemoryError  # before the system ends other programs to make room
    texts: dict[str, Any] = {
        field: tuple(plain_text(str(line)) for line in head[field]) for field in _LISTS
    }
    return CheckpointContents(
        file_name,
        arrays={
            name: _read_numbers(pipe, shape, wire_dtype(dtype)) for name, shape, dtype in tensors
        },
        dtypes={name: dtype for name, _, dtype in tensors},
        metadata={str(k): str(v) for k, v in head["metadata"].items()},
        kind=plain_text(str(head["kind"]), 40),
        layers=check_stated_layers(head["layers"]),
        module=plain_text(str(head["module"]), 200),
        part=plain_text(str(head["part"])),
        children=check_stated_layers(head["children"], CHILDREN),
        said=received_entries(head["said"]),
        **texts,
    )


def read_head(pipe: IO[bytes]) -> Any:
    """Return the JSON line of an answer; raises as `receive_contents` does."""
    line = pipe.readline(LINE)
    if not line.endswith(b"\n"):
        raise EOFError("the answer is cut off")
    head = json.loads(line)
    if "refused" in head:
        raise UnreadableFile(
            plain_text(str(head["refused"]), 600), plain_text(str(head.get("kind", "")), 40)
        )
    return head


def _check_entry(entry: dict[str, Any]) -> tuple[str, tuple[int, ...], str]:
    """Return name, shape and type of a tensor; raises `ValueError` if they are impossible."""
    shape, dtype = tuple(entry["shape"]), entry["dtype"]
    if not is_sound(shape):
        raise ValueError("a shape is invalid")
    if dtype not in LAYOUT:
        raise ValueError("a type is invalid")
    return plain_text(str(entry["name"])), shape, dtype


def _read_numbers(pipe: IO[bytes], shape: tuple[int, ...], dtype: str) -> Array:
    array = np.empty(shape, dtype)
    flat = whole_bytes(array)
    done = 0
    while done < len(flat):
        got = pipe.readinto(flat[done:])  # type: ignore[attr-defined] # IO[bytes] leaves it out
        if not got:
            raise EOFError("the answer is cut off")
        done += got
    return array
