"""Defects: notices covered the panels, events overprinted each other and led nowhere."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QDockWidget, QWidget
from pytestqt.qtbot import QtBot

from dgn_viewer.application import Viewer
from dgn_viewer.docks.panel_frame import DockTitle
from dgn_viewer.plots.scene_view import SceneView
from dgn_viewer.window import Window
from tests.viewer.display.x_user import XUser
from tests.viewer.seen_charts import chips, visible_range

pytestmark = pytest.mark.display
REGIMES = ("FR-II", "ReLU", "DL")


def on_screen(widget: QWidget) -> QRect:
    return QRect(widget.mapToGlobal(QPoint(0, 0)), widget.size())


def large_training(window: Window, user: XUser, qtbot: QtBot, title: DockTitle) -> SceneView:
    """The time axes of the training panel, which then fills the window."""
    user.double_click(title, QPoint(30, 10))
    qtbot.waitUntil(lambda: window.docks.visible_panels() == ("training",))
    view = window.docks.hosts["training"].charts.view
    qtbot.waitUntil(lambda: window.docks.hosts["training"].panel_state() == "live")
    return view


def test_a_refused_drop_is_told_beside_the_panels_and_leads_to_its_step(
    on_display: Viewer, user: XUser, qtbot: QtBot, tmp_path: Path, titles: dict[str, DockTitle]
) -> None:
    window, line = on_display.window, on_display.window.notice_views.line
    view = large_training(window, user, qtbot, titles["training"])
    file = tmp_path / "letter.pt"
    file.write_text("no weights here", encoding="utf-8")
    qtbot.waitUntil(lambda: window.history.step > 100)
    user.drag_file(file, window)
    qtbot.waitUntil(lambda: line.entry is not None and line.entry.notice.kind == "refused")
    entry = line.entry
    assert entry is not None
    assert "letter.pt" in entry.notice.text
    docks = [dock for dock in window.findChildren(QDockWidget) if dock.isVisible()]
    assert docks
    assert not [dock for dock in docks if on_screen(dock).intersects(on_screen(line))]
    qtbot.waitUntil(lambda: window.history.step > 3 * (entry.step or 0))
    user.press(line.sentence)
    shown = window.notice_views.list
    qtbot.waitUntil(shown.isVisible)
    row = next(row for row in shown.notice_rows() if row.entry is entry)
    user.press(row.buttons_by_text()["Go to step"])
    qtbot.waitUntil(lambda: not view.charts.items["loss"].following)
    low, high = visible_range(view, "loss")[0]
    assert entry.step is not None
    assert low <= entry.step <= high < window.history.step


def test_a_chip_of_a_swap_is_read_by_the_pointer_and_its_click_zooms_to_it(
    on_display: Viewer, user: XUser, qtbot: QtBot, titles: dict[str, DockTitle]
) -> None:
    window = on_display.window
    view = large_training(window, user, qtbot, titles["training"])
    for regime in REGIMES:
        step = window.history.step
        qtbot.waitUntil(lambda step=step: window.history.step > step + 150)
        user.key(window.registry[f"regime.{regime}"].shortcut().toString().lower())
        qtbot.waitUntil(lambda regime=regime: window.run_state.regime == regime)
    user.key("space")  # paused: the chips stand still

    def places() -> tuple[tuple[str, QPoint], ...]:
        lanes = (chips(view, key) for key in view.charts.shown_keys())
        return tuple((text, box.center().toPoint()) for lane in lanes for text, box in lane)

    qtbot.waitUntil(lambda: set(REGIMES) <= {text for text, _ in places()})
    key = next(key for key in view.charts.shown_keys() if chips(view, key))
    boxes = sorted((box for _, box in chips(view, key)), key=lambda box: box.left())
    assert all(one.right() <= two.left() for one, two in pairwise(boxes))
    user.move(view.chart_viewport().mapToGlobal(dict(places())["ReLU"]))
    qtbot.waitUntil(lambda: "ReLU" in " ".join(view.pointer.readout_lines()))
    said = " ".join(view.pointer.readout_lines())
    assert "FR-II" in said  # from what to what, and when
    assert "step" in said
    user.click(view.chart_viewport(), dict(places())["ReLU"])
    qtbot.waitUntil(lambda: not view.charts.items[key].following)
    swap = next(
        mark for chart in view.charts.charts for mark in chart.marks if mark.label == "ReLU"
    )
    low, high = visible_range(view, key)[0]
    assert low < swap.x < high
    assert high - low < window.history.step / 2
