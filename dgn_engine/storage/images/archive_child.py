"""The process that unpacks an archive of images: `python -m … SECONDS MEMORY`.

The archive is its standard input; what it holds goes to standard output, image by image, as
`image_records` says. It writes no file and can open none.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Self

from dgn_engine.confinement.child_entry import begin_child
from dgn_engine.confinement.process import confine
from dgn_engine.storage.images import image_limits as limits
from dgn_engine.storage.images import image_records as records

_TELL_EVERY = 0.2  # seconds
_HOLES = "holds a file of holes (a sparse one), which is not read"
_LONG_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    LookupError,
)


class UnreadableArchive(Exception):  # noqa: N818 - a verdict about a file, not a fault of ours
    """Why an archive is not taken, as the end of a sentence that begins with its name."""


def main(seconds: int, memory: int) -> None:
    """Confine this process, then unpack standard input."""
    pipe = begin_child(confined=True, buffering=1 << 18)
    confine(seconds, memory)
    send(sys.stdin.buffer, os.fstat(0).st_size, pipe)


def send(archive: IO[bytes], size: int, pipe: IO[bytes]) -> None:
    """Write every image of the archive, or the end of the sentence that says why not."""
    told = time.monotonic()

    def tell() -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_EVERY:
            pipe.write(records.UNPACKED.pack(records.PROGRESS, 0.0, 0, 0))
            pipe.flush()
            told = time.monotonic()

    try:
        for fraction, name, content in _members(archive, size, tell):
            if content is not None:
                encoded = name.encode("utf-8", "surrogateescape")
                pipe.write(
                    records.UNPACKED.pack(records.FILE, fraction, len(encoded), len(content))
                )
                pipe.write(encoded)
                pipe.write(content)
            tell()
        pipe.write(records.UNPACKED.pack(records.END, 1.0, 0, 0))
    except BrokenPipeError:  # nobody waits any more
        raise
    except Exception as error:
        text = _verdict(error).encode("utf-8", "replace")[: records.VERDICT]
        pipe.write(records.UNPACKED.pack(records.REFUSED, 1.0, 0, len(text)) + text)
    pipe.flush()


def _verdict(error: Exception) -> str:
    if isinstance(error, UnreadableArchive):
        return str(error)
    if isinstance(error, MemoryError):
        return "needs more memory than an archive of its size may, and was refused"
    if isinstance(error, NotImplementedError):
        return f"is packed in a way that is not read: {error}"
    if isinstance(error, _DAMAGED):
        return f"is damaged, or no archive of images: {error}"
    return f"cannot be read ({type(error).__name__}: {error})"


Member = tuple[float, str, bytes | None]  # fraction of the archive, name, content of an image


def _members(archive: IO[bytes], size: int, tell: Callable[[], None]) -> Iterator[Member]:
    """Every member; a link, a device, a folder or what is no image has no content.

    `tell` is called now and then, also where there is no member for long.
    """
    if zipfile.is_zipfile(archive):
        return _of_zip(archive, size)
    archive.seek(0)
    start = archive.read(6)
    archive.seek(0)
    # Unpacked by hand: unlike the streams of tarfile, these notice where a file was cut off.
    unpacked = _plain(archive, start)
    return _of_tar(archive, _Counted(unpacked, limits.unpacked(size), tell), size)


def _plain(archive: IO[bytes], start: bytes) -> IO[bytes]:
    """A stream of what a tar packs, by its first bytes."""
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=archive)  # type: ignore[return-value] # it is one
    if start.startswith(b"BZh"):
        return bz2.BZ2File(archive)
    if start.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(archive)
    return archive


class _Counted:
    """A stream that unpacks to so many bytes and no more, whatever they are for."""

    def __init__(self, stream: IO[bytes], most: int, tell: Callable[[], None]) -> None:
        self._stream = stream
        self._left = most
        self._tell = tell

    def read(self, length: int = -1) -> bytes:
        content = self._stream.read(length)
        self._left -= len(content)
        self._tell()
        if self._left < 0:
            raise UnreadableArchive("unpacks to far more than its size, and was refused")
        return content


class _BoundedHeader(tarfile.TarInfo):
    """A header that makes tarfile keep little."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Refuse, of 512 bytes, what says that it goes on for long, or is a file of holes."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in _LONG_HEADERS and not 0 <= header.size <= limits.HEADER:
            raise UnreadableArchive(
                f"has a header of more than {limits.HEADER >> 10} kB, and was refused"
            )
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise UnreadableArchive(_HOLES)
        return header

    def _proc_gnusparse_10(self, *_: object) -> None:
        """A list of holes that may be as long as the file. Where tarfile calls this otherwise, the
        limit of memory is what remains."""
        raise UnreadableArchive(_HOLES)


def _of_tar(archive: IO[bytes], stream: _Counted, size: int) -> Iterator[Member]:
    unpacked = 0
    # tarfile asks of a stream only that it can be read
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedHeader) as tar:  # type: ignore[call-overload]
        for count, member in enumerate(tar):
            unpacked += member.size
            _check_count(count)
            if unpacked > limits.unpacked(size):
                raise UnreadableArchive("unpacks to far more than its size, and was refused")
            if member.issparse():
                raise UnreadableArchive(_HOLES)
            name = _tidy(member.name)
            file = tar.extractfile(member) if member.isreg() and records.is_image(name) else None
            tar.members.clear()  # else every header is kept
            content = None if file is None else _bounded(file, name)
            yield min(archive.tell() / size, 1.0), name, content


def _of_zip(archive: IO[bytes], size: int) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        _check_count(len(members) - 1)
        unpacked = 0
        for place, member in enumerate(members):
            name, content = _tidy(member.filename), None
            link = stat.S_ISLNK(member.external_attr >> 16)
            if not member.is_dir() and not link and records.is_image(name):
                if member.flag_bits & 1:
                    raise UnreadableArchive("is encrypted; unpack it first")
                with opened.open(member) as file:
                    content = _bounded(file, name)
                unpacked += len(content)
                if unpacked > limits.unpacked(size):
                    raise UnreadableArchive("unpacks to far more than its size, and was refused")
            yield place / len(members), name, content


def _tidy(name: str) -> str:
    """Names are only labels here, never places on disk; '.' and empty parts say nothing."""
    if len(name) > limits.NAME:
        raise UnreadableArchive(f"has a name of more than {limits.NAME:,} characters")
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))


def _bounded(file: IO[bytes], name: str) -> bytes:
    content = file.read(limits.FILE + 1)
    if len(content) > limits.FILE:
        raise UnreadableArchive(
            f"holds {name[:200]}, which is larger than {limits.FILE >> 20} MiB; scale it down first"
        )
    return content


def _check_count(count: int) -> None:
    """`count`: how many came before."""
    if count >= limits.FILES:
        raise UnreadableArchive(f"holds more than {limits.FILES:,} files")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
