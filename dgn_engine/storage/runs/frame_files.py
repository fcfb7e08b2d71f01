"""Frames on disk, one file each that never changes; and which are removed if there are too many.

Runs are listed with their frames, so numpy is only loaded when one is opened.
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
from dgn_engine.storage.inner_path import FilePath, InnerPath, as_inner_path
from dgn_engine.storage.regular_files import FILE, content_digest, digest_file, read_regular
from dgn_engine.storage.runs import folder_layout, run_identity

if TYPE_CHECKING:
    from dgn_engine.protocol.frames import Frame
    from dgn_engine.storage.runs.frame_content import FrameOrigin

NEWEST = 32  # frames that are never dropped
ROOM = 0.9  # drop frames to this share of the cap, so that it does not happen at every frame


@dataclass(frozen=True)
class StoredFrame:
    """A frame's file; `serial` counts the frames of a run, `ids` as in `run_identity.ids_of`."""

    path: InnerPath
    step: int
    serial: int
    digest: str  # prefix of the sha256, from the name
    bytes: int
    ids: Mapping[str, float] = field(default_factory=dict, compare=False)


def write_frame(folder: FilePath, frame: Frame, serial: int, run: str = "") -> StoredFrame:
    """Write a new file that states its run's id and its number; raises `OSError`."""
    from dgn_engine.storage.runs.frame_content import encode_frame

    folder = as_inner_path(folder)
    make_folder(folder)
    content = encode_frame(frame, run, serial)
    sha256 = content_digest(content).sha256
    path = folder / folder_layout.frame_name(frame.step, serial, sha256)
    write_file(path, content)
    return StoredFrame(path, frame.step, serial, sha256[:16], len(content))


def scan_frames(folder: FilePath) -> list[StoredFrame]:
    """Return all frames by serial number without opening them; raises `OSError`."""
    folder = as_inner_path(folder)
    listing = folder.list_entries()
    info = run_identity.info_beside(folder) if listing else {}
    ids = run_identity.ids_of(info, run_identity.FRAMES)
    frames = [
        StoredFrame(folder / name, *key, status.st_size if stat.S_ISREG(status.st_mode) else 0, ids)
        for name, status in listing.items()
        if (key := folder_layout.frame_key(name)) is not None
    ]
    return sorted(frames, key=lambda frame: frame.serial)


def check_frame(frame: StoredFrame) -> str:
    """Return what is wrong with a file, to end a sentence; '' if nothing is."""
    from dgn_engine.storage.runs.frame_content import UNSOUND, read_origin

    try:
        sha256 = digest_file(frame.path).sha256
        if sha256[:16] != frame.digest:
            return "has changed since it was written (its sha256 differs from its name)"
        return _reason_misplaced(frame, read_origin(frame.path))
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except UNSOUND as error:
        return f"is damaged ({error})"


def _reason_misplaced(frame: StoredFrame, origin: FrameOrigin) -> str:
    """Return why it is not the frame of its name and folder; '' if it is."""
    if origin.step != frame.step:
        return f"is from step {origin.step:,}, not {frame.step:,} as its name says"
    if origin.serial not in (None, frame.serial):
        return f"is frame {origin.serial:,} of its run, not {frame.serial:,} as its name says"
    ours = run_identity.belongs_to_run(origin.run, frame.ids, frame.serial)
    return "" if ours else run_identity.OF_ANOTHER


def read_frame(frame: StoredFrame) -> Frame:
    """Read a frame; raises `UserError` if the file is damaged or of another step or run."""
    from dgn_engine.storage.runs.frame_content import UNSOUND, decode_with, origin_in, read_head

    try:
        content = read_regular(frame.path, FILE)
        head = read_head(content)
        if trouble := _reason_misplaced(frame, origin_in(head)):
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
    """Return frames to delete so that the rest fits within `cap` bytes; none if they already fit.

    The first frame, the newest and the neighbours of events stay; the others are thinned as in
    `choose_thinned`. If those that should stay are too many, the same rule applies to them: the cap
    always holds.

    Args:
        frames: In step order.
        events: Steps of swaps, rewirings and the like.
        cap: Bytes of all frames.
    """
    sizes = [frame.bytes for frame in frames]
    if sum(sizes) <= cap:
        return []
    steps = [frame.step for frame in frames]
    pinned = pinned_places(steps, events)
    return [frames[index] for index in choose_thinned(steps, sizes, pinned, int(ROOM * cap))]


def pinned_places(steps: Sequence[int], events: Sequence[int]) -> set[int]:
    """Return the indices of the newest frames and of those next to events."""
    pinned = set(range(max(0, len(steps) - NEWEST), len(steps)))
    for event in events:
        before, after = bisect_right(steps, event) - 1, bisect_left(steps, event)
        pinned.update(index for index in (before, after, after + 1) if 0 <= index < len(steps))
    return pinned


def choose_thinned(
    steps: Sequence[int], sizes: Sequence[int], pinned: Collection[int], room: int
) -> list[int]:
    """Return the indices to remove so that the rest has at most `room` bytes, in that order.

    Old items end up far apart and new ones close together, on a logarithmic scale; items early in
    the run, where most changes happen, also stay close together.

    The first and the last stay. Among the others, the one whose neighbours are closest to each
    other goes first, closest both in log(1 + step) and in log(1 + age), with the age in steps from
    the latest; ties go to the earliest. Those in `pinned` go only when no other is left.

    Args:
        steps: Ascending; in a folder made by others possibly in any order.
        sizes: In bytes.
        pinned: Indices of those that should stay.
        room: In bytes.
    """
    total, count = sum(sizes), len(steps)
    last = max(steps, default=0)
    early = [math.log1p(step) for step in steps]
    late = [-math.log1p(last - step) for step in steps]
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))

    def step_spread(index: int) -> float:
        left, right = before[index], after[index]
        return max(early[right] - early[left], late[right] - late[left])

    dropped: list[int] = []
    inner = range(1, count - 1)
    gone = [False] * count
    for free in ([p for p in inner if p not in pinned], [p for p in inner if p in pinned]):
        heap = [(step_spread(index), index) for index in free]
        heapq.heapify(heap)
        candidates = set(free)
        while heap and total > room:
            was, index = heapq.heappop(heap)
            if gone[index] or was != step_spread(index):
                continue  # a neighbour was removed since: its heap entry is outdated
            gone[index] = True
            dropped.append(index)
            total -= sizes[index]
            left, right = before[index], after[index]
            after[left], before[right] = right, left
            for near in (left, right):
                if near in candidates and not gone[near]:
                    heapq.heappush(heap, (step_spread(near), near))
    return dropped
