"""Scenes with the settings of single charts: ranges, logarithms, smoothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dgn_engine.scene.axes import chart_range
from dgn_engine.scene.chart_settings import PLAIN, ChartSettings, adjusted, smoothed
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Scene
from dgn_engine.scene.matrix_colours import ColourChoice


def looped(values: list[float], weight: float) -> list[float]:
    """TensorBoard's smoothing, one value after the other."""
    last, count, found = 0.0, 0, []
    for value in values:
        if not math.isfinite(value):
            found.append(value)
            continue
        last = last * weight + (1 - weight) * value
        count += 1
        found.append(last / (1 - weight**count))
    return found


def _loss(steps: int = 2000, **more: object) -> Chart:
    x = np.arange(1, steps + 1)
    y = 10.0 / x + 0.01 * np.random.default_rng(0).random(steps)
    curve = Curve("train", x, y, role="muted")
    axis = Axis("step", limits=(0.0, float(steps)))
    return Chart("loss", "Loss", axis, Axis(), curves=(curve,), **more)  # type: ignore[arg-type]  # keywords of Chart


def _one(chart: Chart, **settings: object) -> Chart:
    wanted = ChartSettings(**settings)  # type: ignore[arg-type]  # keywords of ChartSettings
    return adjusted(Scene((chart,)), {chart.key: wanted}).charts[0]


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.6, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 64, 1000])
def test_smoothing_is_that_of_a_plain_loop(weight: float, count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    np.testing.assert_allclose(
        smoothed(values, weight), looped(values.tolist(), weight), rtol=1e-10
    )


def test_what_is_not_finite_is_passed_over() -> None:
    values = [1.0, math.nan, 3.0, math.inf, 5.0]
    np.testing.assert_allclose(smoothed(np.array(values), 0.5), looped(values, 0.5))


def test_integers_are_smoothed_as_numbers_and_are_left_alone() -> None:
    values = np.array([0, 1, 0, 1])
    np.testing.assert_allclose(smoothed(values, 0.9), looped([0.0, 1.0, 0.0, 1.0], 0.9))
    assert values.tolist() == [0, 1, 0, 1]


def test_without_settings_the_scene_is_the_very_same() -> None:
    scene = Scene((_loss(),))
    assert adjusted(scene, {}) is scene
    assert adjusted(scene, {"loss": PLAIN, "other": ChartSettings(last=5)}) is scene


def test_the_last_steps_are_shown_as_far_as_there_are_so_many() -> None:
    assert _one(_loss(), last=200).x.limits == (1800.0, 2000.0)
    assert _one(_loss(100), last=200).x.limits == (0.0, 100.0)


def test_the_y_axis_reaches_as_far_as_what_is_visible() -> None:
    chart = _one(_loss(), last=200)
    curve = chart.curves[0]
    seen = curve.y[curve.x >= 1800]
    low, high = chart_range(chart)[1]
    span = seen.max() - seen.min()
    np.testing.assert_allclose((low, high), (seen.min() - 0.05 * span, seen.max() + 0.05 * span))


def test_every_value_stays_in_the_scene_whatever_is_visible() -> None:
    before = _loss()
    chart = _one(before, last=200, log_x=True, y_range=(0.0, 1.0), smoothing=0.9)
    np.testing.assert_array_equal(chart.curves[0].x, before.curves[0].x)
    np.testing.assert_array_equal(chart.curves[0].y, before.curves[0].y)


def test_a_logarithmic_time_axis_begins_at_the_first_step() -> None:
    chart = _one(_loss(), log_x=True)
    assert chart.x.log
    assert chart.x.limits == (1.0, 2000.0)


def test_a_logarithmic_axis_needs_something_positive() -> None:
    curve = Curve("a", np.array([0, 0]), np.array([-1.0, 0.0]))
    chart = _one(Chart("c", "", Axis("step"), Axis(), curves=(curve,)), log_x=True, log_y=True)
    assert not chart.x.log
    assert not chart.y.log


def test_a_fixed_range_holds_and_a_logarithm_of_it_needs_positive_ends() -> None:
    assert _one(_loss(), y_range=(-1.0, 2.0)).y.limits == (-1.0, 2.0)
    assert _one(_loss(), y_range=(0.1, 2.0), log_y=True).y == Axis(log=True, limits=(0.1, 2.0))
    both = _one(_loss(), y_range=(-1.0, 2.0), log_y=True).y
    assert both.log
    assert both.limits is not None
    assert both.limits[0] > 0


def test_a_logarithm_of_the_panel_can_be_taken_back() -> None:
    chart = Chart("c", "", Axis("step"), Axis(log=True), curves=_loss().curves)
    assert not _one(chart, log_y=False).y.log


def test_a_smoothed_line_lies_over_the_raw_one() -> None:
    chart = _one(_loss(), smoothing=0.9)
    raw, line = chart.curves
    assert (raw.faint, raw.thick, raw.smoothed) == (True, False, 0.0)
    assert (line.faint, line.thick, line.smoothed) == (False, True, 0.9)
    assert raw.name == line.name == "train"
    np.testing.assert_allclose(line.y, looped(raw.y.tolist(), 0.9))


def test_the_note_says_that_lines_are_smoothed() -> None:
    wanted = {"loss": ChartSettings(smoothing=0.9)}
    scene = adjusted(Scene((_loss(),), note="Square loss."), wanted)
    assert " 0.9; " in scene.note
    assert scene.note.endswith(". Square loss.")


def test_only_time_axes_are_smoothed_and_cut() -> None:
    chart = Chart("loss", "", Axis("index"), Axis(), curves=_loss().curves)
    assert _one(chart, smoothing=0.9, last=100) == chart


def test_two_points_are_no_curve_to_smooth() -> None:
    assert len(_one(_loss(2), smoothing=0.9).curves) == 1


def test_small_pictures_have_no_settings() -> None:
    matrix = Matrix("m", np.eye(3), "sequential", 0.0, 1.0)
    small = Chart("m", "", Axis(), Axis(), matrix=matrix, small=True)
    scene = Scene((small,))
    assert adjusted(scene, {"m": ChartSettings(colours=ColourChoice("whole"))}) is scene


@pytest.mark.parametrize("bad", [{"last": -1}, {"smoothing": 1.0}, {"smoothing": -0.1}])
def test_settings_that_make_no_sense_are_a_fault(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="smoothing"):
        ChartSettings(**bad)  # type: ignore[arg-type]  # keywords of ChartSettings


def test_an_empty_chart_may_be_set() -> None:
    empty = np.zeros(0)
    chart = Chart("c", "", Axis("step"), Axis(), curves=(Curve("a", empty, empty),))
    _one(chart, last=10, log_x=True, log_y=True, smoothing=0.5)
