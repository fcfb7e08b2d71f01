"""Puts a file in its place whole or not at all, and says in one sentence why it could not."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from dgn_engine.errors import UserError


def write_file(path: Path, content: bytes) -> None:
    """Write through a neighbour that takes the name at the end; raises `UserError`."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise _refusal(path, error) from None
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.chmod(0o666 & ~_mask())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise _refusal(path, error) from None


def _mask() -> int:
    """The user's umask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _refusal(path: Path, error: OSError) -> UserError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            why, what = "the disk is full", "Make room or choose another folder"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            why, what = f"the folder {path.parent} is not writable", "Choose another folder"
        case errno.ENOENT | errno.ENOTDIR:
            why, what = f"there is no folder {path.parent}", "Choose another folder"
        case errno.EISDIR:
            why, what = "it is a folder", "Choose another name"
        case _:
            why, what = error.strerror or str(error), "Choose another place"
    return UserError(f"Cannot write {path.name}: {why}. {what}; nothing was exported.")
