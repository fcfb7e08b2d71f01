"""Reads torch files since 1.6: a zip archive of one pickle and one record for each storage."""

from __future__ import annotations

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import ParsedFile, UnreadableFile, width
from dgn_engine.storage.checkpoints.pickle_file import NoCalls, read_pickle
from dgn_engine.storage.checkpoints.pickled_tensors import TensorStorage, build, storage
from dgn_engine.storage.checkpoints.tensor_tree import parsed_tree
from dgn_engine.storage.checkpoints.zip_archive import ZipArchive
from dgn_engine.storage.session_file import archive_format
from dgn_engine.text.printable import plain


def check_torch_zip(archive: ZipArchive) -> str:
    """The folder of the only pickle; raises `UnreadableFile` for programs and compression."""
    names = list(archive.members)
    if archive_format.ABOUT in names:
        raise UnreadableFile(
            "is a session file, not weights; 'dgn runs show' describes it, 'dgn runs import' puts "
            "its run among yours"
        )
    if any(name.endswith("constants.pkl") or "/code/" in name for name in names):
        raise UnreadableFile("is a TorchScript program, not weights; ask for its state_dict")
    if any(name.endswith("/extern_modules") for name in names):
        raise UnreadableFile("is a torch.package with code, not weights; ask for its state_dict")
    if any(name.endswith(("archive_format", "serialized_exported_program.json")) for name in names):
        raise UnreadableFile("is an exported program, not weights; ask for its state_dict")
    pickles = [name for name in names if name.endswith(".pkl")]
    folder = pickles[0].removesuffix("data.pkl") if len(pickles) == 1 else ""
    if not folder.endswith("/") or archive.members[pickles[0]].file_size > limits.PICKLE:
        raise UnreadableFile("does not hold one small list of tensors, as torch writes it")
    if not all(name.startswith(folder) for name in names):
        raise UnreadableFile("holds more than one folder, which torch never writes")
    archive.require_stored()  # torch never compresses, so a compressed archive is a bomb
    return folder


def read_torch_zip(
    archive: ZipArchive, most: int, part: str = "", calls: NoCalls | None = None
) -> ParsedFile:
    """The tensors of a torch file, or of this part of it, at most `most` bytes of them; raises
    `UnreadableFile`. Numbers that are not taken are not read, so they may be damaged."""
    folder = check_torch_zip(archive)
    order = "<"
    if f"{folder}byteorder" in archive.members:
        stated = bytes(archive.checked(f"{folder}byteorder", len(b"little")))
        if stated not in (b"little", b"big"):
            raise UnreadableFile("names a byte order that does not exist")
        order = "<" if stated == b"little" else ">"

    checked: dict[str, memoryview] = {}
    room = limits.TAKEN

    def record(store: TensorStorage) -> tuple[memoryview, str]:
        nonlocal room
        name = f"{folder}data/{store.key}"
        if name not in archive.members:
            raise UnreadableFile(f"is not all there: the numbers {plain(name)} are missing")
        if name not in checked:
            checked[name] = archive.checked(name, room)
            room -= len(checked[name])
        content = checked[name]
        if len(content) != store.count * width(store.dtype):
            raise UnreadableFile(f"declares a size for {plain(name)} that its bytes do not fill")
        return content, order

    listed = bytes(archive.checked(f"{folder}data.pkl"))
    tree, _ = read_pickle(listed, 0, build, storage, calls)
    return parsed_tree(tree, record, most, "PyTorch", part)
