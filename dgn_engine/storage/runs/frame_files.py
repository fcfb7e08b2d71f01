"""Frames on disk, one file each that never changes; and which go when they are many.

Runs are listed with their frames: numpy is loaded when one is opened.
"""

from __future__ import annotations

import stat
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folder, write_file
from dgn_engine.storage.inner_path import FilePath, InnerPath, inner
from dgn_engine.storage.regular_files import FILE, digest, digest_file, read_regular
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.retention import choose_thinned

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Frame

NEWEST = 32  # of the frames are never dropped
ROOM = 0.9  # frames are dropped to this share of the cap, so that it is not done at every frame


@dataclass(frozen=True)
class StoredFrame:
    """A frame's file; `serial` counts the frames of a run."""

    path: InnerPath
    step: int
    serial: int
    digest: str  # beginning of the sha256, from the name
    bytes: int


def write(folder: FilePath, frame: Frame, serial: int) -> StoredFrame:
    """A new file. Raises `OSError`."""
    from dgn_engine.storage.runs.frame_content import encode

    folder = inner(folder)
    make_folder(folder)
    content = encode(frame)
    sha256 = digest(content).sha256
    path = folder / folder_layout.frame_name(frame.step, serial, sha256)
    write_file(path, content)
    return StoredFrame(path, frame.step, serial, sha256[:16], len(content))


def scan(folder: FilePath) -> list[StoredFrame]:
    """Every frame by its serial number; nothing is opened. Raises `OSError`."""
    folder = inner(folder)
    found = [
        StoredFrame(folder / name, *key, status.st_size if stat.S_ISREG(status.st_mode) else 0)
        for name, status in folder.listing().items()
        if (key := folder_layout.frame_key(name)) is not None
    ]
    return sorted(found, key=lambda one: one.serial)


def check(frame: StoredFrame) -> str:
    """What is wrong with a file, as the end of a sentence; empty where nothing is."""
    try:
        sha256 = digest_file(frame.path).sha256
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if sha256[:16] != frame.digest:
        return "does not hold what was written (its sha256 differs from its name)"
    return ""


def read(frame: StoredFrame) -> Frame:
    """The frame; raises `UserError` where the file is not sound."""
    from dgn_engine.storage.runs.frame_content import UNSOUND, decode

    try:
        content = read_regular(frame.path, FILE)
        return decode(content)
    except OSError as error:
        raise UserError(f"{frame.path} cannot be read: {error.strerror}.") from None
    except UNSOUND as error:
        raise UserError(f"{frame.path} is damaged ({error}).") from None


def choose_dropped(
    frames: Sequence[StoredFrame], events: Sequence[int], cap: int
) -> list[StoredFrame]:
    """Frames to delete so that the rest fits under `cap` bytes; none where they fit already.

    The first frame, the newest and the neighbours of events stay; the others thin out as
    `choose_thinned` says. Where those that should stay are too many themselves, the same rule
    takes from them: the cap is kept.

    Args:
        frames: in the order of their steps.
        events: steps of swaps, rewirings and the like.
        cap: bytes of all frames.
    """
    sizes = [frame.bytes for frame in frames]
    if sum(sizes) <= cap:
        return []
    steps = [frame.step for frame in frames]
    pinned = pinned_places(steps, events)
    return [frames[place] for place in choose_thinned(steps, sizes, pinned, int(ROOM * cap))]


def pinned_places(steps: Sequence[int], events: Sequence[int]) -> set[int]:
    """Places of the newest frames, and of those next to events; `steps`: of the frames."""
    pinned = set(range(max(0, len(steps) - NEWEST), len(steps)))
    for event in events:
        before, after = bisect_right(steps, event) - 1, bisect_left(steps, event)
        pinned.update(place for place in (before, after, after + 1) if 0 <= place < len(steps))
    return pinned
