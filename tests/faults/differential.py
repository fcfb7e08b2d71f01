"""Holds what dgn reads in a file against what torch, NumPy and safetensors read in it.

A file must be read as each of them reads it, or refused; and of whatever they would hand to pickle
the calls must be named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import ParsedFile, UnreadableFile
from dgn_engine.storage.checkpoints.reader_child import read_contents
from tests.faults.reference_readers import ReferenceReaders

_PICKLED = ("PyTorch", "pickle")  # kinds of files that unpicklers are given
Read = Callable[[bytes, CallRecorder], ParsedFile]


@dataclass
class Compared:
    """What became of the files of one kind. `refused`: by dgn; `alone`: read by dgn and no other;
    `different`: the faults, in words, with the files."""

    inputs: int = 0
    refused: int = 0
    equal: int = 0
    alone: int = 0
    different: list[tuple[str, bytes]] = field(default_factory=list)

    def row(self, kind: str) -> dict[str, Any]:
        """For the tables."""
        taken = self.equal + self.alone
        return {
            "sort": f"{kind} (held against torch, NumPy, safetensors)",
            "inputs": self.inputs,
            "taken": taken,
        }


def read_inertly(content: bytes, calls: CallRecorder) -> ParsedFile:
    """As the child reads; what it makes is inert, and the files are small."""
    return read_contents(content, "", calls)


def compare(
    files: Iterable[tuple[str, bytes]], readers: ReferenceReaders, read: Read = read_inertly
) -> dict[str, Compared]:
    """Read each file by dgn and by the others; by kind of the file."""
    found: dict[str, Compared] = {}
    for kind, content in files:
        row = found.setdefault(kind, Compared())
        row.inputs += 1
        calls = CallRecorder()
        try:
            ours = read(content, calls)
        except UnreadableFile:
            row.refused += 1
            continue
        named = calls.would_call or calls.would_look_up or calls.would_import
        theirs, pickles, names = readers.read(content, harmless=not named)
        readings = {  # torch knows the format, so where it finds no tensor there is none
            reader: tensors
            for reader, tensors in theirs.items()
            if tensors or (reader.startswith("torch") and ours.arrays)
        }
        faults = [
            f"{name}: {fault}"
            for name, tensors in readings.items()
            if (fault := difference(ours, tensors))
        ]
        if ours.kind == "safetensors" and not ours.ignored and "safetensors" not in theirs:
            faults.append("safetensors refuses it")
        if ours.kind == "PyTorch" and "archive of torch" not in theirs:
            faults.append("torch does not find all its members")
        if names and not ours.kind.startswith(_PICKLED):
            faults.append(f"a pickle, too, which imports {names}")
        if missed := unnamed_calls(calls, pickles):
            faults.append(f"calls that are not named: {missed}")
        if faults:
            row.different.append(("; ".join(faults), content))
        elif readings:
            row.equal += 1
        else:
            row.alone += 1
    return found


def difference(ours: ParsedFile, theirs: dict[str, tuple[str, list[int], str]]) -> str:
    """A tensor that another reader reads otherwise, or that is nowhere in ours; or ''."""
    for name in ours.arrays:
        if name not in theirs:
            return f"it has no {name!r}"
    for name, (kind, shape, content) in theirs.items():
        if name not in ours.arrays:
            if not any(line.startswith(f"{name} (") for line in ours.ignored):
                return f"{name!r} is not listed"
            continue
        array = ours.arrays[name]
        flat = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes().hex()
        if (ours.dtypes[name], list(array.shape), flat) != (kind, shape, content):
            return f"{name!r} is {kind} {shape}, here {ours.dtypes[name]} {array.shape}, or differs"
    return ""


def unnamed_calls(calls: CallRecorder, pickles: Iterable[str]) -> list[str]:
    """What pickles would call and `calls` does not name."""
    found = CallRecorder()
    for content in pickles:
        found.look_through(bytes.fromhex(content))
    return sorted(set(found.would_call) - set(calls.would_call))


def table(found: dict[str, Compared]) -> str:
    """The figures in columns."""
    columns = ("inputs", "refused", "equal", "alone", "different")
    head = f"{'kind of file':34}" + "".join(f"{column:>10}" for column in columns)
    lines = [
        f"{kind:34}{row.inputs:10,}{row.refused:10,}{row.equal:10,}{row.alone:10,}"
        f"{len(row.different):10}"
        for kind, row in found.items()
    ]
    inputs, refused = (sum(getattr(r, c) for r in found.values()) for c in columns[:2])
    different = sum(len(row.different) for row in found.values())
    last = f"{inputs:,} files, {refused:,} refused, {different} different"
    return "\n".join([head, *lines, last])
