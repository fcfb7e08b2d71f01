"""Frames on disk, one file each that never changes; and which go when they are many.

Runs are listed with their frames: numpy is loaded when one is opened.
"""

from __future__ import annotations

import heapq
import math
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import make_folder, write_file
from dgn_engine.storage.inner_path import FilePath, InnerPath, inner
from dgn_engine.storage.regular_files import FILE, digest, digest_file, read_regular
from dgn_engine.storage.runs import folder_layout, run_identity

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Frame
    from dgn_engine.storage.runs.frame_content import FrameOrigin

NEWEST = 32  # of the frames are never dropped
ROOM = 0.9  # frames are dropped to this share of the cap, so that it is not done at every frame


@dataclass(frozen=True)
class StoredFrame:
    """A frame's file; `serial` counts the frames of a run. `ids`: as `run_identity.ids_of`;
    none where they are not known."""

    path: InnerPath
    step: int
    serial: int
    digest: str  # beginning of the sha256, from the name
    bytes: int
    ids: Mapping[str, float] = field(default_factory=dict, compare=False)


def write(folder: FilePath, frame: Frame, serial: int, run: str = "") -> StoredFrame:
    """A new file, in which the id of its run and its number stand too. Raises `OSError`."""
    from dgn_engine.storage.runs.frame_content import encode

    folder = inner(folder)
    make_folder(folder)
    content = encode(frame, run, serial)
    sha256 = digest(content).sha256
    path = folder / folder_layout.frame_name(frame.step, serial, sha256)
    write_file(path, content)
    return StoredFrame(path, frame.step, serial, sha256[:16], len(content))


def scan(folder: FilePath) -> list[StoredFrame]:
    """Every frame by its serial number; nothing is opened. Raises `OSError`."""
    folder = inner(folder)
    listing = folder.listing()
    info = run_identity.info_beside(folder) if listing else {}
    ids = run_identity.ids_of(info, run_identity.FRAMES)
    found = [
        StoredFrame(folder / name, *key, status.st_size if stat.S_ISREG(status.st_mode) else 0, ids)
        for name, status in listing.items()
        if (key := folder_layout.frame_key(name)) is not None
    ]
    return sorted(found, key=lambda one: one.serial)


def check(frame: StoredFrame) -> str:
    """What is wrong with a file, as the end of a sentence; empty where nothing is."""
    from dgn_engine.storage.runs.frame_content import UNSOUND, read_origin

    try:
        sha256 = digest_file(frame.path).sha256
        if sha256[:16] != frame.digest:
            return "does not hold what was written (its sha256 differs from its name)"
        return _misplaced(frame, read_origin(frame.path))
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except UNSOUND as error:
        return f"is damaged ({error})"


def _misplaced(frame: StoredFrame, origin: FrameOrigin) -> str:
    """Why it is not the frame that its name and folder say; '' where it is."""
    if origin.step != frame.step:
        return f"is of step {origin.step:,}, not of the {frame.step:,} that its name says"
    if origin.serial not in (None, frame.serial):
        return f"is frame {origin.serial:,} of its run, not the {frame.serial:,} of its name"
    ours = run_identity.belongs(origin.run, frame.ids, frame.serial)
    return "" if ours else run_identity.OF_ANOTHER


def read(frame: StoredFrame) -> Frame:
    """The frame; raises `UserError` where the file is not sound, or of another step or run."""
    from dgn_engine.storage.runs.frame_content import UNSOUND, decode_with, origin_in, read_head

    try:
        content = read_regular(frame.path, FILE)
        head = read_head(content)
        if trouble := _misplaced(frame, origin_in(head)):
            raise UserError(f"{frame.path} {trouble}.", kind="damaged", value=frame.path.name)
        return decode_with(content, head)
    except OSError as error:
        why = f"{frame.path} cannot be read: {error.strerror}."
        raise UserError(why, kind="unreadable", value=frame.path.name) from None
    except UNSOUND as error:
        why = f"{frame.path} is damaged ({error})."
        raise UserError(why, kind="damaged", value=frame.path.name) from None


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


def choose_thinned(
    steps: Sequence[int], sizes: Sequence[int], pinned: Collection[int], room: int
) -> list[int]:
    """Places of what should go so that the rest has at most `room` bytes, in that order.

    The record thins out by age: what is old lies far apart and what is new close together, on a
    logarithmic scale; so does what was early in the run, where most changes.

    The first and the last stay. Of the others that one goes first whose neighbours are nearest to
    each other, both in log(1 + step) and in log(1 + age), the age counted in steps from the latest;
    of several the earliest. Those in `pinned` go only when no other is left.

    Args:
        steps: of each, ascending; in a folder that others made they may be in any order.
        sizes: bytes of each.
        pinned: places of those that should stay.
        room: bytes.
    """
    total, count = sum(sizes), len(steps)
    last = max(steps, default=0)
    early = [math.log1p(step) for step in steps]
    late = [-math.log1p(last - step) for step in steps]
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))

    def spread(place: int) -> float:
        one, other = before[place], after[place]
        return max(early[other] - early[one], late[other] - late[one])

    dropped: list[int] = []
    inner = range(1, count - 1)
    gone = [False] * count
    for free in ([p for p in inner if p not in pinned], [p for p in inner if p in pinned]):
        heap = [(spread(place), place) for place in free]
        heapq.heapify(heap)
        candidates = set(free)
        while heap and total > room:
            was, place = heapq.heappop(heap)
            if gone[place] or was != spread(place):
                continue  # a neighbour went since: it stands elsewhere in the heap
            gone[place] = True
            dropped.append(place)
            total -= sizes[place]
            one, other = before[place], after[place]
            after[one], before[other] = other, one
            for near in (one, other):
                if near in candidates and not gone[near]:
                    heapq.heappush(heap, (spread(near), near))
    return dropped
