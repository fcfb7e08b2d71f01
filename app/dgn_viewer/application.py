"""Assembly of the program (Qt, fault hooks, engine, pump, window) and its orderly shutdown."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import NoReturn

from PySide6.QtCore import QEventLoop, QLocale, QMetaObject, QObject, QSize, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import QApplication

from dgn_engine.config import RunConfig
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.runs import ContinueLast, ContinueRun, OpenSession, ShowRun
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.session.thread_session import ThreadSession
from dgn_engine.session.unused_memory import use_one_heap
from dgn_engine.text.printable import print_error, print_lines
from dgn_engine.views.event_notices import Notice
from dgn_viewer.faults import Faults
from dgn_viewer.interruption import delay_interrupts
from dgn_viewer.pump import EngineClient, Pump
from dgn_viewer.settings import Settings, default_path
from dgn_viewer.style import appearance
from dgn_viewer.window import Window

INTERVAL = 2000  # milliseconds between two garbage collections
PATIENCE = 5.0  # seconds for the engine to finish its last step on close
FIRST_PAINT = 0.3  # seconds to wait for the window to appear before the engine starts
NAME = "dgn-viewer"
_log = logging.getLogger(__name__)
_UNSEEN = ("offscreen", "minimal")  # platforms without a visible window


class GuiGarbageCollector(QObject):
    """Runs Python's cyclic collector in the GUI thread only, while its parent lives.

    Otherwise a training thread may destroy Qt objects, which crashes. After Erik Janssens,
    pydev.blogspot.com/2014/03/should-python-garbage-collector-be.html, and
    `pyqtgraph.util.garbage_collector`, without importing pyqtgraph.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.timeout.connect(collect_due_generations)
        gc.disable()
        self._timer.start(INTERVAL)
        self.destroyed.connect(lambda: gc.enable())

    def freeze_existing_objects(self) -> None:
        """Exclude all existing objects from collection.

        Torch alone has hundreds of thousands; scanning them would block window and run for 0.2 s.
        """
        gc.freeze()

    def stop(self) -> None:
        """Return control of collection to the interpreter."""
        self._timer.stop()
        gc.enable()


def collect_due_generations() -> None:
    """Collect the generations that are due, from the youngest up."""
    counts, limits = gc.get_count(), gc.get_threshold()
    for generation, (count, limit) in enumerate(zip(counts, limits, strict=True)):
        if count <= limit:
            return
        gc.collect(generation)


@dataclass(frozen=True)
class Options:
    config: RunConfig
    data_root: str = ""
    theme: str = ""  # empty: from the settings
    size: tuple[int, int] | None = None
    settings: Path | None = None  # None: in the user's configuration folder
    paused: bool = False
    tour: bool = False  # offer the tour on first start
    start: str = "default"  # start `config`; 'playground': edit it; '': as in the settings
    process: bool = False  # run the engine in a separate process
    shown: str = ""  # recorded run or session to show instead of starting a run
    served: tuple[str, str] = ("", "")  # address and token of a remote run to follow
    runs_root: str = ""  # where runs are recorded; empty: not recorded


def qt_application() -> QApplication:
    """Return the QApplication, creating it if necessary."""
    if sys.platform == "win32":  # torch must be loaded before Qt there (pytorch #11326)
        importlib.import_module("torch")
    QLocale.setDefault(QLocale.c())  # our own number format, not the system's
    application = QApplication.instance()
    if not isinstance(application, QApplication):
        application = QApplication([NAME])
        application.setApplicationName(NAME)
        application.setDesktopFileName(NAME)  # lets the desktop find our entry
        application.setWindowIcon(QIcon(str(files("dgn_resources") / "program.svg")))
    application.setStyle("Fusion")
    appearance.set_base_font(application)
    return application


def new_engine(options: Options) -> EngineClient:
    """Return an engine, not yet started, in a thread or in a separate process."""
    if options.process:
        from dgn_engine.session.process_session import ProcessSession

        return ProcessSession(options.data_root, options.runs_root)
    return ThreadSession(options.data_root, options.runs_root)


