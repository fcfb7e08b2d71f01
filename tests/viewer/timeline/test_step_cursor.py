"""One step cursor for all panels: where it goes, what the history shows then, and back to live."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAction, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import ComparedFrames, CompareHeld, CompareRun
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import FramesRecorded, RecordingMended
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import View
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.history import History
from dgn_viewer.timeline.compared_cursor import ComparedCursor, compare_with_step
from dgn_viewer.timeline.past_reader import PastReader, StepFound, StepRequest, _shift_step
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.timeline.step_slider import StepSlider
from dgn_viewer.timeline.time_bar import TimeBar
from tests.engine.views.begun_run import make_run_started
from tests.engine.views.past_frames import make_frame, record_frames

STEPS = (0, 10, 20, 40)


class Desk:
    """A cursor over a history that has reached step 50, told where the frames lie."""

    def __init__(self, folder: Path, **keywords: Any) -> None:
        self.history = History()
        self.history.on_event(make_run_started())
        self.history.on_frame(make_frame(50))
        self.drawn = 0
        self.cursor = StepCursor(
            self.history, ["gates", "npk"], self._draw, lambda: True, **keywords
        )
        self.tell(FramesRecorded(str(folder)))

    def tell(self, event: FramesRecorded | RecordingMended) -> None:
        self.cursor.on_event(event, self.history.state)

    def _draw(self, _seconds: float) -> None:
        self.drawn += 1

    @property
    def seen(self) -> float:
        """What the gates' panel is given."""
        return float(self.history.view({}).readings["gates"].arrays["layer_0"][0, 0])


@pytest.fixture
def desk(qapp: object, tmp_path: Path) -> Iterator[Desk]:
    record_frames(tmp_path, *STEPS)
    made = Desk(tmp_path)
    yield made
    made.cursor.close()
    made.cursor.deleteLater()


Goes = Callable[[int | None], None]


@pytest.fixture
def arrives(desk: Desk, qtbot: QtBot) -> Goes:
    def arrives(step: int | None) -> None:
        def there() -> bool:
            past = desk.history.past
            return (past.step if past is not None else None) == step == desk.cursor.step

        qtbot.waitUntil(there)

    return arrives


def test_it_goes_to_the_recorded_step_before_and_from_one_to_the_next(
    desk: Desk, arrives: Goes
) -> None:
    desk.cursor.go_to(27)
    arrives(20)
    assert (desk.seen, desk.cursor.steps) == (20.0, STEPS)
    desk.cursor.move_by(1)
    arrives(40)
    for _ in range(2):
        desk.cursor.move_by(-1)  # the second while the first is being read
    arrives(10)
    desk.cursor.go_to_first()
    arrives(0)
    assert desk.seen == 0.0


def test_beyond_the_last_recorded_step_is_live(desk: Desk, arrives: Goes) -> None:
    desk.cursor.move_by(-1)
    arrives(40)
    desk.cursor.move_by(1)
    arrives(None)
    assert desk.seen == 50.0
    desk.cursor.go_to(30)
    arrives(20)
    drawn = desk.drawn
    desk.cursor.go_to(50)
    arrives(None)
    assert desk.drawn == drawn + 1


def test_training_goes_on_below_what_is_looked_back_at(desk: Desk, arrives: Goes) -> None:
    desk.cursor.go_to(10)
    arrives(10)
    before = desk.history.revision("gates")
    desk.history.on_frame(make_frame(60))
    assert desk.seen == 10.0
    assert desk.history.revision("gates") == before
    assert desk.history.state.step == 60
    desk.cursor.go_live()
    assert desk.seen == 60.0


def test_steps_that_are_recorded_while_nobody_looks_back_are_known(
    desk: Desk, tmp_path: Path, qtbot: QtBot
) -> None:
    assert desk.cursor._lists.isActive()
    desk.cursor._lists.timeout.emit()
    qtbot.waitUntil(lambda: desk.cursor.steps == STEPS)
    record_frames(tmp_path, *STEPS, 45)
    with qtbot.waitSignal(desk.cursor.steps_changed, timeout=60_000):
        desk.cursor._reader._next_look = 0.0
        desk.cursor.list_steps()
    assert desk.cursor.steps == (*STEPS, 45)
    assert (desk.cursor.step, desk.drawn) == (None, 0)


def test_what_was_not_recorded_is_a_sentence_and_no_other_steps_numbers(
    desk: Desk, arrives: Goes
) -> None:
    desk.cursor.go_to(10)
    arrives(10)
    view = desk.history.view({})
    assert "not recorded at step 10" in view.readings["npk"].absent
    assert not view.readings["npk"].arrays


def test_it_plays_to_the_end_and_is_live_again(desk: Desk, arrives: Goes) -> None:
    shown: list[int | None] = []
    desk.cursor.changed.connect(lambda: shown.append(desk.cursor.step))
    desk.cursor.player.set_speed(1000)
    desk.cursor.player.toggle_playing()
    assert desk.cursor.player.is_playing
    arrives(None)
    assert not desk.cursor.player.is_playing
    assert 0 in shown


