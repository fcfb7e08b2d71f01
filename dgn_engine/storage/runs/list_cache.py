"""What was read of a listed folder, kept in the user's cache and never in the folder itself.

One private file for each folder, by its path and identity. Nothing here raises: where there is no
cache, it is damaged, is a link or another user's, runs are listed without it. It needs folders
that can be held open (POSIX).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dgn_engine.storage.user_folders import user_cache

FOLDER = "run-lists"
_FORMAT = 2
_MOST = 64 << 20  # bytes of a file
_LISTS = 64  # of the folders that were listed last
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_PRIVATE = 0o077  # what nobody else may do


def cache_file(root: Path) -> Path:
    """Where the list of this folder is kept; raises `OSError`."""
    return user_cache() / FOLDER / _name(_identity(root))


def recall(root: Path) -> dict[str, Any]:
    """What `remember` was given for this folder; empty where nothing is known."""
    try:
        about = _identity(root)
        with _opened(make=False) as folder:
            tree = json.loads(_read(folder, _name(about)))
    except (OSError, ValueError, RecursionError, RuntimeError):
        return {}
    known = tree.get("runs") if isinstance(tree, dict) and tree.get("of") == about else None
    return known if isinstance(known, dict) else {}


def remember(root: Path, runs: dict[str, Any]) -> None:
    """Keep this in the place of what was known of a folder. `runs`: values for JSON."""
    with suppress(OSError, ValueError, RuntimeError):
        about = _identity(root)
        content = json.dumps({"of": about, "runs": runs}, separators=(",", ":")).encode()
        if len(content) <= _MOST:
            with _opened(make=True) as folder:
                _replace(folder, _name(about), content)
                _thin_out(folder)


def forget(root: Path) -> None:
    """Every run of this folder is read anew the next time."""
    with suppress(OSError, RuntimeError), _opened(make=False) as folder:
        os.unlink(_name(_identity(root)), dir_fd=folder)


def _identity(root: Path) -> list[Any]:
    """Another one where another folder lies at the same path; raises `OSError`."""
    status = root.stat()
    return [_FORMAT, os.path.realpath(root), status.st_dev, status.st_ino]


def _name(about: list[Any]) -> str:
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32] + ".json"


@contextmanager
def _opened(make: bool) -> Iterator[int]:
    """The folder of all lists, held open: a link put in its place later leads nowhere."""
    if os.open not in os.supports_dir_fd:
        raise OSError(None, "this system cannot hold a folder open")
    path = user_cache() / FOLDER
    if make:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
    try:
        _require_private(os.fstat(handle))
        yield handle
    finally:
        os.close(handle)


def _require_private(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or status.st_mode & _PRIVATE:
        raise PermissionError(None, "it is not private")


def _read(folder: int, name: str) -> bytes:
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK, dir_fd=folder)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        _require_private(status)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "it is not a regular file")
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise OSError(None, "it is too large")
    return content


def _replace(folder: int, name: str, content: bytes) -> None:
    """Whole or not at all; not synced, because nothing is lost with it."""
    part = f".{name}.{os.getpid()}.{os.urandom(4).hex()}"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def _thin_out(folder: int) -> None:
    """Lists of folders that nobody has listed for long go, and what a killed writer has left."""
    names = os.listdir(folder)
    if len(names) <= _LISTS:
        return
    written = {name: os.stat(name, dir_fd=folder, follow_symlinks=False) for name in names}
    for name in sorted(names, key=lambda name: written[name].st_mtime)[:-_LISTS]:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
