"""Reads torch files since 1.6: a zip archive of one pickle and one record for each storage.

torch takes the folder of the first member for that of the checkpoint, finds members in it without
regard to case, and turns bytes by the type of their storage, whatever the tensors are: `_load` in
`torch/serialization.py`, `PyTorchStreamReader` in `caffe2/serialize/inline_container.cc`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import (
    ParsedFile,
    UnreadableFile,
    whole_bytes,
    width,
)
from dgn_engine.storage.checkpoints.pickle_file import NoCalls, read_pickle
from dgn_engine.storage.checkpoints.pickled_tensors import DeclaredStorages, TensorStorage, build
from dgn_engine.storage.checkpoints.tensor_tree import parsed_tree
from dgn_engine.storage.checkpoints.zip_archive import ZipArchive
from dgn_engine.storage.session_file import archive_format
from dgn_engine.text.printable import plain

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
            "its run among yours"
        )
    names = [name.casefold() for name in archive.members]
    if any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        raise UnreadableFile("is a TorchScript program, not weights; ask for its state_dict")
    if any(name.endswith("/extern_modules") for name in names):
        raise UnreadableFile("is a torch.package with code, not weights; ask for its state_dict")
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        raise UnreadableFile("is an exported program, not weights; ask for its state_dict")
    first = next(iter(archive.members), "")
    folder = first[: first.find("/") + 1]
    if len(folder.encode()) > _LONGEST_FOLDER:
        raise UnreadableFile("has a folder with a name that torch does not read")
    pickle = archive.members.get(f"{folder}data.pkl")
    single = sum(name.endswith(".pkl") for name in names) == 1
    if not folder or not single or pickle is None or pickle.file_size > limits.PICKLE:
        raise UnreadableFile("does not hold one small list of tensors, as torch writes it")
    for name in archive.members:
        if not name.startswith(folder):
            raise UnreadableFile("holds more than one folder, which torch never writes")
        if not _WRITTEN.fullmatch(name, len(folder)):
            raise UnreadableFile(f"holds {plain(name)}, which torch never writes beside weights")
    archive.require_stored()  # torch never compresses, so a compressed archive is a bomb
    version = f"{folder}version"
    if version not in archive.members or not _VERSION.fullmatch(archive.checked(version)):
        raise UnreadableFile("is of no version that torch reads, or does not say which")
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
            raise UnreadableFile("names a byte order that does not exist")
        order = _ORDERS[stated]

    checked: dict[str, memoryview] = {}
    room = limits.TAKEN

    def record(store: TensorStorage) -> tuple[memoryview, str]:
        nonlocal room
        name = f"{folder}data/{store.key}"
        if name not in archive.members:
            raise UnreadableFile(f"is not all there: the numbers {plain(name)} are missing")
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
        raise UnreadableFile("has bytes behind its pickle")
    return parsed_tree(tree, record, most, "PyTorch", part, whole=whole)


def _little_endian(content: memoryview, size: int, order: str) -> memoryview:
    """The numbers of a record with the lowest byte first; a copy, if they are not so."""
    if order == "<" or size == 1:
        return content
    if size not in (2, 4, 8):
        raise UnreadableFile("holds numbers in an order of bytes that is not read for their type")
    return whole_bytes(np.frombuffer(content, f">u{size}").astype(f"<u{size}"))
