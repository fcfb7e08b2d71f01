"""A ResNet dropped on the default run: data chosen in its page, opened, scored, trained on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QScrollArea
from pytestqt.qtbot import QtBot
from torch import nn

from dgn_engine.config import RunConfig
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.training import StartRun
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.window import Window
from tests.engine.importing.torch_networks import narrow_resnet
from tests.image_folders import write_flowers
from tests.viewer.gestures import opened_file

RESNET = FileReading(geometry="torchvision")
LEFT = Qt.MouseButton.LeftButton
DEFAULT = replace(RunConfig(), device="cpu")


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "resnet18.pth"
    network = narrow_resnet("BasicBlock", (2, 2, 2, 2)).float()
    torch.save(network.state_dict(), path)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flowers(tmp_path_factory.mktemp("images"))


def said(window: Window) -> str:
    return window.run_views.banners[0].texts()[0] if window.run_views.banners[0].texts() else ""


def chosen(page: FilePage, images: Path, qtbot: QtBot) -> None:
    """Fill in the folder and the size, and wait for the verdict."""
    section = page.data.section
    section.name.pick("folder")
    qtbot.waitUntil(lambda: page.verdict.text().startswith("No folder is named"))
    section.folder.line.setText(str(images))
    qtbot.waitUntil(page.go.isEnabled)
    section.fields["image_size"].setValue(32)  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: "resized to 32" in page.verdict.text())


def test_a_resnet_opens_from_the_default_run_and_says_how_good_it_is(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, resnet: Path, images: Path
) -> None:
    viewer = make_viewer(DEFAULT)
    window = viewer.window
    page = opened_file(viewer, qtbot, resnet, "network", RESNET)
    chosen(page, images, qtbot)
    assert page.verdict.text().endswith(
        "(shorter side resized to 32, the middle cut out) and has 5 outputs; these data give "
        "3×20×24 and 5 classes."
    )
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.inspected == "resnet18.pth")
    qtbot.waitUntil(lambda: " test examples" in said(window) and "right on" in said(window))
    scored = window.run_state.scored
    assert scored is not None
    assert (scored.examples, scored.total) == (10, 10)
    assert said(window) == (
        "Inspecting resnet18.pth on folder flowers, resized to 32, "
        f"{scored.sentence}, reading: ReLU, as you said – not training"
    )
    label = window.run_views.banners[0]._sides[0][1]
    assert label.shown(10_000) == said(window)
    advance = label.fontMetrics().horizontalAdvance
    known = f"{scored.sentence}, reading: ReLU, as you said – not training"
    whole = f"resnet18.pth on folder flowers, resized to 32, {known}"
    assert label.shown(advance(said(window)) - 1) == whole
    assert label.shown(advance(whole) - 1) == f"resnet18.pth on folder flo…sized to 32, {known}"
    least = f"resnet18.pth on folder flo…sized to 32, {scored.sentence} – not training"
    assert label.shown(advance(least) + 4) == least  # what was said stands in the tip
    qtbot.waitUntil(lambda: {"gates", "overlap"} <= set(window.history.readings))
    # another network, and its accuracy is gone
    window.registry["run.train_on"].trigger()
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert window.run_state.scored is None
    assert window.run_views.banners[0].isHidden()
    assert window.run_state.regime == "ReLU"
    qtbot.waitUntil(lambda: window.run_state.step > 0)
    told = [notice.text for notice in window.notices.recent]
    begins = "This run trains on from the weights of resnet18.pth in ReLU. Its BatchNorm is folded"
    assert any(text.startswith(begins) for text in told)


def test_the_page_of_a_file_with_a_long_name_is_no_wider_than_the_inspector(
    viewer: Viewer, qtbot: QtBot, resnet: Path, tmp_path: Path
) -> None:
    named = (
        tmp_path / "resnet18_trained_on_a_data_set_with_a_long_name_Epoch00000000000000000090.pth"
    )
    named.write_bytes(resnet.read_bytes())
    page = opened_file(viewer, qtbot, named, "network", RESNET)
    qtbot.waitUntil(page.go.isEnabled)
    area = page.parentWidget()
    while not isinstance(area, QScrollArea):
        assert area is not None
        area = area.parentWidget()
    qtbot.waitUntil(lambda: page.width() <= area.viewport().width())
    assert named.name in page.verdict.text()
    assert named.name in page.verdict.accessibleName()


def test_what_cannot_be_trained_on_is_disabled_and_says_why(
    viewer: Viewer, qtbot: QtBot, resnet: Path
) -> None:
    window = viewer.window
    page = opened_file(viewer, qtbot, resnet, "network", RESNET)
    qtbot.waitUntil(page.go.isEnabled)
    assert "its accuracy on them is not known" in page.verdict.text()
    QTest.mouseClick(page.go, LEFT)
    qtbot.waitUntil(lambda: window.run_state.training is not None)
    action = window.registry["run.train_on"]
    assert not action.isEnabled()
    assert "resnet18.pth has 5 outputs; these data need 10." in action.toolTip()
    assert "accuracy n/a: labels of another data set (it has 5 outputs" in said(window)
    window.context.send(StartRun(DEFAULT, paused=True))
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert not action.isEnabled()


def test_a_run_with_biases_takes_the_weights_of_a_file_by_one_button(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    sizes = (64, 16, 16, 16, 10)
    layers = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(sizes)))
    torch.save(layers.state_dict(), tmp_path / "biased.pt")
    window = viewer.window
    page = opened_file(viewer, qtbot, tmp_path / "biased.pt", "weights")
    assert "begin a run with biases" in page.verdict.text()
    QTest.mouseClick(page.with_biases, LEFT)
    qtbot.waitUntil(lambda: window.run_state.undo == "weights of biased.pt")
    assert window.run_state.run is not None
    assert window.run_state.run.config.net.bias
    assert window.inspector.page is None
