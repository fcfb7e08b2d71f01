"""In the whole window no words are cut without saying so, none overlap, everything has a name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QMainWindow, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.protocol.files import OpenFile, SaveWeights
from dgn_engine.protocol.training import Pause, Rewire, SwapRegime
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.inspector_column import LEAST_WIDTH
from dgn_viewer.widgets.elided_box import ElidedBox
from dgn_viewer.widgets.elided_label import ElidedLabel
from tests.viewer.conftest import small_run
from tests.viewer.gestures import open_file_page
from tests.viewer.shell.clipped_text import complaints
from tests.viewer.shell.painted_text import (
    PaintedTexts,
    painted_complaints,
    recorded_texts,
)
from tests.viewer.shell.window_views import (
    View,
    explanations,
    layouts,
    leave,
    pages,
    panels,
    tours,
    windows,
)

LONG = "a_class_of_sixty_characters_that_tells_itself_apart_at_its_{}"
SCROLL_BAR = 12  # pixels beside a page that is higher than the column
SIZES = ((1024, 700), (1280, 800), (1440, 900), (1920, 1200))


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


def _seen(viewer: Viewer, qtbot: QtBot, texts: PaintedTexts, root: QWidget) -> list[str]:
    """What is wrong with what the window shows now."""
    window = viewer.window
    for _ in range(2):  # what is drawn first may change the room that there is
        QApplication.processEvents()
        window.display.draw_now()
    window.run_views.status.write_now()
    QApplication.processEvents()
    for _ in range(3):  # the last frame changed texts, and their layouts are to follow
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
    texts.clear()
    root.grab()
    return [*complaints(root), *painted_complaints(texts)]


def _walk(
    viewer: Viewer,
    qtbot: QtBot,
    texts: PaintedTexts,
    shown: Iterable[View],
    sizes: Iterable[tuple[int, int]],
) -> dict[str, list[str]]:
    """What is wrong with each view at each size; views and sizes without a fault are left out."""
    window, found = viewer.window, dict[str, list[str]]()
    for name, show in shown:
        for size in sizes:
            window.resize(*size)
            root = show()
            wrong = _seen(viewer, qtbot, texts, root if isinstance(root, QWidget) else window)
            page = window.inspector.page
            if page is not None and page.minimumSizeHint().width() > LEAST_WIDTH - SCROLL_BAR:
                wrong.append("the page does not fit the narrowest column")
            if (window.width(), window.height()) != size:
                wrong.append(f"the window is {window.width()} × {window.height()}")
            if wrong:
                found[f"{name}, {size[0]} × {size[1]}"] = wrong
        leave(window)
    return found


def _with_a_past(viewer: Viewer, qtbot: QtBot) -> None:
    """A run whose gates and regime were changed, paused: events in every lane."""
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 20)
    window.context.send(Rewire((1, 0, 2)))
    qtbot.waitUntil(lambda: window.run_state.wiring == (1, 0, 2))
    window.context.send(SwapRegime("FR-II"))
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")


def test_nothing_is_cut_nothing_overlaps_and_everything_has_a_name(
    viewer: Viewer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_a_past(viewer, qtbot)
    window = viewer.window
    with recorded_texts(monkeypatch) as texts:
        for shown in (
            layouts(window),
            panels(window),
            pages(window),
            windows(window),
            tours(window),
        ):
            assert _walk(viewer, qtbot, texts, shown, SIZES[:1]) == {}


@pytest.mark.faults
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_is_cut_at_any_size(
    viewer: Viewer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    _with_a_past(viewer, qtbot)
    window = viewer.window
    window.context.theme.select_theme(theme, keep=False)
    with recorded_texts(monkeypatch) as texts:
        for views in (layouts, panels, pages, explanations, windows, tours):
            assert _walk(viewer, qtbot, texts, views(window), SIZES) == {}


@pytest.mark.faults
def test_nothing_is_cut_at_twice_the_scale() -> None:
    """The scale of a screen is fixed for the life of a process."""
    name = test_nothing_is_cut_nothing_overlaps_and_everything_has_a_name.__name__
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", __file__, "-k", name],
        env=os.environ | {"QT_SCALE_FACTOR": "2"},
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.nightly
def test_an_open_file_a_comparison_and_recorded_runs_are_not_cut(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    viewer = make_viewer(home="recorded_runs")
    _with_a_past(viewer, qtbot)
    window, file = viewer.window, tmp_path / "weights_of_an_early_step.safetensors"
    window.context.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    window.context.send(OpenFile(str(file), "compare"))
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    runs = window.runs.rail.table.model()
    window.runs.open()
    qtbot.waitUntil(lambda: runs.rowCount() > 0)
    QApplication.processEvents()  # the panels of a comparison are laid out by now
    shown: list[View] = [
        ("comparison", lambda: None),
        ("runs", window.runs.make_wide),
        ("compare", window.pages.open_differences),
    ]
    with recorded_texts(monkeypatch) as texts:
        assert _walk(viewer, qtbot, texts, shown, SIZES[:1]) == {}
        open_file_page(viewer, qtbot, file, "gates")
        assert _walk(viewer, qtbot, texts, [("file", lambda: None)], SIZES[:1]) == {}


@pytest.mark.nightly
def test_long_names_are_shortened_with_the_whole_in_a_tip(
    make_viewer: Callable[..., Viewer],
    images: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = replace(
        small_run(),
        data=DataConfig(name=f"folder:{images}"),
        net=NetConfig(name="fc", options=(("depth", 18), ("width", 16))),
    )
    viewer = make_viewer(config)
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 20)
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    with recorded_texts(monkeypatch) as texts:
        for names in (lambda _: None, _named_like_a_resnet):
            names(viewer)
            shown = [("window", lambda: None), *islice(pages(window), 2)]
            assert _walk(viewer, qtbot, texts, shown, SIZES[:1]) == {}


def test_a_label_that_is_cut_is_found(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    window.resize(300, 200)
    label = QLabel("some words that do not fit", window)
    label.setGeometry(0, 0, 60, 20)
    raw = QLabel("trace $K^V$", window)
    raw.setGeometry(0, 40, 280, 20)
    box = QComboBox(window)
    box.setAccessibleName("An entry")
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
    label.show_text(label.text(), "More", "digits · fc 64×18")
    label.resize(130, 20)
    label.show()
    QApplication.processEvents()
    assert label.shown_text() == "digits · fc 64×18"
    label.resize(60, 20)
    assert "…" in label.shown_text()
    label.resize(400, 20)
    assert label.shown_text() == "digits · fc 64×18 · 140,544 weights"
