"""Saves panels over a range of recorded steps as an animation, rendered in a separate process."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QTimer

from dgn_engine.errors import UserError
from dgn_engine.figures.animation_format import check_format
from dgn_engine.figures.export_values import write_export
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.film_order import FilmOrder, FilmPanel
from dgn_engine.figures.film_process import FilmCancelledError, FilmProcess
from dgn_engine.storage.atomic_write import check_output
from dgn_engine.views.event_notices import Notice
from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.history import History
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.animation_dialog import AnimationDialog, AnimationWish
from dgn_viewer.shell.figure_thread import FigureThread
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.timeline.step_cursor import StepCursor

_LOOK_MS = 100


@dataclass
class Progress:
    """Progress of rendering: written by the export thread, read by the window."""

    words: str = "Starting…"
    done: int = 0
    of: int = 0
    process: FilmProcess = field(default_factory=FilmProcess)

    def set_progress(self, words: str, done: int, of: int) -> None:
        self.words, self.done, self.of = words, done, of


class AnimationExport:
    """Opens the dialog and saves the animation, one at a time."""

    def __init__(
        self, context: WindowContext, docks: PanelDocks, history: History, cursor: StepCursor
    ) -> None:
        self._context = context
        self._docks = docks
        self._history = history
        self._cursor = cursor
        self._thread = FigureThread(context.window)
        self._progress: Progress | None = None
        self.dialog: AnimationDialog | None = None
        self._look = QTimer(context.window, interval=_LOOK_MS)
        self._look.timeout.connect(self._show_progress)
        self._listed: FrameSource | None = None  # source of the steps in the dialog
        cursor.reach_changed.connect(self._on_reach)
        cursor.changed.connect(self._follow_run)

    def open(self, panel: str = "") -> None:
        """Open the dialog with this panel selected, or show the progress while saving."""
        if self.dialog is None:
            if why := self._cursor.reason_not_available or self._why_no_panels():
                self._context.notify_refusal(f"Cannot save an animation. {why}")
                return
            self._make_dialog(panel)
        assert self.dialog is not None
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def cancel(self) -> None:
        if self._progress is not None:
            self._progress.process.stop()

    def close(self) -> None:
        """Stop saving, because the window closes."""
        self.cancel()
        self._look.stop()
        self._thread.close()

    # Internal

    def _why_no_panels(self) -> str:
        return "" if self._docks.visible_panels() else "No panel is open."

    def _make_dialog(self, panel: str) -> None:
        names = self._docks.visible_panels()
        if panel and panel not in names:
            names = (panel, *names)
        chosen = panel or self._docks.front_panel() or names[0]
        titles = {name: self._docks.hosts[name].spec.title for name in names}
        dialog = AnimationDialog(self._context, titles, (chosen,))
        dialog.reach_chosen.connect(self._cursor.choose_reach)
        dialog.wanted.connect(self._start_export)
        dialog.cancelled.connect(self.cancel)
        dialog.finished.connect(self._on_closed)
        self.dialog = dialog
        self._listed = None
        self._follow_run()

    def _follow_run(self) -> None:
        """Update the steps in the dialog if another run is on show."""
        source = self._cursor.source
        if self.dialog is None or self.dialog.writing or source is None or source is self._listed:
            return
        self._listed = source
        self.dialog.show_steps(None)
        self.dialog.show_reach(self._cursor.reach or (0, self._cursor.last_step))
        self._thread.run_job(lambda: source.open_frames().steps, self._on_steps, "steps")

    def _on_steps(self, found: Any) -> None:
        if isinstance(found, UserError):
            self._show_refusal(str(found))
        elif isinstance(found, Exception):
            raise found
        elif self.dialog is not None:
            self.dialog.show_steps(found)

    def _on_reach(self) -> None:
        if self.dialog is not None and not self.dialog.writing and self._cursor.reach:
            self.dialog.show_reach(self._cursor.reach)

    def _start_export(self, wish: AnimationWish) -> None:
        source = self._cursor.source
        if self._cursor.reason_not_available or source is None:
            self._show_refusal(self._cursor.reason_not_available)
            return
        self._progress = progress = Progress()
        order = self._make_order(wish, source)
        self._thread.run_job(
            partial(_render_and_write, wish.path, order, progress), partial(self._on_done, wish)
        )
        self._look.start()
        self._show_progress()

    def _make_order(self, wish: AnimationWish, source: FrameSource) -> FilmOrder:
        hosts = {name: self._docks.hosts[name] for name in wish.panels}
        return FilmOrder(
            "The run",
            self._history.past_views(),
            source,
            {
                name: FilmPanel(dict(host.drawn.choices), dict(host.charts.settings))
                for name, host in hosts.items()
            },
            wish.reach,
            wish.pages,
            wish.path.suffix,
            FigureStyle(width=wish.width),
            wish.per_second,
        )

    def _show_progress(self) -> None:
        if self._progress is not None and self.dialog is not None:
            now = self._progress
            words = "Cancelling…" if now.process.stopped else now.words
            self.dialog.show_progress(words, now.done, now.of)

    def _on_done(self, wish: AnimationWish, result: Any) -> None:
        self._progress = None
        self._look.stop()
        if self.dialog is not None:
            self.dialog.show_progress("", 0, 0)
        self._follow_run()
        if isinstance(result, FilmCancelledError):
            self._show_message(f"Cancelled; {wish.path.name} was not saved.")
        elif isinstance(result, UserError):
            self._show_refusal(str(result))
        elif isinstance(result, Exception):
            self._delete_dialog()
            raise result
        else:
            self._context.settings.export_folder = str(wish.path.parent)
            self._show_message(f"{wish.path.name} saved in {wish.path.parent}: {result}.")
        if self.dialog is not None and not self.dialog.isVisible():
            self._delete_dialog()

    def _show_message(self, words: str) -> None:
        if self.dialog is not None:
            self.dialog.said.show_message(words)
        self._context.notify(Notice("info", words))

    def _show_refusal(self, words: str) -> None:
        if self.dialog is not None:
            self.dialog.show_refusal(words)
        self._context.notify_refusal(words)

    def _on_closed(self) -> None:
        if self._progress is None:
            self._delete_dialog()

    def _delete_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.deleteLater()
            self.dialog = None
            self._cursor.choose_reach(0, 0)


def _render_and_write(path: Path, order: FilmOrder, progress: Progress) -> str:
    """Render and write the animation (in the thread); return its description."""
    check_format(path)
    check_output(path)
    film = progress.process.request_film(order, progress.set_progress)
    write_export(path, film.content)
    return film.words
