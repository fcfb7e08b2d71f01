"""The bars that show the state of the run: toolbar, layer strip, banners, status bar."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMainWindow, QToolBar

from dgn_engine.protocol.run_state import RunState
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.layer_strip.strip_widget import LayersStrip, StripBar
from dgn_viewer.shell import banner
from dgn_viewer.shell.banner import Banner
from dgn_viewer.shell.statusbar import StatusBar
from dgn_viewer.shell.time_controls import TimeControls
from dgn_viewer.shell.toolbar import RunToolbar
from dgn_viewer.shell.window_context import WindowContext

_TOOLBAR_FIRST = ("run.toggle", "run.step", "run.epoch", "run.reset")
_TOOLBAR_LAST = ("file.new_run", "file.open", "view.palette")
_RECORDED_BANNER = ("run.toggle", "file.go_back")
_INSPECTED_BANNER = (
    "run.train_on",
    "run.train_on_gates",
    "file.new_run",
    "run.stop_branch",
    "view.side_by_side",
    "view.compare",
    "file.close_comparison",
)


class RunViews(QObject):
    """Shows the current state, or the state at the past step that is shown.

    `step_shown`: the state of another step is shown.
    """

    step_shown = Signal()

    def __init__(
        self,
        context: WindowContext,
        time: TimeControls,
        inspector: Inspector,
        strip: LayersStrip,
        status: StatusBar,
        action: Callable[[str], QAction],
    ) -> None:
        """`action` returns the QAction with an id."""
        super().__init__(context.window)
        self._context, self._time = context, time
        self._inspector = inspector
        self._action = action
        self._shown: tuple[RunState, int | None] = (RunState(), None)
        self.strip, self.status = strip, status
        self.toolbar = RunToolbar(
            context.send,
            [action(name) for name in _TOOLBAR_FIRST],
            [action(name) for name in _TOOLBAR_LAST],
        )
        self.banners: tuple[Banner, ...] = ()
        for part in (self.toolbar, self.strip):
            context.theme.changed.connect(part.set_theme)
            part.live_wanted.connect(time.offer_live)
        time.cursor.changed.connect(self._show_step)
        cursor = time.cursor
        for signal in (cursor.changed, cursor.reach_changed, cursor.steps_changed):
            signal.connect(status.write_now)

    def add_bars(self, window: QMainWindow, below_strip: QToolBar, question: QToolBar) -> None:
        """Add the bars to the window, one below the other. `question`: last bar at the top."""
        self.strip_bar = StripBar(self.strip, window)
        standing = {name: self._action(name) for name in _INSPECTED_BANNER}
        recorded = {name: self._action(name) for name in _RECORDED_BANNER}
        self.banners = (
            banner.StandingBanner(self._time.cursor, self._time.compared, standing, window),
            Banner(
                "bar.recorded", "Recorded run", banner.recording_message, recorded, window, margin=4
            ),
        )
        window.addToolBar(self.toolbar)
        for row in (self.strip_bar, below_strip, *self.banners, question):
            window.addToolBarBreak()
            window.addToolBar(row)
        for row in self.banners:
            self._context.theme.changed.connect(row.set_theme)
        bottom = Qt.ToolBarArea.BottomToolBarArea
        window.addToolBar(bottom, self._time.bar)
        window.addToolBarBreak(bottom)
        window.addToolBar(bottom, self._time.compared_bar)
        window.setStatusBar(self.status)
        self.status.was_written.connect(self._time.bar.refresh_bar)

    def hide_banners(self) -> None:
        """Hide banners that a saved layout shows; the state shows them again if needed."""
        for row in self.banners:
            row.hide()

    def show_state(self) -> None:
        """Show the state in bars that do not follow events themselves."""
        state = self._context.shown_state()
        self.status.show_state(state, self._time.cursor.step)
        for row in self.banners:
            row.show_state(state)

    def _show_step(self) -> None:
        """Show the state at the past step in every part that depends on it."""
        state, past = self._context.shown_state(), self._time.cursor.step
        if (state, past) != self._shown:
            self._shown = state, past
            for part in (self.toolbar, self.strip, self._inspector):
                part.show_state(state, past)
            self.show_state()
            self.step_shown.emit()
