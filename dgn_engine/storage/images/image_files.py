"""Yield the files of a folder or archive one by one in memory: nothing is unpacked to disk."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from dgn_engine.confinement.child_process import NO_SENSE, ChildEnded, ChildProcess
from dgn_engine.errors import UserError
from dgn_engine.storage.images import image_limits as limits
from dgn_engine.storage.images import image_records as records
from dgn_engine.storage.regular_files import NotRegular, open_regular, read_regular
from dgn_engine.text.printable import plain_text

_FACTS = struct.Struct("<3Q2q")  # about a file: length of its name, size, inode, times
_64_BITS = (1 << 64) - 1
CLOCK_STEP = 2_000_000_000  # nanoseconds, of the coarsest file system (FAT)
# Starts a module of this folder with seconds, bytes of memory and standard input.
StartChild = Callable[[str, int, int, IO[bytes]], ChildProcess]


@dataclass(frozen=True, slots=True)
class ImageFile:
    """`name`: path below the top, with slashes; `fraction`: its position in the source."""

    name: str
    content: bytes
    fraction: float


def image_files(path: Path, start: StartChild) -> Iterator[ImageFile]:
    """Yield all regular files with an image suffix, except links, devices and hidden files.

    `path` is a folder, a zip, or a tar, optionally compressed with gzip, bzip2 or xz; its content
    decides, and a child unpacks it.

    Raises:
        UserError: There is nothing of the kind, or it is damaged.
    """
    try:
        if path.is_dir():
            yield from _of_directory(path)
        elif not path.exists():
            raise UserError(f"There is no folder or archive of images at {path}.")
        else:
            yield from _of_archive(path, start)
    except NotRegular as error:
        raise UserError(f"{error.filename or path} {error.verdict}.") from None
    except OSError as error:
        raise UserError(
            f"Cannot read {error.filename or path}: {error.strerror or error}."
        ) from None


class SourceState(NamedTuple):
    """A sha256 of where `image_files` reads, and of names, sizes and times of what is there.

    `settled`: the next change will show, since the last one was not just now.
    """

    digest: str
    settled: bool


def source_state(path: Path, tick: Callable[[], None]) -> SourceState:
    """Return the state of a folder or archive without reading it; `tick` may raise.

    Raises `UserError`.
    """
    whole = hashlib.sha256(os.fsencode(path.absolute()))
    latest = 0
    now = time.time_ns()
    try:
        if not path.exists():
            raise UserError(f"There is no folder or archive of images at {path}.")
        entries = _image_entries(path) if path.is_dir() else iter([("", path.stat())])
        for name, status in entries:
            times = (status.st_mtime_ns, status.st_ctime_ns)
            encoded = name.encode("utf-8", "surrogateescape")
            whole.update(
                _FACTS.pack(len(encoded), status.st_size, status.st_ino & _64_BITS, *times)
                + encoded
            )
            latest = max(latest, *times)
            tick()
    except OSError as error:
        raise UserError(f"Cannot read {error.filename or path}: {error.strerror}.") from None
    return SourceState(whole.hexdigest(), latest < now - CLOCK_STEP)


def _of_directory(top: Path) -> Iterator[ImageFile]:
    names = [name for name, _ in _image_entries(top)]
    for index, name in enumerate(names):
        try:
            content = read_regular(top / name, limits.FILE)
        except NotRegular as error:
            if error.errno == errno.EFBIG:
                raise UserError(
                    f"{top}/{plain_text(name)} is larger than {limits.FILE >> 20} MiB; "
                    "scale it down "
                    "first."
                ) from None
            continue  # it replaced a file since the folder was listed
        yield ImageFile(_printable_label(name), content, index / len(names))


def _printable_label(name: str) -> str:
    """Return a name that can be shown; hardly any needs a change."""
    return name if name.isprintable() else plain_text(name, 2 * limits.NAME)


def _image_entries(top: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the images below a folder, in the order of their folders; no link is followed."""
    found = 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        if below.count("/") > limits.DEPTH:
            raise UserError(f"{top} has more than {limits.DEPTH} nested folders.")
        folders: list[str] = []
        with os.scandir(top / below) as entries:
            for entry in sorted(entries, key=lambda item: item.name):
                name = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{name}/")
                elif records.is_image(name):
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        found += 1
                        yield name, status
        if found > limits.FILES:
            raise UserError(f"{top} has more than {limits.FILES:,} files.")
        waiting.extend(reversed(folders))


def _of_archive(path: Path, start: StartChild) -> Iterator[ImageFile]:
    with open_regular(path, limits.ARCHIVE) as file:
        size = os.fstat(file.fileno()).st_size
        seconds, memory = limits.unpacking_seconds(size), limits.unpacking_memory(size)
        child = start("archive_child", seconds, memory, file)
    with child:
        try:
            yield from _receive_images(child, path)
        except ChildEnded as end:
            raise UserError(f"{path} was refused: {end}.") from None


def _receive_images(child: ChildProcess, path: Path) -> Iterator[ImageFile]:
    """Yield the child's files without trusting it; raises `ChildEnded` and `UserError`."""
    while True:
        kind, fraction, named, length = records.UNPACKED.unpack(child.read(records.UNPACKED.size))
        if named > 4 * limits.NAME or length > limits.FILE or not 0.0 <= fraction <= 1.0:
            raise ChildEnded(NO_SENSE)
        name = child.read(named).decode("utf-8", "surrogateescape")
        content = child.read(length)
        if kind == records.REFUSED:
            raise UserError(f"{path} {plain_text(content.decode('utf-8', 'replace'), 600)}.")
        if kind == records.END:
            return
        if kind == records.FILE:
            yield ImageFile(_printable_label(name), content, fraction)
