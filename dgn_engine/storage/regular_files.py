"""Open files in untrusted folders: regular files of bounded size only; and check their digests.

A FIFO instead of a file would block its reader; a device would never end.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO

from dgn_engine.storage.inner_path import UNWAITING, FilePath, InnerPath, LinkInside
from dgn_engine.text.byte_counts import binary_size_in_words

JSON = 64 << 20  # bytes of a JSON or TOML file
FILE = 2 << 30  # bytes of a log, or of a file of tensors
_PIECE = 1 << 20


class NotRegular(OSError):  # noqa: N818 - shown as a verdict
    """The path is not a regular file, or is too large; `verdict` says so, following its name."""

    def __init__(self, code: int, verdict: str) -> None:
        super().__init__(code, f"it {verdict}")
        self.verdict = verdict


def open_regular(path: FilePath, most: int) -> FileIO:
    """Open a regular file of at most `most` bytes, unbuffered, without ever blocking.

    A link is followed at a path chosen by the user, never at an inner one.

    Raises:
        NotRegular: It is anything else.
        OSError: As `open`.
    """
    handle = _open_nonblocking(path)
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


def _open_nonblocking(path: FilePath) -> int:
    if isinstance(path, InnerPath):
        try:
            return path.open(os.O_RDONLY)
        except LinkInside as link:
            if link.within != path.relative_name:
                raise
            raise NotRegular(errno.ELOOP, "is a link, which is not followed") from None
    return os.open(path, os.O_RDONLY | UNWAITING)


def read_regular(path: FilePath, most: int = JSON) -> bytes:
    """Read a regular file, which may grow meanwhile, but not beyond `most` bytes.

    Raises as `open_regular` does.
    """
    return b"".join(_read_pieces(path, most))


def read_text(path: FilePath, most: int = JSON) -> str:
    """Read a regular file as text; also raises `UnicodeDecodeError` (a `ValueError`)."""
    return read_regular(path, most).decode("utf-8")


@dataclass(frozen=True)
class Digest:
    """Size and sha256 of what was written to a file."""

    bytes: int
    sha256: str


def content_digest(content: bytes | memoryview) -> Digest:
    return Digest(len(content), hashlib.sha256(content).hexdigest())


def digest_file(path: FilePath, most: int = FILE) -> Digest:
    """Return the digest of a regular file; raises as `open_regular` does."""
    sha256, count = hashlib.sha256(), 0
    for piece in _read_pieces(path, most):
        sha256.update(piece)
        count += len(piece)
    return Digest(count, sha256.hexdigest())


def _read_pieces(path: FilePath, most: int) -> Iterator[bytes]:
    count = 0
    with open_regular(path, most) as file:
        while piece := file.read(_PIECE):
            count += len(piece)
            if count > most:
                raise _too_large(most)
            yield piece


def check_file(path: FilePath, written: Digest, thorough: bool = True) -> str:
    """Return what is wrong with a file, following its name; '' if it is as written.

    `thorough`: hash its content instead of only comparing its size.
    """
    try:
        with open_regular(path, FILE) as file:
            size = os.fstat(file.fileno()).st_size
        if size != written.bytes:
            return f"has {size:,} bytes, but {written.bytes:,} were written"
        if thorough and digest_file(path) != written:
            return "has changed since it was written (its sha256 differs)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def _too_large(most: int) -> NotRegular:
    return NotRegular(errno.EFBIG, f"is larger than {binary_size_in_words(most)}")
