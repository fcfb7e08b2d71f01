"""Writes files and folders whole or not at all, whatever happens meanwhile.

A folder that is made at a path that the user named is for them alone (0700), unless `DGN_SHARED` is
set; whatever is put into a folder is for those who may enter that.

Raises `OSError`, except for `save_file`: what a full disk means is decided by whoever writes.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dgn_engine.errors import UserError
from dgn_engine.storage.inner_path import FilePath, InnerPath, LinkInside, inner, inside

SHARED = "DGN_SHARED"  # the variable that says so
PART = ".part"  # the ending of what was not finished
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotReplaced(OSError):  # noqa: N818 - shown as a verdict
    """Where a file should be written lies something that is none."""


def require_replaceable(path: FilePath) -> None:
    """Raise `NotReplaced` where something lies there that is no regular file."""
    try:
        mode = inner(path).status().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "")
    if kind:
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EEXIST
        raise NotReplaced(code, f"it is {kind}, and is not replaced")


def check_output(path: Path) -> None:
    """Raise `UserError` before work is done whose result could not be written there."""
    try:
        require_replaceable(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}; choose another name.") from None


def check_output_folder(folder: Path, names: Sequence[str]) -> None:
    """The same for files of these names in a folder, which need not be there."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; choose another one.")
    for name in names:
        check_output(folder / name)


def write_file(path: FilePath, content: bytes, synced: bool = True) -> None:
    """Write a part next to it, sync, rename, sync the folder.

    Where the user named the path, only a regular file is replaced (`NotReplaced`); what lies at an
    inner path gives way, whatever it is. `synced`: else a crash may leave an empty file.
    """
    with _replacing(path, synced) as part:
        _write(part, content, synced)


def save_file(path: FilePath, content: bytes) -> None:
    """Write a file, and its folder where there is none; `path` holds the old or the new file.

    Raises `UserError` where the disk is full, read-only or gone; then nothing is left behind.
    """
    try:
        make_folders(path.parent)
        write_file(path, content)
    except OSError as error:
        why = f"Cannot write {path}: {error.strerror or error}."
        raise UserError(why, kind="not-writable", value=error.strerror) from None


@contextmanager
def replace_file(path: FilePath, synced: bool = True) -> Iterator[IO[bytes]]:
    """A file to write into; it replaces `path` when all went well, else nothing does.

    Raises `NotReplaced` as `write_file` does. `synced`: else a crash may leave an empty file.
    """
    with _replacing(path, synced) as part:
        part.unlink(missing_ok=True)
        with io.open(part.open(os.O_RDWR | os.O_CREAT | os.O_EXCL), "w+b") as file:  # noqa: UP020
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())


@contextmanager
def _replacing(path: FilePath, synced: bool) -> Iterator[InnerPath]:
    """The part that takes the place of `path`, unless the block fails; then it is removed."""
    if isinstance(path, Path):
        require_replaceable(path)
    place = inner(path)
    part = _part(place)
    try:
        yield part
        part.replace(place)
        if synced:
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
        _make(part, _new_mode(path))
        if place.is_dir():  # as the user made it
            _allow(part, stat.S_IMODE(place.status().st_mode))
        for name, content in files.items():
            _write(part / name, content)
        part.sync()
        if os.name != "posix" and place.is_dir():  # there a rename does not replace a folder
            _remove_empty(place)
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
    if path.is_dir():
        return
    if isinstance(path, InnerPath) and not path.parts:  # it is not made here, if it is gone
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    make_folders(path.parent)
    make_folder(path)


def make_folder(path: FilePath) -> None:
    """A folder where there is none; the one above it must be there. `LinkInside` for a link."""
    if path.is_dir():
        return
    place = inner(path)
    try:
        _make(place, _new_mode(path))
    except FileExistsError:
        if isinstance(path, InnerPath) and path.is_link():
            raise LinkInside(path.within) from None
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    try:
        place.parent.sync()
    except OSError:
        with suppress(OSError):  # another time it would be taken for one that is safe
            _remove_empty(place)
        raise


def _new_mode(path: FilePath) -> int | None:
    """The permissions of a new folder, before the umask; None: those of the folder above, which is
    one of ours."""
    if isinstance(path, InnerPath):
        return None
    return 0o700 if os.environ.get(SHARED, "0") in ("", "0") else 0o777


def make_private(folder: Path) -> None:
    """Take the rights of others from a folder that was copied, and from what is in it."""
    if _new_mode(folder) != 0o700:
        return
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder of what was copied, the folder itself included."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("r+b") as file:
                os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: FilePath) -> None:
    inside(folder).sync()


def find_leftovers(folder: FilePath) -> list[InnerPath]:
    """The files that a killed writer left unfinished in this folder."""
    place = inner(folder)
    return [place / name for name in place.listing() if name.endswith(PART)]


def clear_leftovers(folder: FilePath) -> None:
    """Remove what a killed writer has left; only whoever holds the run's lock may."""
    for path in find_leftovers(folder):
        if path.is_dir():
            path.remove_tree(ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _part(path: InnerPath) -> InnerPath:
    return path.parent / f".{path.name}.{os.getpid()}{PART}"


def _make(path: InnerPath, mode: int | None) -> None:
    """A new folder with these permissions, less the umask; else those of the one above."""
    with path.at() as (name, folder):
        above = 0o777 if folder is None else os.fstat(folder).st_mode & 0o777
        os.mkdir(name, above if mode is None else mode, dir_fd=folder)


def _remove_empty(path: InnerPath) -> None:
    with path.at() as (name, folder):
        os.rmdir(name, dir_fd=folder)


def _allow(path: InnerPath, mode: int) -> None:
    """Give a folder these permissions."""
    with path.anchor.opened(path.parts) as folder:
        if isinstance(folder, int):
            os.fchmod(folder, mode)


def _write(path: InnerPath, content: bytes, synced: bool = True) -> None:
    path.unlink(missing_ok=True)  # what was left by a process of the same number
    handle = path.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        left = memoryview(content)
        while left:
            written = os.write(handle, left)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            left = left[written:]
        if synced:
            os.fsync(handle)
    finally:
        os.close(handle)
