"""What the status bar says after each event and frame, field by field."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QMainWindow, QPushButton
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Frame, Watching
from dgn_engine.protocol.messages import (
    EngineAnswered,
    EngineReady,
    EngineSilent,
    Event,
    Refused,
    Stopped,
    Working,
)
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunShown
from dgn_engine.protocol.training import (
    Diverged,
    Finished,
    Paused,
    RegimeSwapped,
    Running,
    StepsNotCaptured,
)
from dgn_viewer.shell.statusbar import StatusBar
from tests.engine.views.begun_run import make_run_started
from tests.snapshots import Recorded

READY = EngineReady(None, "")  # type: ignore[arg-type]
BEGUN = make_run_started()
FRAME = Frame(1, 1300, 260.0, 812.4, 62.0)
LATER = Frame(1, 1390, 278.0, 750.0, 60.0)
DROPPED = StepsNotCaptured(3, "two captured steps differ")
RECORDED = RunShown("a", "finished", 1400)


def said(qtbot: QtBot, *happened: Event | Frame) -> dict[str, str]:
    """Every field but the viewer's own cost, after this."""
    bar = StatusBar()
    qtbot.addWidget(bar)
    state = RunState()
    for one in happened:
        if isinstance(one, Frame):
            state = state.moved_to_step(one.step)
            bar.show_frame(one)
        else:
            state = state.after(one)
            bar.show_state(state)
    bar.write_now()
    names = ("device", "graphs", "regime", "speed", "eta", "phase", "step", "epoch")
    return {name: bar.field_text(name) for name in names if bar.field_text(name)}


HAPPENED: dict[str, tuple[Event | Frame, ...]] = {
    "nothing": (),
    "ready": (READY,),
    "reads data": (READY, Working("Reading mnist", 0.4)),
    "silent while it reads": (READY, Working("Reading mnist"), EngineSilent(12.0)),
    "answers again": (READY, EngineSilent(12.0), EngineAnswered(60.0)),
    "begun": (READY, BEGUN),
    "a frame": (READY, BEGUN, FRAME),
    "no time is left": (READY, BEGUN, replace(FRAME, eta_seconds=None)),
    "steps not captured": (READY, BEGUN, FRAME, DROPPED),
    "another run after that": (READY, BEGUN, FRAME, DROPPED, replace(BEGUN, run=2)),
    "paused": (READY, BEGUN, FRAME, Paused(1300)),
    # The step of the pause counts, not that of an earlier frame, nor of one that is late.
    "paused later": (READY, BEGUN, FRAME, Paused(1310)),
    "a late frame": (READY, BEGUN, Paused(1310), FRAME),
    "finished": (READY, BEGUN, FRAME, Finished(1300)),
    "diverged": (READY, BEGUN, FRAME, Diverged(1300)),
    "stopped": (READY, BEGUN, FRAME, Stopped()),
    "goes on": (READY, BEGUN, FRAME, Paused(1300), Running(1300)),
    "a second pause": (READY, BEGUN, FRAME, Paused(1300), Running(1300), LATER, Paused(1400)),
    "another regime in another run": (
        *(READY, BEGUN, FRAME, Paused(1300), replace(BEGUN, run=2, regime="FL")),
    ),
    "swapped": (READY, BEGUN, FRAME, RegimeSwapped(1300, "DL", "FL", (), (), (), ())),
    "recorded": (READY, BEGUN, RECORDED),
    "a session": (READY, BEGUN, replace(RECORDED, file_name="a.dgn")),
    "inspected": (READY, replace(BEGUN, inspected="x.pt", paused=True), FRAME),
}


def test_the_fields_follow_events_and_frames(qtbot: QtBot, recorded: Recorded) -> None:
    recorded({name: said(qtbot, *happened) for name, happened in HAPPENED.items()})


