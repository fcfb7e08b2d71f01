"""When a silent process is told, and when not."""

from __future__ import annotations

import pytest

from dgn_engine.protocol.messages import EngineAnswered, EngineSilent
from dgn_engine.session.process_session import LOADING, SILENT, AnswerWatch


class Bench:
    """A watch that is looked at every tenth of a second."""

    def __init__(self) -> None:
        self.now = 500.0
        self.watch = AnswerWatch(lambda: self.now)
        self.told: list[EngineSilent | EngineAnswered] = []

    def look(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            event = self.watch.look()
            if event is not None:
                self.told.append(event)


@pytest.fixture
def ready() -> Bench:
    bench = Bench()
    bench.watch.heard(ready=True)
    return bench


def test_a_process_that_says_something_now_and_then_is_not_silent(ready: Bench) -> None:
    for _ in range(10):
        ready.look(SILENT - 1.0)
        ready.watch.heard()
    assert ready.told == []


def test_silence_and_its_end_are_told_once_each(ready: Bench) -> None:
    ready.look(60.0)
    (silent,) = ready.told
    assert silent == EngineSilent(pytest.approx(SILENT, abs=0.3))
    ready.watch.heard()
    ready.look(1.0)
    assert ready.told[1:] == [EngineAnswered(pytest.approx(60.0, abs=0.3))]
    ready.look(SILENT + 1.0)
    assert len(ready.told) == 3


def test_who_was_stopped_itself_blames_nobody(ready: Bench) -> None:
    ready.look(1.0)
    for _ in range(5):
        ready.now += 3600.0  # a laptop was closed, say
        ready.look(0.5)
    assert ready.told == []


def test_a_process_may_take_long_to_load_torch() -> None:
    bench = Bench()
    bench.look(LOADING - 1.0)
    assert bench.told == []
    bench.look(2.0)
    assert len(bench.told) == 1
    bench.watch.begin()  # another in its place
    bench.look(LOADING - 1.0)
    assert [type(one) for one in bench.told] == [EngineSilent, EngineAnswered]
