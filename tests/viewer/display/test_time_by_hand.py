"""Looking back, and drawing an example, by mouse and keys, while a small network trains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot
from safetensors.torch import load_file

from dgn_engine.protocol.files import SaveWeights
from dgn_engine.scene.elements import Scene
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_viewer.application import Viewer
from dgn_viewer.plots.scene_view import SceneView
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def folder_of(tmp_path: Path) -> Path:
    """The run that began first."""
    found = sorted((tmp_path / "home" / "runs").glob("*/frames"), key=lambda one: one.parent.name)
    return found[0].parent


def test_one_scrubs_by_mouse_and_keys_while_training_goes_on(
    on_display: Viewer, user: XUser, qtbot: QtBot, tmp_path: Path
) -> None:
    window = on_display.window
    cursor, slider = window.time.cursor, window.time.bar.slider
    runs = tmp_path / "home" / "runs"
    qtbot.waitUntil(lambda: len(list(runs.glob("*/frames/*"))) >= 4)
    at = window.history.step
    middle = slider.height() // 2
    places = [QPoint(slider.width() * tenth // 10, middle) for tenth in (9, 6, 3)]
    user.drag(slider, *places)
    qtbot.waitUntil(lambda: cursor.step is not None and not cursor.is_waiting)
    recorded = RecordedSteps(folder_of(tmp_path))
    assert cursor.step in recorded.steps
    user.key("Home")
    qtbot.waitUntil(lambda: cursor.step == recorded.steps[0])
    user.key("Right")
    qtbot.waitUntil(lambda: cursor.step == recorded.steps[1])
    qtbot.waitUntil(lambda: not window.display.stale_panels())
    shown, frame = (
        window.docks.hosts["gate_maps"].shown_content(),
        recorded.frame_at(recorded.steps[1]),
    )
    assert isinstance(shown, Scene)
    assert frame is not None
    large = next(chart.matrix for chart in shown.charts if chart.key == "large")
    assert large is not None
    np.testing.assert_array_equal(large.values, frame.readings["gates"].arrays["layer_0"])
    qtbot.waitUntil(lambda: window.history.step > at)  # the run has gone on
    now = window.history.step
    qtbot.waitUntil(lambda: window.history.step > now)
    assert cursor.step == recorded.steps[1]
    user.click(window.run_views.toolbar.regime)  # what held then cannot be changed by hand …
    qtbot.waitUntil(lambda: len(window.notice_views.line.offer_buttons()) == 1)
    said = window.notices.notice_on_show()
    user.key(window.registry["regime.FR-II"].shortcut().toString().lower())  # … nor by keys
    qtbot.waitUntil(lambda: window.notices.notice_on_show() is not said)
    user.press(window.notice_views.line.offer_buttons()[0])
    qtbot.waitUntil(lambda: cursor.step is None)
    assert window.run_state.regime == "DL"
    view = window.docks.hosts["training"].findChild(SceneView)
    assert view is not None
    inside = view.charts.data_rect(view.charts.shown_keys()[0]).center().toPoint()
    user.click(view.chart_viewport(), inside)
    now = window.history.step
    qtbot.waitUntil(lambda: window.history.step > now + 100)  # longer than a double click takes
    assert cursor.step is None
    user.double_click(view.chart_viewport(), inside)
    qtbot.waitUntil(lambda: cursor.step is not None)
    user.key("shift+space")
    qtbot.waitUntil(lambda: cursor.player.is_playing)
    user.key("Escape")
    qtbot.waitUntil(lambda: cursor.step is None)
    assert not cursor.player.is_playing
    assert window.run_state.is_running


def weights(viewer: Viewer, qtbot: QtBot, file: Path) -> dict[str, torch.Tensor]:
    viewer.window.context.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    return load_file(file)


def test_what_a_hand_did_is_undone_with_all_that_was_learnt_since(
    on_display: Viewer, user: XUser, qtbot: QtBot, tmp_path: Path
) -> None:
    window = on_display.window
    user.key("space")
    qtbot.waitUntil(lambda: window.run_state.is_paused)
    before = weights(on_display, qtbot, tmp_path / "before.safetensors")
    chips, canvas = window.run_views.strip.canvas.chips, window.run_views.strip.canvas
    places = [chip.mapTo(canvas, chip.rect().center()) for chip in chips[1:3]]
    user.drag(canvas, places[0], (places[0] + places[1]) / 2, places[1], places[1] + QPoint(1, 0))
    qtbot.waitUntil(lambda: window.run_state.wiring == (0, 2, 1))
    field = window.run_views.toolbar.learning_rate
    user.click(field)
    user.key("ctrl+a")
    user.type("100")
    user.key("Return")
    qtbot.waitUntil(lambda: window.run_state.undo == "learning rate")
    assert window.registry["edit.undo_setting"].isEnabled()
    at = window.run_state.step
    user.key("space")
    qtbot.waitUntil(lambda: window.history.step > at + 20)
    assert any(
        not torch.equal(before[name], tensor)
        for name, tensor in weights(on_display, qtbot, tmp_path / "between.safetensors").items()
    )
    if window.run_state.is_running:
        user.key("space")
        qtbot.waitUntil(lambda: window.run_state.is_paused)
    user.key("ctrl+z")
    qtbot.waitUntil(lambda: window.run_state.undo.startswith("gate order"))
    user.key("ctrl+z")
    qtbot.waitUntil(lambda: window.run_state.undo == "")
    assert window.run_state.wiring == (0, 1, 2)
    settings = window.run_state.settings
    assert settings is not None
    assert settings.learning_rate == field.value() == 1e-3
    after = weights(on_display, qtbot, tmp_path / "after.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
