"""Frames on their way to another process: a reading travels once, however many frames show it.

What is pickled takes time from training, and copies would make every panel look changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dgn_engine.protocol.frames import Frame, Reading

Readings = Mapping[str, Reading]


@dataclass(frozen=True)
class FrameDifference:
    """A frame without the readings that the frame before it had; those are named."""

    frame: Frame
    same: tuple[str, ...] = ()
    same_compared: tuple[str, ...] = ()


@dataclass
class FrameReduction:
    """Of the side that sends."""

    _before: tuple[Readings, Readings] = field(default=({}, {}))

    def reduced(self, frame: Frame) -> FrameDifference:
        """What the other side does not have yet; it has to get every one, in this order."""
        (known, compared), self._before = self._before, (frame.readings, frame.compared)
        same, same_compared = _same(frame.readings, known), _same(frame.compared, compared)
        rest = replace(
            frame,
            readings=_without(frame.readings, same),
            compared=_without(frame.compared, same_compared),
        )
        return FrameDifference(rest, same, same_compared)


@dataclass
class FrameCompletion:
    """Of the side that receives."""

    _before: tuple[Readings, Readings] = field(default=({}, {}))

    def whole(self, difference: FrameDifference) -> Frame:
        """The frame as it was sent; readings that came before are the same objects."""
        frame, (known, compared) = difference.frame, self._before
        order = {name: known[name] for name in difference.same}
        others = {name: compared[name] for name in difference.same_compared}
        for reading in (*frame.readings.values(), *frame.compared.values()):
            for array in reading.arrays.values():
                array.flags.writeable = False  # a flag that pickling loses
        whole = replace(
            frame, readings={**order, **frame.readings}, compared={**others, **frame.compared}
        )
        self._before = (whole.readings, whole.compared)
        return whole


def _same(readings: Readings, before: Readings) -> tuple[str, ...]:
    return tuple(name for name, one in readings.items() if one is before.get(name))


def _without(readings: Readings, names: tuple[str, ...]) -> Readings:
    return {name: one for name, one in readings.items() if name not in names}
