"""Figures of a result in the window: the same shapes as on paper, in both themes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from dgn_engine.experiments.report.figure_scenes import scene_of
from dgn_engine.protocol.results import Figure, PlottedLine
from dgn_engine.scene.elements import Chart
from dgn_engine.scene.readout import describe
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.plots.scene_view import SceneView

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
    assert loss.y.limits is None


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
    first, *lines = describe(chart(), 2.1, 99.0)
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


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_boxes_and_points_are_drawn_in_both_themes(qtbot: QtBot, theme: Theme) -> None:
    view = SceneView(theme)
    qtbot.addWidget(view)
    view.resize(520, 320)
    view.show()
    view.show_scene(scene_of((BOXES,)))
    picture = view.grab().toImage()
    seen = {
        QColor(picture.pixel(x, y)).name()
        for x in range(picture.width())
        for y in range(picture.height())
    }
    assert QColor(theme.role("value")).name() in seen, "points"
    assert QColor(theme.role("text")).name() in seen, "medians"
    assert QColor(theme.panel).name() in seen
