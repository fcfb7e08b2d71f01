"""The live view: zoom survives updates, items are kept, the cursor reads, colours follow."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import get_args

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QCursor, QMouseEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Axis, Chart, Curve, Dash, Mark, Matrix, Scene
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.application import GuiGarbageCollector
from dgn_viewer.plots.pointer_overlay import PointerPart
from dgn_viewer.plots.scene_pointer import FRAME_MS, LONGEST_MS, TRAINING_MS
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.seen_charts import colours_in, visible_range


def _matrix(n: int = 8, seed: int = 0, **more: object) -> Chart:
    values = np.random.default_rng(seed).random((n, n))
    matrix = Matrix("m", values, "sequential", 0.0, 1.0, row_name="row", column_name="column")
    return Chart("m", "Matrix", Axis(), Axis(), matrix=matrix, square=True, **more)  # type: ignore[arg-type]  # keywords of Chart


def _curve(points: int = 100, log: bool = False) -> Chart:
    x = np.arange(points, dtype=np.int64)
    y = np.exp(x / points)
    curve = Curve("a", x, y, role="value")
    marks = (Mark(points / 2, "swap"),)
    return Chart("c", "Curve", Axis("step"), Axis(log=log), curves=(curve,), marks=marks, column=1)


@pytest.fixture
def view(qtbot: QtBot) -> SceneView:
    widget = SceneView(LIGHT)
    widget.resize(640, 260)
    qtbot.addWidget(widget)
    widget.show()
    qtbot.waitExposed(widget)
    return widget


def _wheel(view: SceneView, place: QPointF, notches: int = 2) -> None:
    canvas = view.chart_viewport()
    event = QWheelEvent(
        place,
        canvas.mapToGlobal(place.toPoint()).toPointF(),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas, event)
    QApplication.processEvents()


_DOUBLE_CLICK = (
    QEvent.Type.MouseButtonPress,
    QEvent.Type.MouseButtonRelease,
    QEvent.Type.MouseButtonDblClick,
    QEvent.Type.MouseButtonRelease,
)


def _mouse(view: SceneView, kind: QEvent.Type, place: QPointF) -> None:
    canvas = view.chart_viewport()
    none, left = Qt.MouseButton.NoButton, Qt.MouseButton.LeftButton
    held = left if kind in (_DOUBLE_CLICK[0], _DOUBLE_CLICK[2]) else none
    which = none if kind == QEvent.Type.MouseMove else left
    there = canvas.mapToGlobal(place.toPoint()).toPointF()
    event = QMouseEvent(kind, place, there, which, held, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(canvas, event)


def _move(view: SceneView, place: QPointF) -> None:
    _mouse(view, QEvent.Type.MouseMove, place)


def test_new_frames_keep_the_zoom_of_the_user(view: SceneView) -> None:
    view.show_scene(Scene((_matrix(), _curve())))
    for key in ("m", "c"):
        _wheel(view, view.charts.data_rect(key).center())
    zoomed = {key: visible_range(view, key) for key in ("m", "c")}
    assert not view.charts.items["m"].following
    view.show_scene(Scene((_matrix(seed=1), _curve(points=500))))
    for key, seen in zoomed.items():
        np.testing.assert_allclose(visible_range(view, key), seen)


def test_a_double_click_and_the_button_follow_again(view: SceneView, qtbot: QtBot) -> None:
    view.show_scene(Scene((_curve(points=100),)))
    place = view.charts.data_rect("c").center()
    _wheel(view, place)
    assert not view.charts.items["c"].following
    for kind in _DOUBLE_CLICK:  # as a window system sends it
        _mouse(view, kind, place)
    assert view.charts.items["c"].following
    assert visible_range(view, "c")[0] == (0.0, 99.0)
    _wheel(view, place)
    assert not view.charts.items["c"].following
    corner = view.charts.data_rect("c").topRight().toPoint() + QPoint(-16, 12)
    qtbot.mouseClick(view.chart_viewport(), Qt.MouseButton.LeftButton, pos=corner)
    assert view.charts.items["c"].following


def test_one_cannot_zoom_out_of_a_matrix(view: SceneView) -> None:
    view.show_scene(Scene((_matrix(),)))
    _wheel(view, view.charts.data_rect("m").center(), notches=-20)
    x, y = visible_range(view, "m")
    np.testing.assert_allclose((*x, *y), (-0.5, 7.5, -0.5, 7.5))


def test_items_live_as_long_as_their_key(view: SceneView) -> None:
    view.show_scene(Scene((_matrix(), _curve())))
    before = len(view._canvas.scene().items())
    for seed in range(20):
        view.show_scene(Scene((_matrix(seed=seed), _curve())))
    assert len(view._canvas.scene().items()) == before
    view.show_scene(Scene(()))
    view.show_scene(Scene((_matrix(), _curve())))
    assert len(view._canvas.scene().items()) == before


def test_the_value_under_a_still_cursor_changes_with_the_data(view: SceneView) -> None:
    first, second = _matrix(seed=0), _matrix(seed=1)
    view.show_scene(Scene((first,)))
    area = view.charts.data_rect("m")
    _move(view, area.topLeft() + QPointF(area.width() / 16, area.height() / 16))
    assert view.pointer.readout_lines()[:2] == ("row 0", "column 0")
    before = view.pointer.readout_lines()[2]
    view.show_scene(Scene((second,)))
    assert view.pointer.readout_lines()[2] != before
    assert second.matrix is not None
    assert view.pointer.readout_lines()[2] == f"{second.matrix.values[0, 0]:.4g}"


def test_the_cursor_names_curves_and_the_mark_beside_it(view: SceneView) -> None:
    view.show_scene(Scene((_curve(points=101),)))
    _move(view, view.charts.data_rect("c").center())
    lines = view.pointer.readout_lines()
    assert lines[0] == "step 50"
    assert lines[1].startswith("a  1.6")
    assert lines[2].endswith("swap")


def test_a_click_chooses(view: SceneView, qtbot: QtBot) -> None:
    small = _matrix(small=True, click=("layer", "2"))
    view.show_scene(Scene((small,)))
    with qtbot.waitSignal(view.chosen, timeout=60_000) as caught:
        place = view.charts.data_rect("m").center().toPoint()
        qtbot.mouseClick(view.charts.thumbnails, Qt.MouseButton.LeftButton, pos=place)
    assert caught.args == ["layer", "2"]


def test_a_click_on_a_column_picks_it(view: SceneView, qtbot: QtBot) -> None:
    view.show_scene(Scene((_matrix(pick="unit"),)))
    area = view.charts.data_rect("m")
    place = area.topLeft() + QPointF(area.width() * 5.5 / 8, area.height() / 2)
    with qtbot.waitSignal(view.chosen, timeout=60_000) as caught:
        qtbot.mouseClick(view.chart_viewport(), Qt.MouseButton.LeftButton, pos=place.toPoint())
    assert caught.args == ["unit", "5"]


def test_a_theme_recolours_what_is_shown(view: SceneView) -> None:
    view.show_scene(Scene((_matrix(), _curve(points=1000))))  # long: drawn without antialias
    light = view.grab().toImage()
    view.set_theme(DARK)
    dark = view.grab().toImage()
    assert light.pixelColor(2, 2).name().upper() == LIGHT.panel
    assert dark.pixelColor(2, 2).name().upper() == DARK.panel
    assert DARK.value in colours_in(dark)
    assert LIGHT.value not in colours_in(dark)


def test_nan_is_drawn_as_empty(view: SceneView) -> None:
    values = np.full((4, 4), np.nan)
    matrix = Matrix("m", values, "sequential", 0.0, 1.0)
    view.show_scene(Scene((Chart("m", "", Axis(), Axis(), matrix=matrix, square=True),)))
    ratio = view.devicePixelRatioF()
    place = view.charts.data_rect("m").center() * ratio
    shown = view.grab().toImage().pixelColor(place.toPoint())
    assert shown.name().upper() == LIGHT.panel


def test_a_logarithmic_axis_is_drawn_in_powers(view: SceneView) -> None:
    x = np.arange(5)
    curve = Curve("a", x, np.array([1.0, 0.0, -3.0, np.nan, 100.0]))
    view.show_scene(Scene((Chart("c", "", Axis(), Axis(log=True), curves=(curve,)),)))
    low, high = visible_range(view, "c")[1]
    assert -0.2 < low < 0.0
    assert 2.0 < high < 2.2


def test_a_curve_is_drawn_in_its_dash_and_a_thick_one_twice_as_wide(view: SceneView) -> None:
    pens: list[QPen] = []
    for dash in get_args(Dash):
        for thick in (False, True):
            chart = _curve()
            curve = replace(chart.curves[0], dash=dash, thick=thick)
            view.show_scene(Scene((replace(chart, curves=(curve,)),)))
            items = view.charts.items["c"].field.childGroup.childItems()
            (line,) = [item for item in items if isinstance(item, pg.PlotCurveItem)]
            pens.append(line.opts["pen"])
    styles = [pen.style() for pen in pens]
    assert styles[::2] == styles[1::2]
    assert styles[::2] == [
        Qt.PenStyle.SolidLine,
        Qt.PenStyle.DashLine,
        Qt.PenStyle.DotLine,
        Qt.PenStyle.DashDotLine,
    ]
    assert all(b.widthF() == 2 * a.widthF() for a, b in zip(pens[::2], pens[1::2], strict=True))


def test_a_chart_may_change_from_curves_to_a_matrix(view: SceneView) -> None:
    curve = _curve()
    view.show_scene(Scene((curve,)))
    matrix = _matrix().matrix
    view.show_scene(Scene((Chart("c", "", Axis(), Axis(), matrix=matrix),)))
    np.testing.assert_allclose(visible_range(view, "c"), ((-0.5, 7.5), (-0.5, 7.5)))
    view.show_scene(Scene((curve,)))
    assert visible_range(view, "c")[0] == (0.0, 99.0)
    view.grab()


def test_the_collector_of_the_gui_stops_with_its_parent(qapp: QApplication) -> None:
    enabled = gc.isenabled()
    parent = QObject()
    collector = GuiGarbageCollector(parent)
    assert not gc.isenabled()
    collector.stop()
    assert gc.isenabled()
    GuiGarbageCollector(parent)
    parent.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert gc.isenabled()
    if not enabled:
        gc.disable()


# What follows the mouse is painted above the charts, which stay as they are.


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
def pointed(view: SceneView) -> SceneView:
    view.show_scene(scene())
    settle()
    return view


def settle() -> None:
    for _ in range(3):
        QApplication.processEvents()


def move(view: SceneView, place: QPointF) -> None:
    canvas, none = view.chart_viewport(), Qt.MouseButton.NoButton
    there = canvas.mapToGlobal(place)
    kind, modifiers = QEvent.Type.MouseMove, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(canvas, QMouseEvent(kind, place, there, none, none, modifiers))
    view.pointer.readout_lines()  # the pace of the readout is not what is looked at here
    settle()


def leave(view: SceneView) -> None:
    QApplication.sendEvent(view.chart_viewport(), QEvent(QEvent.Type.Leave))
    settle()


def test_a_mouse_move_repaints_only_the_readout(pointed: SceneView) -> None:
    before, read = pointed.grab().toImage(), set[tuple[str, ...]]()
    move(
        pointed, pointed.charts.data_rect("m").topLeft() + QPointF(2, 2)
    )  # now there is a picture to put back
    painted = pointed._canvas.painted
    for key in ("m", "c"):
        box = pointed.charts.data_rect(key)
        for share in (0.2, 0.4, 0.6, 0.8):
            move(pointed, box.topLeft() + QPointF(box.width(), box.height()) * share)
            read.add(pointed.pointer.readout_lines())
    assert len(read) == 8
    assert pointed._canvas.painted == painted
    assert pointed.grab().toImage() != before, "lines and card are there"
    leave(pointed)
    assert pointed.pointer.readout_lines() == ()
    assert pointed.grab().toImage() == before


def test_new_data_under_a_resting_mouse_are_painted(pointed: SceneView, qtbot: QtBot) -> None:
    place = pointed.charts.data_rect("m").center()
    move(pointed, place)
    move(pointed, place + QPointF(40, 20))
    for seed, theme in ((1, LIGHT), (1, DARK), (2, DARK)):
        painted = pointed._canvas.painted
        pointed.set_theme(theme)
        pointed.show_scene(scene(seed))
        settle()
        assert pointed._canvas.painted > painted
        move(pointed, place + QPointF(seed, 5))
    leave(pointed)
    shown = pointed.grab().toImage()
    fresh = SceneView(DARK)
    qtbot.addWidget(fresh)
    fresh.resize(pointed.size())
    fresh.show_scene(scene(2))
    assert shown == fresh.grab().toImage()


def test_a_chart_that_moves_leaves_no_pixels_behind(pointed: SceneView) -> None:
    matrix, curve = scene().charts
    rows = tuple((float(row), f"a long name {row}") for row in range(8))
    pointed.show_scene(Scene((replace(matrix, y=Axis(ticks=rows)), curve)))  # it becomes smaller
    part = PointerPart("an outline", QRectF(5, 5, 10, 10), lambda _painter: None)
    pointed.pointer._overlay.show_parts((part,))  # before Qt has painted the smaller chart
    settle()
    shown = pointed.screen().grabWindow(pointed.winId()).toImage()
    pointed.chart_viewport().update()
    settle()
    assert shown == pointed.screen().grabWindow(pointed.winId()).toImage()


def test_a_card_stays_in_a_view_that_becomes_narrower(pointed: SceneView) -> None:
    box = pointed.charts.data_rect(scene().charts[0].key)
    place = box.topLeft() + QPointF(box.width(), box.height()) * 0.8
    # Where Qt looks for the mouse when the view changes: elsewhere, it would have left.
    QCursor.setPos(pointed.chart_viewport().mapToGlobal(place.toPoint()))
    move(pointed, place)
    pointed.resize(pointed.width() // 2, pointed.height())
    assert pointed.pointer.place is not None
    assert pointed.rect().contains(pointed.pointer.place.toPoint())  # still below the mouse
    card = pointed.pointer._overlay._parts[-1].bounds
    assert pointed.pointer._readout.lines
    assert QRectF(pointed.rect()).contains(card)


def test_zooming_under_the_mouse_is_painted(pointed: SceneView) -> None:
    move(pointed, pointed.charts.data_rect("c").center())
    move(pointed, pointed.charts.data_rect("c").center() + QPointF(9, 0))
    painted = pointed._canvas.painted
    pointed.charts.items["c"].show_steps(20.0, 40.0)
    settle()
    assert pointed._canvas.painted > painted


def test_the_mouse_is_followed_less_often_while_a_network_trains(pointed: SceneView) -> None:
    paced = pointed.pointer._paced
    for training, least, most in ((True, TRAINING_MS, LONGEST_MS), (False, FRAME_MS, FRAME_MS)):
        pointed.pointer.slow_down(training)
        paced._timer.stop()
        paced.request_call()
        assert least <= paced._timer.interval() <= most
