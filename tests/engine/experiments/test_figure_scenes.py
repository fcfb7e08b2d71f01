"""Scenes of result figures, which the window and reports draw: their shapes and words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dgn_engine.experiments import Figure, PlottedLine
from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.scene.elements import Chart
from dgn_engine.scene.readout import describe_point

MODELS = tuple(90.0 + n % 8 for n in range(48))
BOXES = Figure(
    "models",
    "The models",
    "",
    "test accuracy (%)",
    (
        PlottedLine("", (0.0,) * 48 + (1.0,) * 48, MODELS * 2, style="boxes"),
        PlottedLine("x^v = 1", (0.0,) * 24 + (1.0,) * 24, MODELS, style="cloud"),
        PlottedLine("printed", (0.0, 2.0), (92.0, 99.9), (0.5, 0.25), "printed"),
    ),
    categories=("FR-II", "FR-DI", "ReLU"),
    note="Points: models.",
)


def chart(figure: Figure = BOXES) -> Chart:
    (made,) = scene_of((figure,)).charts
    return made


def test_categories_are_named_below_the_axis_and_accuracies_end_at_100() -> None:
    made = chart()
    assert made.x.limits == (-0.5, 2.5)
    assert made.x.ticks == ((0.0, "FR-II"), (1.0, "FR-DI"), (2.0, "ReLU"))
    assert made.y.limits is not None
    assert made.y.limits[1] == 100.0
    assert 89.0 < made.y.limits[0] < 90.0
    loss = chart(Figure("l", "", "epoch", "loss", (PlottedLine("", (0.0, 1.0), (1.0, 2.0)),)))
    assert loss.y.limits == pytest.approx((0.94, 2.06))


def test_boxes_are_edges_with_quartiles_and_median() -> None:
    curves = chart().curves
    median = next(curve for curve in curves if curve.name == "median")
    assert np.nanmax(median.y) == np.nanmin(median.y) == np.median(MODELS)
    outline = curves[0]
    quartiles = np.quantile(MODELS, (0.25, 0.75))
    assert (np.nanmin(outline.y), np.nanmax(outline.y)) == pytest.approx(tuple(quartiles))
    for curve in curves:
        assert (np.diff(curve.x) >= 0).all(), "the cursor looks x up in order"


def test_points_have_no_line_between_them() -> None:
    cloud = next(curve for curve in chart().curves if curve.name == "$x^{v} = 1$")
    assert cloud.marker
    assert sorted(cloud.y[np.isfinite(cloud.y)]) == sorted(MODELS)
    assert not (np.isfinite(cloud.y[:-1]) & np.isfinite(cloud.y[1:])).any()
    printed = next(curve for curve in chart().curves if curve.name == "printed")
    assert printed.role == "muted"
    bars = chart().curves[-1]
    assert list(bars.y[np.isfinite(bars.y)]) == [91.5, 92.5, 99.65, 100.15]


def test_the_cursor_names_the_category_and_no_edges() -> None:
    first, *lines = describe_point(chart(), 2.1, 99.0)
    assert first == "ReLU"
    assert len(lines) == 3
    assert lines[-1] == "printed  99.9"


def test_mathematics_is_set_and_names_of_users_are_not() -> None:
    made = chart(
        Figure("f", "K^V of a$b$", "depth d", "‖e‖²", (PlottedLine("my_net$", (0.0,), (1.0,)),))
    )
    assert made.title == r"$K^{V}$ of a\$b\$"
    assert (made.x.label, made.y.label) == ("depth $d$", "$‖e‖^{2}$")
    assert made.curves[0].name == r"my_net\$"


def test_a_line_across_reaches_over_all_categories_and_nothing_breaks_it() -> None:
    lines = (PlottedLine("across", (), (50.0,)), PlottedLine("empty", (), ()))
    curves = chart(Figure("f", "", "", "y", lines, categories=("a", "b"))).curves
    assert list(curves[0].x) == [-0.5, 1.5]
    assert all(math.isnan(value) for value in curves[1].y)


def test_the_spread_of_points_is_an_upright_bar_through_each() -> None:
    points = PlottedLine("b", (1.0, 2.0), (5.0, 4.0), (0.5, 1.0), "points")
    marks, bars = chart(Figure("f", "", "", "", (points,))).curves
    assert marks.y[::2].tolist() == [5.0, 4.0]
    assert bars.x[[0, 1, 3, 4]].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert bars.y[[0, 1, 3, 4]].tolist() == [4.5, 5.5, 3.0, 5.0]
    assert np.isnan(bars.y[[2, 5]]).all()
    line = PlottedLine("", (1.0,), (2.0,), (0.5,))
    alone, bar = chart(Figure("f", "", "", "", (line,))).curves
    assert (alone.marker, bar.y[:2].tolist()) == (True, [1.5, 2.5]), "of one point: a point"


def test_marks_of_one_category_stay_in_it_however_many_they_are() -> None:
    lines = tuple(
        PlottedLine(f"width {place}", (0.0, 1.0), (50.0, 60.0), style="points")
        for place in range(6)
    )
    made = chart(Figure("c", "", "", "accuracy", lines, categories=("DL", "FL")))
    at = np.concatenate([curve.x[np.isfinite(curve.y)] for curve in made.curves])
    assert np.abs(at - np.round(at)).max() < 0.5
    assert len(np.unique(at)) == 12


def test_no_two_curves_of_a_result_are_named_alike() -> None:
    x = (1.0, 2.0)
    twins = (PlottedLine("a", x, x), PlottedLine("a", x, x[::-1]))
    ideal = (
        PlottedLine("d = 2", x, x),
        PlottedLine("d = 4", x, x),
        PlottedLine("ideal, d = 2", x, x, style="printed"),
        PlottedLine("ideal, d = 4", x, x, style="printed"),
    )
    names = [curve.name for curve in chart(Figure("t", "", "", "", twins)).curves]
    assert names == ["a", "a (2)"]
    beside = chart(Figure("i", "", "", "", ideal))
    assert [curve.name for curve in beside.curves][2:] == ["ideal", ""]
    assert beside.named_above, "a dotted curve has the colour of the one that it is beside"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_place_that_is_no_number_is_left_out_of_the_axis(bad: float) -> None:
    made = chart(Figure("n", "", "", "", (PlottedLine("a", (1.0, bad, 3.0), (1.0, 2.0, 3.0)),)))
    assert made.x.ticks is None
    assert made.x.limits is not None
    assert 0.9 < made.x.limits[0] < 1.0
    assert 3.0 < made.x.limits[1] < 3.1


def test_a_tile_of_a_montage_is_named_under_the_cursor() -> None:
    image = tuple(tuple(float(10 * row + column) for column in range(5)) for row in range(5))
    montage = Figure("m", "", "layer", "", (), image=image, rows=("a", "b"), columns=("1", "2"))
    made = chart(montage)
    assert made.matrix is not None
    assert made.matrix.tile == (2, 2)
    assert describe_point(made, 4.0, 3.0) == ("b, layer 2", "row 0, column 1: 34")
    assert describe_point(made, 2.0, 0.0) == (), "the gap between tiles"
