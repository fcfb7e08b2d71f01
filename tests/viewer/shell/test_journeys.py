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
from dgn_engine.scene.elements import Scene
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.viewer.gestures import LEFT, drop, save_export

CORNER = QPoint(50, 50)


def test_a_gate_chip_moved_by_keyboard_permutes_the_gates(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    QTest.keyClick(
        window.run_views.strip.canvas.chips[0],
        Qt.Key.Key_Right,
        Qt.KeyboardModifier.ControlModifier,
    )
    qtbot.waitUntil(lambda: window.run_state.wiring == (1, 0, 2))
    assert [mark.label for mark in window.history.view({}).marks] == ["π"]


def test_a_dropped_checkpoint_becomes_the_feature_network(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    file = tmp_path / "gates.safetensors"
    window.context.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    drop(window, file, CORNER)
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    page = window.inspector.page
    assert isinstance(page, FilePage)
    assert page.listed.fits
    assert window.inspector.isVisible()
    assert window.run_state.regime == "DL"  # nothing has changed yet
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.regime == "FL")
    qtbot.waitUntil(lambda: not window.inspector.isVisible())
    assert "gates.safetensors" in window.notices.recent[-1].text


def test_a_file_that_is_no_checkpoint_is_refused_and_training_goes_on(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    file = tmp_path / "weights.pt"
    file.write_bytes(b"this is no checkpoint")
    drop(window, file, CORNER)
    qtbot.waitUntil(lambda: len(window.notices.recent) > 0)
    notice = window.notices.recent[-1]
    assert notice.kind == "refused"
    assert "weights.pt" in notice.text
    step = window.history.step
    qtbot.waitUntil(lambda: window.history.step > step)


def test_dropping_two_files_is_refused_in_a_notice(viewer: Viewer, tmp_path: Path) -> None:
    drop(viewer.window, tmp_path, CORNER)
    assert "is a folder" in viewer.window.notices.recent[-1].text


@pytest.mark.parametrize("name", ["overlap.svg", "overlap.npz"])
def test_the_panel_in_front_is_exported_where_the_dialog_says(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path, name: str
) -> None:
    window = viewer.window
    host = window.docks.hosts["overlap"]
    qtbot.waitUntil(lambda: isinstance(host.shown(), Scene))
    host.export_requested.emit("overlap")
    save_export(window, tmp_path / name, qtbot)
    assert (tmp_path / name).stat().st_size > 1000
    assert window.context.settings.export_folder == str(tmp_path)
    if name.endswith(".npz"):
        with np.load(tmp_path / name) as arrays:
            assert any(array.shape == (20, 20) for array in arrays.values())


def test_every_panel_in_sight_is_exported_at_once_and_an_empty_one_is_named(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    full = window.docks.visible()
    main = {name for name, host in window.docks.hosts.items() if host.spec.opened}
    assert main - set(full) == {"agreement"}  # nothing is compared
    hosts = [window.docks.hosts[name] for name in full]
    qtbot.waitUntil(lambda: all(isinstance(host.shown(), Scene) for host in hosts))
    window.docks.show("agreement")
    qtbot.waitUntil(lambda: "agreement" in window.docks.visible())
    window.registry["file.export_all"].trigger()
    save_export(window, tmp_path / "all.npz", qtbot)
    written = {path.name for path in tmp_path.glob("all-*.npz")}
    assert written == {f"all-{name}.npz" for name in full}
    assert "Nothing to show in A and B." in window.notices.recent[-1].text


def test_about_this_panel_opens_in_the_inspector_and_escape_closes_it(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    QTest.keyClick(window, Qt.Key.Key_F1)
    assert window.inspector.isVisible()
    QTest.keyClick(window, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.inspector.isVisible())


def test_a_new_run_begins_from_the_form(make_viewer: Callable[..., Viewer], qtbot: QtBot) -> None:
    window = make_viewer(paused=True).window
    first = window.run_state.run
    assert first is not None
    QTest.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert window.inspector.page is window.inspector.run_page
    QTest.mouseClick(window.inspector.run_page.start, LEFT)
    qtbot.waitUntil(lambda: window.run_state.run is not first)
    qtbot.waitUntil(lambda: not window.inspector.isVisible())
