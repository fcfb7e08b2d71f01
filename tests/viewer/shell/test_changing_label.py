"""Words that change all the time do not lay the window out again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QMainWindow
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Frame, Watching
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Running
from dgn_viewer.shell.statusbar import StatusBar
from tests.engine.views.begun_run import started


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
    bar.show_state(RunState().after(started()).after(Running(3)))
    frame = Frame(1, 1000, 1.0, 800.0, None, watching=Watching(0.05, 0.041, 1.0, {"window": 0.01}))

    def show(shown: Frame) -> None:
        bar.show_frame(shown)
        bar.catch_up()
        settle()

    show(frame)
    seen = Seen()
    qapp.installEventFilter(seen)
    show(frame)
    assert not seen.count, "nothing new is said"
    for step in range(1001, 1020):
        show(replace(frame, step=step, steps_per_second=800.0 + step % 7))
    qapp.removeEventFilter(seen)
    assert bar.text("step") == "step 1,019"
    assert seen.count["painted"]
    assert not seen.count["laid out"]
    before = seen.count["laid out"]
    qapp.installEventFilter(seen)
    show(replace(frame, eta_seconds=4000.0))
    qapp.removeEventFilter(seen)
    assert seen.count["laid out"] > before, "longer words get their room"
