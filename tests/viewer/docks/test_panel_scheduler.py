"""Which panels are drawn when: by a clock of the test, without a session."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Frame, Reading, Watching
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import Measured, Paused, RegimeSwapped
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars, ReportWindow, Watch
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_spec import About, PanelSpec, View
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from dgn_engine.views.reading_age import ReadingAges
from dgn_viewer.docks.panel_scheduler import PanelScheduler
from tests.engine.panels.pictures import started_run

COST = 0.0045  # seconds of one drawing
SWAPPED = RegimeSwapped(4, "DL", "ReLU", (), (), (), ())
TRAINS = Watching(0.05, every=1.0)  # seconds between two rounds


def spec(*probes: str, prompt: bool = False) -> PanelSpec:
    return PanelSpec("", probes, lambda _: Empty("."), About("."), prompt=prompt)


SPECS = {"npk": spec("npk"), "gates": spec("gates", prompt=True), "training": spec()}


class ScriptedClock:
    """Wall clock and processor time, moved by the test and by drawings."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.busy = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.busy


class DrawnHost(QObject):
    """A panel that notes when it was drawn."""

    choices_changed = Signal()

    def __init__(self, name: str, log: list[str], clock: ScriptedClock) -> None:
        super().__init__()
        self._name, self._log, self._clock = name, log, clock
        self.chosen: dict[str, str] = {}
        self.views: list[tuple[View, float]] = []
        self.asks: tuple[ProbeRequest, ...] = ()
        self.painted = 0.0
        self.cost = COST
        self.reached: list[int] = []
        self.scene: Scene | None = None

    def show_view(self, view: View, every: float) -> None:
        self._log.append(self._name)
        self.views.append((view, every))
        self._clock.busy += self.cost

    def shown_content(self) -> Scene | None:
        """Its picture, if the test gave it one."""
        return self.scene

    def update_staleness(self, step: int) -> None:
        self.reached.append(step)

    @property
    def drawn(self) -> SimpleNamespace:
        return SimpleNamespace(choices=dict(self.chosen), probe_requests=lambda: self.asks)

    @property
    def charts(self) -> SimpleNamespace:
        return SimpleNamespace(painting_seconds=lambda: self.painted)


class ScriptedDocks(QObject):
    """All panels of SPECS; those in `seen` are visible."""

    changed = Signal()

    def __init__(self, clock: ScriptedClock) -> None:
        super().__init__()
        self.log: list[str] = []
        self.hosts = {name: DrawnHost(name, self.log, clock) for name in SPECS}
        self.seen = list(SPECS)
        self.ages = ReadingAges()
        self.minimised = False
        self.window = SimpleNamespace(isMinimized=lambda: self.minimised)

    def visible_panels(self) -> tuple[str, ...]:
        return tuple(self.seen)


class Stage:
    """A scheduler on scripted docks, with a history in which a run has begun."""

    def __init__(self, clock: ScriptedClock) -> None:
        self.clock = clock
        self.history = History()
        self.history.on_event(started_run((2,)))
        self.docks = ScriptedDocks(clock)
        self.sent: list[Command] = []
        docks: Any = self.docks
        self.waits: int | None = None  # after the last turn
        self.scheduler = PanelScheduler(
            self.history, docks, SPECS, self.sent.append, clock.monotonic, clock.thread_time
        )

    def turn(self, after: float = 0.0) -> list[str]:
        """What one turn draws, so many seconds later."""
        self.clock.now += after
        del self.docks.log[:]
        self.scheduler.take_turn()
        self.waits = self.scheduler.wait_ms
        self.scheduler.stop()
        return list(self.docks.log)

    def all_drawn(self) -> None:
        """Within less than two seconds, so that none is overdue."""
        while self.turn(0.3):
            pass

    def frame(self, step: int, *probes: str) -> None:
        readings = {probe: Reading(probe, step) for probe in probes}
        self.history.on_frame(Frame(1, step, 0.0, 0.0, None, readings))


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    return Stage(ScriptedClock())


def test_one_panel_a_turn_and_the_prompt_one_first(stage: Stage) -> None:
    assert stage.scheduler.stale_panels() == ("gates", "npk", "training")
    assert [stage.turn(), stage.turn(), stage.turn()] == [["gates"], ["npk"], ["training"]]
    assert stage.turn() == []
    assert stage.scheduler.stale_panels() == ()


