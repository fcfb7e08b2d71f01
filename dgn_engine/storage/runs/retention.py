"""Which frames go when there are too many: old ones thin out on a logarithmic axis of steps."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from dgn_engine.storage.runs.frame_files import StoredFrame

CAP = 256 << 20  # bytes of all frames of a run
NEWEST = 32  # of the frames are never thinned
ROOM = 0.9  # thinned to this share of the cap, so that it is not done at every frame


def to_drop(
    frames: Sequence[StoredFrame], events: Sequence[int], cap: int = CAP
) -> list[StoredFrame]:
    """Frames to delete so that the rest fits under `cap` bytes; none where they fit already.

    `frames` in the order of their steps; `events`: steps of swaps, rewirings and the like. The
    first frame, the newest and the neighbours of events stay, and of the others that one goes
    first whose neighbours are nearest to each other in log(1 + step). Where those that should
    stay are too many themselves, the same rule takes from them: the cap is kept.
    """
    total = sum(frame.bytes for frame in frames)
    if total <= cap:
        return []
    left = list(frames)
    pinned = _pinned(left, events)
    dropped: list[StoredFrame] = []
    while total > ROOM * cap and len(left) > 2:
        place = _least_missed(left, pinned)
        frame = left.pop(place)
        total -= frame.bytes
        dropped.append(frame)
    return dropped


def _least_missed(left: list[StoredFrame], pinned: set[int]) -> int:
    inner = range(1, len(left) - 1)
    free = [place for place in inner if left[place].serial not in pinned] or inner
    return min(
        free, key=lambda place: math.log1p(left[place + 1].step) - math.log1p(left[place - 1].step)
    )


def _pinned(frames: list[StoredFrame], events: Sequence[int]) -> set[int]:
    steps = [frame.step for frame in frames]
    pinned = {frame.serial for frame in frames[-NEWEST:]}
    for event in events:
        before, after = bisect_right(steps, event) - 1, bisect_left(steps, event)
        for place in (before, after, after + 1):
            if 0 <= place < len(frames):
                pinned.add(frames[place].serial)
    return pinned