class Viewer:
    """Owner of everything that runs; call `close` to end threads, timers and hooks."""

    def __init__(self, options: Options, engine: EngineClient | None = None) -> None:
        self.application = qt_application()
        self.faults = Faults()
        self.engine = engine if engine is not None else new_engine(options)
        self.pump = Pump(self.engine)
        settings = Settings(options.settings or default_path())
        self.window = Window(self.pump.send, all_panels(), settings, options.theme)
        self.window.experiments.data_root = options.data_root
        if options.size is not None:
            self.window.resize(QSize(*options.size))
        self.collector = GuiGarbageCollector(self.window)
        self._options = options
        self._closed = False
        self.pump.event_arrived.connect(self.window.on_event)
        self.pump.samples_arrived.connect(self._on_samples)
        self.pump.event_arrived.connect(self._on_event)
        self.pump.frame_arrived.connect(self.window.on_frame)
        self.window.display.scores_wanted.connect(self.pump.fetch_soon)
        self.window.engine_wanted.connect(self._restart_engine)
        self.faults.caught.connect(self._on_fault)
        self.application.commitDataRequest.connect(self.on_logout)

    def start(self) -> None:
        if self._start_choice() == "card":
            self.window.start_card.open()
        self._show_window()
        self.window.make_deferred_parts()
        self.engine.start()
        self._start_first_run()
        if self._options.tour and QGuiApplication.platformName() not in _UNSEEN:
            self.window.guides.offer_tour()
        self.pump.start()

    def _start_first_run(self) -> None:
        """Show the requested run, or start the configured one or the last one, or wait for a choice
        on the start card."""
        options = self._options
        address, token = options.served
        if address:
            self.window.recorded.remote.follow_address(address, token)
            return
        if options.shown:
            show = ShowRun if Path(options.shown).is_dir() else OpenSession
            self.pump.send(show(options.shown))
            return
        match self._start_choice():
            case "card":
                pass  # it is open
            case "last":
                self.pump.send(ContinueLast(options.config, options.paused))
            case "playground":
                self.window.playground.start(options.config)
            case _:
                self.pump.send(StartRun(options.config, options.paused))

    def _start_choice(self) -> str:
        """Return 'shown', 'default', or how the window starts by the settings."""
        if self._options.served[0] or self._options.shown:
            return "shown"
        return self._options.start or self.window.context.settings.start

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Show the window and run until it is closed.

        Args:
            stop: Returns whether closing has already been requested (`close_soon`).
        """
        self.window.closed.connect(self.application.quit)
        self.start()
        if not stop():
            self.application.exec()

    def close_soon(self) -> None:
        """Close the window from any thread."""
        QMetaObject.invokeMethod(self.window, "close", Qt.ConnectionType.QueuedConnection)

    def close(self, patience: float = PATIENCE) -> bool:
        """Shut everything down.

        Returns:
            Whether the engine stopped in time.
        """
        if self._closed:
            return True
        self._closed = True
        self.window.close()
        ended = self.engine.close(patience)
        self.application.commitDataRequest.disconnect(self.on_logout)
        self.pump.event_arrived.disconnect(self.window.on_event)
        self.pump.samples_arrived.disconnect(self._on_samples)
        self.pump.event_arrived.disconnect(self._on_event)
        self.pump.frame_arrived.disconnect(self.window.on_frame)
        self.pump.event_arrived.connect(_print_failure)
        self.pump.stop()
        self.collector.stop()
        self.faults.remove_hooks()
        self.window.deleteLater()
        self.pump.deleteLater()
        return ended

    def _show_window(self) -> None:
        """Show the window and let it paint before torch blocks the interpreter for seconds."""
        self.window.show()
        handle, limit = self.window.windowHandle(), time.monotonic() + FIRST_PAINT
        without_input = QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents
        while handle is not None and not handle.isExposed() and time.monotonic() < limit:
            self.application.processEvents(without_input, 10)
        self.application.processEvents(without_input)

    def _restart_engine(self) -> None:
        """Replace a stopped engine with a new one.

        The run continues, paused, from its folder, or restarts if it was not recorded.
        """
        if not self.pump.stopped:
            return
        from dgn_engine.session.process_session import ProcessSession

        folder = self.engine.resumable_folder if isinstance(self.engine, ProcessSession) else ""
        self.engine.close(PATIENCE)
        self.engine = new_engine(self._options)
        self.pump.switch_engine(self.engine)
        self.engine.start()
        state = self.window.run_state
        config = state.current_config()
        if config is None and self._start_choice() != "card":
            config = self._options.config
        if folder:
            self.pump.send(ContinueRun(folder, paused=True))
        elif config is not None:
            self.pump.send(StartRun(config, paused=True, recorded=not state.unrecorded))
        self.window.display.watch_again()

    def on_logout(self, _manager: object = None) -> None:
        """Close because the desktop session ends; it waits only as long as this takes."""
        self.window.close()
        self.engine.close(PATIENCE)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, RunStarted):  # all imports are done by now
            self.collector.freeze_existing_objects()

    def _on_samples(self, samples: tuple[Event, ...]) -> None:
        """Pass on samples; only the history needs them."""
        self.window.history.on_samples(samples)
        self.window.display.schedule_refresh()

    def _on_fault(self, what: str, traceback: str) -> None:
        self.window.notices.add_notice(Notice("failed", what, traceback))


def build_viewer(options: Options) -> Viewer:
    """Build a viewer.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; raised only once the viewer is complete.
    """
    use_one_heap()
    with delay_interrupts() as asked:
        viewer = Viewer(options)
    if asked:
        viewer.close()
        raise KeyboardInterrupt
    return viewer


def run_to_end(viewer: Viewer, patience: float) -> int:
    """Run until the window is closed or a signal arrives, shut down, and return the exit code.

    A second signal ends the program immediately.
    """
    with StopSignals(viewer.close_soon) as stop:
        try:
            viewer.run(stop.stop_requested)
        finally:
            ended = viewer.close(patience)
        code = stop.exit_code if stop.stop_requested() else 0
        if not ended:
            exit_now(code)
    return code


def exit_now(code: int) -> NoReturn:
    """Exit the process now: a daemon thread inside torch must not outlive the interpreter."""
    _log.info("The engine did not stop in time and was abandoned; exit code %d.", code)
    print_error("dgn-viewer: the engine did not stop in time and was abandoned.")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _print_failure(event: Event) -> None:
    if isinstance(event, Failed):
        _log.info("failed: %s\n%s", event.what, event.traceback)
        print_error(event.what)
        print_lines(event.traceback, stream=sys.stderr)
