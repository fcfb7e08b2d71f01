"""The step at which a run stands, whatever comes late."""

from __future__ import annotations

import pytest

from dgn_engine.protocol.events import Finished, Paused, Running
from dgn_viewer.state.situation import Situation


def test_while_it_trains_the_step_is_that_of_the_newest_frame() -> None:
    assert Situation().after(Running(5)).at(7).step == 7


@pytest.mark.parametrize("word", [Paused(6), Finished(6)])
def test_a_frame_from_before_the_end_does_not_turn_the_step_back(word: Paused | Finished) -> None:
    now = Situation().after(Running(0)).at(5).after(word)
    assert now.at(5).step == 6
    assert now.at(6) is now
