"""The lane of events: chips below the lowest time chart; they say what happened and lead there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Axis, Chart, Curve, Mark, Matrix, Scene
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.plots.chart_frame import ChartStyle
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.seen_charts import chips, visible_range

LEFT = Qt.MouseButton.LeftButton


def _chart(*marks: Mark, key: str = "c", row: int = 0, epoch: int | None = 0) -> Chart:
    x = np.arange(1001, dtype=np.int64)
    axis = Axis("step", limits=(0.0, 1000.0), epoch=epoch)
    curve = Curve("a", x, np.sin(x / 100.0))
    return Chart(key, "Curve", axis, Axis(), curves=(curve,), marks=marks, row=row)


SWAP = Mark(200.0, "FR-II", "swap", "DL → FR-II at step 200.", "14:03:20")
TURN = Mark(600.0, "π", "permutation", "The order is G2 G1.")
BACK = Mark(604.0, "undo", "undo", "Undo order.")


@pytest.fixture
def view(qtbot: QtBot) -> SceneView:
    widget = SceneView(LIGHT)
    widget.resize(640, 320)
    qtbot.addWidget(widget)
    widget.show()
    qtbot.waitExposed(widget)
    return widget


def _at(view: SceneView, key: str, index: int) -> QPoint:
    return chips(view, key)[index][1].center().toPoint()


def test_events_stand_as_chips_below_the_axis_and_close_ones_as_their_number(
    view: SceneView,
) -> None:
    view.show_scene(Scene((_chart(SWAP, TURN, BACK),)))
    (one, first), (two, second) = chips(view, "c")
    assert (one, two) == ("FR-II", "2")
    area = view.charts.data_rect("c")
    assert first.top() > area.bottom()
    assert first.bottom() <= view.height()
    assert abs(first.center().x() - (area.left() + 0.2 * area.width())) < 1.0
    assert abs(second.center().x() - (area.left() + 0.602 * area.width())) < 1.0


def test_thirty_events_never_touch(view: SceneView) -> None:
    marks = [Mark(31.0 * n, f"lr {0.001 / n:.3g}", "dial") for n in range(1, 31)]
    for width in (640, 300, 180):
        view.resize(width, 320)
        view.show_scene(Scene((_chart(*marks),)))
        boxes = [box for _, box in chips(view, "c")]
        assert all(one.right() < other.left() for one, other in pairwise(boxes))


def test_only_the_lowest_of_charts_in_a_column_has_a_lane(view: SceneView) -> None:
    above, below = _chart(SWAP, key="above"), _chart(SWAP, key="below", row=1)
    other = _chart(SWAP, key="other", row=2, epoch=None)  # not over steps
    view.resize(640, 640)
    view.show_scene(Scene((above, below, other)))
    assert chips(view, "above") == ()
    assert [text for text, _ in chips(view, "below")] == ["FR-II"]
    assert chips(view, "other") == ()


def test_the_pointer_over_a_chip_reads_all_of_its_events(view: SceneView, qtbot: QtBot) -> None:
    view.show_scene(Scene((_chart(SWAP, TURN, BACK),)))
    qtbot.mouseMove(view.chart_viewport(), _at(view, "c", 0))
    assert view.pointer.readout_lines() == (
        "step 200 · 14:03:20 · FR-II",
        "  DL → FR-II at step 200.",
    )
    qtbot.mouseMove(view.chart_viewport(), _at(view, "c", 1))
    assert view.pointer.readout_lines() == (
        "step 600 · π",
        "  The order is G2 G1.",
        "step 604 · undo",
        "  Undo order.",
    )
    view.grab()  # with the chip lit
    qtbot.mouseMove(view.chart_viewport(), QPoint(2, 2))
    assert view.pointer.readout_lines() == ()


def test_a_click_zooms_every_time_axis_to_the_events_and_a_second_one_goes_back(
    view: SceneView, qtbot: QtBot
) -> None:
    view.resize(640, 480)
    view.show_scene(Scene((_chart(TURN, BACK, key="above"), _chart(TURN, BACK, key="c", row=1))))
    assert [text for text, _ in chips(view, "c")] == ["2"]
    qtbot.mouseClick(view.chart_viewport(), LEFT, pos=_at(view, "c", 0))
    for key in ("above", "c"):
        low, high = visible_range(view, key)[0]
        assert low < 600 < 604 < high
        assert high - low == pytest.approx(84.0)
        assert not view.charts.items[key].following
    view.steps.go_to(600.0, 604.0)
    assert view.charts.items["above"].following
    assert visible_range(view, "c")[0] == (0.0, 1000.0)


def test_zoomed_in_the_events_of_a_group_stand_apart(view: SceneView, qtbot: QtBot) -> None:
    view.resize(900, 320)
    view.show_scene(Scene((_chart(TURN, BACK),)))
    qtbot.mouseClick(view.chart_viewport(), LEFT, pos=_at(view, "c", 0))
    assert [text for text, _ in chips(view, "c")] == ["π", "undo"]
    view.show_scene(Scene((_chart(TURN, BACK, Mark(990.0, "FL")),)))  # new data keep the zoom
    assert [text for text, _ in chips(view, "c")] == ["π", "undo"]
    view.steps.show_all_steps()
    assert [text for text, _ in chips(view, "c")] == ["2", "FL"]


def test_a_time_axis_behind_a_tab_comes_in_front_to_show_a_step(view: SceneView) -> None:
    view.resize(300, 180)
    matrix = Matrix("m", np.zeros((8, 8)), "sequential", 0.0, 1.0)
    other = Chart("m", "Matrix", Axis(), Axis(), matrix=matrix, square=True)
    view.show_scene(Scene((other, _chart(SWAP, row=1))))
    assert view.charts.shown_keys() == ("m",)
    assert chips(view, "c") == ()
    assert view.steps.go_to(200.0, 200.0)
    assert view.charts.shown_keys() == ("c",)
    assert visible_range(view, "c")[0] == pytest.approx((160.0, 240.0))
    assert [text for text, _ in chips(view, "c")] == ["FR-II"]


def test_there_is_nowhere_to_go_without_a_time_axis(view: SceneView) -> None:
    view.show_scene(Scene((_chart(SWAP, epoch=None),)))
    assert not view.steps.go_to(200.0, 200.0)
    assert view.charts.items["c"].following


def test_long_sentences_of_many_events_end_with_how_many_more_there_are(
    view: SceneView, qtbot: QtBot
) -> None:
    marks = [Mark(500.0, "β 4", "dial", "words " * 40) for _ in range(20)]
    view.show_scene(Scene((_chart(*marks),)))
    qtbot.mouseMove(view.chart_viewport(), _at(view, "c", 0))
    assert len(view.pointer.readout_lines()) > 60
    assert not view.grab().isNull()


def test_sentences_are_whole_in_a_narrow_chart(view: SceneView, qtbot: QtBot) -> None:
    sentence = "Undo it: one thing, another thing and a third one are of step 3,079."
    view.resize(260, 320)
    view.show_scene(Scene((_chart(Mark(500.0, "undo", "undo", sentence)),)))
    qtbot.mouseMove(view.chart_viewport(), _at(view, "c", 0))
    lines = view.pointer.readout_lines()
    assert " ".join(line.strip() for line in lines[1:]) == sentence
    label = ChartStyle(LIGHT).label
    assert max(label.width(line) for line in lines) <= view.chart_viewport().width()


def test_the_lane_is_drawn_in_light_and_dark_with_epochs(view: SceneView) -> None:
    view.show_scene(Scene((_chart(SWAP, Mark(900.0, "diverged", "diverged"), epoch=100),)))
    light = view.grab().toImage()
    view.set_theme(DARK)
    assert view.grab().toImage() != light
