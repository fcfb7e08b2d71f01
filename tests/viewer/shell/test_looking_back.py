"""The whole window looks back while the run trains on: what is shown is what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.training import Rewire, SetLearningRate, SwapRegime, Undo
from dgn_engine.scene.elements import Scene
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_viewer.application import Viewer
from dgn_viewer.shell.export import captured


def test_all_panels_show_a_recorded_step_while_training_goes_on(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    window = make_viewer(home="a").window
    runs = tmp_path / "a" / "runs"
    qtbot.waitUntil(lambda: len(list(runs.glob("*/frames/*.safetensors"))) >= 3)
    [folder] = runs.glob("*/frames")
    cursor, hosts = window.time.cursor, window.docks.hosts
    live = SwapRegime("FR-II"), Rewire((1, 0, 2)), SetLearningRate(0.5)
    for command in live:
        window.context.send(command)
    qtbot.waitUntil(lambda: window.run_views.toolbar.learning_rate.value() == 0.5)
    window.setFocus()
    for key in (Qt.Key.Key_Home, Qt.Key.Key_Right):
        QTest.keyClick(window, key)
        qtbot.waitUntil(lambda: cursor.step is not None and not cursor.waiting)
    recorded = RecordedSteps(folder.parent)
    step = recorded.steps[1]
    assert cursor.step == step
    qtbot.waitUntil(lambda: not window.display.stale())
    before = window.run_state.step
    strip, toolbar = window.run_views.strip, window.run_views.toolbar
    assert (toolbar.regime.value, toolbar.learning_rate.value()) == ("DL", 1e-3)
    assert strip.canvas.shown_order == (0, 1, 2)
    assert window.registry["regime.DL"].isChecked()
    assert (window.run_views.status.text("regime"), window.inspector.state.regime) == ("DL", "DL")
    for command in (*live, Undo()):  # one wall for all that changes the run
        window.context.send(command)
    assert [button.text() for button in window.notice_views.line.offers()] == ["Back to live"]
    for name in window.docks.visible():
        assert hosts[name].state() == "past"
        assert hosts[name].footer().startswith("looking back · step ")
    frame, shown = recorded.at(step), hosts["gate_maps"].shown()
    assert frame is not None
    assert isinstance(shown, Scene)
    large = next(chart for chart in shown.charts if chart.key == "large")
    assert large.matrix is not None
    gates = frame.readings["gates"]
    assert (shown.step, large.matrix.values.tolist()) == (
        gates.step,
        np.asarray(gates.arrays["layer_0"]).tolist(),
    )
    [figure] = captured([hosts["gate_maps"]])
    assert f"step {gates.step:,}" in figure.context.caption
    curves = hosts["training"].shown()
    assert isinstance(curves, Scene)
    assert {chart.cursor for chart in curves.charts} == {float(step)}
    qtbot.waitUntil(lambda: window.run_state.step > before)
    assert cursor.step == step
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert cursor.step is None
    assert "Back to live" not in [button.text() for button in window.notice_views.line.offers()]
    assert (toolbar.regime.value, toolbar.learning_rate.value()) == ("FR-II", 0.5)
    assert strip.canvas.shown_order == (1, 0, 2)
    qtbot.waitUntil(lambda: hosts["gate_maps"].state() == "live")
