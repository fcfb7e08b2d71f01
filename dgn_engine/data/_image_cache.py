"""Decoded images in the user's cache: the second start of the same folder is quick."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dgn_engine.storage.atomic_write import replace_file
from dgn_engine.storage.user_folders import user_cache

FORM = 1  # raise it when decoding changes
ENTRY_BYTES = 1 << 30
CACHE_BYTES = 4 << 30
_ARRAYS = ("train_x", "train_y", "test_x", "test_y")


@dataclass(frozen=True)
class DecodedImages:
    """Levels (n, C, H, W) and labels (n,) of both parts."""

    train_x: npt.NDArray[np.uint8]
    train_y: npt.NDArray[np.int64]
    test_x: npt.NDArray[np.uint8]
    test_y: npt.NDArray[np.int64]
    class_names: tuple[str, ...]


def cached(signature: str) -> DecodedImages | None:
    """What was decoded from this very source before, or None."""
    path = _place(signature)
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            train_x, train_y, test_x, test_y = (file[name] for name in _ARRAYS)
            names = json.loads(file["class_names"].tobytes())
        path.touch()  # the age that `_prune` goes by
    except Exception:  # not there, or damaged in whatever way: it will be made again
        return None
    return DecodedImages(train_x, train_y, test_x, test_y, tuple(names))


def keep(signature: str, decoded: DecodedImages) -> None:
    """Store for the next time; a cache that cannot be written is no trouble."""
    if decoded.train_x.nbytes + decoded.test_x.nbytes > ENTRY_BYTES:
        return
    path = _place(signature)
    names = np.frombuffer(json.dumps(decoded.class_names).encode(), np.uint8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as file:
            arrays = {name: getattr(decoded, name) for name in _ARRAYS}
            np.savez(file, class_names=names, **arrays)
        _prune(path.parent)
    except OSError:
        return


def _place(signature: str) -> Path:
    key = hashlib.sha256(f"{FORM} {signature}".encode(errors="surrogateescape")).hexdigest()
    return user_cache() / "images" / f"{key[:32]}.npz"


def _prune(folder: Path) -> None:
    """Remove what was not used for longest, until the rest is small enough."""
    kept = 0
    entries = [(path.stat(), path) for path in folder.glob("*.npz")]
    for status, path in sorted(entries, key=lambda e: e[0].st_mtime_ns, reverse=True):
        kept += status.st_size
        if kept > CACHE_BYTES:
            path.unlink(missing_ok=True)
