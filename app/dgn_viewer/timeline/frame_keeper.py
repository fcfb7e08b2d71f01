"""In-memory history of a run that is not recorded: which of its frames to keep."""

from __future__ import annotations

import time
from dataclasses import replace

from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Finished, Paused, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.protocol.watching import ProbeSetChanged
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_viewer.timeline.past_reader import PastReader

EVERY = 1.0  # seconds between two frames; longer if packing would exceed
_SHARE = 0.02  # … this share of the time
_CHANGES = (
    RegimeSwapped,
    WeightsTaken,
    Rewired,
    SettingChanged,
    ProbeSetChanged,
)  # frames next to these are never thinned out, and the next frame after them is kept
_STOPS = (Paused, Finished)


class FrameKeeper:
    """Keeps frames at the rate of a recording; the reader thread packs them.

    `held`: frames of the current run; None if it is recorded or has no steps.
    """

    def __init__(self, reader: PastReader, every: float = EVERY, share: float = _SHARE) -> None:
        """`every`: minimum seconds between two frames; `share`: maximum share of packing time."""
        self._reader = reader
        self._least, self._share = every, share
        self.held: HeldFrames | None = None
        self._due = True
        self._every = every
        self._held_at = 0.0
        self._last: Frame | None = None  # the last one held
        self._changed_at = -1  # step of the last change of the run

    def start_holding(self) -> HeldFrames:
        """Start keeping frames of another run; drop those of the previous one."""
        self.held, self._due, self._every = HeldFrames(), True, self._least
        self._last, self._changed_at = None, -1
        return self.held

    def stop_holding(self) -> None:
        """Stop: the run is recorded, or has no history."""
        self.held = None

    def on_event(self, event: Event) -> None:
        if self.held is None:
            return
        if isinstance(event, _CHANGES):
            self.held.note_event(event.step)
            self._changed_at = event.step
        if isinstance(event, (*_CHANGES, *_STOPS)):
            self._due = True

    def on_frame(self, frame: Frame) -> None:
        now = time.monotonic()
        has_readings = any(not reading.pending for reading in frame.readings.values())
        if self.held is None or not has_readings:
            return
        if (completed := self._complete_last(frame)) is not None:
            self._last = completed
            self._reader.hold_frame(self.held, completed)
        if self._due or now - self._held_at >= self._every or self._adds_probe(frame):
            self._held_at, self._due, self._last = now, False, frame
            self._reader.hold_frame(self.held, frame)

    def _complete_last(self, frame: Frame) -> Frame | None:
        """Return the last held frame with what this one adds to its step; None if nothing.

        The engine publishes the readings of a step as each is done, and the last of them may arrive
        with a later step. Those of the step of a change may be from before or after it: they only
        come whole.
        """
        last = self._last
        if last is None or not (late := _late_readings(last, frame)):
            return None
        if frame.step == last.step:
            return frame
        if last.step <= self._changed_at:
            return None
        return replace(last, readings={**last.readings, **late})

    def _adds_probe(self, frame: Frame) -> bool:
        """Return whether the frame has a probe that the last held one lacks.

        Frames are dropped while the window is busy, and with them readings of the step held last.
        """
        known = {} if self._last is None else self._last.readings
        return any(
            not reading.pending and (probe not in known or known[probe].pending)
            for probe, reading in frame.readings.items()
        )

    def on_packed(self, seconds: float) -> None:
        """Adapt the interval to the CPU seconds that packing took."""
        self._every = max(self._least, seconds / self._share)

    @property
    def memory_text(self) -> str:
        """Describe in one sentence what is kept in memory; '' if the run is recorded."""
        held = self.held
        if held is None:
            return ""
        used, most = binary_size_in_words(held.bytes), binary_size_in_words(held.most)
        text = (
            f"This run is not recorded; {len(held.steps):,} steps of its history are "
            f"held in memory ({used} of at most {most})"
        )
        if held.left_out:
            text += f"; {held.left_out:,} older ones were thinned out"
        return f"{text}."


def _late_readings(held: Frame, frame: Frame) -> dict[str, Reading]:
    """Return the readings of the held frame's step that it lacks, or that have been completed."""
    return {
        probe: reading
        for probe, reading in frame.readings.items()
        if reading.step == held.step
        and not reading.pending
        and _is_more_complete(reading, held.readings.get(probe))
    }


def _is_more_complete(reading: Reading, old: Reading | None) -> bool:
    if old is None or old.pending or old.step < reading.step:
        return True
    return old.progress < 1.0 <= reading.progress
