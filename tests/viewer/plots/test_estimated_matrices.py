"""An estimated matrix has a corner on the screen, and an exact one has none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Axis, Chart, Matrix, Scene
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.plots.scene_view import SceneView

VALUES = np.random.default_rng(0).random((5, 5))
PAIR = tuple(
    Chart(
        key,
        key,
        Axis(),
        Axis(),
        matrix=Matrix(key, VALUES, "sequential", 0.0, 1.0, "overlap", "example", "example"),
        square=True,
        column=column,
    )
    for column, key in enumerate(("active", "sensitive"))
)


def drawn(estimated: bool) -> Scene:
    """Two matrices side by side, both estimates or both exact."""
    return Scene(
        tuple(
            replace(one, matrix=replace(one.matrix, estimated=estimated))
            for one in PAIR
            if one.matrix is not None
        )
    )


def test_the_corner_is_drawn_and_goes_with_the_exact_kernel(qtbot: QtBot) -> None:
    view = SceneView(LIGHT)
    qtbot.addWidget(view)
    view.resize(640, 340)
    pictures = []
    for estimated in (False, True, False):
        view.show_scene(drawn(estimated))
        pictures.append(view.grab().toImage())
    assert pictures[0] == pictures[2]
    first, second = pictures[0], pictures[1]
    differing = [
        (x, y)
        for x in range(first.width())
        for y in range(first.height())
        if QColor(first.pixel(x, y)) != QColor(second.pixel(x, y))
    ]
    assert 60 < len(differing) < 2 * 20 * 20  # two small corners
