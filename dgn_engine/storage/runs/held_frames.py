"""What the probes read at earlier steps of a run that is not recorded: packed, in memory.

    held = HeldFrames()
    held.add(frame)             # as often as somebody wants
    held.at(1200)               # the last frame at or before step 1,200, or None

Frames are packed as on disk (`frame_content`) and come back as exactly as from there. Where they
take more than the cap they thin out by the same rule, too.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from typing import Any

from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.runs.frame_content import decode, encode
from dgn_engine.storage.runs.frame_files import ROOM, choose_thinned, pinned_places

MOST = 64 << 20  # bytes of packed frames


class HeldFrames:
    """Frames by step, for several threads; pickled, they are those of that moment.

    `steps`: in ascending order, each once; `bytes`: of the packed frames; `left_out`: frames that
    went to keep the cap.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.bytes = 0
        self.left_out = 0
        self.steps: tuple[int, ...] = ()
        self._lock = threading.Lock()
        self._packed: list[bytes] = []
        self._events: list[int] = []

    def __reduce__(self) -> tuple[type[HeldFrames], tuple[int], dict[str, Any]]:
        with self._lock:
            state = {name: value for name, value in vars(self).items() if name != "_lock"}
            return HeldFrames, (self.most,), {**state, "_events": list(self._events)}

    def note_event(self, step: int) -> None:
        """Frames next to this step stay as long as there is anything else to drop."""
        with self._lock:
            self._events.append(step)

    def add(self, frame: Frame) -> None:
        """Pack a frame; of one step the newest is held, and none that is later than it."""
        content = encode(frame)
        with self._lock:
            place = bisect_left(self.steps, frame.step)
            self._packed = [*self._packed[:place], content]
            self.steps = (*self.steps[:place], frame.step)
            self.bytes = sum(map(len, self._packed))
            if self.bytes > self.most:
                self._thin()

    def at(self, step: int) -> Frame | None:
        """The last frame at or before a step; None where none is held of so early a step."""
        with self._lock:
            place = bisect_right(self.steps, step)
            content = self._packed[place - 1] if place else b""
        return decode(content) if content else None

    def renew(self) -> bool:
        """`steps` is always new."""
        return False

    def _thin(self) -> None:
        sizes = [len(content) for content in self._packed]
        pinned = pinned_places(self.steps, self._events)
        gone = set(choose_thinned(self.steps, sizes, pinned, int(ROOM * self.most)))
        left = [place for place in range(len(sizes)) if place not in gone]
        self._packed = [self._packed[place] for place in left]
        self.steps = tuple(self.steps[place] for place in left)
        self.bytes = sum(map(len, self._packed))
        self.left_out += len(gone)
