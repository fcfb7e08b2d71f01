"""Frames that cross to another process: each reading once, and the same object from then on."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.session.process_session import (
    FrameCompletion,
    FrameDifference,
    FrameReduction,
)


def reading(probe: str, step: int) -> Reading:
    return Reading(probe, step, arrays={"a": np.full((3, 3), float(step))})


def crossed(difference: FrameDifference) -> FrameDifference:
    copy: FrameDifference = pickle.loads(pickle.dumps(difference))
    return copy


def test_a_reading_crosses_once_and_stays_the_same_object() -> None:
    gates, npk, other = reading("gates", 1), reading("npk", 1), reading("npk", 1)
    first = Frame(1, 1, 0.0, 0.0, None, {"gates": gates, "npk": npk}, {"npk": other})
    second = replace(first, step=2, readings={"gates": gates, "npk": reading("npk", 2)})
    third = replace(second, step=3, readings={"gates": gates}, compared={})
    fourth = replace(first, step=4)
    sender, receiver = FrameReduction(), FrameCompletion()
    sent = [crossed(sender.reduced(frame)) for frame in (first, second, third, fourth)]
    assert [sorted(one.frame.readings) for one in sent] == [["gates", "npk"], ["npk"], [], ["npk"]]
    assert [sorted(one.frame.compared) for one in sent] == [["npk"], [], [], ["npk"]]
    got = [receiver.whole(one) for one in sent]
    for frame, there in zip((first, second, third, fourth), got, strict=True):
        assert there.step == frame.step
        for mine, theirs in ((frame.readings, there.readings), (frame.compared, there.compared)):
            assert mine.keys() == theirs.keys()
            for name, one in mine.items():
                np.testing.assert_array_equal(theirs[name].arrays["a"], one.arrays["a"])
    assert got[1].readings["gates"] is got[0].readings["gates"]
    assert got[1].compared["npk"] is got[0].compared["npk"]
    assert got[1].readings["npk"] is not got[0].readings["npk"]


def test_arrays_cannot_be_written_to_after_they_crossed() -> None:
    frame = Frame(1, 1, 0.0, 0.0, None, {"gates": reading("gates", 1)})
    whole = FrameCompletion().whole(crossed(FrameReduction().reduced(frame)))
    assert not whole.readings["gates"].arrays["a"].flags.writeable
