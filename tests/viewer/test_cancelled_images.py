"""A folder of images that takes long to decode is given up from the window: its children end."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig
from dgn_engine.confinement import child_process
from dgn_engine.confinement.child_process import ChildProcess
from dgn_engine.protocol.messages import Event, Refused
from dgn_engine.protocol.training import StartRun
from dgn_viewer.application import Viewer
from tests.viewer.conftest import small_run

SIDE, EACH = 1000, 500  # a thousand million pixels of noise: nobody decodes them in a moment


@pytest.fixture
def large_folder(tmp_path: Path) -> Path:
    """Two classes of many names of one large image each."""
    noise = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE), np.uint8)
    for number, name in enumerate("ab"):
        place = tmp_path / "images" / name
        place.mkdir(parents=True)
        Image.fromarray(noise + np.uint8(number)).save(place / "0.png", compress_level=1)
        for other in range(1, EACH):
            os.link(place / "0.png", place / f"{other}.png")
    return tmp_path / "images"


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Process numbers of all children that images are given to; nothing is cached for others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    started: list[int] = []

    class Noted(ChildProcess):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named)  # type: ignore[arg-type] # as it came
            started.append(self.pid)

    monkeypatch.setattr(child_process, "ChildProcess", Noted)
    return started


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_cancelling_a_folder_ends_its_children_and_the_run_before_it_goes_on(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    large_folder: Path,
    children: list[int],
    tmp_path: Path,
) -> None:
    window = make_viewer().window
    heard: list[Event] = []
    window.event_taken.connect(lambda event, _state: heard.append(event))
    wanted = replace(small_run(), data=DataConfig(name=f"folder:{large_folder}"))
    window.context.send(StartRun(wanted))
    cancel = window.run_views.status.findChild(QPushButton, "cancel_loading")
    qtbot.waitUntil(lambda: len(children) > 1 and cancel.isVisible())
    assert all(map(alive, children[-1:]))
    qtbot.mouseClick(cancel, Qt.MouseButton.LeftButton)
    refused = Refused("start this run", "Reading the data was cancelled.")
    qtbot.waitUntil(lambda: refused in heard)
    assert not any(map(alive, children))
    before = window.run_state.step
    qtbot.waitUntil(lambda: window.history.step > before)
    config = window.run_state.current_config()
    assert config is not None
    assert config.data.name == "digits"
    assert not cancel.isVisible()
    assert not list((tmp_path / "cache").rglob("*.npz"))