def test_no_rate_is_told_of_steps_that_are_not_taken(qtbot: QtBot) -> None:
    now = [50.0]
    bar = StatusBar(clock=lambda: now[0])
    qtbot.addWidget(bar)

    def said_after(seconds: float, frame: Frame | None = None) -> tuple[str, str]:
        now[0] += seconds
        if frame is not None:
            bar.show_frame(frame)
        bar.write_now()
        return bar.field_text("speed"), bar.field_text("eta")

    state = RunState().after(READY).after(BEGUN)
    bar.show_state(state)
    assert said_after(0.0, FRAME) == ("812 steps/s", "ETA 62 s")
    assert said_after(4.0) == ("812 steps/s", "ETA 62 s")
    assert said_after(1.0) == ("no steps for 5 s", "")
    still = replace(FRAME, steps_per_second=0.0, eta_seconds=None)
    assert said_after(1.0, still)[0] == "no steps for 6 s", "a frame without a step is none"
    assert said_after(0.0, replace(still, step=1301, steps_per_second=0.25))[0] == "0.2 steps/s"
    assert said_after(7.9)[0] == "0.2 steps/s", "a step takes four seconds"
    assert said_after(0.2)[0] == "no steps for 8 s"
    reading = replace(FRAME, step=1302, doing="reading Neural path kernel")
    assert said_after(0.0, reading)[0] == "reading Neural path kernel"
    bar.show_state(state.after(Paused(1302)))
    assert said_after(9.0)[0] == ""
    bar.show_state(state.after(Running(1302)))
    assert said_after(1.0, replace(FRAME, step=1302))[0] == "812 steps/s"


def test_why_there_are_no_graphs_stands_in_the_tip_as_long_as_the_run_does(qtbot: QtBot) -> None:
    bar = StatusBar()
    qtbot.addWidget(bar)
    state = RunState().after(READY).after(BEGUN)
    for number in (1, 2):
        for told in (DROPPED, replace(BEGUN, run=number + 1)):
            state = state.after(told)
            bar.show_state(state)
            bar.write_now()
            assert (DROPPED.reason in bar.tip_text()) == (told is DROPPED)


def test_a_change_of_phase_is_said_at_once_and_a_new_step_a_moment_later(qtbot: QtBot) -> None:
    bar = StatusBar()
    qtbot.addWidget(bar)
    state = RunState().after(READY).after(BEGUN)
    bar.show_state(state)
    assert bar.field_text("phase") == "running"
    bar.show_frame(FRAME)
    assert bar.field_text("epoch") == ""
    qtbot.waitUntil(lambda: bar.field_text("epoch") == "epoch 260.0")
    bar.show_state(state.after(Paused(1310)))
    assert (bar.field_text("phase"), bar.field_text("step")) == ("paused", "step 1,310")
    assert bar.field_text("nothing of that name") == ""
    bar.show_state(state.after(Paused(1310)).after(Working("Saving")))
    assert bar.field_text("phase") == "paused"  # the same phase: in a moment
    bar.write_now()
    assert bar.field_text("phase") == "Saving"


def test_the_line_has_two_ends(qtbot: QtBot) -> None:
    bar = StatusBar()
    qtbot.addWidget(bar)
    bar.show_state(RunState().after(READY).after(BEGUN))
    bar.show_frame(FRAME)
    bar.write_now()
    assert bar.end_texts() == (
        "cpu · DL · 812 steps/s · ETA 62 s",
        "running · step 1,300 · epoch 260.0",
    )


MEASURED = Watching(0.05, every=0.84, parts={"drawing": 0.021}, overhead=0.046, noise=0.004)


@pytest.mark.parametrize(
    ("watching", "shown", "in_tip"),
    [
        (MEASURED, "4.6 %", ("4.6 % ± 0.4 %", "5 %", "drawing 2.1 %", "0.84 s")),
        (replace(MEASURED, noise=0.012), "5 %", ("5 % ± 1 %",)),
        (replace(MEASURED, noise=0.03), "–", ("± 3.0 %",)),
        (replace(MEASURED, overhead=-0.02), "–", ("± 0.4 %",)),
        (replace(MEASURED, overhead=None, unmeasured="the run rests"), "–", ("the run rests",)),
    ],
    ids=["measured", "fewer digits are known", "within the noise", "below nothing", "not measured"],
)
def test_the_viewer_overhead_is_said_where_it_is_known_and_else_why_not(
    watching: Watching, shown: str, in_tip: tuple[str, ...], qtbot: QtBot
) -> None:
    bar = StatusBar()
    qtbot.addWidget(bar)
    bar.show_state(RunState().after(READY).after(BEGUN))
    bar.show_frame(replace(FRAME, watching=watching))
    bar.write_now()
    assert bar.field_text("overhead") == f"viewer overhead {shown}"
    assert all(part in bar.tip_text() for part in in_tip)
    bar.show_frame(FRAME)
    bar.write_now()
    assert (bar.field_text("overhead"), bar.tip_text()) == ("", "")