def test_without_recorded_frames_it_says_why(desk: Desk, tmp_path: Path, arrives: Goes) -> None:
    desk.cursor.choose_reach(10, 40)
    desk.history.on_event(make_run_started())
    desk.cursor.on_event(make_run_started(), desk.history.state)
    assert desk.cursor.reach is None
    assert "There is no history yet" in desk.cursor.reason_not_available
    for act in (
        desk.cursor.go_to_first,
        desk.cursor.player.toggle_playing,
        lambda: desk.cursor.go_to(3),
    ):
        act()
    assert desk.cursor.step is None
    desk.history.on_frame(make_frame(50))
    (tmp_path / "empty").mkdir()
    desk.tell(FramesRecorded(str(tmp_path / "empty")))
    desk.cursor.go_to(3)
    arrives(3)
    assert "Nothing was recorded" in desk.history.view({}).readings["gates"].absent


def test_a_folder_that_was_moved_is_followed(desk: Desk, tmp_path: Path, arrives: Goes) -> None:
    (tmp_path / "frames").rename(tmp_path / "new_frames")
    (tmp_path / "moved").mkdir()
    (tmp_path / "new_frames").rename(tmp_path / "moved" / "frames")
    desk.tell(RecordingMended("It was renamed.", 3, str(tmp_path / "moved")))
    desk.cursor.go_to(10)
    arrives(10)
    assert desk.seen == 10.0
    desk.tell(FramesRecorded("elsewhere", foreign=True))
    desk.tell(RecordingMended("It was renamed.", 3, "there"))
    assert desk.cursor.source == FrameSource("there", foreign=True)


def test_what_comes_late_of_an_earlier_run_is_not_shown(desk: Desk, arrives: Goes) -> None:
    found: list[StepFound] = []
    desk.cursor._reader.found.connect(found.append)
    desk.cursor.go_to(10)
    arrives(10)
    desk.cursor.on_event(make_run_started(), desk.history.state)
    desk.cursor._on_found(found[-1])
    assert (desk.cursor.steps, desk.cursor.step, desk.history.past) == ((), None, None)


def test_a_damaged_frame_is_told_in_every_panel(desk: Desk, tmp_path: Path, arrives: Goes) -> None:
    for file in (tmp_path / "frames").iterdir():
        file.write_bytes(b"no tensors")
    desk.cursor.go_to(10)
    arrives(10)
    readings = desk.history.view({}).readings
    assert all("is damaged" in readings[probe].absent for probe in ("gates", "npk"))
    assert "is damaged" in desk.history.past.trouble


@pytest.mark.parametrize(
    ("step", "by", "found"),
    [(10, 0, 10), (15, 1, 20), (10, 1, 20), (15, -1, 10), (10, -1, 0), (0, -9, 0), (20, 9, 40)],
)
def test_moves_count_recorded_steps(step: int, by: int, found: int) -> None:
    assert _shift_step(STEPS, step, by) == found


# the bar


def test_the_bar_is_dragged_typed_at_and_says_where_one_is(
    desk: Desk, arrives: Goes, qtbot: QtBot
) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    play, live = QAction("Play", window), QAction("Back to live", window)
    bar = TimeBar(desk.cursor, desk.history, play, live, QAction("Compare", window), window)
    bar.resize(1400, 24)
    window.show()
    slider = bar.slider
    assert (bar.label.text(), bar.live.isHidden()) == ("live", True)
    place = QPoint(round(slider.x_of_step(24)), 10)
    QTest.mouseClick(slider, Qt.MouseButton.LeftButton, pos=place)
    arrives(20)
    assert bar.label.text() == "looking back · step 20 of 50"
    assert not bar.live.isHidden()
    wide = bar.right.sizeHint().width()
    bar.resize(1024, 24)  # the list of runs, 252 pixels, has its place beside it
    assert bar.label.text() == "step 20 of 50"
    assert bar.right.sizeHint().width() < wide
    for key, step in ((Qt.Key.Key_Left, 10), (Qt.Key.Key_Home, 0), (Qt.Key.Key_Right, 10)):
        QTest.keyClick(slider, key)
        arrives(step)
    QTest.keyClick(slider, Qt.Key.Key_End)
    arrives(None)
    assert slider.accessibleDescription() == "live, step 50"


def test_the_slider_names_the_events_below_the_pointer(qtbot: QtBot) -> None:
    slider = StepSlider()
    qtbot.addWidget(slider)
    slider.resize(516, 20)
    slider.show_time(None, 1000, STEPS, [Mark(400.0, "FL", sentence="DL → FL at step 400.")])
    assert slider.tip_text_at(slider.x_of_step(400)) == "Step 400\n400: DL → FL at step 400."
    assert slider.tip_text_at(slider.x_of_step(700)) == "Step 700"
    assert [slider.step_at(x) for x in (-50.0, 8.0, 258.0, 900.0)] == [0, 0, 500, 1000]


