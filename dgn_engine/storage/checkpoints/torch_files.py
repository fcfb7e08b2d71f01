"""Read torch files, and plain pickles of arrays or tensors.

Since 1.6: a zip archive of one pickle and one record per storage. torch takes the folder of the
first member for that of the checkpoint, finds members in it case-insensitively, and swaps bytes by
the type of their storage, whatever the tensors are: `_load` in `torch/serialization.py`,
`PyTorchStreamReader` in `caffe2/serialize/inline_container.cc`.

Before: magic number, protocol version, system information, the tree, the list of storage keys, then
for each key its count as 64 bits and its numbers (`torch/serialization.py`).
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
    dtype_width,
    whole_bytes,
)
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertDict, NoCalls, read_pickle
from dgn_engine.storage.checkpoints.pickled_tensors import (
    DeclaredStorages,
    Records,
    TensorStorage,
    build_inert,
    declared_storage,
    latin_bytes,
)
from dgn_engine.storage.checkpoints.tensor_tree import parsed_tree
from dgn_engine.storage.checkpoints.zip_archive import ZipArchive
from dgn_engine.storage.session_file import archive_format
from dgn_engine.text.printable import plain_text

PICKLE = b"\x80"
MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
# The files that torch writes into the folder, and looks for in it.
_WRITTEN = re.compile(
    r"data\.pkl|byteorder|version|\.format_version|\.storage_alignment|\.data/serialization_id"
    r"|data/[0-9]{1,20}"
)
_LONGEST_FOLDER = 511  # bytes, including '/'; torch does not see a '/' after these
_ORDERS = {b"little": "<", b"big": ">"}
_VERSION = re.compile(rb"([1-9]|10)\n?")  # of archives that torch reads; it writes 3


def is_torch_zip(archive: ZipArchive) -> bool:
    """Return whether torch could find a checkpoint's pickle in an archive of any kind."""
    return any(name.casefold().endswith("/data.pkl") for name in archive.members)


