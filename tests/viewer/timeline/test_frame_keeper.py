"""A run that is not recorded is looked back at in memory, by the same cursor and bar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.runs import FramesRecorded
from dgn_engine.protocol.training import Paused, RegimeSwapped
from dgn_engine.views.history import History
from dgn_viewer.timeline.frame_keeper import FrameKeeper
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.timeline.time_bar import TimeBar
from tests.engine.views.begun_run import make_run_started
from tests.engine.views.past_frames import make_frame, record_frames


class Desk:
    """A cursor over a run that is not recorded, and what it said."""

    def __init__(self, qtbot: QtBot, every: float = 0.0) -> None:
        self._qtbot = qtbot
        self.said: list[str] = []
        self.charged: list[float] = []
        self.history = History()
        self.cursor = StepCursor(
            self.history,
            ["gates"],
            lambda _: None,
            lambda: True,
            None,
            self.charged.append,
            keep=lambda reader: FrameKeeper(reader, every, 1e9),
        )
        self.cursor.thinned.connect(self.said.append)
        self.tell(make_run_started())

    def tell(self, event: Event) -> None:
        self.history.on_event(event)
        self.cursor.on_event(event, self.history.state)

    def see(self, step: int) -> None:
        """A frame comes; wait until it is held."""
        self.see_frame(make_frame(step))

    def see_frame(self, frame: Frame) -> None:
        before = len(self.charged)
        self.history.on_frame(frame)
        self.cursor.keeper.on_frame(frame)
        self._qtbot.waitUntil(lambda: len(self.charged) > before)

    def back_to(self, step: int) -> float:
        """What the gates' panel is given at this step."""
        self.cursor.go_to(step)
        self._qtbot.waitUntil(lambda: self.history.past is not None)
        self._qtbot.waitUntil(lambda: self.cursor.step == self.history.past.step)
        return float(self.history.view({}).readings["gates"].arrays["layer_0"][0, 0])


@pytest.fixture(params=[0.0])
def desk(request: pytest.FixtureRequest, qapp: object, qtbot: QtBot) -> Iterator[Desk]:
    """The parameter: seconds between two frames that are held."""
    made = Desk(qtbot, request.param)
    yield made
    made.cursor.close()
    made.cursor.deleteLater()


def test_a_run_that_is_not_recorded_is_looked_back_at_in_memory(desk: Desk) -> None:
    assert "There is no history yet" in desk.cursor.reason_not_available
    for step in (0, 10, 20, 50):
        desk.see(step)
    assert not desk.cursor.reason_not_available
    assert desk.cursor.steps == (0, 10, 20, 50)
    assert desk.back_to(27) == 20.0
    assert desk.history.view({}).step == 20
    assert " 4 steps " in desk.cursor.keeper.memory_text
    assert " 64 MiB" in desk.cursor.keeper.memory_text
    assert all(seconds >= 0.0 for seconds in desk.charged)


@pytest.mark.parametrize("desk", [1e9], indirect=True)
def test_readings_of_a_step_that_come_after_its_frame_complete_it(desk: Desk) -> None:
    desk.see(0)  # the gates alone
    later = make_frame(0, "gates", "overlap").readings | make_frame(3, "gates").readings
    desk.see_frame(replace(make_frame(3), readings=later))  # that of step 0 alone was dropped
    assert desk.cursor.steps == (0,)
    assert desk.back_to(0) == 0.0
    shown = desk.history.view({}).readings
    assert {probe: reading.step for probe, reading in shown.items()} == {"gates": 0, "overlap": 0}


@pytest.mark.parametrize("desk", [1e9], indirect=True)
def test_the_first_frame_with_another_probe_is_held(desk: Desk) -> None:
    desk.see(0)  # the gates alone; the frame that completes it is dropped
    desk.see_frame(make_frame(3, "gates", "overlap"))
    desk.cursor.keeper.on_frame(make_frame(5, "gates", "overlap"))
    assert desk.cursor.steps == (0, 3)


@pytest.mark.parametrize("desk", [1e9], indirect=True)
@pytest.mark.parametrize("is_late", [False, True])  # a frame may follow an event that is newer
def test_readings_after_a_change_never_complete_a_frame_from_before_it(
    desk: Desk, is_late: bool
) -> None:
    swapped = RegimeSwapped(10, "DL", "FR-II", (), (), (), ())
    if is_late:
        desk.tell(swapped)
    desk.see(10)
    if not is_late:
        desk.tell(swapped)
    readings = make_frame(10, "gates", "overlap", regime="FR-II").readings
    desk.cursor.keeper.on_frame(replace(make_frame(11, regime="FR-II"), readings=readings))
    desk.tell(Paused(12))
    desk.see(12)
    desk.back_to(10)
    assert set(desk.history.view({}).readings) == {"gates"}


@pytest.mark.parametrize("desk", [1e9], indirect=True)
def test_a_frame_of_the_step_of_a_change_is_replaced_by_a_fuller_one(desk: Desk) -> None:
    desk.tell(RegimeSwapped(10, "DL", "FR-II", (), (), (), ()))
    desk.see(10)
    desk.see_frame(make_frame(10, "gates", "overlap", regime="FR-II"))
    desk.tell(Paused(12))
    desk.see(12)
    desk.back_to(10)
    assert set(desk.history.view({}).readings) == {"gates", "overlap"}
    assert desk.history.view({}).regime == "FR-II"


def test_another_run_forgets_them_and_a_recorded_one_is_read_from_its_folder(
    desk: Desk, tmp_path: Path
) -> None:
    desk.see(10)
    desk.tell(make_run_started())
    assert "There is no history yet" in desk.cursor.reason_not_available
    record_frames(tmp_path, 0, 30)
    desk.tell(FramesRecorded(str(tmp_path)))
    assert desk.cursor.keeper.memory_text == ""
    desk.history.on_frame(make_frame(50))
    desk.cursor.keeper.on_frame(make_frame(50))
    assert desk.back_to(40) == 30.0
    assert desk.charged[1:] == []


@pytest.mark.parametrize("desk", [1e9], indirect=True)
def test_between_two_times_only_what_follows_a_change_or_a_pause_is_held(desk: Desk) -> None:
    for _ in range(2):  # of another run the first is held, too
        desk.tell(make_run_started())
        desk.see(10)
    for step in (11, 12):
        desk.cursor.keeper.on_frame(make_frame(step))
    desk.tell(RegimeSwapped(12, "DL", "FR-II", (), (), (), ()))
    desk.see(13)
    desk.tell(Paused(13))
    desk.see(14)
    assert desk.cursor.steps == (10, 13, 14)


def test_what_thins_out_is_said_once_and_stands_at_the_bar(desk: Desk, qtbot: QtBot) -> None:
    desk.see(0)
    held = desk.cursor.source.held if desk.cursor.source is not None else None
    assert held is not None
    held.most = 40 * held.bytes
    window = QWidget()
    qtbot.addWidget(window)
    play, live = QAction("Play", window), QAction("Back to live", window)
    bar = TimeBar(desk.cursor, desk.history, play, live, QAction("Compare", window), window)
    assert bar.label.text().startswith("live · ")
    for step in range(1, 50):
        desk.see(step)
    assert held.left_out > 0
    assert len(desk.said) == 1
    bar.refresh_bar()
    assert f" {held.left_out} " in bar.label.toolTip()
