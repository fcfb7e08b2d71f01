"""The probes' readings at earlier steps of an unrecorded run, packed in memory.

    held = HeldFrames()
    held.pack_frame(frame)      # as often as needed
    held.frame_at(1200)         # the last frame at or before step 1,200, or None

Frames are packed as on disk (`frame_content`) and restored as exactly. Above the cap they are
thinned by the same rule, too.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from typing import Any

from dgn_engine.protocol.frames import Frame
from dgn_engine.storage.runs.frame_content import decode_frame, encode_frame
from dgn_engine.storage.runs.frame_files import ROOM, choose_thinned, pinned_places

MOST = 64 << 20  # bytes of packed frames


class HeldFrames:
    """Frames by step; thread-safe. Pickling takes a snapshot.

    Attributes:
        steps: Ascending, each once.
        bytes: Of the packed frames.
        left_out: Frames removed to stay within the cap.
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
        """Keep frames next to this step as long as others can be dropped."""
        with self._lock:
            self._events.append(step)

    def pack_frame(self, frame: Frame) -> None:
        """Pack a frame; it replaces one of the same step and all later ones."""
        content = encode_frame(frame)
        with self._lock:
            index = bisect_left(self.steps, frame.step)
            self._packed = [*self._packed[:index], content]
            self.steps = (*self.steps[:index], frame.step)
            self.bytes = sum(map(len, self._packed))
            if self.bytes > self.most:
                self._thin_frames()

    def frame_at(self, step: int) -> Frame | None:
        """Return the last frame at or before a step, or None."""
        with self._lock:
            index = bisect_right(self.steps, step)
            content = self._packed[index - 1] if index else b""
        return decode_frame(content) if content else None

    def refresh_steps(self) -> bool:
        """Return False: `steps` is always current."""
        return False

    def _thin_frames(self) -> None:
        sizes = [len(content) for content in self._packed]
        pinned = pinned_places(self.steps, self._events)
        gone = set(choose_thinned(self.steps, sizes, pinned, int(ROOM * self.most)))
        remaining = [index for index in range(len(sizes)) if index not in gone]
        self._packed = [self._packed[index] for index in remaining]
        self.steps = tuple(self.steps[index] for index in remaining)
        self.bytes = sum(map(len, self._packed))
        self.left_out += len(gone)
