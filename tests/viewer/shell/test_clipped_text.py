"""No words are cut without saying so in the smallest window, however long names are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QMainWindow, QPushButton
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.protocol.commands import Pause
from dgn_viewer.application import Viewer
from dgn_viewer.scene.elements import Scene
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.elided_label import ElidedLabel
from tests.viewer.conftest import small_run
from tests.viewer.shell.clipped_text import complaints

LONG = "a_class_of_sixty_characters_that_tells_itself_apart_at_its_{}"
PAGES = ("", "run", "about", "runs", "experiment")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Four classes with names of 60 characters, in a folder with a long name."""
    random = np.random.default_rng(0)
    place = tmp_path / "a_folder_of_images_whose_name_is_longer_than_any_toolbar_has_room_for"
    for kind in range(4):
        folder = place / LONG.format(kind)
        folder.mkdir(parents=True)
        for index in range(10):
            pixels = random.integers(0, 255, (8, 8)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{index}.png")
    return place


def _named_like_a_resnet(viewer: Viewer) -> None:
    """As when a file of torchvision is inspected: its layers have its names."""
    window = viewer.window
    run = window.run_state.run
    assert run is not None
    layers = tuple(
        replace(layer, name=f"layer4.{layer.index}.downsample.conv2") for layer in run.layers
    )
    window.on_event(
        replace(run, layers=layers, inspected="resnet18-of-a-very-long-file-name-4f2a.safetensors")
    )


def _open(viewer: Viewer, page: str) -> None:
    window = viewer.window
    match page:
        case "run":
            window.inspector.show_run_settings()
        case "about":
            window.inspector.show_about(window.docks.hosts["spectrum"].spec)
        case "runs":
            window.inspector.show_runs()
        case "experiment":
            name = next(one for one in window.registry if one.startswith("experiment."))
            window.registry[name].trigger()


def test_nothing_is_clipped_with_long_names_in_the_smallest_window(
    make_viewer: Callable[..., Viewer], images: Path, qtbot: QtBot
) -> None:
    config = replace(
        small_run(),
        data=DataConfig(name=f"folder:{images}"),
        net=NetConfig(name="fc", options=(("depth", 18), ("width", 16))),
    )
    viewer = make_viewer(config)
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 20)
    window.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    window.resize(1024, 700)
    for names in (lambda _: None, _named_like_a_resnet):
        names(viewer)
        for page in PAGES:
            window.inspector.leave()
            _open(viewer, page)
            qtbot.wait(60)
            window.display.draw_now()
            window.status.catch_up()
            qtbot.wait(20)
            assert complaints(window) == [], page
            assert (window.width(), window.height()) == (1024, 700), page


def test_no_two_labels_of_neighbouring_matrices_run_together(
    make_viewer: Callable[..., Viewer], images: Path, qtbot: QtBot
) -> None:
    viewer = make_viewer(replace(small_run(), data=DataConfig(name=f"folder:{images}")))
    host = viewer.window.docks.hosts["overlap"]
    viewer.window.docks.toggle_maximised("overlap")
    qtbot.waitUntil(lambda: isinstance(host.shown(), Scene))
    scene = host.shown()
    assert isinstance(scene, Scene)
    ticks = scene.charts[0].x.ticks
    assert ticks is not None
    assert [label for _, label in ticks] == [f"a_cla…ts_{kind}" for kind in range(4)]


def test_a_label_that_is_cut_is_found(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    window.resize(300, 200)
    label = QLabel("some words that do not fit", window)
    label.setGeometry(0, 0, 60, 20)
    raw = QLabel("trace $K^V$", window)
    raw.setGeometry(0, 40, 280, 20)
    box = QComboBox(window)
    box.addItem("an entry that does not fit")
    box.setGeometry(0, 70, 70, 24)
    button = QPushButton("press this long button", window)
    button.setGeometry(0, 100, 50, 24)
    window.show()
    qtbot.waitExposed(window)
    found = complaints(window)
    assert len(found) == 4
    for widget in (label, box, button):
        words = widget.currentText() if isinstance(widget, QComboBox) else widget.text()
        widget.setToolTip(words)
    raw.setText("trace Kᵛ")
    assert complaints(window) == []


def test_a_box_and_a_label_are_cut_in_the_middle_with_the_whole_in_the_tip(qtbot: QtBot) -> None:
    box = ElidedBox("Layer")
    qtbot.addWidget(box)
    box.addItems(["layer 3 ← layer4.1.downsample.conv2", "layer 4"])
    box.resize(110, 24)
    box.show()
    first, _, last = box.shown_text().partition("…")
    assert first
    assert box.currentText().startswith(first)
    assert last
    assert box.currentText().endswith(last)
    assert "layer 3 ← layer4.1.downsample.conv2" in box.toolTip()
    box.setCurrentIndex(1)
    assert box.shown_text() == "layer 4"
    label = ElidedLabel("digits · fc 64×18 · 140,544 weights")
    qtbot.addWidget(label)
    label.say(label.text(), "More", "digits · fc 64×18")
    label.resize(130, 20)
    label.show()
    QApplication.processEvents()
    assert label.shown_text() == "digits · fc 64×18"
    label.resize(60, 20)
    assert "…" in label.shown_text()
    label.resize(400, 20)
    assert label.shown_text() == "digits · fc 64×18 · 140,544 weights"
