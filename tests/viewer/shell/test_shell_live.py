"""The window watches training and does not touch it: neither its numbers nor, much, its pace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot
from safetensors.numpy import load_file

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.commands import Advance, SaveWeights, StartRun, Watch
from dgn_engine.protocol.events import Event, Paused, WeightsSaved
from dgn_engine.session.thread_session import ThreadSession
from dgn_viewer.application import Viewer

PATIENCE = 150.0  # seconds, on a busy machine


def run(pace: float) -> RunConfig:
    return RunConfig(
        data=DataConfig(name="digits"),
        net=NetConfig(name="fc", options=(("depth", 4), ("width", 16))),
        gating=GatingConfig(regime="DL"),
        training=TrainingConfig(learning_rate=1e-3, epochs=0, pace=pace),
        device="cpu",
        probe_examples=20,
    )


def weights_without_a_viewer(path: Path, steps: int) -> dict[str, bytes]:
    session = ThreadSession()
    session.start()
    try:
        for command in (
            Watch(()),
            StartRun(run(0.0), paused=True),
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
    deadline = time.monotonic() + 150.0
    while time.monotonic() < deadline:
        events = session.drain()
        if any(wanted(event) for event in events):
            return
        time.sleep(0.01)
    raise AssertionError("the engine did not say what was waited for")


def test_weights_are_bit_identical_with_and_without_the_window(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    alone = weights_without_a_viewer(tmp_path / "alone.safetensors", 300)
    window = make_viewer(run(0.0), paused=True).window
    window.send(Advance(150))
    qtbot.waitUntil(lambda: window.run_state.step == 150)
    window.docks.toggle("ntk")
    window.docks.hosts["gate_maps"].set_choice("layer", "1")
    window.send(Advance(150))
    qtbot.waitUntil(lambda: window.run_state.step == 300)
    saved: list[Event] = []
    window.event_taken.connect(lambda event, _state: saved.append(event))
    window.send(SaveWeights(str(tmp_path / "watched.safetensors")))
    qtbot.waitUntil(lambda: any(isinstance(event, WeightsSaved) for event in saved))
    assert tensors(tmp_path / "watched.safetensors") == alone
    assert sum("weights" in name for name in alone) == 8  # four layers of two networks


def test_the_engine_trains_on_while_the_window_is_frozen(
    make_viewer: Callable[..., Viewer], qtbot: QtBot
) -> None:
    viewer = make_viewer(run(100.0))
    window, engine = viewer.window, viewer.engine
    assert isinstance(engine, ThreadSession)
    qtbot.waitUntil(lambda: window.history.step > 50)
    shown = window.history.step
    reached, deadline = shown, time.monotonic() + PATIENCE
    while reached < shown + 200 and time.monotonic() < deadline:  # no event is processed here
        frame = engine._mailbox._frame
        reached = reached if frame is None else frame.step
        time.sleep(0.01)
    assert reached >= shown + 200
    assert window.history.step == shown
    qtbot.waitUntil(lambda: window.history.step >= reached)


def test_weights_are_saved_through_the_dialog(viewer: Viewer, qtbot: QtBot, tmp_path: Path) -> None:
    window = viewer.window
    window.registry["file.save_weights"].trigger()
    dialog = window.findChild(QFileDialog)
    assert isinstance(dialog, QFileDialog)
    dialog.fileSelected.emit(str(tmp_path / "w.safetensors"))
    dialog.reject()
    qtbot.waitUntil(lambda: (tmp_path / "w.safetensors").exists())
    qtbot.waitUntil(lambda: "w.safetensors" in "".join(n.text for n in window.notices.recent))


def test_the_configuration_is_saved_as_the_dials_stand(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    window.registry["regime.FR-II"].trigger()
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    window.registry["file.save_configuration"].trigger()
    dialog = window.findChild(QFileDialog)
    assert isinstance(dialog, QFileDialog)
    dialog.fileSelected.emit(str(tmp_path / "run.toml"))
    dialog.reject()
    saved = RunConfig.from_file(tmp_path / "run.toml")
    assert saved.gating.regime == "FR-II"
    assert saved.training.pace == 200.0
    assert window.settings.export_folder == str(tmp_path)


def program(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[3]
    paths = os.pathsep.join(str(root / part) for part in (".", "app", "resources"))
    return subprocess.Popen(
        [sys.executable, "-m", "dgn_viewer", *arguments],
        env={**os.environ, "PYTHONPATH": paths, "HOME": str(folder), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_program_without_a_display_saves_picture_and_facts(tmp_path: Path) -> None:
    picture = tmp_path / "shot.png"
    process = program(
        "--offscreen", "--steps", "120", "--screenshot", str(picture), folder=tmp_path
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
    ("library", "seconds"), [("QtCore", 0.0), ("libtorch_cpu", 0.0), ("libtorch_cpu", 5.0)]
)
@pytest.mark.skipif(sys.platform != "linux", reason="what is loaded is read in /proc")
def test_ctrl_c_ends_the_program_without_a_traceback(
    tmp_path: Path, library: str, seconds: float
) -> None:
    """At any moment: while Qt is loaded, while torch is, and some seconds later, in training."""
    picture = tmp_path / "shot.png"
    process = program(
        "--offscreen", "--steps", "9999999", "--screenshot", str(picture), folder=tmp_path
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
