"""Write files and folders completely or not at all, whatever happens meanwhile.

A folder created at a path chosen by the user is private (0700), unless `DGN_SHARED` is set; what is
put into a folder inherits its permissions.

Raises `OSError`, except `save_file`: the caller decides what a full disk means.
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
from dgn_engine.storage.inner_path import (
    FilePath,
    InnerPath,
    LinkInside,
    as_inner_path,
    inner_folder,
)

SHARED = "DGN_SHARED"  # environment variable for shared folders
PART = ".part"  # ending of an unfinished file
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotReplaced(OSError):  # noqa: N818 - shown as a verdict
    """The target of a write exists and is not a regular file."""


def require_replaceable(path: FilePath) -> None:
    """Raise `NotReplaced` if the path exists and is not a regular file."""
    try:
        mode = as_inner_path(path).status().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "")
    if kind:
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EEXIST
        raise NotReplaced(code, f"it is {kind}, which is never overwritten")


def check_output(path: Path) -> None:
    """Raise `UserError` before doing work whose result could not be written there."""
    try:
        require_replaceable(path)
    except OSError as error:
        raise UserError(f"Cannot write {path}: {error.strerror}; choose another name.") from None


def check_output_folder(folder: Path, names: Sequence[str]) -> None:
    """Check files of these names in a folder, which need not exist, as `check_output` does."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise UserError(f"{folder} is not a folder; choose another one.")
    for name in names:
        check_output(folder / name)


def write_file(path: FilePath, content: bytes, synced: bool = True) -> None:
    """Write a file: a part beside it, sync, rename, sync the folder.

    At a path chosen by the user, only a regular file is replaced (`NotReplaced`); at an inner path
    anything is. Without `synced`, a crash may leave an empty file.
    """
    with _replacing_file(path, synced) as part:
        _write_part(part, content, synced)


def save_file(path: FilePath, content: bytes) -> None:
    """Write a file, creating its folder if needed; `path` ends up as the old or the new file.

    Raises:
        UserError: The disk is full, read-only or gone; nothing is left behind.
    """
    try:
        make_folders(path.parent)
        write_file(path, content)
    except OSError as error:
        why = f"Cannot write {path}: {error.strerror or error}."
        raise UserError(why, kind="not-writable", value=error.strerror) from None


@contextmanager
def replace_file(path: FilePath, synced: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces `path` if all goes well, and is discarded otherwise.

    Raises `NotReplaced` as `write_file` does. Without `synced`, a crash may leave an empty file.
    """
    with _replacing_file(path, synced) as part:
        part.unlink(missing_ok=True)
        with io.open(part.open(os.O_RDWR | os.O_CREAT | os.O_EXCL), "w+b") as file:  # noqa: UP020
            yield file
            file.flush()
            if synced:
                os.fsync(file.fileno())


@contextmanager
def _replacing_file(path: FilePath, synced: bool) -> Iterator[InnerPath]:
    """Yield the part that replaces `path`, unless the block fails; then it is removed."""
    if isinstance(path, Path):
        require_replaceable(path)
    target = as_inner_path(path)
    part = _part_path(target)
    try:
        yield part
        part.replace(target)
        if synced:
            target.parent.sync()
    finally:
        part.unlink(missing_ok=True)


def write_folder(path: FilePath, files: Mapping[str, bytes]) -> None:
    """Create a folder with these files, or none: `path` must not exist or be empty."""
    target = as_inner_path(path)
    part = _part_path(target)
    try:
        if part.exists():  # left over because the disk did not allow removal
            part.remove_tree()
        _make_folder(part, _new_mode(path))
        if target.is_dir():  # keep the user's permissions
            _set_mode(part, stat.S_IMODE(target.status().st_mode))
        for name, content in files.items():
            _write_part(part / name, content)
        part.sync()
        if os.name != "posix" and target.is_dir():  # a rename does not replace a folder there
            _remove_empty(target)
        part.replace(target)
        try:
            target.parent.sync()
        except OSError:
            target.replace(part)
            raise
    finally:
        if part.exists():
            part.remove_tree(ignore_errors=True)


def make_folders(path: FilePath) -> None:
    """Create missing folders along a path, as durably as what is put into them later."""
    if path.is_dir():
        return
    if isinstance(path, InnerPath) and not path.parts:  # it must not be recreated if missing
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    make_folders(path.parent)
    make_folder(path)


def make_folder(path: FilePath) -> None:
    """Create a folder if missing; its parent must exist. Raises `LinkInside` for a link."""
    if path.is_dir():
        return
    target = as_inner_path(path)
    try:
        _make_folder(target, _new_mode(path))
    except FileExistsError:
        if isinstance(path, InnerPath) and path.is_link():
            raise LinkInside(path.relative_name) from None
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    try:
        target.parent.sync()
    except OSError:
        with suppress(OSError):  # otherwise it would pass for durable next time
            _remove_empty(target)
        raise


def _new_mode(path: FilePath) -> int | None:
    """Return the permissions of a new folder, before the umask; None: those of its parent."""
    if isinstance(path, InnerPath):
        return None
    return 0o700 if os.environ.get(SHARED, "0") in ("", "0") else 0o777


def make_private(folder: Path) -> None:
    """Remove the permissions of others from a copied folder and its contents."""
    if _new_mode(folder) != 0o700:
        return
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder of a copied folder, and the folder itself."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            with path.open("r+b") as file:
                os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: FilePath) -> None:
    inner_folder(folder).sync()


def find_leftovers(folder: FilePath) -> list[InnerPath]:
    """Return the files that a killed writer left unfinished in this folder."""
    parent = as_inner_path(folder)
    return [parent / name for name in parent.list_entries() if name.endswith(PART)]


def clear_leftovers(folder: FilePath) -> None:
    """Remove what a killed writer left; only the holder of the run's lock may."""
    for path in find_leftovers(folder):
        if path.is_dir():
            path.remove_tree(ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _part_path(path: InnerPath) -> InnerPath:
    return path.parent / f".{path.name}.{os.getpid()}{PART}"


def _make_folder(path: InnerPath, mode: int | None) -> None:
    """Create a folder with these permissions, less the umask, or those of its parent."""
    with path.name_in_parent() as (name, folder):
        above = 0o777 if folder is None else os.fstat(folder).st_mode & 0o777
        os.mkdir(name, above if mode is None else mode, dir_fd=folder)


def _remove_empty(path: InnerPath) -> None:
    with path.name_in_parent() as (name, folder):
        os.rmdir(name, dir_fd=folder)


def _set_mode(path: InnerPath, mode: int) -> None:
    """Set the permissions of a folder."""
    with path.anchor.open_folder(path.parts) as folder:
        if isinstance(folder, int):
            os.fchmod(folder, mode)


def _write_part(path: InnerPath, content: bytes, synced: bool = True) -> None:
    path.unlink(missing_ok=True)  # left by a process with the same id
    handle = path.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        remaining = memoryview(content)
        while remaining:
            written = os.write(handle, remaining)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            remaining = remaining[written:]
        if synced:
            os.fsync(handle)
    finally:
        os.close(handle)
