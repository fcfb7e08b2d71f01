"""Figures and numbers of charts that the user has set: what is seen is drawn, values are raw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from dgn_engine.figures.export_values import scene_arrays
from dgn_engine.figures.figure_style import TEXT, FigureStyle
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.scene.chart_settings import ChartSettings, apply_chart_settings, smooth_values
from dgn_engine.scene.elements import Axis, Chart, Curve, Matrix, Scene
from dgn_engine.scene.matrix_colours import ColourChoice
from dgn_engine.scene.matrix_difference import Subtrahend
from tests.engine.figures.figure_panels import page

X = np.arange(0, 3001)
Y = 3.0 / np.sqrt(X + 1.0) + 0.3 * np.random.default_rng(0).random(X.size)
LOSS = Chart(
    "loss",
    "Loss",
    Axis("step", limits=(0.0, 3000.0)),
    Axis(),
    curves=(Curve("train", X, Y, role="muted"),),
)
VALUES = np.random.default_rng(1).random((6, 6))
PAIRS = Chart(
    "a",
    "A",
    Axis(),
    Axis(),
    matrix=Matrix("a", VALUES, "sequential", 0.0, 1.0, "overlap", "example", "example"),
    square=True,
)


def _figure(scene: Scene) -> Figure:
    return page([FigurePanel("panel", scene, Provenance("Panel"))], FigureStyle(TEXT))


def _axes(figure: Figure, name: str) -> Axes:
    return next(one for one in figure.axes if str(one.get_gid()).endswith(name))


def test_a_smoothed_line_is_drawn_over_a_pale_one_and_its_numbers_are_raw() -> None:
    scene = apply_chart_settings(Scene((LOSS,)), {"loss": ChartSettings(smoothing=0.9)})
    lines = {str(line.get_gid()): line for line in _axes(_figure(scene), "loss").get_lines()}
    raw, line = (lines[name] for name in lines if "train" in name)
    assert [str(one.get_gid()).partition("train")[2] for one in (raw, line)] == ["", ".smoothed"]
    assert (raw.get_alpha(), line.get_alpha()) == (0.4, None)
    assert line.get_ydata()[-1] == pytest.approx(smooth_values(Y, 0.9)[-1])  # type: ignore[index]
    found = scene_arrays(scene, Provenance("Panel"))
    np.testing.assert_array_equal(found["loss.train.y"], Y)
    assert "Smoothing 0.9" in str(found["about"])


@pytest.mark.parametrize(
    ("fixed", "arrows"), [((0.0, 1.0), 0), ((0.3, 1.0), 1), ((0.0, 0.7), 1), ((0.3, 0.7), 2)]
)
def test_a_bar_has_an_arrow_at_each_end_that_values_lie_beyond(
    fixed: tuple[float, float], arrows: int
) -> None:
    wanted = {"a": ChartSettings(colours=ColourChoice("fixed", fixed))}
    scene = apply_chart_settings(Scene((PAIRS,)), wanted)
    found = _figure(scene).findobj(Polygon)
    assert len([one for one in found if one.get_xy().shape == (4, 2)]) == arrows
    np.testing.assert_array_equal(scene_arrays(scene, Provenance("Panel"))["a.values"], VALUES)


def test_the_values_of_a_difference_are_exported_and_the_note_says_of_what() -> None:
    assert PAIRS.matrix is not None
    other = replace(
        PAIRS, key="b", title="B", column=1, matrix=replace(PAIRS.matrix, values=VALUES.T)
    )
    scene = apply_chart_settings(Scene((PAIRS, other)), {"a": ChartSettings(minus=Subtrahend("b"))})
    found = scene_arrays(scene, Provenance("Panel"))
    np.testing.assert_array_equal(found["a.values"], VALUES - VALUES.T)
    assert "A − B: both overlap." in str(found["about"])
    assert len(_figure(scene).axes) >= 4  # two matrices and a bar each
