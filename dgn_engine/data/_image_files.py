"""Files of a folder or an archive, one by one in memory: nothing is unpacked to disk."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dgn_engine.errors import UserError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
FILE_BYTES = 64 << 20  # of one image, as stored
FILES = 2_000_000
UNPACKED_BYTES = 64 << 30  # of everything an archive holds, image or not


@dataclass(frozen=True)
class ImageFile:
    """`name`: path below the top, with slashes; `fraction`: how far through the source it lies."""

    name: str
    content: bytes
    fraction: float


def image_files(path: Path) -> Iterator[ImageFile]:
    """Every regular file with the suffix of an image; links, devices and hidden files are not.

    `path` is a directory, a zip, a tar or a gzipped tar; content decides which. Raises `UserError`
    with one sentence where there is nothing of the kind, or where it is damaged.
    """
    try:
        if path.is_dir():
            yield from _of_directory(path)
        elif not path.is_file():
            raise UserError(f"There is no folder or archive of images at {path}.")
        elif zipfile.is_zipfile(path):
            yield from _of_zip(path)
        else:
            yield from _of_tar(path)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is damaged, or no archive of images: {error}.") from None
    except OSError as error:
        raise UserError(
            f"Cannot read {error.filename or path}: {error.strerror or error}."
        ) from None


def signature(path: Path) -> str:
    """Text that changes when the source does: names, sizes and times, not contents."""
    try:
        if not path.is_dir():
            status = path.stat()
            return f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
        lines = [
            f"{name} {status.st_size} {status.st_mtime_ns}"
            for name, status in ((file, (path / file).lstat()) for file in _names(path))
        ]
    except OSError as error:
        raise UserError(f"Cannot read {error.filename or path}: {error.strerror}.") from None
    return "\n".join([str(path.resolve()), *lines])


def _wanted(name: str) -> bool:
    parts = name.split("/")
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in parts)
    return not hidden and name.lower().endswith(SUFFIXES)


def _names(top: Path) -> list[str]:
    names: list[str] = []
    for folder, folders, files in os.walk(top, followlinks=False, onerror=_raise):
        folders.sort()
        below = Path(folder).relative_to(top).as_posix()
        prefix = "" if below == "." else f"{below}/"
        names.extend(f"{prefix}{file}" for file in sorted(files) if _wanted(f"{prefix}{file}"))
        _check_count(len(names), top)
    return [name for name in names if stat.S_ISREG((top / name).lstat().st_mode)]


def _raise(error: OSError) -> None:
    raise error


def _of_directory(top: Path) -> Iterator[ImageFile]:
    names = _names(top)
    for place, name in enumerate(names):
        with (top / name).open("rb") as file:
            yield ImageFile(name, _bounded(file, f"{top}/{name}"), place / len(names))


def _of_zip(path: Path) -> Iterator[ImageFile]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_count(len(members), path)
        for place, member in enumerate(members):
            link = stat.S_ISLNK(member.external_attr >> 16)
            name = _tidy(member.filename)
            if member.is_dir() or link or not _wanted(name):
                continue
            if member.flag_bits & 1:
                raise UserError(f"{path} is encrypted; unpack it first.")
            try:
                with archive.open(member) as file:
                    content = _bounded(file, f"{path}: {name}")
            except NotImplementedError as error:
                raise UserError(f"{path} is packed in a way that is not read: {error}.") from None
            yield ImageFile(name, content, place / len(members))


def _of_tar(path: Path) -> Iterator[ImageFile]:
    size = path.stat().st_size
    with path.open("rb") as raw:
        gzipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        # gzip by hand: unlike the stream of tarfile it notices where a file was cut off.
        stream: IO[bytes] = gzip.GzipFile(fileobj=raw) if gzipped else raw  # type: ignore[assignment] # it is one
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            unpacked = count = 0
            for member in archive:
                unpacked, count = unpacked + member.size, count + 1
                _check_count(count, path)
                if unpacked > UNPACKED_BYTES:
                    raise UserError(f"{path} unpacks to more than {UNPACKED_BYTES >> 30} GiB.")
                name = _tidy(member.name)
                file = archive.extractfile(member) if member.isreg() and _wanted(name) else None
                archive.members.clear()  # type: ignore[attr-defined] # else every header is kept
                if file is not None:
                    yield ImageFile(name, _bounded(file, f"{path}: {name}"), raw.tell() / size)


def _tidy(name: str) -> str:
    """Names are only labels here, never places on disk; '.' and empty parts say nothing."""
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))


def _bounded(file: IO[bytes], where: str) -> bytes:
    content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise UserError(f"{where} is larger than {FILE_BYTES >> 20} MiB; scale it down first.")
    return content


def _check_count(count: int, path: Path) -> None:
    if count > FILES:
        raise UserError(f"{path} holds more than {FILES:,} files.")
