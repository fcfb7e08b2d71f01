"""Opening files in folders that may be a stranger's: regular ones only, and never too large ones.

A FIFO in the place of a file would keep its reader waiting, a device would never end.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import FileIO
from pathlib import Path

JSON = 64 << 20  # bytes of a JSON or TOML file
FILE = 2 << 30  # bytes of a log, or of a file of tensors
_PIECE = 1 << 20


class NotRegular(OSError):  # noqa: N818 - told of as a verdict
    """What is there is no file that is read. `verdict`: what it is, as the end of a sentence."""

    def __init__(self, code: int, verdict: str) -> None:
        super().__init__(code, f"it {verdict}")
        self.verdict = verdict


def open_regular(path: Path, most: int) -> FileIO:
    """Open a regular file of at most `most` bytes, unbuffered, without ever waiting.

    Raises `NotRegular` for anything else (links are followed), else what `open` raises.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise NotRegular(errno.EISDIR, "is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(errno.EINVAL, "is not a regular file")
        if status.st_size > most:
            raise _too_large(most)
        return os.fdopen(handle, "rb", buffering=0)
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, most: int = JSON) -> bytes:
    """All of a regular file, which may grow meanwhile, but not beyond `most` bytes.

    Raises as `open_regular` does.
    """
    with open_regular(path, most) as file:
        content = bytearray()
        while piece := file.read(_PIECE):
            content += piece
            if len(content) > most:
                raise _too_large(most)
    return bytes(content)


def read_text(path: Path, most: int = JSON) -> str:
    """The same as text; raises `UnicodeDecodeError` (a `ValueError`) too."""
    return read_regular(path, most).decode("utf-8")


def sha256_of(path: Path, most: int = FILE) -> tuple[int, str]:
    """Bytes and sha256 of a regular file; raises as `open_regular` does."""
    digest, count = hashlib.sha256(), 0
    with open_regular(path, most) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            count += len(piece)
            if count > most:
                raise _too_large(most)
    return count, digest.hexdigest()


def _too_large(most: int) -> NotRegular:
    size = f"{most >> 30} GiB" if most >> 30 else f"{most >> 20} MiB"
    return NotRegular(errno.EFBIG, f"is larger than {size}")
