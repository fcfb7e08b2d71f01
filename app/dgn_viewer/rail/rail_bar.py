"""The bar at the left of the window: the list of runs, or folded a strip with their number."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from PySide6.QtCore import QEvent, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QAbstractButton, QMainWindow, QSizePolicy, QWidget

from dgn_engine.protocol.messages import Command, Event, Working
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import (
    CurvesRead,
    ListRuns,
    RunContinued,
    RunShown,
    RunsListed,
)
from dgn_engine.protocol.training import Finished, RunStarted
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.rail.runs_rail import RunsRail
from dgn_viewer.settings import Settings
from dgn_viewer.style.stylesheet import tabular_font
from dgn_viewer.widgets.layouts import FixedBar, make_row

LEAST, USUAL, WIDE = 220, 252, 840  # pixels
_STRIP = 24
_HANDLE = 5
_ROOMY = 1280  # pixels of a window that the list opens in by itself
_EVERY_MS = 10_000  # a run that trains is listed anew
_SHARE = 50  # and at most one part in so many of the time


class _Strip(QAbstractButton):
    """The folded list: 'Runs' and their number, written upwards."""

    def __init__(self) -> None:
        super().__init__()
        self.theme, self.words = LIGHT, "Runs"
        self.setFixedWidth(_STRIP)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip("Show the recorded runs (Ctrl+Shift+R)")

    def sizeHint(self) -> QSize:
        return QSize(_STRIP, 100)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.theme.panel))
        hot = self.underMouse() or self.hasFocus()
        painter.setPen(QColor(self.theme.accent if hot else self.theme.muted))
        painter.setFont(tabular_font(self, 12))
        painter.translate(0, self.height())
        painter.rotate(-90)
        top = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        room = QRect(0, 0, self.height() - 10, _STRIP)
        painter.drawText(room, top, f"{self.words}  ▾")  # it points to the right


class _Handle(QWidget):
    """The right edge of the list, which is dragged; `dragged(x)` in pixels of the bar."""

    dragged = Signal(int)
    released = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedWidth(_HANDLE)
        self.setCursor(Qt.CursorShape.SplitHCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.dragged.emit(self.mapToParent(event.position().toPoint()).x())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.released.emit()


class RailBar(FixedBar):
    """Holds the list of runs; hidden where no runs are recorded.

    It folds itself while the inspector needs its room. `arranged`: its width has changed.
    `page_in_way`: there is no room for it beside the inspector.
    """

    arranged = Signal()
    page_in_way = Signal()

    def __init__(
        self,
        send: Callable[[Command], None],
        settings: Settings,
        theme: Theme,
        window: QMainWindow,
    ) -> None:
        super().__init__("bar.runs", "Runs", window)
        self.setStyleSheet("QToolBar { padding: 0px; border: none; spacing: 0px; }")
        self._window, self._settings, self._send = window, settings, send
        self._state = RunState()
        self._is_open = False
        self._gave_way = False  # folded because the inspector needed the room
        self._was_opened = False  # by the user: shown even if there is nothing to show
        self._asked_at = 0.0
        self._has_runs = False
        self.rail = RunsRail(send, theme)
        self.strip = _Strip()
        self._handle = _Handle()
        self._body = QWidget()
        self._body.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        make_row(self.strip, (self.rail, 1), self._handle, into=self._body, spacing=0)
        self.addWidget(self._body)
        self._refresh = QTimer(self, singleShot=True)
        self._refresh.timeout.connect(self._list_again)
        self.strip.clicked.connect(self.open)
        self._handle.dragged.connect(self._drag_to)
        self._handle.released.connect(self._remember)
        self.rail.narrow_wanted.connect(self.make_narrower)
        self.rail.wide_wanted.connect(self.make_wide)
        self.rail.listed.connect(self._count_runs)
        on_event = {QEvent.Type.Resize: lambda _event: self._fit()}
        EventFilter(self, on_event, window)
        self.set_theme(theme)
        self._show_form(is_open=settings.runs_rail == "open")
        self._count_runs()
        self.hide()

    @property
    def is_open(self) -> bool:
        """Return whether the list is unfolded."""
        return self._is_open

    def open(self) -> None:
        """Unfold the list and focus its filter."""
        self._gave_way = False
        self._was_opened = True
        self.show()
        if not self._is_open:
            if self._window.isVisible() and self._max_width() < LEAST:
                self.page_in_way.emit()
            self._show_form(is_open=True)
            self._remember()
        self.rail.await_list(self._state.working)
        self._list_now()
        self.rail.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.rail.search.selectAll()

    def fold(self) -> None:
        """Fold the list to a strip."""
        self._was_opened = False
        self._show_form(is_open=False)
        self._remember()

    def make_wide(self) -> None:
        """Show the list as a table, as wide as the window allows."""
        self.rail.show_form(wide=True)
        self._fit()
        self.rail.table.setFocus()

    def make_narrower(self) -> None:
        """Turn the table into the list, or fold the list."""
        if self.rail.table.wide:
            self.rail.show_form(wide=False)
            self._fit()
        else:
            self.fold()

    def give_way(self, needed: int) -> None:
        """Make room for a column of `needed` pixels: narrow the table, then fold the list."""
        if not self._is_open or self.isHidden():
            return
        if self.rail.table.wide:
            self.make_narrower()
        if self._window.minimumSizeHint().width() + needed > self._window.width():
            self._gave_way = True
            self._show_form(is_open=False)

    def come_back(self) -> None:
        """Unfold the list again if it was folded for the inspector."""
        if self._gave_way:
            self._gave_way = False
            self._show_form(is_open=True)

    def show_saved(self) -> None:
        """Show what the settings say, whatever a restored layout has shown."""
        self.setVisible(self._settings.runs_rail == "open")

    def set_theme(self, theme: Theme) -> None:
        self.strip.theme = theme
        self.strip.update()
        self.rail.set_theme(theme)

    def on_event(self, event: Event, state: RunState) -> None:
        """Show the runs that the engine lists, and ask for them again when one has changed."""
        self._state = state
        match event:
            case RunsListed():
                self._show_listed(event)
            case CurvesRead():
                self.rail.show_read(event)
            case Working():
                self.rail.show_work(event.sentence)
            case RunStarted() | RunShown() | RunContinued() | Finished():
                if self.isVisible():
                    self._list_now()

    def stop(self) -> None:
        """Save edited notes, and ask for no more lists."""
        self._refresh.stop()
        self.rail.prepare_to_close()

    def showEvent(self, event: QShowEvent) -> None:
        """Remove the margins that the style gives to the layout of a toolbar."""
        if (layout := self.layout()) is not None:
            layout.setContentsMargins(0, 0, 0, 0)
        super().showEvent(event)

    # Private

    def _show_listed(self, listed: RunsListed) -> None:
        took = perf_counter() - self._asked_at if self._asked_at else 0.0
        self._asked_at = 0.0
        first = not self._has_runs
        self.rail.show_runs(listed)
        self._has_runs = bool(listed.root)
        self.setVisible(bool(listed.root) or self._was_opened)
        others = [run for run in listed.runs if run.status != "running"]
        if first and others and not self._settings.runs_rail and self._window.width() >= _ROOMY:
            self._show_form(is_open=True)
        self._fit()
        if self._state.is_running and self._is_open:
            self._refresh.start(max(_EVERY_MS, round(1000 * _SHARE * took)))

    def _list_again(self) -> None:
        if self.rail.isVisible() and self._state.is_running:
            self._list_now()

    def _list_now(self) -> None:
        self._asked_at = perf_counter()
        self._send(ListRuns())

    def _count_runs(self) -> None:
        count = len(self.rail.runs.runs)
        self.strip.words = f"Runs  {count:,}" if count else "Runs"
        self.strip.setAccessibleName(f"Show the {count:,} recorded runs")
        self.strip.update()

    def _show_form(self, is_open: bool) -> None:
        self._is_open = is_open
        self.strip.setVisible(not is_open)
        self.rail.setVisible(is_open)
        self._handle.setVisible(is_open)
        if not is_open:
            self.rail.prepare_to_close()
            self._refresh.stop()
        self._fit()

    def _fit(self) -> None:
        """Set the width: as chosen, within what the other parts leave."""
        width = _STRIP
        if self._is_open:
            chosen = self._settings.runs_width if not self.rail.table.wide else WIDE
            width = max(LEAST, min(chosen or USUAL, self._max_width()))
        if self._body.minimumWidth() != width or self._body.maximumWidth() != width:
            self._body.setFixedWidth(width)
            # The least width of a shown window, which others ask for at once, follows now.
            for layout in (self.layout(), self._window.layout()):
                if layout is not None and self._window.isVisible():
                    layout.activate()
            self.arranged.emit()

    def _max_width(self) -> int:
        """Return how wide it may be without making the window wider."""
        shown = 0 if self.isHidden() else self._body.minimumWidth()
        return self._window.width() - (self._window.minimumSizeHint().width() - shown)

    def _drag_to(self, x: int) -> None:
        self._settings.runs_width = max(LEAST, min(x, USUAL * 2, self._max_width()))
        if self.rail.table.wide:
            self.rail.show_form(wide=False)
        self._fit()

    def _remember(self) -> None:
        self._settings.runs_rail = "open" if self._is_open else "folded"
