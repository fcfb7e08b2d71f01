"""The bytes of an untrusted file: a small one is read, a larger one is mapped and read in place.

Of a mapped file only the pages that are looked at are loaded; none of them counts as memory of the
process once it was let go of.
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
_SLICE = 64 << 20  # bytes that are read before their pages are let go of


def content_of(file: IO[bytes]) -> Content:
    """The bytes of an open file; at most `limits.FILE` of what cannot be mapped, a pipe say."""
    try:
        size = os.fstat(file.fileno()).st_size
        if size > limits.HEADER and sys.maxsize > 1 << 32:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        pass
    return file.read(limits.FILE + 1)


def sliced(content: Content | None, view: memoryview) -> Iterator[memoryview]:
    """A view on some of the content in pieces; each is let go of when the next is asked for."""
    for begin in range(0, len(view), _SLICE):
        yield view[begin : begin + _SLICE]
        if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            content.madvise(mmap.MADV_DONTNEED)


def checksum(content: Content, view: memoryview) -> int:
    """The CRC-32 of a view on some of the content."""
    found = 0
    for piece in sliced(content, view):
        found = zlib.crc32(piece, found)
    return found


class ContentStream(io.RawIOBase):
    """The content as a file that can be read and sought, without a copy of it."""

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
            raise OSError(errno.EINVAL, "a place before the file")
        self._at = begin + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # any buffer
        piece = self._view[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)
