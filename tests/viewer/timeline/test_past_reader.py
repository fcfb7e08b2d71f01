"""The thread that reads recorded frames: when it looks at a folder again."""

from __future__ import annotations

import pytest

from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.views.frame_source import Source
from dgn_viewer.timeline import past_reader
from dgn_viewer.timeline.past_reader import PastReader


def test_a_computer_that_sleeps_during_a_look_sees_new_steps_soon_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, looks = [100.0], [0]

    class Sleepy(HeldFrames):
        def renew(self) -> bool:
            looks[0] += 1
            if looks[0] == 1:
                now[0] += 3600.0
            return False

    monkeypatch.setattr(past_reader.time, "monotonic", lambda: now[0])
    reader, source = PastReader(), Source(held=Sleepy())
    reader._look(source)  # at the folder for the first time, which is no renewal
    now[0] += 1.0
    reader._look(source)
    now[0] += 1.0
    reader._look(source)
    assert looks[0] == 1  # one that took long is not repeated at once
    now[0] += past_reader._MOST
    reader._look(source)
    assert looks[0] == 2
    reader.close()
