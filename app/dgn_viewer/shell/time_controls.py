"""Time in the window: the steps that A and B show, and the bars that move them."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction

from dgn_engine.views.event_notices import Notice, NoticeButton
from dgn_engine.views.history import History
from dgn_engine.views.past_view import BACK_TO_LIVE
from dgn_viewer.docks.panel_scheduler import PanelScheduler
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.timeline.compared_bar import ComparedBar
from dgn_viewer.timeline.compared_cursor import ComparedCursor, compare_with_step
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.timeline.time_bar import TimeBar, align_sides


class TimeControls(QObject):
    """Both cursors, and a bar for each once the actions on it are there.

    `cursor`: the step of A, which the window may look back at; `compared`: the step of B.
    """

    def __init__(
        self,
        context: WindowContext,
        history: History,
        probes: Iterable[str],
        display: PanelScheduler,
    ) -> None:
        super().__init__(context.window)
        self._context, self._history, self._display = context, history, display
        probes = tuple(probes)
        self.cursor = StepCursor(
            history,
            probes,
            self._draw,
            lambda: not display.stale(),
            context.window,
            display.charge,
            display.look_back_in,
        )
        self.compared = ComparedCursor(
            history, probes, self._draw, lambda: self.cursor.source, context.window
        )
        self.cursor.thinned.connect(lambda words: context.notify(Notice("info", words)))

    def make_bars(self, play: QAction, live: QAction) -> None:
        """Make the bar of each cursor; equal steps stand above each other."""
        window, theme = self._context.window, self._context.theme
        self.bar = TimeBar(self.cursor, self._history, play, live, window)
        self.compared_bar = ComparedBar(self.compared, self.cursor, window)
        bars = (self.bar, self.compared_bar)
        align_sides(*((bar, bar.left, bar.right) for bar in bars))
        for bar in bars:
            theme.changed.connect(bar.set_theme)

    def compare_step(self) -> None:
        """Keep the step that is looked back at as B, and show A as it is now."""
        compare_with_step(self.cursor, self._context.send)

    def offer_live(self, why: str = BACK_TO_LIVE) -> None:
        """Say that the past cannot be changed, with the way back to live."""
        cursor = self.cursor
        live = NoticeButton("Back to live", cursor.live, lambda: cursor.step is not None)
        self._context.notify(Notice("info", why, offers=(live,), listed=False))

    def return_to_live(self) -> bool:
        """Go back to live; whether one looked back."""
        back = self.cursor.step is not None
        self.cursor.live()
        return back

    def close(self) -> None:
        self.cursor.close()
        self.compared.close()

    def _draw(self, seconds: float) -> None:
        self._display.charge(seconds)
        self._display.refresh()
