"""Fixtures of the viewer's tests: the real window on the real session, and leak detectors."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QTimer
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import (
    DataConfig,
    GatingConfig,
    NetConfig,
    RunConfig,
    TrainingConfig,
)
from dgn_engine.protocol.files import SaveWeights
from dgn_engine.protocol.messages import Command
from dgn_viewer.application import GuiGarbageCollector, Options, Viewer
from dgn_viewer.pump import EngineClient
from tests.engine.panel_views import compared, grown, make_view

__all__ = ["compared", "grown", "make_view"]

PATIENCE_MS = 150_000  # on a busy machine; torch is loaded by the first session of the process


def small_run(regime: str = "DL", pace: float = 200.0, epochs: int = 0) -> RunConfig:
    """Digits in a network of 16 units and three gate layers: a step takes a millisecond."""
    return RunConfig(
        data=DataConfig(name="digits"),
        net=NetConfig(name="fc", options=(("depth", 4), ("width", 16))),
        gating=GatingConfig(regime=regime),
        training=TrainingConfig(learning_rate=1e-3, batch=32, epochs=epochs, pace=pace),
        device="cpu",
        probe_examples=20,
    )


def _top_level() -> set[QWidget]:
    return set(QApplication.topLevelWidgets())


def _settle() -> None:
    """Let everything that was told to go, go."""
    for _ in range(3):
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QCoreApplication.processEvents()
    gc.collect()


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No thread, no running timer and no top-level widget outlives a test."""
    if "qapp" not in request.fixturenames:
        yield
        return
    threads = set(threading.enumerate())
    widgets = _top_level()
    gc.freeze()  # collecting afterwards looks only at what the test has made
    yield
    _settle()
    gc.unfreeze()
    left = {t.name for t in set(threading.enumerate()) - threads if not t.daemon}
    left |= {t.name for t in set(threading.enumerate()) - threads if t.name == "dgn-engine"}
    assert not left, f"threads left: {left}"
    assert not (_top_level() - widgets), f"widgets left: {_top_level() - widgets}"


def running_timers() -> list[QTimer]:
    """Timers made in Python since the last `gc.freeze` that still tick."""
    return [item for item in gc.get_objects() if issubclass(type(item), QTimer) and _ticks(item)]


def _ticks(timer: QTimer) -> bool:
    try:
        return timer.isActive()
    except RuntimeError:  # its C++ half is gone
        return False


class PatientQtBot(QtBot):
    """Waits for a fact as long as a busy machine may need; no test is decided by the time."""

    def waitUntil(self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS) -> None:
        super().waitUntil(callback, timeout=timeout)


@pytest.fixture
def qtbot(qapp: QApplication, request: pytest.FixtureRequest) -> QtBot:
    return PatientQtBot(request)


@pytest.fixture
def sent() -> list[Command]:
    """What a part of the window asked the engine for."""
    return []


@pytest.fixture
def make_viewer(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Viewer]]:
    """Builds the real window with the real session, waits for its run, and ends it afterwards."""
    # What was there is spared below; the window itself is to be collected after its test.
    monkeypatch.setattr(GuiGarbageCollector, "spare_what_is_there", lambda _: None)
    made: list[Viewer] = []

    def make(
        config: RunConfig | None = None,
        paused: bool = False,
        home: str = "",
        process: bool = False,
        engine: EngineClient | None = None,
    ) -> Viewer:
        """`home`: a folder of its own for settings and recorded runs."""
        folder = tmp_path / home
        folder.mkdir(exist_ok=True)
        options = Options(
            config or small_run(),
            theme="light",
            size=(1440, 900),
            settings=folder / "settings.ini",
            paused=paused,
            process=process,
            runs_root=str(folder / "runs") if home else "",
        )
        viewer = Viewer(options, engine)
        made.append(viewer)
        viewer.start()
        qtbot.waitUntil(lambda: viewer.window.run_state.has_run)
        return viewer

    gc.freeze()  # what is there already (torch) is not looked at again: ten times faster
    yield make
    ended = [viewer.close(patience=60.0) for viewer in made]
    made.clear()
    _settle()
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    application.setStyleSheet("")  # now that there is no widget to be styled anew
    assert all(ended), "the engine did not end"
    assert not running_timers()


@pytest.fixture
def saved_weights(viewer: Viewer, qtbot: QtBot, tmp_path: Path) -> Path:
    """A file with the weights of the run as it was at an early step."""
    file = tmp_path / "early.safetensors"
    viewer.window.context.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    return file


@pytest.fixture
def viewer(make_viewer: Callable[..., Viewer]) -> Viewer:
    """The window with a small run that trains."""
    return make_viewer()
