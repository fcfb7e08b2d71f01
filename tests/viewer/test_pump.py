"""What one tick of the pump delivers, and in which order."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, Event, Stopped
from dgn_engine.protocol.training import Measured, Pause, Paused, Running
from dgn_engine.scene.elements import Scene
from dgn_engine.session import restart
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer
from dgn_viewer.pump import SOON, SOON_MS, TICK_MS, Pump
from tests.viewer.rare_checkpoints import serve_with_rare_checkpoints


class ScriptedEngine:
    """Frames and events that are waiting; `asked` says in which order they were taken."""

    def __init__(self, events: tuple[Event, ...] = (), frames: tuple[int, ...] = ()) -> None:
        self.events = list(events)
        self.frame = Frame(1, frames[-1], 0.0, 0.0, None) if frames else None
        self.asked: list[str] = []
        self.sent: list[Command] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.tell: Callable[[], None] = lambda: None

    def start(self) -> None:
        self.asked.append("start")

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def set_wakeup(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    def drain_events(self) -> list[Event]:
        self.asked.append("events")
        events, self.events = self.events, []
        return events

    def take_latest_frame(self) -> Frame | None:
        self.asked.append("frame")
        frame, self.frame = self.frame, None
        self.meanwhile()
        return frame

    def close(self, timeout: float) -> bool:
        return True


@pytest.fixture
def delivered() -> list[object]:
    return []


@pytest.fixture
def pump_of(qtbot: QtBot, delivered: list[object]) -> Callable[[ScriptedEngine], Pump]:
    def make(engine: ScriptedEngine) -> Pump:
        pump = Pump(engine)
        pump.event_arrived.connect(delivered.append)
        pump.frame_arrived.connect(lambda frame: delivered.append(frame.step))
        return pump

    return make


PumpOf = Callable[[ScriptedEngine], Pump]


def test_events_come_in_order_and_before_the_frame(
    pump_of: PumpOf, delivered: list[object]
) -> None:
    pump = pump_of(ScriptedEngine((Running(1), Paused(3), Running(3)), frames=(4, 5)))
    pump.tick()
    assert delivered == [Running(1), Paused(3), Running(3), 5]
    pump.tick()
    assert delivered == [Running(1), Paused(3), Running(3), 5]  # nothing twice


def test_a_frame_never_overtakes_an_event_that_came_before_it(
    pump_of: PumpOf, delivered: list[object]
) -> None:
    engine = ScriptedEngine(frames=(4,))
    # While the tick is under way, the run is paused at step 6 and a frame of it is put up.
    later = Frame(1, 6, 0.0, 0.0, None)

    def pauses() -> None:
        engine.events.append(Paused(6))
        engine.frame = later
        engine.meanwhile = lambda: None

    engine.meanwhile = pauses
    pump = pump_of(engine)
    pump.tick()
    assert engine.asked == ["frame", "events"]
    assert delivered == [Paused(6), 4]
    pump.tick()
    assert delivered == [Paused(6), 4, 6]


def test_the_last_word_of_the_engine_is_remembered_until_another_takes_over(
    pump_of: PumpOf, delivered: list[object]
) -> None:
    pump = pump_of(ScriptedEngine((Paused(3),)))
    pump.tick()
    assert not pump.stopped
    pump.switch_engine(ScriptedEngine((Stopped(),), frames=(9,)))
    pump.tick()
    assert pump.stopped
    assert delivered == [Paused(3), Stopped(), 9]
    another = ScriptedEngine((Running(1),))
    pump.switch_engine(another)
    assert not pump.stopped
    pump.tick()
    assert delivered[-1] == Running(1)
    pump.send(Pause())
    assert another.sent == [Pause()]


def test_it_ticks_by_itself_until_it_is_stopped(
    pump_of: PumpOf, delivered: list[object], qtbot: QtBot
) -> None:
    engine = ScriptedEngine((Running(1),))
    pump = pump_of(engine)
    pump.start()
    qtbot.waitUntil(lambda: delivered == [Running(1)])
    engine.events.append(Paused(2))
    pump.stop()  # what has arrived is still delivered
    assert delivered == [Running(1), Paused(2)]
    asked = len(engine.asked)
    qtbot.wait(3 * TICK_MS)
    assert len(engine.asked) == asked


def test_it_takes_what_it_is_told_of_without_waiting_for_a_tick(
    delivered: list[object], qtbot: QtBot
) -> None:
    engine = ScriptedEngine()
    pump = Pump(engine, every=3_600_000)
    pump.event_arrived.connect(delivered.append)
    pump.start()
    engine.events.append(Running(1))
    teller = threading.Thread(target=engine.tell)  # as the engine does
    teller.start()
    teller.join()
    assert delivered == [], "in the window's own thread"
    qtbot.waitUntil(lambda: delivered == [Running(1)])
    another = ScriptedEngine()
    pump.switch_engine(another)
    engine.events.append(Paused(2))
    engine.tell()  # nobody is called any more
    another.events.append(Running(2))
    another.tell()
    qtbot.waitUntil(lambda: delivered == [Running(1), Running(2)])
    pump.stop()
    another.tell()
    qtbot.wait(20)
    assert delivered == [Running(1), Running(2)]


def test_samples_that_a_user_waits_for_come_before_the_next_tick(qtbot: QtBot) -> None:
    engine, samples = ScriptedEngine(), list[object]()
    pump = Pump(engine, every=3_600_000)
    pump.samples_arrived.connect(samples.extend)
    pump.start()
    first, second = (Measured(step, 0.1, 1.0, 0.5) for step in (1, 2))
    engine.events.append(first)
    pump.fetch_soon()
    qtbot.waitUntil(lambda: samples == [first])
    engine.events.append(second)  # the first was of a step before the change
    qtbot.waitUntil(lambda: samples == [first, second])
    qtbot.waitUntil(lambda: len(engine.asked) == 2 * SOON)
    qtbot.wait(3 * SOON_MS)
    assert len(engine.asked) == 2 * SOON
    pump.fetch_soon()
    pump.stop()
    asked = len(engine.asked)
    qtbot.wait(3 * SOON_MS)
    assert len(engine.asked) == asked


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Entered before `make_viewer`, hence left after it."""
    yield
    assert multiprocessing.active_children() == []
    assert "dgn-relay" not in {thread.name for thread in threading.enumerate()}


