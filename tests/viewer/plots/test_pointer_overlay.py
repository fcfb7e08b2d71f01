"""What follows the mouse is painted above the charts, which stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Scene
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.plots.scene_pointer import FRAME_MS, TRAINING_MS
from dgn_viewer.plots.scene_view import SceneView


def scene(seed: int = 0) -> Scene:
    values = np.random.default_rng(seed).random((8, 8))
    matrix = Matrix("m", values, "sequential", 0.0, 1.0, row_name="row", column_name="column")
    x = np.arange(100, dtype=np.int64)
    curve = Curve("a", x, np.sin(x / 9.0 + seed), role="value")
    return Scene(
        (
            Chart("m", "Matrix", Axis(), Axis(), matrix=matrix, square=True),
            Chart("c", "Curve", Axis("step"), Axis(), curves=(curve,), column=1),
        )
    )


@pytest.fixture
def view(qtbot: QtBot) -> SceneView:
    widget = SceneView(LIGHT)
    widget.resize(640, 260)
    qtbot.addWidget(widget)
    widget.show()
    qtbot.waitExposed(widget)
    widget.show_scene(scene())
    settle()
    return widget


def settle() -> None:
    for _ in range(3):
        QApplication.processEvents()


def move(view: SceneView, place: QPointF) -> None:
    canvas, none = view.canvas(), Qt.MouseButton.NoButton
    there = canvas.mapToGlobal(place)
    kind, modifiers = QEvent.Type.MouseMove, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(canvas, QMouseEvent(kind, place, there, none, none, modifiers))
    view.pointer.readout()  # the pace of the readout is not what is looked at here
    settle()


def leave(view: SceneView) -> None:
    QApplication.sendEvent(view.canvas(), QEvent(QEvent.Type.Leave))
    settle()


def test_a_mouse_move_repaints_only_the_readout(view: SceneView) -> None:
    before, read = view.grab().toImage(), set[tuple[str, ...]]()
    move(
        view, view.charts.area("m").topLeft() + QPointF(2, 2)
    )  # now there is a picture to put back
    painted = view._canvas.painted
    for key in ("m", "c"):
        box = view.charts.area(key)
        for share in (0.2, 0.4, 0.6, 0.8):
            move(view, box.topLeft() + QPointF(box.width(), box.height()) * share)
            read.add(view.pointer.readout())
    assert len(read) == 8
    assert view._canvas.painted == painted
    assert view.grab().toImage() != before, "lines and card are there"
    leave(view)
    assert view.pointer.readout() == ()
    assert view.grab().toImage() == before


def test_new_data_under_a_resting_mouse_are_painted(view: SceneView, qtbot: QtBot) -> None:
    place = view.charts.area("m").center()
    move(view, place)
    move(view, place + QPointF(40, 20))
    for seed, theme in ((1, LIGHT), (1, DARK), (2, DARK)):
        painted = view._canvas.painted
        view.set_theme(theme)
        view.show_scene(scene(seed))
        settle()
        assert view._canvas.painted > painted
        move(view, place + QPointF(seed, 5))
    leave(view)
    shown = view.grab().toImage()
    fresh = SceneView(DARK)
    qtbot.addWidget(fresh)
    fresh.resize(view.size())
    fresh.show_scene(scene(2))
    assert shown == fresh.grab().toImage()


def test_zooming_under_the_mouse_is_painted(view: SceneView) -> None:
    move(view, view.charts.area("c").center())
    move(view, view.charts.area("c").center() + QPointF(9, 0))
    painted = view._canvas.painted
    view.charts.items["c"].show_steps(20.0, 40.0)
    settle()
    assert view._canvas.painted > painted


def test_the_mouse_is_followed_less_often_while_a_network_trains(view: SceneView) -> None:
    view.pointer.slow_down(training=True)
    assert view.pointer._paced._timer.interval() == TRAINING_MS > FRAME_MS
    view.pointer.slow_down(training=False)
    assert view.pointer._paced._timer.interval() == FRAME_MS
