"""The first-minute tour on the real window: it points, it acts, it can be left at any time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import RegimeSwapped, Rewired
from dgn_engine.scene.theme import DARK
from dgn_viewer.application import Options, Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.shell.tour import Tour, _place
from tests.viewer.conftest import small_run


def pointed(tour: Tour) -> QRect:
    """Where the callout stands, in the window."""
    return tour.callout.geometry()


def test_the_tour_acts_on_the_live_run_and_undoes_what_it_did(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window, told = viewer.window, list[object]()
    viewer.pump.event_arrived.connect(told.append)
    qtbot.waitUntil(lambda: "overlap" in window.history.readings)
    window.registry["help.tour"].trigger()
    tour, callout = window.guides.tour, window.guides.tour.callout
    assert callout.isVisible()
    assert callout.accessibleName() == "Tour, 1 of 6: Gates"
    host = window.docks.hosts["gate_maps"]
    before = host.drawn.choices
    callout.act.click()
    assert host.drawn.choices != before
    assert not callout.act.isEnabled()
    callout.next.click()
    assert host.drawn.choices == before | {"layer": host.drawn.choices["layer"]}
    assert callout.title.text() == "Overlap"
    callout.act.click()
    qtbot.waitUntil(lambda: not window.time.cursor.why_not)
    window.time.cursor.first()
    callout.next.click()  # to a step that needs the run as it is now
    assert window.time.cursor.step is None
    assert callout.note.isVisible()
    assert callout.title.text() == "Swap to FR-II"
    window.time.cursor.first()
    callout.act.click()
    assert window.time.cursor.step is None
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    callout.next.click()
    callout.act.click()
    qtbot.waitUntil(lambda: window.run_state.wiring == (0, 2, 1))
    callout.next.click()
    assert callout.title.text() == "Undo"
    callout.act.click()
    qtbot.waitUntil(lambda: window.run_state.regime == "DL")
    qtbot.waitUntil(lambda: window.run_state.wiring == (0, 1, 2))
    assert any(isinstance(event, RegimeSwapped) for event in told)
    assert any(isinstance(event, Rewired) for event in told)
    callout.next.click()
    callout.act.click()
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    page = window.inspector.page
    assert isinstance(page, FilePage)
    file = Path(page.listed.path)
    assert file.is_file()
    assert not window.files.recent.items
    callout.next.click()
    assert tour.place == -1
    assert not callout.isVisible()
    assert window.inspector.page is None
    assert not file.exists()


@pytest.mark.parametrize("how", ["Escape", "cross", "close"])
def test_the_tour_can_be_left_at_any_step(viewer: Viewer, qtbot: QtBot, how: str) -> None:
    window = viewer.window
    window.guides.tour.start()
    window.guides.tour.next()
    if how == "Escape":
        QTest.keyClick(window, Qt.Key.Key_Escape)
    elif how == "cross":
        window.guides.tour.callout.close_.click()
    else:
        window.close()
    assert window.guides.tour.place == -1
    assert not window.guides.tour.callout.isVisible()


def test_the_callout_follows_its_target_and_stays_in_the_window(viewer: Viewer) -> None:
    window = viewer.window
    window.guides.tour.start()
    for size in (QSize(1440, 900), QSize(1024, 700)):
        window.resize(size)
        QApplication.processEvents()
        for _ in range(6):
            assert window.rect().contains(pointed(window.guides.tour)), (
                size,
                window.guides.tour.place,
            )
            window.guides.tour.next()
        window.guides.tour.start()
    window.guides.tour.set_theme(DARK)
    window.docks.toggle("gate_maps")  # what is closed cannot be pointed at
    window.guides.tour.settle()
    assert window.rect().contains(pointed(window.guides.tour))
    window.guides.tour.skip()


def test_it_stands_beside_a_small_target_and_over_a_large_one() -> None:
    room, size = QRect(0, 0, 1000, 700), QSize(300, 150)
    place, tip = _place(QRect(100, 100, 80, 30), size, room)
    assert not QRect(place, size).intersects(QRect(100, 100, 80, 30).adjusted(2, 2, -2, -2))
    assert tip is not None
    place, tip = _place(QRect(0, 0, 1000, 700), size, room)
    assert room.contains(QRect(place, size))
    assert _place(None, size, room) == (QPoint(349, 274), None)


def test_the_tour_is_shown_once_and_never_where_nobody_looks(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(small_run(), settings=tmp_path / "settings.ini", tour=True)

    def shown(started: Callable[[Viewer], object] = lambda _: None) -> bool:
        viewer = Viewer(options)
        viewer.start()
        qtbot.waitUntil(lambda: viewer.window.history.step > 5)
        found = viewer.window.guides.tour.place == 0
        assert viewer.close(60.0)
        return found

    assert not shown()  # offscreen
    monkeypatch.setattr(QGuiApplication, "platformName", lambda: "xcb")
    assert shown()
    assert not shown()
