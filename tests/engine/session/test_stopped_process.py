"""An engine's process that is stopped (SIGSTOP): nobody waits for it, and it goes on afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from dgn_engine.protocol.messages import (
    EngineAnswered,
    EngineReady,
    EngineSilent,
    Event,
    Failed,
    Refused,
    Stopped,
)
from dgn_engine.protocol.training import Advance, Paused, Undo
from dgn_engine.session import process_session
from dgn_engine.session.process_session import LOADING, MOST, SILENT, AnswerWatch, ProcessSession
from tests.engine.session.quiet_engine import serve_quietly

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSTOP")


class Heard:
    def __init__(self) -> None:
        self.session = ProcessSession(serve=serve_quietly)
        self.events: list[Event] = []
        self.session.start()
        self.wait_for(EngineReady)

    @property
    def pid(self) -> int:
        (child,) = multiprocessing.active_children()
        assert child.pid is not None
        return child.pid

    def wait_for(self, kind: type[Event], count: int = 1) -> list[Event]:
        until = time.monotonic() + 120.0
        while True:
            self.events += self.session.drain_events()
            found = [one for one in self.events if isinstance(one, kind)]
            if len(found) >= count:
                return found
            assert time.monotonic() < until, self.events
            time.sleep(0.01)


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard()
    yield made
    made.session.close(0.1)
    assert multiprocessing.active_children() == []


def test_commands_to_a_stopped_process_do_not_hold_the_window_up_and_are_obeyed_later(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_session, "SILENT", 0.3)
    heard.session._watch.on_message(ready=True)  # with the shorter patience
    os.kill(heard.pid, signal.SIGSTOP)
    began = time.thread_time()
    for number in range(MOST + 5):
        heard.session.send(Advance(number))
    assert time.thread_time() - began < 5.0
    assert len(heard.wait_for(Refused, 5)) == 5
    heard.wait_for(EngineSilent)
    os.kill(heard.pid, signal.SIGCONT)
    heard.wait_for(EngineAnswered)
    answers = heard.wait_for(Paused, MOST)
    assert answers == [Paused(number) for number in range(MOST)]
    assert heard.session.close(60.0)


def test_closing_kills_a_stopped_process_after_its_timeout(heard: Heard) -> None:
    os.kill(heard.pid, signal.SIGSTOP)
    for number in range(500):  # more than the pipe holds
        heard.session.send(Advance(number))
    began = time.monotonic()
    assert not heard.session.close(0.2)
    assert time.monotonic() - began < 10.0
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_with_commands_unread_names_them(heard: Heard) -> None:
    os.kill(heard.pid, signal.SIGSTOP)
    for number in range(500):
        heard.session.send(Advance(number))
    heard.session.send(Undo())
    os.kill(heard.pid, signal.SIGKILL)
    (failed,) = heard.wait_for(Failed)
    assert isinstance(failed, Failed)
    assert "died" in failed.what
    assert ": advance, undo." in failed.what
    assert len(heard.wait_for(Stopped)) == 1
    assert heard.session.close(60.0)


# When silence is told


class WatchBench:
    """A watch that is looked at every tenth of a second."""

    def __init__(self) -> None:
        self.now = 500.0
        self.watch = AnswerWatch(lambda: self.now)
        self.told: list[EngineSilent | EngineAnswered] = []

    def look(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            event = self.watch.check_silence()
            if event is not None:
                self.told.append(event)


@pytest.fixture
def ready() -> WatchBench:
    bench = WatchBench()
    bench.watch.on_message(ready=True)
    return bench


def test_a_process_that_says_something_now_and_then_is_not_silent(ready: WatchBench) -> None:
    for _ in range(10):
        ready.look(SILENT - 1.0)
        ready.watch.on_message()
    assert ready.told == []


def test_silence_and_its_end_are_told_once_each(ready: WatchBench) -> None:
    ready.look(60.0)
    (silent,) = ready.told
    assert silent == EngineSilent(pytest.approx(SILENT, abs=0.3))
    ready.watch.on_message()
    ready.look(1.0)
    assert ready.told[1:] == [EngineAnswered(pytest.approx(60.0, abs=0.3))]
    ready.look(SILENT + 1.0)
    assert len(ready.told) == 3


def test_who_was_stopped_itself_blames_nobody(ready: WatchBench) -> None:
    ready.look(1.0)
    for _ in range(5):
        ready.now += 3600.0  # a laptop was closed, say
        ready.look(0.5)
    assert ready.told == []


def test_a_process_may_take_long_to_load_torch() -> None:
    bench = WatchBench()
    bench.look(LOADING - 1.0)
    assert bench.told == []
    bench.look(2.0)
    assert len(bench.told) == 1
    bench.watch.on_message(ready=True)
    bench.look(1.0)
    bench.watch.restart_watch()  # another in its place
    bench.look(LOADING - 1.0)
    assert [type(one) for one in bench.told] == [EngineSilent, EngineAnswered]
