"""Charts over steps share a click, two marks and one zoom; the keyboard reaches the marks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.scene.axes import step_axis
from dgn_engine.scene.elements import Axis, Chart, Curve, Scene
from dgn_viewer.docks.linked_steps import LinkedSteps, StepZoom
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.seen_charts import visible_range

CURVE = Curve("train", np.arange(1, 101), np.linspace(2.0, 1.0, 100))
SCENE = Scene((Chart("loss", "Loss", step_axis([CURVE]), Axis(), (CURVE,)),))


@pytest.fixture
def linked(qtbot: QtBot) -> tuple[LinkedSteps, SceneView, SceneView]:
    views = SceneView(), SceneView()
    steps = LinkedSteps()
    for view in views:
        qtbot.addWidget(view)
        view.resize(500, 300)
        view.show_scene(SCENE)
        view.show()
        steps.link_view(view)
    return steps, *views


def at(view: SceneView, step: float) -> QPoint:
    """The pixel of a step, half-way up."""
    box, (low, high) = view.charts.data_rect("loss"), visible_range(view, "loss")[0]
    return QPoint(
        round(box.left() + (step - low) / (high - low) * box.width()), round(box.center().y())
    )


def test_a_double_click_goes_to_its_step_and_a_click_does_not(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, _ = linked
    first.steps.zoom_steps(20.0, 80.0)
    asked: list[int] = []
    steps.wanted.connect(asked.append)
    QTest.mouseClick(first.chart_viewport(), Qt.MouseButton.LeftButton, pos=at(first, 30))
    assert asked == []
    first._on_click(at(first, 50).toPointF(), True)
    [step] = asked
    assert abs(step - 50) <= 1
    assert not first.charts.items["loss"].following  # the zoom stays


def test_clicks_with_shift_mark_two_steps_and_the_third_begins_anew(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, second = linked
    for view, step in ((first, 20), (second, 80)):
        QTest.mouseClick(
            view.chart_viewport(),
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.ShiftModifier,
            at(view, step),
        )
    assert [round(step, -1) for step in steps.marks] == [20, 80]
    steps.mark_step(7)
    assert steps.marks == (7,)
    steps.mark_step(-3)  # left of the axis
    assert steps.marks == (7, 0)
    steps.clear_marks()
    assert steps.marks == ()


def test_a_zoom_is_that_of_all_time_axes_only_where_they_are_linked(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, second = linked
    first.steps_zoomed.emit(10.0, 40.0)
    assert second.charts.items["loss"].following
    steps.toggle_link()
    first.steps_zoomed.emit(10.0, 40.0)
    assert visible_range(second, "loss")[0] == visible_range(first, "loss")[0] == (10.0, 40.0)
    first.steps_followed.emit()
    assert second.charts.items["loss"].following


def test_a_view_or_a_chart_that_comes_later_has_the_shared_zoom(
    linked: tuple[LinkedSteps, SceneView, SceneView], qtbot: QtBot
) -> None:
    steps, first, _ = linked
    steps.toggle_link()
    first.steps_zoomed.emit(10.0, 40.0)
    late = SceneView()
    qtbot.addWidget(late)
    steps.link_view(late)
    late.resize(500, 300)
    late.show_scene(SCENE)
    assert visible_range(late, "loss")[0] == (10.0, 40.0)
    other = replace(SCENE.charts[0], key="accuracy")
    first.show_scene(Scene((*SCENE.charts, other)))
    assert first.steps.shown_ranges() == {"loss": (10.0, 40.0), "accuracy": (10.0, 40.0)}
    steps.toggle_link()
    late.show_scene(Scene((other,)))
    assert late.steps.shown_ranges() == {"accuracy": None}


def test_another_run_shows_all_steps_once_and_not_again_in_a_view_drawn_later(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, second = linked
    steps.toggle_link()
    first.steps_zoomed.emit(10.0, 40.0)
    run = object()
    steps.track_run(run)
    assert first.charts.items["loss"].following
    first.steps_zoomed.emit(20.0, 30.0)
    second.steps.show_all_steps()
    steps.track_run(run)
    second.steps.follow_linked_range()
    assert visible_range(first, "loss")[0] == visible_range(second, "loss")[0] == (20.0, 30.0)


def test_the_shared_zoom_is_put_back_in_every_chart(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, second = linked
    steps.restore_zoom(StepZoom(True, (10.0, 40.0)))
    assert visible_range(first, "loss")[0] == visible_range(second, "loss")[0] == (10.0, 40.0)
    steps.restore_zoom(StepZoom(True))
    assert first.charts.items["loss"].following
    assert second.charts.items["loss"].following


def test_what_each_chart_showed_before_the_first_shared_zoom_is_put_back(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, second = linked
    at_first = steps.zoom
    first.steps.zoom_steps(20.0, 60.0)
    steps.toggle_link()
    linked_now = steps.zoom
    second.steps_zoomed.emit(10.0, 40.0)
    zoomed = steps.zoom
    for before in (linked_now, at_first):  # undone in two steps, or linking and zooming as one
        steps.restore_zoom(before)
        assert visible_range(first, "loss")[0] == pytest.approx((20.0, 60.0))
        assert second.charts.items["loss"].following
        steps.restore_zoom(zoomed)
        assert visible_range(first, "loss")[0] == pytest.approx((10.0, 40.0))
    for _ in range(2):  # parted, and linked a second time
        steps.toggle_link()
    second.steps_zoomed.emit(30.0, 40.0)
    steps.restore_zoom(at_first)
    assert visible_range(first, "loss")[0] == pytest.approx((20.0, 60.0))


def test_showing_all_steps_again_is_undone_too(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, second = linked
    first.steps.zoom_steps(20.0, 60.0)
    steps.toggle_link()
    before = steps.zoom
    first.steps_followed.emit()
    assert first.charts.items["loss"].following
    steps.restore_zoom(before)
    assert visible_range(first, "loss")[0] == pytest.approx((20.0, 60.0))
    assert second.charts.items["loss"].following


def test_zooms_that_are_parted_stay_and_are_put_back_so(
    linked: tuple[LinkedSteps, SceneView, SceneView],
) -> None:
    steps, first, second = linked
    steps.toggle_link()
    first.steps_zoomed.emit(10.0, 40.0)
    together = steps.zoom
    steps.toggle_link()
    parted = steps.zoom
    for state in (together, parted):
        steps.restore_zoom(state)
        for view in (first, second):
            assert visible_range(view, "loss")[0] == pytest.approx((10.0, 40.0))
