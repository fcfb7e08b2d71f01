"""The window watches training and changes neither its numbers nor its progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot
from safetensors.numpy import load_file

from dgn_engine.config import DataConfig
from dgn_engine.confinement import child_process
from dgn_engine.confinement.child_process import ChildProcess
from dgn_engine.protocol.files import SaveWeights, WeightsSaved
from dgn_engine.protocol.messages import Event, Refused
from dgn_engine.protocol.training import Advance, Paused, Resume, StartRun
from dgn_engine.protocol.watching import Watch
from dgn_engine.session.thread_session import ThreadSession
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer
from tests.viewer.conftest import Begin, small_run
from tests.viewer.gestures import answer_dialog, start_python

PATIENCE = 150.0  # seconds, on a busy machine
PROGRAM = ("-m", "dgn_viewer", "--offscreen")


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


def weights_without_a_viewer(path: Path, steps: int) -> dict[str, bytes]:
    session = ThreadSession()
    session.start()
    try:
        for command in (
            Watch(()),
            StartRun(small_run(pace=0.0), paused=True),
            Advance(steps),
        ):
            session.send(command)
        wait_for(session, lambda event: isinstance(event, Paused) and event.step == steps)
        session.send(SaveWeights(str(path)))
        wait_for(session, lambda event: isinstance(event, WeightsSaved))
    finally:
        assert session.close(60.0)
    return tensors(path)


def tensors(path: Path) -> dict[str, bytes]:
    """Bytes of each tensor; the header's metadata has no order of its own."""
    return {name: array.tobytes() for name, array in load_file(path).items()}


