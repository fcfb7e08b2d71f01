"""Paths inside a folder that others may have prepared: no link in it is followed, at any depth.

The folder itself is as the user named it, and may be a link. What lies in it is reached part by
part from a handle of it (openat), so that a link that is put there between a check and a use is
not followed either. Where the system has no such calls, each part is looked at before each use.
Everything here raises `OSError`; `LinkInside` where something is a link.
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
# Never wait for a FIFO, never become the process of a terminal.
UNWAITING = sum(getattr(os, f"O_{each}", 0) for each in ("CLOEXEC", "NONBLOCK", "NOCTTY", "BINARY"))


class LinkInside(OSError):  # noqa: N818 - shown as a verdict
    """Something in a folder is a link. `within`: its path in that folder."""

    def __init__(self, within: str) -> None:
        super().__init__(errno.ELOOP, f"'{within}' in it is a link, and is not followed")
        self.within = within


class Anchor:
    """The folder in which paths begin. While it is held open they lead into that folder, wherever
    it is moved and whatever is put in its place; else into whatever `path` names at each use.
    `shown`: what sentences call it, where that is not `path`: the file that it was unpacked from.
    """

    def __init__(self, path: Path, shown: str = "") -> None:
        self.path = path
        self.shown = Path(shown) if shown else path
        self._handle: int | None = None

    def hold(self) -> None:
        """Hold what `path` names now; what was held before is let go."""
        if not _AT:
            return
        before, self._handle = self._handle, os.open(self.path, _FOLDER)
        if before is not None:
            os.close(before)

    def let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @property
    def is_named(self) -> bool:
        """Whether `path` names the held folder."""
        try:
            named = self.path.stat()
            return self._handle is None or os.path.samestat(os.fstat(self._handle), named)
        except OSError:
            return False

    @property
    def is_removed(self) -> bool:
        """Whether the held folder is deleted for good: it has no name anywhere."""
        try:
            return self._handle is not None and os.fstat(self._handle).st_nlink == 0
        except OSError:
            return False

    @property
    def trouble(self) -> str:
        """Why nothing can be said of what `path` names; '' where it is there, or is not."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def find(self) -> Path | None:
        """Where the held folder lies now; None where it is gone, or the system does not tell."""
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
    def opened(self, parts: tuple[str, ...] = ()) -> Iterator[int | str]:
        """A handle of the folder to which these parts lead; its path where there are none."""
        if not _AT:
            self._refuse_links(parts)
            yield str(self.path.joinpath(*parts))
            return
        with ExitStack() as handles:
            handle = self._handle
            if handle is None:
                handle = os.open(self.path, _FOLDER)
                handles.callback(os.close, handle)
            for place, part in enumerate(parts, 1):
                handle = _enter(handle, part, parts[:place])
                handles.callback(os.close, handle)
            yield handle

    def _refuse_links(self, parts: tuple[str, ...]) -> None:
        for place in range(1, len(parts) + 1):
            if _is_link(str(self.path.joinpath(*parts[:place])), None):
                raise LinkInside("/".join(parts[:place]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anchor) and self.path == other.path


@dataclass(frozen=True)
class InnerPath:
    """A path in a folder; no part of it that is a link is followed. No `os.PathLike`, so that
    nothing opens it in another way by mistake."""

    anchor: Anchor = field(hash=False)
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        parts = self.parts
        if any(part in ("", ".", "..") or "/" in part or os.sep in part for part in parts):
            raise OSError(errno.EINVAL, f"'{'/'.join(parts)}' is no path in a folder")

    def __truediv__(self, within: str) -> InnerPath:
        return InnerPath(self.anchor, (*self.parts, *within.split("/")))

    def __str__(self) -> str:
        return str(self.anchor.shown.joinpath(*self.parts))

    @property
    def whole(self) -> Path:
        """For whoever may follow links."""
        return self.anchor.path.joinpath(*self.parts)

    @property
    def within(self) -> str:
        """'frames/x': the path in its folder."""
        return "/".join(self.parts)

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else self.anchor.path.name

    @property
    def parent(self) -> InnerPath:
        return InnerPath(self.anchor, self.parts[:-1])

    # Looking

    def status(self) -> os.stat_result:
        """Of the thing itself, where it is a link too."""
        if not self.parts:
            with self.anchor.opened() as folder:
                return os.stat(folder)  # noqa: PTH116 (it may be a handle)
        with self.at() as (name, folder):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def exists(self) -> bool:
        """Whether anything lies there, a link too."""
        return self._mode() != 0

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self._mode())

    def is_file(self) -> bool:
        return stat.S_ISREG(self._mode())

    def is_link(self) -> bool:
        return stat.S_ISLNK(self._mode())

    def _mode(self) -> int:
        try:
            return self.status().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def listing(self) -> Mapping[str, os.stat_result]:
        """What lies in this folder, by name and in its order; nothing where it is no folder."""
        found: dict[str, os.stat_result] = {}
        try:
            with self.anchor.opened(self.parts) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        found[entry.name] = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # it went a moment ago
                        continue
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return dict(sorted(found.items()))

    # Changing

    def open(self, flags: int) -> int:
        """A handle, opened without waiting. A new file is for those who may enter its folder."""
        with self.at() as (name, folder):
            mode = 0o666 if folder is None else os.fstat(folder).st_mode & 0o666
            try:
                return os.open(name, flags | UNWAITING | _NO_LINK, mode, dir_fd=folder)
            except OSError as error:
                if error.errno == errno.ELOOP or _is_link(name, folder):
                    raise LinkInside(self.within) from None
                raise

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            with self.at() as (name, folder):
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_tree(self, ignore_errors: bool = False) -> None:
        """The folder with all that is in it; a link in it goes, and what it names stays."""
        try:
            with self.at() as (name, folder):
                shutil.rmtree(name, ignore_errors=ignore_errors, dir_fd=folder)
        except OSError:
            if not ignore_errors:
                raise

    def replace(self, target: InnerPath) -> None:
        """Rename it, also over a file that is there."""
        with self.at() as (name, folder), target.at() as (new, above):
            os.replace(name, new, src_dir_fd=folder, dst_dir_fd=above)

    def sync(self) -> None:
        """A folder and its names."""
        if os.name != "posix":  # elsewhere a folder cannot be opened, and need not be
            return
        with self.anchor.opened(self.parts) as folder:
            assert isinstance(folder, int)
            os.fsync(folder)

    # Reaching it

    @contextmanager
    def at(self) -> Iterator[tuple[str, int | None]]:
        """What to call it from its folder's handle; its whole path where there are no handles."""
        if not self.parts:
            raise OSError(errno.EINVAL, "that is the folder itself")
        with self.anchor.opened(self.parts[:-1]) as folder:
            if isinstance(folder, int):
                yield self.name, folder
            else:
                yield str(self.whole), None


FilePath = Path | InnerPath


def inside(folder: FilePath) -> InnerPath:
    """A folder as the user named it; what lies in it is reached without following links."""
    return folder if isinstance(folder, InnerPath) else InnerPath(Anchor(folder))


def inner(path: FilePath) -> InnerPath:
    """A path whose last part is not followed, nor any other of an inner path."""
    if isinstance(path, InnerPath):
        return path
    if path.name in ("", ".."):
        raise OSError(errno.EISDIR, "it is a folder")
    return InnerPath(Anchor(path.parent), (path.name,))


def _enter(folder: int, name: str, within: tuple[str, ...]) -> int:
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
