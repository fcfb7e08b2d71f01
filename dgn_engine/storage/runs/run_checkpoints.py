"""Checkpoints of a run: step folders that are whole or absent, and hash what they hold."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import write_folder
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.regular_files import FILE, open_regular, read_regular, sha256_of
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.snapshot import Snapshot

NEWEST = 2  # kept whatever they are
MOST_AT_EVENTS = 100  # of the checkpoints beside events, the newest are kept
_HELD = (folder_layout.TENSORS, folder_layout.STATE)


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint on disk. `order` counts the checkpoints of a run: clocks may be set back.

    `kept`: '' or why it stays: 'before FR-II', 'final', 'by the user'. `trouble`: '' or what is
    wrong with it, and `culprit` the file; then order is -1. `lines` and `frames`: how many of the
    log's lines and of the frames came before it.
    """

    path: Path
    step: int
    order: int
    kept: str = ""
    finished: bool = False
    lines: int = 0
    frames: int = 0
    trouble: str = ""
    culprit: str = ""

    @property
    def sound(self) -> bool:
        """Whether its files are there with the content that was written."""
        return not self.trouble


def write(
    folder: Path, snapshot: Snapshot, order: int, marks: Mapping[str, object]
) -> StoredCheckpoint:
    """A new step folder; `marks` (kept, lines, frames) go into its state. Raises `OSError`."""
    folder.mkdir(exist_ok=True)
    state = {**snapshot.state, **marks, "order": order}
    again = 0
    while (path := folder / folder_layout.checkpoint_name(snapshot.step, again)).exists():
        again += 1
    files = {
        folder_layout.TENSORS: save({name: t.contiguous() for name, t in snapshot.tensors.items()}),
        folder_layout.STATE: (json.dumps(state, indent=1) + "\n").encode(),
    }
    manifest = {name: _entry(content) for name, content in files.items()}
    files[folder_layout.MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
    write_folder(path, files)
    return _told(path, state)


def stored(folder: Path, thorough: bool = True) -> list[StoredCheckpoint]:
    """Every checkpoint of a run, oldest first; damaged ones come first of all.

    `thorough`: hash every file; else only the small ones.
    """
    if not folder.is_dir():
        return []
    found = [
        _look(path, key[0], thorough)
        for path in folder.iterdir()
        if (key := folder_layout.checkpoint_key(path.name)) is not None and path.is_dir()
    ]
    return sorted(found, key=lambda one: (one.order, one.path.name))


def load(checkpoint: StoredCheckpoint) -> Snapshot:
    """Read it for going on; raises `UserError` naming the damaged file."""
    checkpoint = _look(checkpoint.path, checkpoint.step, thorough=True)
    if not checkpoint.sound:
        raise UserError(f"{checkpoint.path / checkpoint.culprit} {checkpoint.trouble}.")
    listing = read_tensors(checkpoint.path / folder_layout.TENSORS)
    state = json.loads(read_regular(checkpoint.path / folder_layout.STATE))
    # Copied, because torch's own allocation is aligned as that of a run never interrupted.
    tensors = {
        name: torch.from_numpy(array.copy()).clone() for name, array in listing.arrays.items()
    }
    return Snapshot(tensors, state)


def superfluous(found: list[StoredCheckpoint]) -> list[StoredCheckpoint]:
    """Those that need not stay; `found` as `stored` gives them. Damaged ones stay for `repair`."""
    sound = [one for one in found if one.sound]
    at_events = [one for one in sound if one.kept.startswith("before")]
    finals = [one for one in sound if one.kept == "final"]
    by_user = [one for one in sound if one.kept == "by the user"]
    stay = (*sound[-NEWEST:], *at_events[-MOST_AT_EVENTS:], *finals[-1:], *by_user)
    return [one for one in sound if one not in stay]


def remove(checkpoint: StoredCheckpoint) -> None:
    """Take it out of sight first, so that half a checkpoint is never seen."""
    hidden = checkpoint.path.with_name(f".{checkpoint.path.name}.gone.part")
    checkpoint.path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _look(path: Path, step: int, thorough: bool) -> StoredCheckpoint:
    damaged = StoredCheckpoint(path, step, -1)
    try:
        manifest = json.loads(read_regular(path / folder_layout.MANIFEST))
        entries = {name: (int(manifest[name]["bytes"]), manifest[name]["sha256"]) for name in _HELD}
    except (OSError, ValueError, KeyError, TypeError):
        trouble = "is not readable" if (path / folder_layout.MANIFEST).exists() else "is missing"
        return replace(damaged, trouble=trouble, culprit=folder_layout.MANIFEST)
    for name, (size, digest) in entries.items():
        trouble = _trouble(path / name, size, digest, thorough or name == folder_layout.STATE)
        if trouble:
            return replace(damaged, trouble=trouble, culprit=name)
    state: dict[str, Any] = json.loads(read_regular(path / folder_layout.STATE))
    one = _told(path, state)
    return replace(one, kept="by the user") if (path / folder_layout.KEEP).exists() else one


def _told(path: Path, state: dict[str, Any]) -> StoredCheckpoint:
    return StoredCheckpoint(
        path=path,
        step=int(state["step"]),
        order=int(state["order"]),
        kept=str(state["kept"]),
        finished=bool(state["finished"]),
        lines=int(state["lines"]),
        frames=int(state["frames"]),
    )


def _trouble(path: Path, size: int, digest: str, hashed: bool) -> str:
    try:
        with open_regular(path, FILE) as file:
            found = os.fstat(file.fileno()).st_size
        if found != size:
            return f"has {found:,} bytes, {size:,} were written"
        if hashed and sha256_of(path)[1] != digest:
            return "does not hold what was written (its sha256 differs)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def _entry(content: bytes) -> dict[str, object]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
