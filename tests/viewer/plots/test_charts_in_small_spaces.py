"""Real charts in small rooms: tabs, a row of thumbnails, scroll bars."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollBar
from pytestqt.qtbot import QtBot

from dgn_engine.scene.chart_layout import LEAST_CURVES, LEAST_MATRIX, LOW_CURVES
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Scene
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.plots.scene_view import SceneView
from dgn_viewer.plots.thumbnail_row import HEIGHT, LOW
from tests.viewer.seen_charts import visible_range

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


def _curves(key: str, column: int = 0, high: float = 1.0) -> Chart:
    x = np.arange(20, dtype=np.int64)
    curve = Curve("loss", x, high * np.exp(-x / 5), role="value")
    return Chart(key, f"{key} $K^V$", Axis("step"), Axis(), curves=(curve,), column=column)


def _layers(count: int, chosen: int = 0) -> tuple[Chart, ...]:
    values = np.random.default_rng(0).random((10, 12)).astype(np.float32)
    small = [
        Chart(
            f"overview_{layer}",
            f"G{layer + 1}",
            Axis(),
            Axis(),
            matrix=Matrix(f"gates of layer4.{layer}.conv2", values, "gates", 0, 1),
            column=layer,
            small=True,
            chosen=layer == chosen,
            click=("layer", str(layer)),
        )
        for layer in range(count)
    ]
    large = replace(small[0], key="large", small=False, chosen=False, click=None, row=1, column=0)
    return (*small, replace(large, column_span=count))


@pytest.fixture
def view(qtbot: QtBot) -> SceneView:
    widget = SceneView(LIGHT)
    widget.resize(700, 200)
    qtbot.addWidget(widget)
    widget.show()
    qtbot.waitExposed(widget)
    return widget


PAIR = Scene((_curves("a"), _curves("b", 1)))


def test_without_room_one_chart_is_shown_below_tabs(view: SceneView) -> None:
    view.show_scene(PAIR)
    view.resize(320, 200)
    tabs = view.charts.tabs
    assert tabs.isVisible()
    assert [tabs.tabText(place) for place in range(tabs.count())] == ["a K^V", "b K^V"]
    assert view.charts.shown_keys() == ("a",)
    assert view.charts.data_rect("a").top() >= tabs.geometry().bottom()
    assert view.charts.data_rect("a").width() >= LEAST_CURVES[0]
    view.resize(700, 200)
    assert not tabs.isVisible()
    assert view.charts.shown_keys() == ("a", "b")


def test_the_chosen_tab_survives_frames_and_many_stay_in_sight(
    view: SceneView, qtbot: QtBot
) -> None:
    view.resize(320, 200)
    view.show_scene(PAIR)
    with qtbot.waitSignal(view.chart_chosen) as caught:
        view.charts.tabs.setFocus(Qt.FocusReason.TabFocusReason)
        qtbot.keyClick(view.charts.tabs, Qt.Key.Key_Right)
    assert caught.args == ["b"]
    assert view.charts.shown_keys() == ("b",)
    view.show_scene(Scene((_curves("a", high=3.0), _curves("b", 1, high=3.0))))
    assert view.charts.shown_keys() == ("b",)
    assert view.charts.tabs.currentIndex() == 1
    (_, (low, high)) = visible_range(view, "b")
    assert low < 3.0 < high
    for place, key in ((0, "a"), (1, "b")):
        qtbot.mouseClick(view.charts.tabs, LEFT, pos=view.charts.tabs.tabRect(place).center())
        assert view.charts.shown_keys() == (key,)
    view.resize(300, 200)
    view.show_scene(Scene(tuple(_curves(f"{i} a long title", i) for i in range(5))))
    assert view.charts.tabs.isVisible()
    assert view.charts.tabs.tabRect(4).right() <= 300


def test_a_chart_without_room_scrolls(view: SceneView) -> None:
    view.show_scene(Scene((_curves("a"),)))
    view.resize(320, 80)
    _across, down = view.findChildren(QScrollBar, options=DIRECT)
    assert down.isVisible()
    assert view.charts.data_rect("a").height() == LOW_CURVES
    top = view.charts.data_rect("a").top()
    down.setValue(down.maximum())
    assert view.charts.data_rect("a").top() == top - down.maximum()
    view.resize(320, 200)
    assert not down.isVisible()
    assert view.charts.data_rect("a").top() == top


@pytest.mark.parametrize("count", [4, 17, 50])
def test_thumbnails_are_one_row_above_a_map_of_96_pixels(view: SceneView, count: int) -> None:
    for size in ((700, 300), (300, 240), (220, 90)):
        view.resize(*size)
        view.show_scene(Scene(_layers(count)))
        row = view.charts.thumbnails
        assert row.isVisible()
        assert row.height() == HEIGHT == 56
        boxes = [row.picture_rect(f"overview_{layer}") for layer in range(count)]
        assert len({(box.top(), box.height()) for box in boxes}) == 1
        assert all(one.right() < other.left() for one, other in pairwise(boxes))
        assert min(box.width() for box in boxes) >= 60
        assert view.charts.data_rect("large").height() >= LEAST_MATRIX[1]
        assert view.charts.data_rect("large").width() >= LEAST_MATRIX[0]


def _is_whole(view: SceneView) -> bool:
    _across, down = view.findChildren(QScrollBar, options=DIRECT)
    area = view.charts.data_rect("large")
    return not down.isVisible() and area.top() >= 0 and area.bottom() < view.height()


def test_the_row_gives_way_so_that_the_map_is_wholly_in_sight(view: SceneView) -> None:
    for height, row in ((300, HEIGHT), (173, LOW), (150, 0)):
        view.resize(555, height)
        view.show_scene(Scene(_layers(17)))
        assert _is_whole(view), height
        assert view.charts.data_rect("large").height() >= LEAST_MATRIX[1]
        assert view.charts.thumbnails.isVisible() == bool(row)
        if row:
            assert view.charts.thumbnails.height() == row
            assert all(view.charts.data_rect(f"overview_{n}").bottom() < row for n in range(17))
    view.resize(555, 90)  # nothing helps: the row stays, the map scrolls
    assert view.charts.thumbnails.height() == HEIGHT
    assert not _is_whole(view)


def _wheel(view: SceneView, down: int) -> None:
    row = view.charts.thumbnails
    place = QPointF(50, 30)
    event = QWheelEvent(
        place,
        row.mapToGlobal(place.toPoint()).toPointF(),
        QPoint(),
        QPoint(0, -120 * down),
        Qt.MouseButton.NoButton,
        NONE,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(row, event)


def test_the_wheel_and_a_drag_scroll_the_row(view: SceneView, qtbot: QtBot) -> None:
    view.show_scene(Scene(_layers(17)))
    row = view.charts.thumbnails
    assert row.places.max_shift > 0
    _wheel(view, 2)
    assert 0 < row.places.shift <= row.places.max_shift
    _wheel(view, 100)
    assert row.places.shift == row.places.max_shift
    chosen: list[str] = []
    view.chosen.connect(lambda _option, value: chosen.append(value))
    qtbot.mousePress(row, LEFT, pos=QPoint(100, 30))
    qtbot.mouseMove(row, QPoint(150, 30))
    qtbot.mouseMove(row, QPoint(300, 30))
    qtbot.mouseRelease(row, LEFT, pos=QPoint(300, 30))
    assert math.isclose(row.places.shift, row.places.max_shift - 200, abs_tol=1.0)
    assert chosen == []  # a drag is no click
    frame = tuple(reversed(_layers(17)))
    view.show_scene(Scene(tuple(reversed(frame))))
    assert math.isclose(
        row.places.shift, row.places.max_shift - 200, abs_tol=1.0
    )  # frames leave it there


def test_arrow_keys_choose_and_the_chosen_layer_is_kept_in_sight(
    view: SceneView, qtbot: QtBot
) -> None:
    view.chosen.connect(lambda _, value: view.show_scene(Scene(_layers(17, int(value)))))
    view.show_scene(Scene(_layers(17)))
    row = view.charts.thumbnails
    for key, expected in ((Qt.Key.Key_End, 16), (Qt.Key.Key_Left, 15), (Qt.Key.Key_Home, 0)):
        qtbot.keyClick(row, key)
        assert f"G{expected + 1} (selected)" in row.accessibleName()
        box = row.picture_rect(f"overview_{expected}")
        assert box.left() >= 0
        assert box.right() <= row.width()
    view.show_scene(Scene(_layers(17, 16)))
    view.resize(300, 300)
    assert row.picture_rect("overview_16").right() <= row.width()


def test_a_click_on_a_scrolled_thumbnail_chooses_what_is_under_it(
    view: SceneView, qtbot: QtBot
) -> None:
    view.show_scene(Scene(_layers(17, 16)))
    place = view.charts.data_rect("overview_14").center() - QPointF(view.charts.thumbnails.pos())
    with qtbot.waitSignal(view.chosen) as caught:
        qtbot.mouseClick(view.charts.thumbnails, LEFT, pos=place.toPoint())
    assert caught.args == ["layer", "14"]