def test_only_panels_whose_data_have_changed_are_drawn(stage: Stage) -> None:
    stage.all_drawn()
    stage.frame(3, "npk")
    assert stage.scheduler.stale_panels() == ("npk",)
    stage.all_drawn()
    stage.history.on_event(Measured(4, 0.1, 1.0, 0.5))
    assert stage.scheduler.stale_panels() == ("training",)
    stage.all_drawn()
    stage.history.on_event(ProbeScalars(4, "gates", {"churn": 0.1}))
    assert stage.scheduler.stale_panels() == ("gates",)
    stage.all_drawn()
    stage.history.on_event(Paused(4))  # every panel says so
    assert set(stage.scheduler.stale_panels()) == set(SPECS)


def test_a_panel_out_of_sight_is_drawn_when_it_comes_into_sight(stage: Stage) -> None:
    stage.docks.seen = ["npk"]
    assert [stage.turn(), stage.turn()] == [["npk"], []]
    stage.docks.seen = ["npk", "training"]
    assert stage.turn() == ["training"]


def test_of_equally_stale_panels_the_one_longest_not_drawn_is_next(stage: Stage) -> None:
    stage.all_drawn()  # gates, npk, training, one after the other
    stage.frame(3, "npk")
    assert stage.turn(0.3) == ["npk"]
    stage.frame(4, "npk")
    stage.history.on_event(Measured(4, 0.1, 1.0, 0.5))
    assert stage.scheduler.stale_panels() == ("training", "npk")


def test_while_a_run_trains_curves_are_drawn_once_a_round(stage: Stage) -> None:
    stage.docks.seen = ["training"]
    stage.scheduler.update_pace(TRAINS)
    stage.turn()
    stage.history.on_event(Measured(4, 0.1, 1.0, 0.5))
    assert stage.turn(0.4) == []
    assert stage.waits == pytest.approx(600, abs=1)  # ms until it is due
    assert stage.turn(0.5) == []
    assert stage.turn(0.2) == ["training"]
    assert stage.waits == 0  # after what has arrived
    assert [every for _, every in stage.docks.hosts["training"].views] == [1.0, 1.0]
    stage.history.on_event(Measured(5, 0.1, 1.0, 0.5))
    stage.scheduler.update_pace(None)  # nothing trains: nothing is delayed
    assert stage.turn(0.04) == ["training"]


def test_a_young_picture_is_drawn_again_soon_whatever_the_round(stage: Stage) -> None:
    stage.docks.seen = ["training"]
    host = stage.docks.hosts["training"]
    stage.scheduler.update_pace(Watching(0.05, every=30.0))
    stage.turn()  # there is nothing to see yet
    host.scene = Scene(())
    due = (0.0, 0.3, 10.0, 1.1)  # seconds after the last drawing, a tenth of the picture's age
    for step, after in enumerate(due, 1):
        stage.history.on_event(Measured(step, 0.1, 1.0, 0.5))
        if step == 1:
            after = 31.0  # until it has a picture, it is drawn as others are
        assert stage.turn(after) == ["training"], step
    stage.history.on_event(Measured(9, 0.1, 1.0, 0.5))
    assert stage.turn(0.9) == []
    stage.history.on_event(started_run((2,)))
    assert stage.turn(0.1) == ["training"]
    stage.history.on_event(Measured(1, 0.1, 1.0, 0.5))
    assert stage.turn(0.3) == ["training"], "another run begins anew"


def test_a_reading_is_drawn_when_it_comes(stage: Stage) -> None:
    """The engine takes it when the budget has room for both."""
    stage.docks.seen = ["npk"]
    stage.scheduler.update_pace(TRAINS)
    stage.turn()
    stage.all_drawn()
    stage.frame(3, "npk")
    stage.turn(0.1)
    stage.frame(4, "npk")
    assert stage.turn(0.04) == ["npk"]
    assert stage.turn(0.04) == []


