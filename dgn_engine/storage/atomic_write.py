"""Writes files and folders whole or not at all, whatever happens meanwhile.

Raises `OSError`, except for `save_file`: what a full disk means is decided by whoever writes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dgn_engine.errors import UserError

PART = ".part"  # the ending of what was not finished


def write_file(path: Path, content: bytes) -> None:
    """Write a part next to it, sync, rename, sync the folder."""
    part = _part(path)
    try:
        _write(part, content)
        part.replace(path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def save_file(path: Path, content: bytes) -> None:
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
    part = _part(path)
    try:
        with part.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """A new folder with these files, or none: `path` must not exist, or be an empty folder."""
    part = _part(path)
    try:
        if os.path.lexists(part):  # what was left when the disk let nothing be removed
            shutil.rmtree(part)
        part.mkdir()
        for name, content in files.items():
            _write(part / name, content)
        sync_folder(part)
        if os.name != "posix" and path.is_dir():  # there a rename does not replace a folder
            path.rmdir()
        part.replace(path)
        try:
            sync_folder(path.parent)
        except OSError:
            path.replace(part)
            raise
    finally:
        if part.exists():
            shutil.rmtree(part, ignore_errors=True)


def make_folders(path: Path) -> None:
    """A folder and those above it, where they are missing, as safe as what lies in it later."""
    if not path.is_dir():
        make_folders(path.parent)
        make_folder(path)


def make_folder(path: Path) -> None:
    """A folder where there is none; the one above it must be there."""
    if path.is_dir():
        return
    path.mkdir(exist_ok=True)
    try:
        sync_folder(path.parent)
    except OSError:
        with suppress(OSError):  # another time it would be taken for one that is safe
            path.rmdir()
        raise


def sync_tree(folder: Path) -> None:
    """Sync every file and folder of what was copied, the folder itself included."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            _sync_file(path)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and need not be
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def find_leftovers(folder: Path) -> list[Path]:
    """The files that a killed writer left unfinished in this folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.endswith(PART))


def clear_leftovers(folder: Path) -> None:
    """Remove what a killed writer has left; only whoever holds the run's lock may."""
    for path in find_leftovers(folder):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}{PART}")


def _sync_file(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
