"""Cache decoded images, so that the second start with the same folder is quick.

An entry is named after its source, and trusted only if it is the user's own file with what was
written for exactly that: a line of JSON, the arrays, and a sha256 of both.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dgn_engine.storage.atomic_write import replace_file
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.regular_files import open_regular
from dgn_engine.storage.user_folders import user_cache

FORM = 3  # increase it when decoding or the format changes
ENTRY_BYTES = 1 << 30
CACHE_BYTES = 4 << 30
_HEAD = 64 << 20  # bytes of the line of JSON
_ARRAYS = {"train_x": ("u1", 4), "train_y": ("<i8", 1), "test_x": ("u1", 4), "test_y": ("<i8", 1)}
_ENDING = ".images"


@dataclass(frozen=True)
class DecodedImages:
    """Levels (n, C, H, W) and labels (n,) of both parts."""

    train_x: npt.NDArray[np.uint8]
    train_y: npt.NDArray[np.int64]
    test_x: npt.NDArray[np.uint8]
    test_y: npt.NDArray[np.int64]
    class_names: tuple[str, ...]


def read_cached_images(identity: str, *, by: str | None = None) -> DecodedImages | None:
    """Return the cached images of this identity, or None; `by`: version of Pillow."""
    key = _cache_key(identity, by)
    path = _cache_folder() / f"{key}{_ENDING}"
    try:
        if not (_is_own(path.parent) and _is_own(path)):
            return None
        with open_regular(path, ENTRY_BYTES + _HEAD) as file:
            decoded = _read_entry(file, os.fstat(file.fileno()).st_size, key)
        os.utime(path)  # `_prune_cache` uses this as its age
    except Exception:  # missing or damaged in any way: decode again
        return None
    return decoded


def store_images(
    identity: str, decoded: DecodedImages, *, by: str | None = None, most: int = CACHE_BYTES
) -> None:
    """Store images, keeping all entries within `most` bytes; failure to write is ignored.

    `by` as for `read_cached_images`.
    """
    if decoded.train_x.nbytes + decoded.test_x.nbytes > ENTRY_BYTES:
        return
    key, folder = _cache_key(identity, by), _cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if not _is_own(folder):
            return
        with replace_file(inner_folder(folder) / f"{key}{_ENDING}") as file:
            _write_entry(file, decoded, key)
        _prune_cache(folder, most)
    except OSError:
        return


def _cache_key(identity: str, by: str | None) -> str:
    """Return the name of an entry, which includes the version of Pillow."""
    text = f"{FORM} {by or version('pillow')} {identity}"
    return hashlib.sha256(text.encode()).hexdigest()


def _cache_folder() -> Path:
    return user_cache() / "images"


def _is_own(path: Path) -> bool:
    """Return whether a path, not a link, is this user's and writable by nobody else."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return False
    return os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)


def _write_entry(file: IO[bytes], decoded: DecodedImages, key: str) -> None:
    arrays = [np.ascontiguousarray(getattr(decoded, name), _ARRAYS[name][0]) for name in _ARRAYS]
    head = {
        "key": key,
        "class_names": decoded.class_names,
        "shapes": [array.shape for array in arrays],
    }
    whole = hashlib.sha256()
    line: bytes | memoryview = json.dumps(head).encode() + b"\n"
    for part in (line, *map(_as_bytes, arrays)):
        whole.update(part)
        file.write(part)
    file.write(whole.digest())


def _as_bytes(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _read_entry(file: IO[bytes], size: int, key: str) -> DecodedImages:
    """Read an entry; raises some exception if it is not what was written under this key."""
    whole = hashlib.sha256()
    with open(file.fileno(), "rb", closefd=False) as entry:
        line = entry.readline(_HEAD)
        whole.update(line)
        head: dict[str, Any] = json.loads(line)
        shapes = [tuple(int(side) for side in shape) for shape in head["shapes"]]
        if head["key"] != key or any(side < 0 for shape in shapes for side in shape):
            raise ValueError("the entry has another key")
        if [len(shape) for shape in shapes] != [axes for _, axes in _ARRAYS.values()]:
            raise ValueError("a shape is invalid")
        lengths = [
            math.prod(shape) * np.dtype(kind).itemsize
            for shape, (kind, _) in zip(shapes, _ARRAYS.values(), strict=True)
        ]
        if len(line) + sum(lengths) + whole.digest_size != size:
            raise ValueError("the entry has another size")
        arrays: list[Any] = []
        for shape, (kind, _) in zip(shapes, _ARRAYS.values(), strict=True):
            array = np.empty(shape, kind)
            if entry.readinto(_as_bytes(array)) != array.nbytes:
                raise ValueError("the entry is cut off")
            whole.update(_as_bytes(array))
            arrays.append(array)
        if entry.read() != whole.digest():
            raise ValueError("the entry has changed since it was written")
    train_x, train_y, test_x, test_y = arrays
    names = tuple(str(name) for name in head["class_names"])
    return DecodedImages(train_x, train_y, test_x, test_y, names)


def _prune_cache(folder: Path, most: int) -> None:
    """Remove the least recently used entries until the rest fits, and those of old formats."""
    total = 0
    for path in folder.glob("*.npz"):
        path.unlink(missing_ok=True)
    entries = [(path.lstat(), path) for path in folder.glob(f"*{_ENDING}")]
    for status, path in sorted(entries, key=lambda e: e[0].st_mtime_ns, reverse=True):
        total += status.st_size
        if total > most:
            path.unlink(missing_ok=True)
