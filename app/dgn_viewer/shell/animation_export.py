"""Saves panels at a range of recorded steps as an animation, drawn in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QMainWindow

from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import check_output
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.figures.figure_style import FigureStyle
from dgn_viewer.notices import Notice
from dgn_viewer.recorded_pages import PagePanel, recorded_pages
from dgn_viewer.shell.animation_dialog import AnimationDialog, AnimationWish
from dgn_viewer.shell.export import ExportSettings
from dgn_viewer.shell.figure_thread import FigureThread
from dgn_viewer.state.history import History
from dgn_viewer.state.past_view import PastViews
from dgn_viewer.timeline.past_reader import Source
from dgn_viewer.timeline.step_cursor import StepCursor

_LOOK_MS = 100
_REST = 1.0  # of the time that a page took: then the window and the training have the processor


class _CancelledError(Exception):
    """Nobody wants the animation any more."""


@dataclass
class Progress:
    """Written by the thread that draws, read by the window."""

    words: str = "Reading the recorded steps …"
    done: int = 0
    of: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    told_at: float = field(default_factory=time.monotonic)

    def reading(self, done: int, of: int) -> None:
        self._tell(f"Reading step {done + 1:,} of {of:,} …", 0, of)

    def drawing(self, done: int, of: int) -> None:
        words = "Writing the file …" if done == of else f"Drawing page {done + 1:,} of {of:,} …"
        self._tell(words, done, of)

    def _tell(self, words: str, done: int, of: int) -> None:
        self.words, self.done, self.of = words, done, of
        if self.cancelled.wait(_REST * (time.monotonic() - self.told_at)):
            raise _CancelledError
        self.told_at = time.monotonic()


class AnimationExport:
    """Opens the dialog; one animation is written at a time."""

    def __init__(
        self,
        window: QMainWindow,
        docks: PanelDocks,
        history: History,
        cursor: StepCursor,
        settings: ExportSettings,
        tell: Callable[[Notice], None],
    ) -> None:
        self._window = window
        self._docks = docks
        self._history = history
        self._cursor = cursor
        self._settings = settings
        self._tell = tell
        self._thread = FigureThread(window)
        self._progress: Progress | None = None
        self.dialog: AnimationDialog | None = None
        self._look = QTimer(window)
        self._look.setInterval(_LOOK_MS)
        self._look.timeout.connect(self._show_progress)
        cursor.reach_changed.connect(self._on_reach)

    def open(self, panel: str = "") -> None:
        """Open the dialog with this panel chosen; while one is written, with how far it is."""
        if self.dialog is None:
            if why := self._cursor.why_not or self._why_no_panels():
                self._tell(Notice("refused", f"No animation can be saved. {why}"))
                return
            self._make(panel)
        assert self.dialog is not None
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def cancel(self) -> None:
        if self._progress is not None:
            self._progress.cancelled.set()

    def close(self) -> None:
        """End what is being written: there is no window any more."""
        self.cancel()
        self._look.stop()
        self._thread.close()

    # Inside

    def _why_no_panels(self) -> str:
        return "" if self._docks.visible() else "No panel is open."

    def _make(self, panel: str) -> None:
        names = self._docks.visible()
        if panel and panel not in names:
            names = (panel, *names)
        chosen = panel or self._docks.front() or names[0]
        titles = {name: self._docks.hosts[name].spec.title for name in names}
        dialog = AnimationDialog(
            self._window, titles, (chosen,), lambda: self._settings.export_folder
        )
        dialog.show_reach(self._cursor.reach or (0, self._cursor.last_step))
        dialog.reach_chosen.connect(self._cursor.choose_reach)
        dialog.wanted.connect(self._begin)
        dialog.cancelled.connect(self.cancel)
        dialog.finished.connect(self._on_closed)
        self.dialog = dialog
        source = self._cursor.source
        assert source is not None
        self._thread.ask(lambda: source.frames().steps, self._on_steps, "steps")

    def _on_steps(self, found: Any) -> None:
        if isinstance(found, UserError):
            self._refuse(str(found))
        elif isinstance(found, Exception):
            raise found
        elif self.dialog is not None:
            self.dialog.show_steps(found)

    def _on_reach(self) -> None:
        if self.dialog is not None and not self.dialog.writing and self._cursor.reach:
            self.dialog.show_reach(self._cursor.reach)

    def _begin(self, wish: AnimationWish) -> None:
        source = self._cursor.source
        if self._cursor.why_not or source is None:
            self._refuse(self._cursor.why_not)
            return
        hosts = {name: self._docks.hosts[name] for name in wish.panels}
        panels = {
            name: PagePanel(host.spec, host.choices(), host.charts.settings())
            for name, host in hosts.items()
        }
        self._progress = progress = Progress()
        make = partial(_written, wish, self._history.past_views(), source, panels, progress)
        self._thread.ask(make, partial(self._done, wish))
        self._look.start()
        self._show_progress()

    def _show_progress(self) -> None:
        if self._progress is not None and self.dialog is not None:
            now = self._progress
            words = "Ending …" if now.cancelled.is_set() else now.words
            self.dialog.show_progress(words, now.done, now.of)

    def _done(self, wish: AnimationWish, result: Any) -> None:
        self._progress = None
        self._look.stop()
        if self.dialog is not None:
            self.dialog.show_progress("", 0, 0)
        if isinstance(result, _CancelledError):
            self._say(f"{wish.path.name} was not written: it was cancelled.")
        elif isinstance(result, UserError):
            self._refuse(str(result))
        elif isinstance(result, Exception):
            self._put_away()
            raise result
        else:
            self._settings.export_folder = str(wish.path.parent)
            self._say(f"{wish.path.name} saved in {wish.path.parent}: {result}.")
        if self.dialog is not None and not self.dialog.isVisible():
            self._put_away()

    def _say(self, words: str) -> None:
        if self.dialog is not None:
            self.dialog.say(words)
        self._tell(Notice("info", words))

    def _refuse(self, words: str) -> None:
        if self.dialog is not None:
            self.dialog.say(words, "refused")
        self._tell(Notice("refused", words))

    def _on_closed(self) -> None:
        if self._progress is None:
            self._put_away()

    def _put_away(self) -> None:
        if self.dialog is not None:
            self.dialog.deleteLater()
            self.dialog = None
            self._cursor.choose_reach(0, 0)


def _written(
    wish: AnimationWish,
    views: PastViews,
    source: Source,
    panels: dict[str, PagePanel],
    progress: Progress,
) -> str:
    """Draw and write it, in the thread; what it shows, in words."""
    from dgn_viewer.figures.animation import check_format, save_animation

    check_format(wish.path)
    check_output(wish.path)
    found = recorded_pages(
        "The run", views, source.frames(), panels, wish.reach, wish.pages, progress.reading
    )
    style = FigureStyle(width=wish.width)
    save_animation(found.pages, wish.path, style, wish.per_second, progress.drawing)
    return found.words
