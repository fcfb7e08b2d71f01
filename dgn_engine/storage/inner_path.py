"""Paths inside a folder that others may have prepared: no link in it is followed, at any depth.

The folder itself is used as the user named it, and may be a link. Paths inside are opened part by
part from its handle (openat), so that a link put there between a check and a use is not followed
either. On systems without these calls, each part is checked before each use. Everything here raises
`OSError`; `LinkInside` for a link.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_AT = hasattr(os, "O_NOFOLLOW") and {os.open, os.mkdir, os.unlink} <= os.supports_dir_fd
_CLOSED = getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# Never block on a FIFO, never become the process of a terminal.
UNWAITING = sum(getattr(os, f"O_{each}", 0) for each in ("CLOEXEC", "NONBLOCK", "NOCTTY", "BINARY"))


class LinkInside(OSError):  # noqa: N818 - shown as a verdict
    """Something in a folder is a link; `within`: its path in that folder."""

    def __init__(self, within: str) -> None:
        super().__init__(errno.ELOOP, f"'{within}' in it is a link, which is not followed")
        self.within = within


class Anchor:
    """The folder in which paths begin.

    While it is held open, paths lead into that folder wherever it is moved; otherwise into whatever
    is at `path` at each use. `shown`: its name in messages, if not `path`, such as the file that it
    was unpacked from.
    """

    def __init__(self, path: Path, shown: str = "") -> None:
        self.path = path
        self.shown = Path(shown) if shown else path
        self._handle: int | None = None

    def hold_folder(self) -> None:
        """Open the folder at `path`, and release the one held before."""
        if not _AT:
            return
        before, self._handle = self._handle, os.open(self.path, _FOLDER)
        if before is not None:
            os.close(before)

    def release_folder(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @property
    def is_named(self) -> bool:
        """Return True if `path` is the path of the held folder."""
        try:
            named = self.path.stat()
            return self._handle is None or os.path.samestat(os.fstat(self._handle), named)
        except OSError:
            return False

    @property
    def is_removed(self) -> bool:
        """Return True if the held folder is deleted for good: it has no name anywhere."""
        try:
            return self._handle is not None and os.fstat(self._handle).st_nlink == 0
        except OSError:
            return False

    @property
    def reason_unknown(self) -> str:
        """Return why `path` cannot be checked; '' if it exists, or clearly does not."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def find_folder(self) -> Path | None:
        """Return the current path of the held folder; None if it is gone or unknown."""
        if self._handle is None:
            return None
        try:
            if sys.platform == "darwin":
                import fcntl

                named = fcntl.fcntl(self._handle, 50, bytes(1024))  # F_GETPATH
                path = Path(os.fsdecode(named.rstrip(b"\0")))
            else:
                path = Path(f"/proc/self/fd/{self._handle}").readlink()
            return path if os.path.samestat(os.fstat(self._handle), path.stat()) else None
        except OSError:
            return None

    @contextmanager
    def open_folder(self, parts: tuple[str, ...] = ()) -> Iterator[int | str]:
        """Yield a handle of the folder at these parts; its path on systems without handles."""
        if not _AT:
            self._refuse_links(parts)
            yield str(self.path.joinpath(*parts))
            return
        with ExitStack() as handles:
            handle = self._handle
            if handle is None:
                handle = os.open(self.path, _FOLDER)
                handles.callback(os.close, handle)
            for depth, part in enumerate(parts, 1):
                handle = _enter_folder(handle, part, parts[:depth])
                handles.callback(os.close, handle)
            yield handle

    def _refuse_links(self, parts: tuple[str, ...]) -> None:
        for depth in range(1, len(parts) + 1):
            if _is_link(str(self.path.joinpath(*parts[:depth])), None):
                raise LinkInside("/".join(parts[:depth]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anchor) and self.path == other.path


@dataclass(frozen=True)
class InnerPath:
    """A path in a folder; no part of it that is a link is followed.

    It is not an `os.PathLike`, so that nothing opens it in another way by mistake.
    """

    anchor: Anchor = field(hash=False)
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = self.parts
        if any(part in ("", ".", "..") or "/" in part or os.sep in part for part in parts):
            raise OSError(errno.EINVAL, f"'{'/'.join(parts)}' is not a path in a folder")

    def __truediv__(self, within: str) -> InnerPath:
        return InnerPath(self.anchor, (*self.parts, *within.split("/")))

    def __str__(self) -> str:
        return str(self.anchor.shown.joinpath(*self.parts))

    @property
    def full_path(self) -> Path:
        """The full path, for code that may follow links."""
        return self.anchor.path.joinpath(*self.parts)

    @property
    def relative_name(self) -> str:
        """The path in its folder: 'frames/x'."""
        return "/".join(self.parts)

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else self.anchor.path.name

    @property
    def parent(self) -> InnerPath:
        return InnerPath(self.anchor, self.parts[:-1])

    # Reading

    def status(self) -> os.stat_result:
        """Return the status of the path itself, even of a link."""
        if not self.parts:
            with self.anchor.open_folder() as folder:
                return os.stat(folder)  # noqa: PTH116 (it may be a handle)
        with self.name_in_parent() as (name, folder):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def exists(self) -> bool:
        """Return whether anything is there, even a link."""
        return self._file_mode() != 0

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self._file_mode())

    def is_file(self) -> bool:
        return stat.S_ISREG(self._file_mode())

    def is_link(self) -> bool:
        return stat.S_ISLNK(self._file_mode())

    def _file_mode(self) -> int:
        try:
            return self.status().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def list_entries(self) -> Mapping[str, os.stat_result]:
        """Return the contents of this folder, by name, sorted; empty if it is not a folder."""
        statuses: dict[str, os.stat_result] = {}
        try:
            with self.anchor.open_folder(self.parts) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        statuses[entry.name] = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # it went a moment ago
                        continue
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return dict(sorted(statuses.items()))

    # Changing

    def open(self, flags: int) -> int:
        """Open without blocking; a new file inherits its folder's permissions. Returns a handle."""
        with self.name_in_parent() as (name, folder):
            mode = 0o666 if folder is None else os.fstat(folder).st_mode & 0o666
            try:
                return os.open(name, flags | UNWAITING | _NO_LINK, mode, dir_fd=folder)
            except OSError as error:
                if error.errno == errno.ELOOP or _is_link(name, folder):
                    raise LinkInside(self.relative_name) from None
                raise

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            with self.name_in_parent() as (name, folder):
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_tree(self, ignore_errors: bool = False) -> None:
        """Remove the folder with its contents; links are removed, not their targets."""
        try:
            with self.name_in_parent() as (name, folder):
                shutil.rmtree(name, ignore_errors=ignore_errors, dir_fd=folder)
        except OSError:
            if not ignore_errors:
                raise

    def replace(self, target: InnerPath) -> None:
        """Rename it, replacing an existing file."""
        with self.name_in_parent() as (name, folder), target.name_in_parent() as (new, above):
            os.replace(name, new, src_dir_fd=folder, dst_dir_fd=above)

    def sync(self) -> None:
        """Sync a folder and its names."""
        if os.name != "posix":  # elsewhere a folder cannot be opened, and need not be
            return
        with self.anchor.open_folder(self.parts) as folder:
            assert isinstance(folder, int)
            os.fsync(folder)

    # Access

    @contextmanager
    def name_in_parent(self) -> Iterator[tuple[str, int | None]]:
        """Yield its name and its folder's handle; its full path on systems without handles."""
        if not self.parts:
            raise OSError(errno.EINVAL, "that is the folder itself")
        with self.anchor.open_folder(self.parts[:-1]) as folder:
            if isinstance(folder, int):
                yield self.name, folder
            else:
                yield str(self.full_path), None


FilePath = Path | InnerPath


def inner_folder(folder: FilePath) -> InnerPath:
    """Return a folder as the user named it; paths inside are reached without following links."""
    return folder if isinstance(folder, InnerPath) else InnerPath(Anchor(folder))


def as_inner_path(path: FilePath) -> InnerPath:
    """Return a path of which no link at the end is followed, nor any in an inner path."""
    if isinstance(path, InnerPath):
        return path
    if path.name in ("", ".."):
        raise OSError(errno.EISDIR, "it is a folder")
    return InnerPath(Anchor(path.parent), (path.name,))


def _enter_folder(folder: int, name: str, within: tuple[str, ...]) -> int:
    try:
        return os.open(name, _FOLDER | _NO_LINK, dir_fd=folder)
    except OSError:
        if _is_link(name, folder):
            raise LinkInside("/".join(within)) from None
        raise


def _is_link(name: str, folder: int | None) -> bool:
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISLNK(mode)
