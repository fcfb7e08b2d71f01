"""Presentation: three panels and larger type for an audience, and the window as it was after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QAbstractButton, QApplication, QTabBar
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import Pause
from dgn_engine.scene.elements import Scene
from dgn_viewer.application import Viewer
from dgn_viewer.shell.presentation import SCALE
from dgn_viewer.style.type_scale import BASE_PIXELS, scaled, type_scale
from dgn_viewer.window import Window


def are_current(window: Window) -> bool:
    """Whether all that visible panels show is of this step; others are not read any more."""
    hosts = [window.docks.hosts[name] for name in window.docks.visible_panels()]
    probes = {request.probe for host in hosts for request in host.drawn.probe_requests()}
    readings = window.history.readings
    return all(
        probe in readings and readings[probe].step == window.history.step for probe in probes
    )


def stand(window: Window, qtbot: QtBot) -> None:
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.is_paused)
    qtbot.waitUntil(lambda: are_current(window))
    qtbot.waitUntil(lambda: not window.display.stale_panels())
    for entry in window.notices.open_entries:
        window.notices.close_notice(entry)


def panel_images(window: Window) -> dict[str, QImage]:
    window.display.draw_now()
    QApplication.processEvents()
    hosts = {name: window.docks.hosts[name] for name in window.docks.visible_panels()}
    return {  # a score may still be on its way to a panel without a picture
        name: host.grab().toImage()
        for name, host in hosts.items()
        if isinstance(host.shown_content(), Scene)
    }


def places(window: Window) -> dict[str, tuple[int, int, int, int]]:
    frames = window.docks.dock_frames()
    return {
        frame.objectName(): frame.geometry().getRect()
        for frame in frames
        if not frame.visibleRegion().isEmpty()
    }  # type: ignore[return-value]  # four integers


@pytest.mark.parametrize("size", [QSize(1440, 900), QSize(1280, 720)])
def test_type_and_panels_are_large_and_afterwards_everything_is_as_before(
    viewer: Viewer, qtbot: QtBot, size: QSize
) -> None:
    window = viewer.window
    window.resize(size)
    stand(window, qtbot)
    action, status = window.registry["view.presentation"], window.run_views.status
    icons = {button: button.iconSize() for button in window.findChildren(QAbstractButton)}
    before, texts = places(window), status.end_texts()
    strip = window.run_views.strip.height()
    action.trigger()
    action.trigger()  # Qt lays the title of the front panel out anew, by one pixel
    qtbot.waitUntil(lambda: places(window) == before)
    images = panel_images(window)

    action.trigger()
    QApplication.processEvents()
    assert action.isChecked()
    assert type_scale() == pytest.approx(SCALE, abs=0.05)
    assert window.context.theme.now.scale == SCALE
    assert window.run_views.toolbar.regime.font().pixelSize() >= SCALE * BASE_PIXELS - 1
    assert window.run_views.strip.height() >= SCALE * strip - 15
    assert len(window.docks.visible_panels()) <= 3
    for frame in window.docks.dock_frames():
        if not frame.visibleRegion().isEmpty():
            assert frame.width() >= 0.4 * size.width()
    assert not window.run_views.toolbar.beta.isVisible()
    assert status.end_texts() == ("", f"step {window.history.step:,}")
    assert window.size() == size

    action.trigger()
    qtbot.waitUntil(lambda: places(window) == before)
    assert not action.isChecked()
    assert scaled(10) == 10
    assert status.end_texts() == texts
    assert all(button.iconSize() == side for button, side in icons.items())

    window.display.draw_now()
    hosts = {name: window.docks.hosts[name] for name in images}
    qtbot.waitUntil(  # the bars take their height in a second round
        lambda: all(host.grab().toImage() == images[name] for name, host in hosts.items())
    )


def test_a_window_closed_while_it_presents_opens_as_it_was_before(
    make_viewer: Callable[..., Viewer],
) -> None:
    window = make_viewer(paused=True).window
    before = places(window)
    window.registry["view.presentation"].trigger()
    QApplication.processEvents()
    assert places(window) != before
    window.close()
    assert type_scale() == 1.0
    again = make_viewer(paused=True).window
    QApplication.processEvents()
    assert places(again).keys() == before.keys()


def test_the_list_of_runs_and_the_experiments_make_room_and_come_back(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    window.resize(1440, 900)
    stand(window, qtbot)
    window.runs.open()
    window.experiments.results.open()
    window.presentation.toggle()
    assert not window.runs.is_open
    assert window.experiments.results.isHidden()
    window.presentation.toggle()
    assert window.runs.is_open
    assert not window.experiments.results.isHidden()
    QApplication.processEvents()
    bars = [bar for bar in window.findChildren(QTabBar) if bar.parent() is window]
    shown = {bar.tabText(index) for bar in bars if bar.isVisible() for index in range(bar.count())}
    assert "Overlap" not in shown
