"""The thread that reads recorded frames: when it looks at a folder again."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.views.frame_source import Source
from dgn_viewer.timeline.past_reader import PastReader, StepRequest


def test_a_computer_that_sleeps_during_a_look_sees_new_steps_soon_after(qtbot: QtBot) -> None:
    now, looks = [100.0], [0]

    class Sleepy(HeldFrames):
        def renew(self) -> bool:
            looks[0] += 1
            if looks[0] == 1:
                now[0] += 3600.0
            return False

    reader = PastReader(clock=lambda: now[0])
    request = StepRequest(Source(held=Sleepy()), frame=False)
    # The first look is no renewal; a look that took long is not repeated at once.
    for after, seen in ((0.0, 0), (1.0, 1), (1.0, 1), (5.0, 2)):
        now[0] += after
        with qtbot.waitSignal(reader.found, timeout=60_000):
            reader.ask(request)
        assert looks[0] == seen
    reader.close()