def test_a_drag_with_shift_chooses_steps_and_a_click_with_it_none(desk: Desk, qtbot: QtBot) -> None:
    slider = StepSlider()
    qtbot.addWidget(slider)
    slider.resize(600, 20)
    slider.reach_chosen.connect(desk.cursor.choose_reach)
    desk.cursor.reach_changed.connect(lambda: slider.show_reach(desk.cursor.reach))
    slider.show_time(None, 50, STEPS, ())
    slider.show()
    shift, left = Qt.KeyboardModifier.ShiftModifier, Qt.MouseButton.LeftButton
    places = [QPoint(round(slider.x_of_step(step)), 10) for step in (40, 10)]
    QTest.mousePress(slider, left, shift, places[0])
    QTest.mouseMove(slider, places[1])
    drag = QMouseEvent(
        QEvent.Type.MouseMove,
        places[1].toPointF(),
        slider.mapToGlobal(places[1]).toPointF(),
        left,
        left,
        shift,
    )
    slider.mouseMoveEvent(drag)
    QTest.mouseRelease(slider, left, shift, places[1])
    assert desk.cursor.reach == (10, 40)
    assert "Selected: steps 10 to 40" in slider.tip_text_at(300.0)
    assert desk.cursor.step is None
    QTest.mouseClick(slider, left, shift, places[0])
    assert desk.cursor.reach is None


def test_while_a_picture_has_to_wait_the_newest_step_is_read_and_the_others_are_not(
    tmp_path: Path, qapp: object, qtbot: QtBot
) -> None:
    """A network trains, and somebody drags: the cursor is there at once, panels follow."""
    record_frames(tmp_path, *STEPS)
    desk = Desk(tmp_path, wait=lambda: 60.0, rest=0.05)
    for step in (12, 41, 22, 11):
        desk.cursor.go_to(step)
        assert desk.cursor.step == step
        assert desk.history.past is None
    qtbot.waitUntil(lambda: desk.history.past is not None)
    assert desk.cursor.step == 10
    assert desk.drawn == 1, "only what was asked for last, once the drag rested"
    desk.cursor.go_to(22)
    desk.cursor.go_live()
    qtbot.wait(80)  # longer than a drag rests
    assert (desk.cursor.step, desk.history.past, desk.drawn) == (None, None, 2)
    desk.cursor.close()
    desk.cursor.deleteLater()


def test_actions_hear_of_looking_back_and_not_of_every_step(desk: Desk, arrives: Goes) -> None:
    """They are dozens, and while somebody drags a network trains."""
    heard: list[int | None] = []
    desk.cursor.acts_changed.connect(lambda: heard.append(desk.cursor.step))
    for step in (12, 22, 41):
        desk.cursor.go_to(step)
    arrives(40)
    assert heard == [12]
    desk.cursor.go_live()
    desk.cursor.go_live()
    assert heard == [12, None]
    desk.cursor.player.toggle_playing()
    desk.cursor.player.stop()
    assert len(heard) > 2, "that it plays is shown"


# The thread that reads recorded frames: when it looks at a folder again.


def test_a_computer_that_sleeps_during_a_look_sees_new_steps_soon_after(qtbot: QtBot) -> None:
    now, looks = [100.0], [0]

    class Sleepy(HeldFrames):
        def refresh_steps(self) -> bool:
            looks[0] += 1
            if looks[0] == 1:
                now[0] += 3600.0
            return False

    reader = PastReader(clock=lambda: now[0])
    request = StepRequest(FrameSource(held=Sleepy()), frame=False)
    # The first look is no renewal; a look that took long is not repeated at once.
    for after, seen in ((0.0, 0), (1.0, 1), (1.0, 1), (5.0, 2)):
        now[0] += after
        with qtbot.waitSignal(reader.found, timeout=60_000):
            reader.submit_request(request)
        assert looks[0] == seen
    reader.close()


# The step of B, where its frames are held in memory.


def test_steps_of_an_unrecorded_run_are_shown_as_b(
    qtbot: QtBot, make_view: Callable[..., View]
) -> None:
    run = make_view("fc").run
    assert run is not None
    held = HeldFrames()
    for step in (2, 5, 9):
        held.pack_frame(make_frame(step))
    cursor = ComparedCursor(History(), ("gates",), lambda _: None, lambda: FrameSource(held=held))
    cursor.on_event(ComparedFrames("this run", "", run, (), 5), RunState())
    qtbot.waitUntil(lambda: cursor.steps == (2, 5, 9))
    assert (cursor.step, cursor.name, cursor.has_network) == (5, "this run", False)
    cursor.move_by(1)
    qtbot.waitUntil(lambda: cursor.step == 9)
    cursor.close()


def test_a_step_becomes_b_from_its_folder_or_from_memory(qtbot: QtBot) -> None:
    asked: list[Command] = []
    a = StepCursor(History(), ("gates",), lambda _: None, lambda: True)
    compare_with_step(a, asked.append)
    assert asked == []  # it is live
    for source, command in (
        (FrameSource(held=HeldFrames()), CompareHeld(4)),
        (FrameSource("runs/first"), CompareRun("runs/first", 4)),
    ):
        a.source, a._wanted.step = source, 4
        compare_with_step(a, asked.append)
        assert asked[-1] == command
        assert a.step is None
    a.close()