def test_a_reading_that_sharpens_is_drawn_twice_a_round(stage: Stage) -> None:
    stage.docks.seen = ["npk"]
    stage.scheduler.update_pace(TRAINS)
    stage.frame(3, "npk")
    stage.turn()
    stage.frame(3, "npk")
    stage.turn(0.1)  # what was owed since it came into sight
    for progress, after, drawn in ((0.2, 0.1, []), (0.4, 0.3, []), (0.6, 0.2, ["npk"])):
        reading = Reading("npk", 3, progress=progress)
        stage.history.on_frame(Frame(1, 3, 0.0, 0.0, None, {"npk": reading}))
        assert stage.turn(after) == drawn


def test_what_the_user_causes_is_drawn_at_once_and_so_is_the_reading_that_follows(
    stage: Stage,
) -> None:
    stage.scheduler.update_pace(TRAINS)
    stage.frame(3, "npk")
    stage.all_drawn()
    stage.turn(1.0)
    stage.history.on_event(SWAPPED)
    drawn = [stage.turn(0.04)[0] for _ in SPECS]
    assert set(drawn) == set(SPECS)
    reading = Reading("npk", 4, progress=0.2)
    stage.history.on_frame(Frame(1, 4, 0.0, 0.0, None, {"npk": reading}))
    assert stage.turn(0.04) == ["npk"]
    reading = Reading("npk", 4, progress=0.4)
    stage.history.on_frame(Frame(1, 4, 0.0, 0.0, None, {"npk": reading}))
    assert stage.turn(0.04) == [], "the next one is paced again"


def test_the_first_scores_after_a_change_are_asked_for_and_drawn_at_once(stage: Stage) -> None:
    asked: list[str] = []
    stage.scheduler.scores_wanted.connect(lambda: asked.append("scores"))
    stage.docks.seen = ["training"]
    stage.scheduler.update_pace(TRAINS)
    stage.turn()
    stage.all_drawn()
    assert asked == []
    stage.history.on_event(SWAPPED)
    assert stage.turn(0.04) == ["training"]
    assert asked == ["scores"]
    stage.history.on_event(Measured(4, 0.1, 1.0, 0.5))
    assert stage.turn(0.04) == ["training"]
    stage.history.on_event(Measured(5, 0.1, 1.0, 0.5))
    assert stage.turn(0.04) == [], "the next ones are paced again"
    assert asked == ["scores"]


def test_what_painting_takes_is_reported_with_what_drawing_takes(stage: Stage) -> None:
    stage.docks.seen = ["npk"]
    host = stage.docks.hosts["npk"]
    host.painted = 5.0  # before it was first drawn: not counted
    stage.scheduler.update_pace(TRAINS)
    stage.turn()
    host.painted += 0.02
    stage.frame(3, "npk")
    assert stage.turn(0.5) == ["npk"]
    stage.clock.busy += 0.1
    stage.clock.now += 0.6
    stage.scheduler.update_pace(TRAINS)
    assert stage.sent[-1] == ReportWindow(
        pytest.approx(2 * COST + 0.02), pytest.approx(0.08), os.getpid()
    )


def test_what_is_drawn_of_the_past_is_no_picture_of_a_reading(stage: Stage) -> None:
    stage.docks.seen = ["npk"]
    stage.turn()
    stage.scheduler.update_pace(TRAINS)
    stage.history.look_back(Past(1))
    assert stage.turn(0.1) == ["npk"]
    stage.scheduler.charge_seconds(0.02)  # by the thread that reads
    stage.clock.busy += 0.1
    stage.clock.now += 1.1
    stage.scheduler.update_pace(TRAINS)
    assert stage.sent[-1] == ReportWindow(0.0, pytest.approx(0.1 + COST + 0.02), os.getpid())


def test_a_choice_is_drawn_at_once(stage: Stage) -> None:
    stage.docks.seen = ["npk"]
    stage.turn()
    host = stage.docks.hosts["npk"]
    host.chosen = {"show": "kernel"}
    assert stage.scheduler.stale_panels() == ("npk",)
    assert stage.turn(0.01) == []  # nobody has said so: it waits for its turn
    host.choices_changed.emit()
    assert stage.turn() == ["npk"]
    assert host.views[-1][0].choices == {"show": "kernel"}


