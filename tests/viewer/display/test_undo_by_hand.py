"""Ctrl+Z after a gate that was dragged and a learning rate that was typed: the run of before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot
from safetensors.torch import load_file

from dgn_engine.protocol.files import SaveWeights
from dgn_viewer.application import Viewer
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


def weights(viewer: Viewer, qtbot: QtBot, file: Path) -> dict[str, torch.Tensor]:
    viewer.window.context.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    return load_file(file)


def test_what_a_hand_did_is_undone_with_all_that_was_learnt_since(
    on_display: Viewer, user: XUser, qtbot: QtBot, tmp_path: Path
) -> None:
    window = on_display.window
    user.key("space")
    qtbot.waitUntil(lambda: window.run_state.paused)
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
    if window.run_state.running:
        user.key("space")
        qtbot.waitUntil(lambda: window.run_state.paused)
    user.key("ctrl+z")
    qtbot.waitUntil(lambda: window.run_state.undo == "order of the gate layers")
    user.key("ctrl+z")
    qtbot.waitUntil(lambda: window.run_state.undo == "")
    assert window.run_state.wiring == (0, 1, 2)
    settings = window.run_state.settings
    assert settings is not None
    assert settings.learning_rate == field.value() == 1e-3
    after = weights(on_display, qtbot, tmp_path / "after.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