def check_torch_zip(archive: ZipArchive) -> str:
    """Return the folder of the only pickle.

    Raises:
        UnreadableFile: It is a program, is compressed, or has members that torch never writes.
    """
    if archive_format.ABOUT in archive.members:
        raise UnreadableFile(
            "is a session file, not weights; 'dgn runs show' describes it, 'dgn runs import' adds "
            "its run to yours",
            kind="session",
        )
    names = [name.casefold() for name in archive.members]
    if any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        raise UnreadableFile(
            "is a TorchScript program, not weights; save its state_dict", kind="program"
        )
    if any(name.endswith("/extern_modules") for name in names):
        raise UnreadableFile(
            "is a torch.package with code, not weights; save its state_dict", kind="program"
        )
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        raise UnreadableFile(
            "is an exported program, not weights; save its state_dict", kind="program"
        )
    first = next(iter(archive.members), "")
    folder = first[: first.find("/") + 1]
    if len(folder.encode()) > _LONGEST_FOLDER:
        raise UnreadableFile("has a folder name that torch does not read", kind="no-torch")
    pickle = archive.members.get(f"{folder}data.pkl")
    single = sum(name.endswith(".pkl") for name in names) == 1
    if not folder or not single or pickle is None or pickle.file_size > limits.PICKLE:
        raise UnreadableFile(
            "does not have exactly one small data.pkl, as torch files do", kind="no-torch"
        )
    for name in archive.members:
        if not name.startswith(folder):
            raise UnreadableFile(
                "has more than one folder, which torch never writes", kind="no-torch"
            )
        if not _WRITTEN.fullmatch(name, len(folder)):
            raise UnreadableFile(
                f"has {plain_text(name)}, which torch never writes with weights", kind="no-torch"
            )
    archive.require_stored()  # torch never compresses, so a compressed archive is a bomb
    version = f"{folder}version"
    if version not in archive.members or not _VERSION.fullmatch(
        archive.read_checked_member(version)
    ):
        raise UnreadableFile(
            "has a version that torch does not read, or none", kind="other-version"
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
    """Return the tensors of a torch file, or of one part of it, at most `most` bytes.

    Records of tensors that are not needed are not read, so they may be damaged. `whole` as for
    `parsed_tree`.

    Raises:
        UnreadableFile: It is damaged or refused.
    """
    folder = check_torch_zip(archive)
    order = "<"
    if f"{folder}byteorder" in archive.members:
        stated = bytes(archive.read_checked_member(f"{folder}byteorder", len(b"little")))
        if stated not in _ORDERS:
            raise UnreadableFile("names a byte order that does not exist", kind="byte-order")
        order = _ORDERS[stated]

    checked: dict[str, memoryview] = {}
    room = limits.TAKEN

    def find_record(store: TensorStorage) -> tuple[memoryview, str]:
        nonlocal room
        name = f"{folder}data/{store.key}"
        if name not in archive.members:
            raise UnreadableFile(
                f"is incomplete: {plain_text(name)} is missing",
                kind="cut-off",
                value=name,
            )
        if name not in checked:
            content = archive.read_checked_member(name, room)
            room -= len(content)
            if len(content) != store.count * dtype_width(store.dtype):
                raise UnreadableFile(f"declares the wrong size for {plain_text(name)}")
            checked[name] = _little_endian(content, dtype_width(store.dtype), order)
        return checked[name], "<"

    declared = DeclaredStorages()

    def load_persistent(reference: Any) -> Any:
        if isinstance(reference, tuple) and len(reference) != 5:
            raise UnreadableFile("has a persistent reference to a view, which torch refuses")
        return declared.find_storage(reference)

    listed = bytes(archive.read_checked_member(f"{folder}data.pkl"))
    tree, position = read_pickle(listed, 0, build_inert, load_persistent, calls)
    if position != len(listed):
        raise UnreadableFile("has bytes after its pickle", kind="stray-bytes")
    return parsed_tree(tree, find_record, most, "PyTorch", part, whole=whole)


def _little_endian(content: memoryview, size: int, order: str) -> memoryview:
    """Return the numbers of a record in little-endian order; a copy, if they are not."""
    if order == "<" or size == 1:
        return content
    if size not in (2, 4, 8):
        raise UnreadableFile("has numbers in a byte order that is not supported for their type")
    return whole_bytes(np.frombuffer(content, f">u{size}").astype(f"<u{size}"))


def read_pickled(
    content: Content,
    most: int,
    part: str = "",
    calls: NoCalls | None = None,
    *,
    whole: bool = False,
) -> ParsedFile:
    """Return the tensors of a legacy torch file or the arrays of a plain pickle.

    Args:
        most: Bytes of numbers, at most.
        part: Return only this part, if given.
        whole: As for `parsed_tree`.
    """
    embedded = _Embedded(calls)
    tree, position = read_pickle(content, 0, embedded.build_embedded, declared_storage, calls)
    if tree != MAGIC:
        if position != len(content):
            raise UnreadableFile("has bytes after its end", kind="stray-bytes")
        return parsed_tree(tree, _inner_record, most, "pickle of arrays", part, whole=whole)
    tree, records = _read_legacy(content, position, calls)
    return parsed_tree(tree, records, most, "PyTorch, before 1.6", part, whole=whole)


def _read_legacy(content: Content, place: int, calls: NoCalls | None = None) -> tuple[Any, Records]:
    """Return the tree after the magic number, and the records of its storages."""
    declared = DeclaredStorages()
    version, place = read_pickle(content, place, build_inert, declared_storage, calls)
    system, place = read_pickle(content, place, build_inert, declared_storage, calls)
    if version != _PROTOCOL or not isinstance(system, InertDict):
        raise UnreadableFile("was written by an unknown version of torch")
    tree, place = read_pickle(content, place, build_inert, declared.find_storage, calls)
    declared.check_views()
    keys, place = read_pickle(content, place, build_inert, declared_storage, calls)
    view = memoryview(content)
    records: dict[str, memoryview] = {}
    for key in keys if isinstance(keys, list) else ():
        known = declared.by_key.get(key) if isinstance(key, str) else None
        if known is None or key in records:
            raise UnreadableFile("lists storages that it does not have")
        count = int.from_bytes(content[place : place + 8], "little")
        place += 8
        if count != known.count or not dtype_width(known.dtype):
            raise UnreadableFile("declares the wrong size for a storage")
        end = place + count * dtype_width(known.dtype)
        if end > len(content):
            raise UnreadableFile(f"is cut off within its tensor data; {AGAIN}", kind="cut-off")
        records[key] = view[place:end]
        place = end
    if len(records) != len(declared.by_key):
        raise UnreadableFile("is incomplete: some of its storages are missing")
    if place != len(content):
        raise UnreadableFile("has bytes after its end", kind="stray-bytes")

    def find_record(store: TensorStorage) -> tuple[memoryview, str]:
        return records[store.key], "<"  # torch writes this on any machine, whatever it states

    return tree, find_record


class _Embedded:
    """Builds the tensors of a plain pickle, where each storage is a small embedded torch file."""

    def __init__(self, calls: NoCalls | None) -> None:
        self.storages = 0
        self.calls = calls

    def build_embedded(self, name: GlobalName, arguments: tuple[Any, ...]) -> Any:
        """Build as `pickled_tensors.build_inert` does, and the storage of an embedded file."""
        if str(name) != "torch.storage._load_from_bytes" or len(arguments) != 1:
            return build_inert(name, arguments)
        self.storages += 1
        content = arguments[0]
        if isinstance(content, str):  # protocol 2: bytes as text
            content = latin_bytes((content, "latin-1"))
        if not isinstance(content, bytes) or self.storages > limits.MEMBERS:
            raise UnreadableFile("has a storage that torch did not write")
        magic, position = read_pickle(content, 0, build_inert, declared_storage, self.calls)
        if magic != MAGIC:
            raise UnreadableFile("has a storage that torch did not write")
        inner, records = _read_legacy(content, position, self.calls)
        if not isinstance(inner, TensorStorage):
            raise UnreadableFile("has a storage that torch did not write")
        numbers, order = records(inner)
        return replace(inner, inner=numbers, order=order)


def _inner_record(store: TensorStorage) -> tuple[memoryview, str]:
    if store.inner is None:
        raise UnreadableFile("refers to tensor data that it does not contain", kind="no-numbers")
    return store.inner, store.order
