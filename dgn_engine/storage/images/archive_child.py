"""The process that unpacks an archive of images: `python -m … SECONDS MEMORY`.

It reads the archive from standard input and writes its images to standard output, one by one, as in
`image_records`. It writes no file and can open none.
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
from dgn_engine.confinement.process import confine_process
from dgn_engine.storage.images import image_limits as limits
from dgn_engine.storage.images import image_records as records

_TELL_EVERY = 0.2  # seconds
_HOLES = "has a sparse file, which is not supported"
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
    """An archive is refused; the message is a clause that follows its name."""


def main(seconds: int, memory: int) -> None:
    """Confine this process, then unpack standard input."""
    pipe = begin_child(confined=True, buffering=1 << 18)
    confine_process(seconds, memory)
    send_images(sys.stdin.buffer, os.fstat(0).st_size, pipe)


def send_images(archive: IO[bytes], size: int, pipe: IO[bytes]) -> None:
    """Write every image of the archive, or the reason for refusing it."""
    reported = time.monotonic()

    def send_progress() -> None:
        nonlocal reported
        if time.monotonic() - reported >= _TELL_EVERY:
            pipe.write(records.UNPACKED.pack(records.PROGRESS, 0.0, 0, 0))
            pipe.flush()
            reported = time.monotonic()

    try:
        for fraction, name, content in _iterate_members(archive, size, send_progress):
            if content is not None:
                encoded = name.encode("utf-8", "surrogateescape")
                pipe.write(
                    records.UNPACKED.pack(records.FILE, fraction, len(encoded), len(content))
                )
                pipe.write(encoded)
                pipe.write(content)
            send_progress()
        pipe.write(records.UNPACKED.pack(records.END, 1.0, 0, 0))
    except BrokenPipeError:  # nobody waits any more
        raise
    except Exception as error:
        text = _verdict_on(error).encode("utf-8", "replace")[: records.VERDICT]
        pipe.write(records.UNPACKED.pack(records.REFUSED, 1.0, 0, len(text)) + text)
    pipe.flush()


def _verdict_on(error: Exception) -> str:
    if isinstance(error, UnreadableArchive):
        return str(error)
    if isinstance(error, MemoryError):
        return "needs more memory than its size allows, and was refused"
    if isinstance(error, NotImplementedError):
        return f"is compressed in an unsupported way: {error}"
    if isinstance(error, _DAMAGED):
        return f"is damaged, or not an archive of images: {error}"
    return f"cannot be read ({type(error).__name__}: {error})"


Member = tuple[float, str, bytes | None]  # fraction of the archive, name, content of an image


def _iterate_members(archive: IO[bytes], size: int, tell: Callable[[], None]) -> Iterator[Member]:
    """Yield every member; links, devices, folders and anything but images have no content.

    `tell` is called now and then, even during a long gap without members.
    """
    if zipfile.is_zipfile(archive):
        return _of_zip(archive, size)
    archive.seek(0)
    start = archive.read(6)
    archive.seek(0)
    # Unpacked explicitly: unlike the streams of tarfile, these notice where a file was cut off.
    unpacked = _open_unpacked(archive, start)
    return _of_tar(archive, _Counted(unpacked, limits.unpacked_limit(size), tell), size)


def _open_unpacked(archive: IO[bytes], start: bytes) -> IO[bytes]:
    """Return the unpacked stream of a tar, by its first bytes."""
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=archive)  # type: ignore[return-value] # it is one
    if start.startswith(b"BZh"):
        return bz2.BZ2File(archive)
    if start.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(archive)
    return archive


class _Counted:
    """A stream that unpacks to at most a given number of bytes."""

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
    """A header that keeps tarfile from storing much."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Refuse a 512-byte header that announces a long continuation or a sparse file."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in _LONG_HEADERS and not 0 <= header.size <= limits.HEADER:
            raise UnreadableArchive(
                f"has a header of more than {limits.HEADER >> 10} kB, and was refused"
            )
        if header.type == tarfile.GNUTYPE_SPARSE:
            raise UnreadableArchive(_HOLES)
        return header

    def _proc_gnusparse_10(self, *_: object) -> None:
        """Refuse a list of holes, which may be as long as the file.

        If tarfile renames this method, only the memory limit remains.
        """
        raise UnreadableArchive(_HOLES)


def _of_tar(archive: IO[bytes], stream: _Counted, size: int) -> Iterator[Member]:
    unpacked = 0
    # tarfile only needs to read from a stream
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedHeader) as tar:  # type: ignore[call-overload]
        for count, member in enumerate(tar):
            unpacked += member.size
            _check_count(count)
            if unpacked > limits.unpacked_limit(size):
                raise UnreadableArchive("unpacks to far more than its size, and was refused")
            if member.issparse():
                raise UnreadableArchive(_HOLES)
            name = _tidy_name(member.name)
            file = tar.extractfile(member) if member.isreg() and records.is_image(name) else None
            tar.members.clear()  # otherwise every header is kept
            content = None if file is None else _read_bounded(file, name)
            yield min(archive.tell() / size, 1.0), name, content


def _of_zip(archive: IO[bytes], size: int) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        _check_count(len(members) - 1)
        unpacked = 0
        for index, member in enumerate(members):
            name, content = _tidy_name(member.filename), None
            link = stat.S_ISLNK(member.external_attr >> 16)
            if not member.is_dir() and not link and records.is_image(name):
                if member.flag_bits & 1:
                    raise UnreadableArchive("is encrypted; unpack it first")
                with opened.open(member) as file:
                    content = _read_bounded(file, name)
                unpacked += len(content)
                if unpacked > limits.unpacked_limit(size):
                    raise UnreadableArchive("unpacks to far more than its size, and was refused")
            yield index / len(members), name, content


def _tidy_name(name: str) -> str:
    """Clean up a name, which is only a label here, never a path on disk."""
    if len(name) > limits.NAME:
        raise UnreadableArchive(f"has a name of more than {limits.NAME:,} characters")
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))


def _read_bounded(file: IO[bytes], name: str) -> bytes:
    content = file.read(limits.FILE + 1)
    if len(content) > limits.FILE:
        raise UnreadableArchive(
            f"has {name[:200]}, which is larger than {limits.FILE >> 20} MiB; scale it down first"
        )
    return content


def _check_count(count: int) -> None:
    """Check the number of members before this one."""
    if count >= limits.FILES:
        raise UnreadableArchive(f"has more than {limits.FILES:,} files")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