def filled(viewer: Viewer) -> bool:
    docks = viewer.window.docks
    return all(
        isinstance(docks.hosts[name].shown_content(), Scene) for name in docks.visible_panels()
    )


def test_a_dead_engine_process_leaves_the_window_alive_and_can_be_replaced(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    viewer = make_viewer(engine=ProcessSession())  # a thread takes its place
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 0)
    (child,) = multiprocessing.active_children()
    child.kill()
    qtbot.waitUntil(lambda: window.run_state.phase == "stopped")
    assert [n.kind for n in window.notices.recent_notices if "signal 9" in n.text] == ["failed"]
    again = window.registry["run.start_engine"]
    assert again.isEnabled()
    window.registry["run.start_engine"].trigger()
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert not again.isEnabled()
    assert window.run_state.step == 0
    window.registry["run.toggle"].trigger()
    qtbot.waitUntil(lambda: window.history.step > 5 and filled(viewer))


def test_a_dead_engine_process_is_replaced_and_the_recorded_run_goes_on_in_the_panels(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "AT_MOST_EVERY", 3600.0)  # the second death is soon after this one
    runs = tmp_path / "runs"
    engine = ProcessSession(runs_root=str(runs), serve=serve_with_rare_checkpoints)
    viewer = make_viewer(engine=engine)
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 20)
    window.registry["regime.FR-II"].trigger()  # a checkpoint is written before it
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    (folder,) = (lock.parent for lock in runs.glob("*/lock"))  # an index lies there, too
    qtbot.waitUntil(lambda: len(RunReader(folder).checkpoints) > 0)
    (child,) = multiprocessing.active_children()
    child.kill()

    def restarted() -> list[str]:
        return [n.text for n in window.notices.recent_notices if n.kind == "failed"]

    qtbot.waitUntil(lambda: bool(restarted()))
    (words,) = restarted()
    assert all(part in words for part in ("(signal 9)", "regime FR-II"))
    assert window.run_state.phase == "running"
    step = window.history.step
    qtbot.waitUntil(lambda: window.history.step > step + 5)
    qtbot.waitUntil(lambda: filled(viewer))
    (again,) = multiprocessing.active_children()
    again.kill()  # a second time within a minute
    qtbot.waitUntil(lambda: window.run_state.phase == "stopped")
    assert str(folder) in window.notices.recent_notices[-1].text
    assert window.registry["run.start_engine"].isEnabled()
