"""Which frames and checkpoints go where there are too many: the record thins out by age.

What is old lies far apart and what is new close together, on a logarithmic scale; so does what was
early in the run, where most changes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence


def choose_thinned(
    steps: Sequence[int], sizes: Sequence[int], pinned: Collection[int], room: int
) -> list[int]:
    """Places of what should go so that the rest has at most `room` bytes, in that order.

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
