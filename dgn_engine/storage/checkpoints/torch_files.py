"""Reads files of torch, and plain pickles of arrays or tensors.

Since 1.6: a zip archive of one pickle and one record for each storage. torch takes the folder of
the first member for that of the checkpoint, finds members in it without regard to case, and turns
bytes by the type of their storage, whatever the tensors are: `_load` in `torch/serialization.py`,
`PyTorchStreamReader` in `caffe2/serialize/inline_container.cc`.

Before: magic number, protocol version, facts of the system, the tree, the list of storage keys,
then for each key its count as 64 bits and its numbers (`torch/serialization.py`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    AGAIN,
    ParsedFile,
    UnreadableFile,
    whole_bytes,
    width,
)
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
from dgn_engine.storage.checkpoints.zip_archive import ZipArchive
from dgn_engine.storage.session_file import archive_format
from dgn_engine.text.printable import plain

PICKLE = b"\x80"
MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
# What torch writes into the folder, and what it looks for in it.
_WRITTEN = re.compile(
    r"data\.pkl|byteorder|version|\.format_version|\.storage_alignment|\.data/serialization_id"
    r"|data/[0-9]{1,20}"
)
_LONGEST_FOLDER = 511  # bytes, with its '/'; torch does not see one behind them
_ORDERS = {b"little": "<", b"big": ">"}
_VERSION = re.compile(rb"([1-9]|10)\n?")  # of archives, that torch reads; it writes 3


def is_torch_zip(archive: ZipArchive) -> bool:
    """Whether torch could find the pickle of a checkpoint in an archive, which may be another's."""
    return any(name.casefold().endswith("/data.pkl") for name in archive.members)


def check_torch_zip(archive: ZipArchive) -> str:
    """The folder of the only pickle; raises `UnreadableFile` for programs, compression, and for
    members that torch does not write."""
    if archive_format.ABOUT in archive.members:
        raise UnreadableFile(
            "is a session file, not weights; 'dgn runs show' describes it, 'dgn runs import' puts "
            "its run among yours",
            kind="session",
        )
    names = [name.casefold() for name in archive.members]
    if any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        raise UnreadableFile(
            "is a TorchScript program, not weights; ask for its state_dict", kind="program"
        )
    if any(name.endswith("/extern_modules") for name in names):
        raise UnreadableFile(
            "is a torch.package with code, not weights; ask for its state_dict", kind="program"
        )
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        raise UnreadableFile(
            "is an exported program, not weights; ask for its state_dict", kind="program"
        )
    first = next(iter(archive.members), "")
    folder = first[: first.find("/") + 1]
    if len(folder.encode()) > _LONGEST_FOLDER:
        raise UnreadableFile("has a folder with a name that torch does not read", kind="no-torch")
    pickle = archive.members.get(f"{folder}data.pkl")
    single = sum(name.endswith(".pkl") for name in names) == 1
    if not folder or not single or pickle is None or pickle.file_size > limits.PICKLE:
        raise UnreadableFile(
            "does not hold one small list of tensors, as torch writes it", kind="no-torch"
        )
    for name in archive.members:
        if not name.startswith(folder):
            raise UnreadableFile(
                "holds more than one folder, which torch never writes", kind="no-torch"
            )
        if not _WRITTEN.fullmatch(name, len(folder)):
            raise UnreadableFile(
                f"holds {plain(name)}, which torch never writes beside weights", kind="no-torch"
            )
    archive.require_stored()  # torch never compresses, so a compressed archive is a bomb
    version = f"{folder}version"
    if version not in archive.members or not _VERSION.fullmatch(archive.checked(version)):
        raise UnreadableFile(
            "is of no version that torch reads, or does not say which", kind="other-version"
        )
    return folder


def read_torch_zip(
    archive: ZipArchive,
    most: int,
    part: str = "",
    calls: NoCalls | None = None,
    *,
    whole: bool = False,
) -> ParsedFile:
    """The tensors of a torch file, or of this part of it, at most `most` bytes of them; raises
    `UnreadableFile`. `whole` as for `parsed_tree`. Numbers that are not taken are not read, so they
    may be damaged."""
    folder = check_torch_zip(archive)
    order = "<"
    if f"{folder}byteorder" in archive.members:
        stated = bytes(archive.checked(f"{folder}byteorder", len(b"little")))
        if stated not in _ORDERS:
            raise UnreadableFile("names a byte order that does not exist", kind="byte-order")
        order = _ORDERS[stated]

    checked: dict[str, memoryview] = {}
    room = limits.TAKEN

    def record(store: TensorStorage) -> tuple[memoryview, str]:
        nonlocal room
        name = f"{folder}data/{store.key}"
        if name not in archive.members:
            raise UnreadableFile(
                f"is not all there: the numbers {plain(name)} are missing",
                kind="cut-off",
                value=name,
            )
        if name not in checked:
            content = archive.checked(name, room)
            room -= len(content)
            if len(content) != store.count * width(store.dtype):
                raise UnreadableFile(
                    f"declares a size for {plain(name)} that its bytes do not fill"
                )
            checked[name] = _little_endian(content, width(store.dtype), order)
        return checked[name], "<"

    declared = DeclaredStorages()

    def persistent(reference: Any) -> Any:
        if isinstance(reference, tuple) and len(reference) != 5:
            raise UnreadableFile("refers out of its pickle to a view, which torch refuses here")
        return declared.storage(reference)

    listed = bytes(archive.checked(f"{folder}data.pkl"))
    tree, place = read_pickle(listed, 0, build, persistent, calls)
    if place != len(listed):
        raise UnreadableFile("has bytes behind its pickle", kind="stray-bytes")
    return parsed_tree(tree, record, most, "PyTorch", part, whole=whole)


def _little_endian(content: memoryview, size: int, order: str) -> memoryview:
    """The numbers of a record with the lowest byte first; a copy, if they are not so."""
    if order == "<" or size == 1:
        return content
    if size not in (2, 4, 8):
        raise UnreadableFile("holds numbers in an order of bytes that is not read for their type")
    return whole_bytes(np.frombuffer(content, f">u{size}").astype(f"<u{size}"))


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
            raise UnreadableFile("has bytes behind its end", kind="stray-bytes")
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
            raise UnreadableFile(f"is cut off within its numbers; {AGAIN}", kind="cut-off")
        records[key] = view[place:end]
        place = end
    if len(records) != len(declared.by_key):
        raise UnreadableFile("is not all there: some of its storages are missing")
    if place != len(content):
        raise UnreadableFile("has bytes behind its end", kind="stray-bytes")

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
        raise UnreadableFile("refers to numbers that it does not hold", kind="no-numbers")
    return store.inner, store.order