def wait_for(session: ThreadSession, wanted: Callable[[Event], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        events = session.drain_events()
        if any(wanted(event) for event in events):
            return
        time.sleep(0.01)
    raise AssertionError("the engine did not say what was waited for")


def test_weights_are_bit_identical_with_and_without_the_window(
    begin_run: Begin, qtbot: QtBot, tmp_path: Path
) -> None:
    alone = weights_without_a_viewer(tmp_path / "alone.safetensors", 300)
    window = begin_run(small_run(pace=0.0), paused=True).window
    window.context.send(Advance(150))
    qtbot.waitUntil(lambda: window.run_state.step == 150)
    window.docks.toggle_panel("ntk")
    window.docks.hosts["gate_maps"].set_choice("layer", "1")
    window.context.send(Advance(150))
    qtbot.waitUntil(lambda: window.run_state.step == 300)
    saved: list[Event] = []
    window.event_taken.connect(lambda event, _state: saved.append(event))
    window.context.send(SaveWeights(str(tmp_path / "watched.safetensors")))
    qtbot.waitUntil(lambda: any(isinstance(event, WeightsSaved) for event in saved))
    assert tensors(tmp_path / "watched.safetensors") == alone
    assert sum("weights" in name for name in alone) == 8  # four layers of two networks


def test_weights_are_saved_through_the_dialog(viewer: Viewer, qtbot: QtBot, tmp_path: Path) -> None:
    window = viewer.window
    window.registry["file.save_weights"].trigger()
    answer_dialog(window, tmp_path / "w.safetensors")
    qtbot.waitUntil(lambda: (tmp_path / "w.safetensors").exists())
    qtbot.waitUntil(
        lambda: "w.safetensors" in "".join(n.text for n in window.notices.recent_notices)
    )


def test_the_configuration_is_saved_as_the_dials_stand(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    window.registry["regime.FR-II"].trigger()
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    window.registry["file.save_configuration"].trigger()
    answer_dialog(window, tmp_path / "run.toml")
    saved = read_config(tmp_path / "run.toml")
    assert saved.gating.regime == "FR-II"
    assert saved.training.pace == 200.0
    assert window.context.settings.export_folder == str(tmp_path)


def test_the_program_without_a_display_saves_picture_and_facts(tmp_path: Path) -> None:
    picture = tmp_path / "shot.png"
    process = start_python(
        *PROGRAM, "--steps", "120", "--screenshot", str(picture), folder=tmp_path
    )
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert errors == ""
    assert said == f"{picture}: step 120, facts in shot.json\n"
    assert QImage(str(picture)).width() == 1440
    facts = json.loads(picture.with_suffix(".json").read_text())
    assert facts["step"] == 120
    assert len(facts["panels"]) >= 5
    for name, panel in facts["panels"].items():
        assert panel["step"] >= 100, name
        assert panel["drawn"], name
        assert all(thing["finite"] for thing in panel["drawn"].values()), name
        assert not all(thing["constant"] for thing in panel["drawn"].values()), name


def mapped(process: subprocess.Popen[str], library: str) -> bool:
    return library in Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.parametrize(
    ("library", "seconds"),
    [
        pytest.param("QtCore", 0.0, marks=pytest.mark.nightly),
        ("libtorch_cpu", 0.0),
        pytest.param("libtorch_cpu", 5.0, marks=pytest.mark.faults),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="what is loaded is read in /proc")
def test_ctrl_c_ends_the_program_without_a_traceback(
    tmp_path: Path, library: str, seconds: float
) -> None:
    """At any moment: while Qt is loaded, while torch is, and some seconds later, in training."""
    picture = tmp_path / "shot.png"
    process = start_python(
        *PROGRAM, "--steps", "9999999", "--screenshot", str(picture), folder=tmp_path
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not mapped(process, library):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert not picture.exists()


def test_panels_status_bar_and_time_bar_say_the_same_step(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    said: list[tuple[int, str, str]] = []

    def note(step: int) -> None:
        slider = window.time.bar.slider.accessibleDescription()
        said.append((step, window.run_views.status.field_text("step"), slider))

    window.display.drawn.connect(note)
    qtbot.waitUntil(lambda: len(said) > 12)
    steps = [int(words.removeprefix("step ").replace(",", "")) for _, words, _ in said]
    assert all(drawn <= step for step, (drawn, _, _) in zip(steps, said, strict=True))
    assert all(slider == f"live, {words}" for _, words, slider in said)


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
    viewer: Viewer,
    qtbot: QtBot,
    large_folder: Path,
    children: list[int],
    tmp_path: Path,
) -> None:
    window = viewer.window
    heard: list[Event] = []
    window.event_taken.connect(lambda event, _state: heard.append(event))
    wanted = replace(small_run(), data=DataConfig(name=f"folder:{large_folder}"))
    window.context.send(StartRun(wanted))
    cancel = window.run_views.status.findChild(QPushButton, "cancel_loading")
    qtbot.waitUntil(lambda: len(children) > 1 and cancel.isVisible())
    assert all(map(alive, children[-1:]))
    qtbot.mouseClick(cancel, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "cancelled" in [e.kind for e in heard if isinstance(e, Refused)])
    assert not any(map(alive, children))
    before = window.run_state.step
    qtbot.waitUntil(lambda: window.history.step > before)
    config = window.run_state.current_config()
    assert config is not None
    assert config.data.name == "digits"
    assert not cancel.isVisible()
    assert not list((tmp_path / "cache").rglob("*.npz"))


def test_a_run_trains_to_its_end_while_the_window_is_frozen(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    window = make_viewer(small_run(epochs=3), paused=True, home="home").window
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    runs = tmp_path / "home" / "runs"
    qtbot.waitUntil(lambda: [path for path in runs.glob("[!.]*") if path.is_dir()] != [])
    (folder,) = [path for path in runs.glob("[!.]*") if path.is_dir()]
    window.context.send(Resume())
    deadline = time.monotonic() + PATIENCE
    while RunReader(folder).outcome != "finished":  # no event reaches the window meanwhile
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (window.run_state.phase, window.history.step) == ("paused", 0)
    qtbot.waitUntil(lambda: window.run_state.phase == "finished")
