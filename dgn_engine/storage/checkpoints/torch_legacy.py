"""Reads torch files from before 1.6 and plain pickles of arrays or tensors.

A legacy torch file: magic number, protocol version, facts of the system, the tree, the list of
storage keys, then for each key its count as 64 bits and its numbers (`torch/serialization.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import AGAIN, ParsedFile, UnreadableFile, width
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertDict, NoCalls, read_pickle
from dgn_engine.storage.checkpoints.pickled_tensors import (
    DeclaredStorages,
    Records,
    TensorStorage,
    build,
    latin_bytes,
    storage,
)
from dgn_engine.storage.checkpoints.tensor_tree import parsed_tree

PICKLE = b"\x80"
MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


def read_pickled(
    content: Content,
    most: int,
    part: str = "",
    calls: NoCalls | None = None,
    *,
    whole: bool = False,
) -> ParsedFile:
    """The tensors of a legacy torch file or the arrays of a plain pickle, at most `most` bytes; of
    this part alone where one is named. `whole` as for `parsed_tree`."""
    embedded = _Embedded(calls)
    tree, place = read_pickle(content, 0, embedded.build, storage, calls)
    if tree != MAGIC:
        if place != len(content):
            raise UnreadableFile("has bytes behind its end")
        return parsed_tree(tree, _inside, most, "pickle of arrays", part, whole=whole)
    tree, records = _legacy(content, place, calls)
    return parsed_tree(tree, records, most, "PyTorch, before 1.6", part, whole=whole)


def _legacy(content: Content, place: int, calls: NoCalls | None = None) -> tuple[Any, Records]:
    """The tree behind the magic number, and the records of its storages."""
    declared = DeclaredStorages()
    version, place = read_pickle(content, place, build, storage, calls)
    system, place = read_pickle(content, place, build, storage, calls)
    if version != _PROTOCOL or not isinstance(system, InertDict):
        raise UnreadableFile("is of a version of torch that is not known here")
    tree, place = read_pickle(content, place, build, declared.storage, calls)
    declared.check_views()
    keys, place = read_pickle(content, place, build, storage, calls)
    view = memoryview(content)
    records: dict[str, memoryview] = {}
    for key in keys if isinstance(keys, list) else ():
        known = declared.by_key.get(key) if isinstance(key, str) else None
        if known is None or key in records:
            raise UnreadableFile("lists storages that it does not hold")
        count = int.from_bytes(content[place : place + 8], "little")
        place += 8
        if count != known.count or not width(known.dtype):
            raise UnreadableFile("declares a size for a storage that its bytes do not fill")
        end = place + count * width(known.dtype)
        if end > len(content):
            raise UnreadableFile(f"is cut off within its numbers; {AGAIN}")
        records[key] = view[place:end]
        place = end
    if len(records) != len(declared.by_key):
        raise UnreadableFile("is not all there: some of its storages are missing")
    if place != len(content):
        raise UnreadableFile("has bytes behind its end")

    def record(store: TensorStorage) -> tuple[memoryview, str]:
        return records[store.key], "<"  # torch writes so on any machine, whatever it says of it

    return tree, record


class _Embedded:
    """Builds the tensors of a plain pickle, where each storage is a small torch file of its own."""

    def __init__(self, calls: NoCalls | None) -> None:
        self.storages = 0
        self.calls = calls

    def build(self, name: GlobalName, arguments: tuple[Any, ...]) -> Any:
        """As `pickled_tensors.build`, and the storage of such a small file."""
        if str(name) != "torch.storage._load_from_bytes" or len(arguments) != 1:
            return build(name, arguments)
        self.storages += 1
        content = arguments[0]
        if isinstance(content, str):  # protocol 2: bytes as text
            content = latin_bytes((content, "latin-1"))
        if not isinstance(content, bytes) or self.storages > limits.MEMBERS:
            raise UnreadableFile("holds a storage that torch did not write")
        magic, place = read_pickle(content, 0, build, storage, self.calls)
        if magic != MAGIC:
            raise UnreadableFile("holds a storage that torch did not write")
        inner, records = _legacy(content, place, self.calls)
        if not isinstance(inner, TensorStorage):
            raise UnreadableFile("holds a storage that torch did not write")
        numbers, order = records(inner)
        return replace(inner, inner=numbers, order=order)


def _inside(store: TensorStorage) -> tuple[memoryview, str]:
    if store.inner is None:
        raise UnreadableFile("refers to numbers that it does not hold")
    return store.inner, store.order