def test_every_frame_says_to_the_panels_in_sight_where_the_run_is(stage: Stage) -> None:
    stage.docks.seen = ["npk"]
    stage.turn()
    stage.frame(3)  # the run goes on, the probe does not
    stage.scheduler.update_pace(TRAINS)
    assert stage.docks.hosts["npk"].reached == [3]
    assert stage.docks.hosts["gates"].reached == []
    assert stage.turn(1000.0) == []  # and nothing is drawn anew for it


def test_a_minimised_window_draws_nothing(stage: Stage) -> None:
    stage.docks.minimised = True
    assert stage.turn() == []
    stage.docks.minimised = False
    assert stage.turn() == ["gates"]


def test_all_that_is_stale_can_be_drawn_at_once(stage: Stage) -> None:
    stage.docks.seen = ["npk", "gates"]
    stage.scheduler.draw_now()
    assert stage.docks.log == ["gates", "npk"]
    assert stage.sent == [Watch(())]
    stage.scheduler.draw_now()
    assert stage.docks.log == ["gates", "npk"]


def test_only_the_probes_of_visible_panels_are_watched_each_once(stage: Stage) -> None:
    hosts = stage.docks.hosts
    hosts["npk"].asks = (
        ProbeRequest("npk", (("layer", 2),)),
        ProbeRequest("gates", (("unit", 3),)),
    )
    hosts["gates"].asks = (ProbeRequest("gates", (("layer", 1),)),)
    stage.docks.changed.emit()
    stage.turn()
    both = Watch(
        (ProbeRequest("gates", (("layer", 1), ("unit", 3))), ProbeRequest("npk", (("layer", 2),)))
    )
    assert stage.sent == [both]
    for seen in (["gates"], [], ["npk"], list(SPECS)):  # a layout is put back, all at once
        stage.docks.seen = seen
        stage.docks.changed.emit()
    stage.turn()
    assert stage.sent == [both]  # nothing new
    stage.docks.seen = ["gates"]
    stage.docks.changed.emit()
    stage.turn()
    alone = Watch((ProbeRequest("gates", (("layer", 1),)),))
    assert stage.sent == [both, alone]
    stage.scheduler.watch_again()
    assert stage.sent == [both, alone, alone]
    hosts["gates"].asks = (ProbeRequest("gates", (("layer", 2),)),)
    hosts["gates"].choices_changed.emit()
    assert stage.sent[-1] == Watch((ProbeRequest("gates", (("layer", 2),)),))
    stage.scheduler.stop()


def test_a_panel_that_comes_into_sight_or_is_chosen_in_is_drawn_without_being_asked_for(
    stage: Stage,
) -> None:
    stage.docks.seen = []
    stage.all_drawn()
    stage.docks.seen = ["npk"]
    assert stage.scheduler.wait_ms is None
    stage.docks.changed.emit()
    assert stage.scheduler.wait_ms is not None
    assert stage.turn() == ["npk"]
    host = stage.docks.hosts["npk"]
    host.chosen = {"show": "kernel"}
    host.choices_changed.emit()
    assert stage.scheduler.wait_ms is not None
    assert stage.turn() == ["npk"]
    stage.scheduler.schedule_refresh()
    assert stage.scheduler.wait_ms == 0
    stage.scheduler.stop()


def test_what_is_due_is_drawn_by_itself_until_it_is_stopped(stage: Stage, qtbot: QtBot) -> None:
    stage.scheduler.schedule_refresh()
    stage.scheduler.schedule_refresh()
    assert stage.docks.log == []  # what has arrived is handled first
    qtbot.waitUntil(lambda: stage.docks.log == ["gates", "npk", "training"])
    stage.frame(3, "npk")
    stage.scheduler.schedule_refresh()
    QApplication.processEvents()
    assert stage.docks.log == ["gates", "npk", "training"]  # not due by the clock of the test
    stage.clock.now += 1.0
    qtbot.waitUntil(lambda: stage.docks.log[3:] == ["npk"])
    stage.frame(4, "npk")
    stage.scheduler.schedule_refresh()
    stage.scheduler.stop()
    stage.clock.now += 1.0
    QApplication.processEvents()
    assert stage.docks.log[3:] == ["npk"]