def test_frames_that_come_rarely_on_a_busy_machine_are_not_steps_that_are_missing(
    qtbot: QtBot,
) -> None:
    now = 100.0
    bar = StatusBar(clock=lambda: now)
    qtbot.addWidget(bar)
    bar.show_state(RunState().after(READY).after(BEGUN))
    for slowed, said in ((1.0, "no steps for 5 s"), (6.0, "812 steps/s")):
        bar.show_frame(
            replace(
                FRAME, step=FRAME.step + round(slowed), watching=replace(MEASURED, slowed=slowed)
            )
        )
        now += 5.0
        bar.write_now()
        assert bar.field_text("speed") == said


def test_what_reads_data_can_be_cancelled_while_it_does(qtbot: QtBot) -> None:
    bar = StatusBar()
    qtbot.addWidget(bar)
    bar.resize(900, 30)
    bar.show()
    button = bar.findChild(QPushButton, "cancel_loading")
    reading = RunState().after(READY).after(Working("Reading images", 0.4, can_cancel=True))
    states = (
        (RunState(), False),
        (reading, True),
        (reading.after(Working("Saving")), False),
        (reading.after(Refused("start this run", "It was cancelled.")), False),
        (reading.after(BEGUN), False),
    )
    for state, shown in states:
        bar.show_state(state)
        assert button.isVisible() == shown
    bar.show_state(reading)
    with qtbot.waitSignal(bar.cancel_wanted):
        button.click()
    bar.show_state(reading.after(Working("Reading images", 0.5, can_cancel=True)))
    assert not button.isEnabled()  # nothing has ended yet
    asked = button.text()
    qtbot.waitUntil(lambda: bar.width() - button.mapTo(bar, button.rect().topRight()).x() > 8)
    bar.show_state(reading.after(Refused("start this run", "It was cancelled.")))
    bar.show_state(reading)
    assert button.isEnabled()
    assert button.text() != asked


def test_the_step_is_that_of_the_newest_score_and_is_written_when_a_panel_shows_a_later_one(
    qtbot: QtBot,
) -> None:
    steps = [1300]
    bar = StatusBar(last_step=lambda: steps[-1])
    qtbot.addWidget(bar)
    bar.show_state(RunState().after(READY).after(BEGUN))
    written = []
    bar.was_written.connect(lambda: written.append(bar.field_text("step")))
    bar.show_frame(FRAME)
    bar.write_now()
    steps.append(1327)
    bar.ensure_step_shown(1300)  # a panel of an older reading: nothing is written for that
    assert written == ["step 1,300"]
    bar.ensure_step_shown(1320)
    assert written == ["step 1,300", "step 1,327"]


class Seen(QObject):
    """Counts paintings of all widgets, and how often the window was laid out anew."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Counter[str]()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched.isWidgetType() and event.type() == QEvent.Type.Paint:
            self.count["painted"] += 1
        if isinstance(watched, QMainWindow) and event.type() == QEvent.Type.LayoutRequest:
            self.count["laid out"] += 1
        return False


def settle() -> None:
    for _ in range(3):
        QApplication.processEvents()


def test_an_idle_window_repaints_nothing_and_a_running_one_is_not_laid_out_again(
    qtbot: QtBot, qapp: QApplication
) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    bar = StatusBar(window)
    window.setStatusBar(bar)
    window.resize(1440, 300)
    window.show()
    qtbot.waitExposed(window)
    bar.show_state(RunState().after(make_run_started()).after(Running(3)))
    frame = Frame(1, 1000, 1.0, 800.0, None, watching=Watching(0.05, 0.041, 1.0, {"window": 0.01}))

    def show(shown: Frame) -> None:
        bar.show_frame(shown)
        bar.write_now()
        settle()

    show(frame)
    seen = Seen()
    qapp.installEventFilter(seen)
    show(frame)
    assert not seen.count, "nothing new is said"
    for step in range(1001, 1020):
        show(replace(frame, step=step, steps_per_second=800.0 + step % 7))
    qapp.removeEventFilter(seen)
    assert bar.field_text("step") == "step 1,019"
    assert seen.count["painted"]
    assert not seen.count["laid out"]
    before = seen.count["laid out"]
    qapp.installEventFilter(seen)
    show(replace(frame, eta_seconds=4000.0))
    qapp.removeEventFilter(seen)
    assert seen.count["laid out"] > before, "longer words get their room"
