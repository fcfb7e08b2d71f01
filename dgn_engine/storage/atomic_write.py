"""Writes files and folders whole or not at all, whatever happens meanwhile.

What lies in a folder that is made here can be read by the user alone, unless they share it: a
new file or folder is for those who may enter the folder that it is put into.

Raises `OSError`, except for `save_file`: what a full disk means is decided by whoever writes.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import FilePath, InnerPath, LinkInside, inner

PART = ".part"  # the ending of what was not finished


def write_file(path: FilePath, content: bytes) -> None:
    """Write a part next to it, sync, rename, sync the folder. A link there is replaced."""
    place = inner(path)
    part = _part(place)
    try:
        _write(part, content)
        part.replace(place)
        place.parent.sync()
    finally:
        part.unlink(missing_ok=True)


def save_file(path: FilePath, content: bytes) -> None:
    """Write a file, and its folder where there is none; `path` holds the old or the new file.

    Raises `UserError` where the disk is full, read-only or gone; then nothing is left behind.
    """
    try:
        make_folders(path.parent)
        write_file(path, content)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror or error}.") from None


@contextmanager
def replace_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write into; it replaces `path` when all went well, else nothing does."""
    place = inner(path)
    part = _part(place)
    try:
        part.unlink(missing_ok=True)
        with io.open(part.open(os.O_RDWR | os.O_CREAT | os.O_EXCL), "w+b") as file:  # noqa: UP020
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)
        place.parent.sync()
    finally:
        part.unlink(missing_ok=True)


def write_folder(path: FilePath, files: Mapping[str, bytes]) -> None:
    """A new folder with these files, or none: `path` must not exist, or be an empty folder."""
    place = inner(path)
    part = _part(place)
    try:
        if part.exists():  # what was left when the disk let nothing be removed
            part.remove_tree()
        part.mkdir()
        for name, content in files.items():
            _write(part / name, content)
        part.sync()
        if os.name != "posix" and place.is_dir():  # there a rename does not replace a folder
            place.rmdir()
        part.replace(place)
        try:
            place.parent.sync()
        except OSError:
            place.replace(part)
            raise
    finally:
        if part.exists():
            part.remove_tree(ignore_errors=True)


def make_folders(path: FilePath) -> None:
    """A folder and those above it, where they are missing, as safe as what lies in it later."""
    if not path.is_dir():
        make_folders(path.parent)
        make_folder(path)


def make_folder(path: FilePath) -> None:
    """A folder where there is none; the one above it must be there. `LinkInside` for a link."""
    if path.is_dir():
        return
    place = inner(path)
    try:
        place.mkdir()
    except FileExistsError:
        if isinstance(path, InnerPath) and path.is_link():
            raise LinkInside(path.within) from None
        if not path.is_dir():
            raise
    try:
        place.parent.sync()
    except OSError:
        with suppress(OSError):  # another time it would be taken for one that is safe
            place.rmdir()
        raise


def sync_tree(folder: Path) -> None:
    """Sync every file and folder of what was copied, the folder itself included."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            _sync_file(path)
    sync_folder(folder)


def sync_folder(folder: FilePath) -> None:
    if isinstance(folder, InnerPath):
        folder.sync()
        return
    if os.name != "posix":  # elsewhere a folder cannot be opened, and need not be
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def find_leftovers(folder: FilePath) -> list[InnerPath]:
    """The files that a killed writer left unfinished in this folder."""
    return [path for path in inner(folder).entries() if path.name.endswith(PART)]


def clear_leftovers(folder: FilePath) -> None:
    """Remove what a killed writer has left; only whoever holds the run's lock may."""
    for path in find_leftovers(folder):
        if path.is_dir():
            path.remove_tree(ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _part(path: InnerPath) -> InnerPath:
    return path.with_name(f".{path.name}.{os.getpid()}{PART}")


def _sync_file(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _write(path: InnerPath, content: bytes) -> None:
    path.unlink(missing_ok=True)  # what was left by a process of the same number
    handle = path.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        left = memoryview(content)
        while left:
            written = os.write(handle, left)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left = left[written:]
        os.fsync(handle)
    finally:
        os.close(handle)
