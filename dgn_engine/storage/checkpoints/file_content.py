"""The bytes of an untrusted file: a small one is read, a larger one is memory-mapped.

Only the accessed pages of a mapped file are loaded, and they stop counting as memory of the process
once they are released.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import sys
import zlib
from collections.abc import Iterator
from typing import IO

from dgn_engine.storage.checkpoints import limits

Content = bytes | mmap.mmap
_SLICE = 64 << 20  # bytes that are read before their pages are released


def content_of(file: IO[bytes]) -> Content:
    """Return the bytes of an open file; at most `limits.FILE` if it cannot be mapped (a pipe)."""
    try:
        size = os.fstat(file.fileno()).st_size
        if size > limits.HEADER and sys.maxsize > 1 << 32:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        pass
    return file.read(limits.FILE + 1)


def release_slices(content: Content | None, view: memoryview) -> Iterator[memoryview]:
    """Yield a view of the content in pieces; each is released when the next is requested."""
    for begin in range(0, len(view), _SLICE):
        yield view[begin : begin + _SLICE]
        if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            content.madvise(mmap.MADV_DONTNEED)


def content_checksum(content: Content, view: memoryview) -> int:
    """Return the CRC-32 of a view of the content."""
    crc = 0
    for piece in release_slices(content, view):
        crc = zlib.crc32(piece, crc)
    return crc


class ContentStream(io.RawIOBase):
    """The content as a readable and seekable file, without a copy."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self._view, self._at = memoryview(content), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}[whence]
        if begin + offset < 0:
            raise OSError(errno.EINVAL, "a position before the start of the file")
        self._at = begin + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # any buffer
        piece = self._view[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
