"""A figure shows the ranges that the screen shows, however they were set."""

from __future__ import annotations

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.figures.figure_style import TEXT, FigureStyle
from dgn_engine.figures.provenance import FigurePanel, Provenance
from dgn_engine.scene.chart_settings import ChartSettings, adjusted
from dgn_engine.scene.elements import Axis, Chart, Curve, Scene
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.plots.scene_view import SceneView
from tests.engine.figures.figure_panels import page
from tests.viewer.seen_charts import visible_range

X = np.arange(0, 3001)
Y = 3.0 / np.sqrt(X + 1.0) + 0.3 * np.random.default_rng(0).random(X.size)
LOSS = Chart(
    "loss",
    "Loss",
    Axis("step", limits=(0.0, 3000.0)),
    Axis(),
    curves=(Curve("train", X, Y, role="muted"),),
)
SETTINGS = (
    ChartSettings(last=200),
    ChartSettings(log_x=True),
    ChartSettings(log_x=True, last=500),
    ChartSettings(log_y=True),
    ChartSettings(y_range=(0.1, 0.7), smoothing=0.9),
    ChartSettings(y_range=(0.1, 0.7), log_y=True),
)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_paper_shows_the_ranges_of_the_screen(settings: ChartSettings, qtbot: QtBot) -> None:
    scene = adjusted(Scene((LOSS,)), {"loss": settings})
    view = SceneView(LIGHT)
    qtbot.addWidget(view)
    view.resize(500, 300)
    view.show_scene(scene)
    figure = page([FigurePanel("panel", scene, Provenance("Panel"))], FigureStyle(TEXT))
    axes = next(one for one in figure.axes if str(one.get_gid()).endswith("loss"))
    for seen, drawn, log in zip(
        visible_range(view, "loss"),
        (axes.get_xlim(), axes.get_ylim()),
        (scene.charts[0].x.log, scene.charts[0].y.log),
        strict=True,
    ):
        np.testing.assert_allclose(seen, np.log10(drawn) if log else drawn, rtol=1e-6, atol=1e-9)
