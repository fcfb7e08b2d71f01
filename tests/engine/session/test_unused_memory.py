"""What a run, a file or a comparison held is free when another takes its place."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from dgn_engine.protocol import commands as do
from dgn_engine.session import unused_memory
from tests.engine.session.conftest import PROBES, Desk, small


@pytest.fixture
def no_collector() -> Iterator[None]:
    """In the window it runs in another thread, and seldom."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_run_that_was_replaced_is_freed_without_the_collector(
    tmp_path: Path, no_collector: None
) -> None:
    desk = Desk(str(tmp_path))
    desk.do(do.Watch(PROBES), do.StartRun(small(seed=1)))
    desk.turn(3)
    gc.collect()  # what torch imported at the first step holds on to its frames
    desk.do(do.StartRun(small(seed=2)))
    desk.turn(3)
    desk.do(do.SwapRegime("FR-II"))
    desk.turn(2)
    run = desk.engine.run
    assert run is not None
    held = {
        "run": weakref.ref(run),
        "network": weakref.ref(run.trainer.network),
        "readings": weakref.ref(run.probe_schedule),
    }
    del run
    desk.do(do.StartRun(small(seed=3)))
    assert [name for name, one in held.items() if one() is not None] == []
    desk.engine.close()


def test_memory_is_given_back_after_a_run_was_replaced_and_once_more_a_while_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    now = 100.0
    monkeypatch.setattr(unused_memory, "give_back", lambda: given.append(1))
    desk = Desk(str(tmp_path))
    desk.engine._unused = unused_memory.UnusedMemory(lambda: now)
    for number in (0, 2):
        desk.do(do.StartRun(small(seed=number)))
        desk.turn(3)
        assert len(given) == number + 1
        now += unused_memory.AGAIN / 2
        desk.turn(3)
        assert len(given) == number + 1
        now += unused_memory.AGAIN / 2
        desk.turn(3)
        assert len(given) == number + 2
    desk.engine.close()


def test_giving_back_is_harmless_where_the_c_library_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unused_memory.give_back()

    def unknown(_: object) -> object:
        raise OSError("no such library")

    monkeypatch.setattr(unused_memory.ctypes, "CDLL", unknown)
    unused_memory.give_back()
    monkeypatch.setattr(unused_memory.ctypes, "CDLL", lambda _: object())
    unused_memory.give_back()
