"""Defect: a network of a file could be opened only on the data of the run that was there."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot
from torch import nn

from dgn_engine.protocol.files import Purpose
from dgn_viewer.__main__ import first_run
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from tests.engine.importing.torch_networks import narrow_resnet
from tests.viewer.display.conftest import put_in_place
from tests.viewer.display.x_user import XUser

pytestmark = pytest.mark.display


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights of a ResNet-18 with five outputs, as torchvision names them."""
    path = tmp_path_factory.mktemp("files") / "resnet18.pth"
    torch.save(narrow_resnet("BasicBlock", (2, 2, 2, 2)).float().state_dict(), path)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five classes of ten coloured images."""
    top = tmp_path_factory.mktemp("images")
    draw = np.random.default_rng(5)
    for name in ("aster", "daisy", "lily", "rose", "tulip"):
        (top / name).mkdir()
        for number in range(10):
            pixels = draw.integers(0, 256, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(top / name / f"{number}.png")
    return top


def dropped(viewer: Viewer, user: XUser, qtbot: QtBot, file: Path, purpose: Purpose) -> FilePage:
    """The page of a file that was dropped on the zone of this use."""
    window = viewer.window
    zone = window.files.drops.overlay.room_of(purpose).center().toPoint()
    user.drag_file(file, window, zone)
    qtbot.waitUntil(lambda: isinstance(window.inspector.page, FilePage))
    page = window.inspector.page
    assert isinstance(page, FilePage)
    assert page.purpose == purpose
    qtbot.waitUntil(page.isVisible)
    return page


def test_a_resnet_dropped_on_the_default_run_is_opened_scored_and_trained_on_by_hand(
    make_viewer: Callable[..., Viewer], user: XUser, qtbot: QtBot, resnet: Path, images: Path
) -> None:
    viewer = make_viewer(replace(first_run(), device="cpu"), home="home")
    window = viewer.window
    put_in_place(window, user, qtbot)
    page = dropped(viewer, user, qtbot, resnet, "network")
    user.press(page.reading.convolutions)
    user.type("torchvision\t")
    qtbot.waitUntil(lambda: page.listed.questions == ())
    section = page.data.section
    user.press(section.name)
    user.type("Folder")  # the list goes to what is typed
    user.key("Return")
    assert section.name.value() == "folder"
    user.press(section.folder.line)
    user.type(str(images))
    size = section.fields["image_size"]
    user.press(size)
    user.key("ctrl+a")
    user.type("32\t")
    qtbot.waitUntil(lambda: "resized to 32" in page.verdict.text())
    user.press(page.go)
    qtbot.waitUntil(lambda: window.run_state.inspected == "resnet18.pth")
    banner = window.run_views.banners[0]

    def is_scored() -> bool:
        scored, said = window.run_state.scored, " ".join(banner.texts())
        return scored is not None and scored.examples == scored.total and scored.sentence in said

    qtbot.waitUntil(is_scored)
    assert "10 test examples" in banner.texts()[0]
    # what it was opened for: kernels of it
    qtbot.waitUntil(lambda: {"gates", "overlap"} <= set(window.history.readings))
    train_on: QToolButton = banner.buttons["run.train_on"]
    user.press(train_on)
    qtbot.waitUntil(lambda: window.run_state.has_run and window.run_state.step > 0)
    assert window.run_state.regime == "ReLU"
    assert window.run_state.inspected == ""


def test_a_file_with_biases_dropped_on_a_run_without_is_taken_by_one_button(
    on_display: Viewer, user: XUser, qtbot: QtBot, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    sizes = (64, 16, 16, 16, 10)
    layers = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(sizes)))
    torch.save(layers.state_dict(), tmp_path / "biased.pt")
    window = on_display.window
    page = dropped(on_display, user, qtbot, tmp_path / "biased.pt", "weights")
    assert page.go.isHidden()
    user.press(page.with_biases)
    qtbot.waitUntil(lambda: window.run_state.undo == "weights of biased.pt")
    assert window.run_state.run is not None
    assert window.run_state.run.config.net.bias
    assert window.inspector.page is None
