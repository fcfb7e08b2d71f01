"""Which frames of a run that is not recorded are held in memory, to be looked back at."""

from __future__ import annotations

import time

from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Finished, Paused, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.protocol.watching import ProbeSetChanged
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_viewer.timeline.past_reader import PastReader

EVERY = 1.0  # seconds between two frames that are held, or more where packing takes long:
_SHARE = 0.02  # of the time that packing may take
_CHANGES = (
    RegimeSwapped,
    WeightsTaken,
    Rewired,
    SettingChanged,
    ProbeSetChanged,
)  # frames next to these stay, and after these the next frame is held
_STOPS = (Paused, Finished)


class FrameKeeper:
    """As often as a recording writes frames, they are packed by the thread that reads them.

    `held`: of the run on show; None where it is recorded, or has no steps.
    """

    def __init__(self, reader: PastReader, every: float = EVERY, share: float = _SHARE) -> None:
        """`every`: seconds between two frames that are held; `share`: that packing may take."""
        self._reader = reader
        self._least, self._share = every, share
        self.held: HeldFrames | None = None
        self._due = True
        self._every = every
        self._held_at = 0.0

    def begin(self) -> HeldFrames:
        """Hold frames of another run; those of the one before are forgotten."""
        self.held, self._due, self._every = HeldFrames(), True, self._least
        return self.held

    def end(self) -> None:
        """The run is recorded, or cannot be looked back at."""
        self.held = None

    def on_event(self, event: Event) -> None:
        if self.held is None:
            return
        if isinstance(event, _CHANGES):
            self.held.note_event(event.step)
        if isinstance(event, (*_CHANGES, *_STOPS)):
            self._due = True

    def on_frame(self, frame: Frame) -> None:
        now = time.monotonic()
        read = any(not reading.pending for reading in frame.readings.values())
        if self.held is None or not read:
            return
        if self._due or now - self._held_at >= self._every:
            self._held_at, self._due = now, False
            self._reader.keep(self.held, frame)

    def on_kept(self, seconds: float) -> None:
        """Packing has taken so many seconds of the processor."""
        self._every = max(self._least, seconds / self._share)

    @property
    def words(self) -> str:
        """What is held, and what was left out, in a sentence; '' of a run that is recorded."""
        held = self.held
        if held is None:
            return ""
        taken, most = binary_size_in_words(held.bytes), binary_size_in_words(held.most)
        words = (
            f"This run is not recorded: what its panels showed at {len(held.steps):,} steps is "
            f"held in memory ({taken} of at most {most})"
        )
        if held.left_out:
            words += f"; {held.left_out:,} others went, so that old ones lie farther apart"
        return f"{words}."
