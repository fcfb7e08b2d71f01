"""Fixtures of the viewer's tests: the real window on the real session, and leak detectors."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QTimer
from PySide6.QtWidgets import QApplication, QDialog, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import (
    DataConfig,
    GatingConfig,
    NetConfig,
    RunConfig,
    TrainingConfig,
)
from dgn_engine.protocol.branches import CloseComparison
from dgn_engine.protocol.files import SaveWeights
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import StartRun
from dgn_engine.session import frame_publisher
from dgn_engine.views.layout_presets import OVERVIEW
from dgn_viewer.application import GuiGarbageCollector, Options, Viewer
from dgn_viewer.pump import EngineClient
from dgn_viewer.window import Window
from tests.engine.panel_views import compared, grown, make_view

__all__ = ["compared", "grown", "make_view"]

SIZE = (1440, 900)
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


def _top_level_widgets() -> set[QWidget]:
    return set(QApplication.topLevelWidgets())


def _process_deletions() -> None:
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
    if "make_viewer" in request.fixturenames:
        request.getfixturevalue("window_of_module").end()
    elif "window_of_module" in request.fixturenames:
        request.getfixturevalue("window_of_module").opened()
    threads = set(threading.enumerate())
    widgets = _top_level_widgets()
    gc.freeze()  # collecting afterwards looks only at what the test has made
    yield
    _process_deletions()
    gc.unfreeze()
    left = {t.name for t in set(threading.enumerate()) - threads if not t.daemon}
    left |= {t.name for t in set(threading.enumerate()) - threads if t.name == "dgn-engine"}
    assert not left, f"threads left: {left}"
    made = {one for one in _top_level_widgets() - widgets if not _ancestors(one) & widgets}
    assert not made, f"widgets left: {made}"


def _ancestors(widget: QWidget) -> set[QWidget]:
    """The widgets that a dialog or a menu belongs to."""
    above, found = widget.parentWidget(), set[QWidget]()
    while above is not None:
        found.add(above)
        above = above.parentWidget()
    return found


def running_timers() -> list[QTimer]:
    """Timers made in Python since the last `gc.freeze` that still tick."""
    return [
        item for item in gc.get_objects() if issubclass(type(item), QTimer) and _is_ticking(item)
    ]


def _is_ticking(timer: QTimer) -> bool:
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


@contextmanager
def viewer_factory(qtbot: QtBot, place: Path) -> Iterator[Callable[..., Viewer]]:
    """Builds real windows with the real session, waits for their runs, and ends them afterwards."""
    made: list[Viewer] = []

    def make(
        config: RunConfig | None = None,
        paused: bool = False,
        home: str = "",
        process: bool = False,
        engine: EngineClient | None = None,
    ) -> Viewer:
        """`home`: a folder of its own for settings and recorded runs."""
        folder = place / home
        folder.mkdir(exist_ok=True)
        options = Options(
            config or small_run(),
            theme="light",
            size=SIZE,
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
    with pytest.MonkeyPatch.context() as patched:
        # What was there is spared below; the window itself is to be collected after its test.
        patched.setattr(GuiGarbageCollector, "freeze_existing_objects", lambda _: None)
        patched.setattr(frame_publisher, "PUBLISH_EVERY", 0.05)  # seconds: a test waits for them
        yield make
    ended = [viewer.close(patience=60.0) for viewer in made]
    made.clear()
    _process_deletions()
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    application.setStyleSheet("")  # now that there is no widget to be styled anew
    assert all(ended), "the engine did not end"
    assert not running_timers()


@pytest.fixture
def make_viewer(qtbot: QtBot, tmp_path: Path) -> Iterator[Callable[..., Viewer]]:
    with viewer_factory(qtbot, tmp_path) as make:
        yield make


class WindowOfModule:
    """One window for the tests of a module that ask for it; a test that makes one of its own ends
    it, for all widgets are styled together."""

    def __init__(self, request: pytest.FixtureRequest, place: Path) -> None:
        self._qtbot, self._place = PatientQtBot(request), place
        self._open = ExitStack()
        self._viewer: Viewer | None = None
        self._visible: tuple[str, ...] = ()

    def opened(self) -> Viewer:
        """As it opens, with the run that goes on in it."""
        if self._viewer is None:
            make = self._open.enter_context(viewer_factory(self._qtbot, self._place))
            self._viewer = make()
            self._visible = self._viewer.window.docks.visible_panels()
        else:
            window = self._viewer.window
            _as_it_opens(window)
            if window.run_state.comparison is not None:
                window.context.send(CloseComparison())
                self._qtbot.waitUntil(lambda: window.run_state.comparison is None)
            self._qtbot.wait(1)  # the window is laid out
            if window.docks.visible_panels() != self._visible:
                window.docks.arrangement.arrange_preset()
            self._qtbot.waitUntil(lambda: window.docks.visible_panels() == self._visible)
            self._qtbot.waitUntil(window.isActiveWindow)
        return self._viewer

    def end(self) -> None:
        self._viewer = None
        self._open.close()


@pytest.fixture(scope="module")
def window_of_module(
    qapp: QApplication, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WindowOfModule]:
    one = WindowOfModule(request, tmp_path_factory.mktemp("window"))
    yield one
    one.end()


@pytest.fixture
def opened_viewer(window_of_module: WindowOfModule) -> Viewer:
    """The window of the module, for tests that look at it and not at its run."""
    return window_of_module.opened()


Begin = Callable[..., Viewer]


@pytest.fixture
def begin_run(window_of_module: WindowOfModule, qtbot: QtBot) -> Begin:
    """Begins a run in the window of the module."""

    def begun(config: RunConfig | None = None, paused: bool = False) -> Viewer:
        viewer = window_of_module.opened()
        window, before = viewer.window, viewer.window.run_state.run
        window.context.send(StartRun(config or small_run(), paused))
        qtbot.waitUntil(lambda: window.run_state.run is not before and window.run_state.has_run)
        for entry in window.notices.open_entries:
            window.notices.close_notice(entry)
        window.notices.entries.clear()
        window.display.draw_now()  # nothing of the run before
        return viewer

    return begun


@pytest.fixture
def shared_viewer(begin_run: Begin) -> Viewer:
    """`viewer` in the window of the module."""
    return begin_run()


def _as_it_opens(window: Window) -> None:
    """Close what a test has opened; the layout, the size and the charts of a new window."""
    window.inspector.close_page()
    window.start_card.close_card()
    window.guides.tour.skip_tour()
    window.notice_views.list.hide_and_refocus()
    window.experiments.results.hide()
    window.time.cursor.go_live()
    window.files.recent.items = ()
    window.files.recent.changed.emit()
    for dialog in window.findChildren(QDialog):
        dialog.close()
    if window.docks.arrangement.maximised_name:
        window.docks.arrangement.restore_panels()
    if (window.width(), window.height()) != SIZE or window.docks.arrangement.preset != OVERVIEW:
        window.resize(*SIZE)
        window.docks.arrangement.arrange_preset()
    for host in window.docks.hosts.values():
        host.charts.replace_settings({})
    window.activateWindow()
    window.setFocus()


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
