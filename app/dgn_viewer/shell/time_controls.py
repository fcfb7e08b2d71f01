"""The step cursors of A and B, and their time bars."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction

from dgn_engine.protocol.watching import SetProbeExamples
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
    """Both cursors, and their bars once the actions exist.

    `cursor`: step of A, which may be in the past; `compared`: step of B.
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
            self._draw_panels,
            lambda: not display.stale_panels(),
            context.window,
            display.charge_seconds,
            display.seconds_until_look_back,
        )
        self.compared = ComparedCursor(
            history, probes, self._draw_panels, lambda: self.cursor.source, context.window
        )
        self.cursor.thinned.connect(lambda words: context.notify(Notice("info", words)))

    def make_bars(self, play: QAction, live: QAction, compare: QAction) -> None:
        """Create the bar of each cursor, with equal steps aligned."""
        window, theme = self._context.window, self._context.theme
        self.bar = TimeBar(self.cursor, self._history, play, live, compare, window)
        self.compared_bar = ComparedBar(self.compared, self.cursor, window)
        self.bar.dial.chosen.connect(lambda n: self._context.send(SetProbeExamples(n)))
        bars = (self.bar, self.compared_bar)
        align_sides(*((bar, bar.left, bar.right) for bar in bars))
        for bar in bars:
            theme.changed.connect(bar.set_theme)

    def compare_step(self) -> None:
        """Keep the past step that is shown as B, and return A to live."""
        compare_with_step(self.cursor, self._context.send)

    def offer_live(self, why: str = BACK_TO_LIVE) -> None:
        """Explain that the past cannot be changed, and offer to return to live."""
        cursor = self.cursor
        live = NoticeButton("Back to live", cursor.go_live, lambda: cursor.step is not None)
        self._context.notify(Notice("info", why, offers=(live,), listed=False))

    def return_to_live(self) -> bool:
        """Return to live; return whether a past step was shown."""
        back = self.cursor.step is not None
        self.cursor.go_live()
        return back

    def close(self) -> None:
        self.cursor.close()
        self.compared.close()

    def _draw_panels(self, seconds: float) -> None:
        self._display.charge_seconds(seconds)
        self._display.schedule_refresh()
