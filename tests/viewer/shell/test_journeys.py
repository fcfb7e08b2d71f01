"""Whole journeys through the real window: swap, permute, drop a checkpoint, export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.files import SaveWeights
from dgn_engine.protocol.training import Rewire, SetLearningRate, SwapRegime, Undo
from dgn_engine.scene.elements import Scene
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.shell.export import capture_panels
from dgn_viewer.window import Window
from tests.viewer.gestures import LEFT, drop_file, save_export

CORNER = QPoint(50, 50)


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


def shown(window: Window) -> str:
    """The path of the file on whose page the inspector is."""
    page = window.inspector.page
    return page.listed.path if isinstance(page, FilePage) else ""


def test_a_dropped_checkpoint_becomes_the_feature_network(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    file = tmp_path / "gates.safetensors"
    window.context.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    other = tmp_path / "other" / file.name  # another one of that name, dropped before
    other.parent.mkdir()
    other.write_bytes(file.read_bytes())
    for path in (other, file):
        drop_file(window, path, CORNER)
        qtbot.waitUntil(lambda path=path: shown(window) == str(path))  # type: ignore[misc]
    page = window.inspector.page
    assert isinstance(page, FilePage)
    assert page.listed.fits
    assert window.inspector.isVisible()
    assert window.run_state.regime == "DL"  # nothing has changed yet
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.regime == "FL")
    qtbot.waitUntil(lambda: not window.inspector.isVisible())
    assert "gates.safetensors" in window.notices.recent_notices[-1].text


def test_every_panel_in_sight_is_exported_at_once_and_an_empty_one_is_named(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    full = window.docks.visible_panels()
    main = {name for name, host in window.docks.hosts.items() if host.spec.opened}
    assert main - set(full) == {"agreement"}  # nothing is compared
    hosts = [window.docks.hosts[name] for name in full]
    qtbot.waitUntil(lambda: all(isinstance(host.shown_content(), Scene) for host in hosts))
    window.docks.show_panel("agreement")
    qtbot.waitUntil(lambda: "agreement" in window.docks.visible_panels())
    window.registry["file.export_all"].trigger()
    save_export(window, tmp_path / "all.npz", qtbot)
    written = {path.name for path in tmp_path.glob("all-*.npz")}
    assert written == {f"all-{name}.npz" for name in full}
    assert "A and B" in window.notices.recent_notices[-1].text


def test_a_new_run_begins_from_the_form_and_a_second_one_after_it(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    page = window.inspector.run_page
    for regime, seed in (("FR-II", 3), ("ReLU", 4)):
        before = window.run_state.run
        QTest.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClick(window.start_card, Qt.Key.Key_7)
        assert window.inspector.page is page
        page.form.fields["gating.regime"].pick_value(regime)  # type: ignore[attr-defined]
        page.form.fields["seed"].setValue(seed)  # type: ignore[attr-defined]
        QTest.mouseClick(page.start, LEFT)
        qtbot.waitUntil(lambda before=before: window.run_state.run is not before)  # type: ignore[misc]
        qtbot.waitUntil(lambda: not window.inspector.isVisible())
        run = window.run_state.run
        assert run is not None
        assert (window.run_state.regime, run.config.seed) == (regime, seed)
        assert window.run_views.toolbar.regime.value == regime
        qtbot.waitUntil(lambda: window.run_state.step > 5)
        assert window.history.view({}).marks == ()


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
        qtbot.waitUntil(lambda: cursor.step is not None and not cursor.is_waiting)
    recorded = RecordedSteps(folder.parent)
    step = recorded.steps[1]
    assert cursor.step == step
    qtbot.waitUntil(lambda: not window.display.stale_panels())
    before = window.run_state.step
    strip, toolbar = window.run_views.strip, window.run_views.toolbar
    assert (toolbar.regime.value, toolbar.learning_rate.value()) == ("DL", 1e-3)
    assert strip.canvas.shown_order == (0, 1, 2)
    assert window.registry["regime.DL"].isChecked()
    assert (window.run_views.status.field_text("regime"), window.inspector.state.regime) == (
        "DL",
        "DL",
    )
    for command in (*live, Undo()):  # one wall for all that changes the run
        window.context.send(command)
    assert [button.text() for button in window.notice_views.line.offer_buttons()] == [
        "Back to live"
    ]
    for name in window.docks.visible_panels():
        assert hosts[name].panel_state() == "past"
        assert hosts[name].footer_text().startswith("looking back · step ")
    frame, shown = recorded.frame_at(step), hosts["gate_maps"].shown_content()
    assert frame is not None
    assert isinstance(shown, Scene)
    large = next(chart for chart in shown.charts if chart.key == "large")
    assert large.matrix is not None
    gates = frame.readings["gates"]
    assert (shown.step, large.matrix.values.tolist()) == (
        gates.step,
        np.asarray(gates.arrays["layer_0"]).tolist(),
    )
    [figure] = capture_panels([hosts["gate_maps"]])
    assert f"step {gates.step:,}" in figure.context.caption
    curves = hosts["training"].shown_content()
    assert isinstance(curves, Scene)
    assert {chart.cursor for chart in curves.charts} == {float(step)}
    qtbot.waitUntil(lambda: window.run_state.step > before)
    assert cursor.step == step
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert cursor.step is None
    assert "Back to live" not in [
        button.text() for button in window.notice_views.line.offer_buttons()
    ]
    assert (toolbar.regime.value, toolbar.learning_rate.value()) == ("FR-II", 0.5)
    assert strip.canvas.shown_order == (1, 0, 2)
    qtbot.waitUntil(lambda: hosts["gate_maps"].panel_state() == "live")
