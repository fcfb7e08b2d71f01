"""The inspector: a column on the right that shows one page at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QDockWidget, QFrame, QMainWindow, QToolButton, QWidget

from dgn_engine.protocol.branches import CompareFile
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import (
    CheckProgress,
    CloseFile,
    FileClosed,
    FileListed,
    InspectFile,
    NetworkChecked,
    ReadingRefused,
    ReadingsFound,
)
from dgn_engine.protocol.messages import Command, Event, Failed, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import RunStarted, UndoChanged
from dgn_engine.protocol.watching import ExamplesListed, ProbeExamples, ProbeSetChanged
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.inspector.pages.about_page import AboutPage
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.inspector.pages.examples_page import ExamplesPage
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.inspector.pages.program_page import ProgramPage
from dgn_viewer.inspector.pages.run_page import RunPage
from dgn_viewer.inspector.pages.settings_page import SettingsPage
from dgn_viewer.style.stylesheet import themed_icon
from dgn_viewer.style.type_scale import scaled
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import make_column, make_row, make_scroll_area

WIDTH = 400
LEAST_WIDTH = 352
_SHARE = 0.45  # maximum share of the window's width
_SPLITTER = 8  # pixels left of the column that belong to the splitter
Page = (
    AboutPage
    | ChangesPage
    | ComparePage
    | ExamplesPage
    | ExperimentPage
    | FilePage
    | ProgramPage
    | RunPage
    | SettingsPage
)


class Inspector(QFrame):
    """A column that shows a single page, such as a form, a listed file, or settings."""

    page_opened = Signal()
    closed = Signal()
    report_wanted = Signal(str, object, object)  # as on the page of a file

    def __init__(self, send: Callable[[Command], None], view: Callable[[], View] = View) -> None:
        """Create an empty inspector.

        Args:
            send: Sends a command to the engine.
            view: Returns the current view, without the choices of a panel.
        """
        super().__init__()
        self.setObjectName("inspector")
        self.setAccessibleName("Inspector")
        self._send, self._view = send, view
        self.theme = LIGHT
        self.page: Page | None = None
        self.state = RunState()
        self._past: int | None = None  # the past step that is shown
        self.files = ListedFiles(self, send)
        self._title = ElidedLabel(role="title")
        self._close = QToolButton()
        self._close.setIconSize(QSize(16, 16))
        self._close.setToolTip("Close (Esc)")
        self._close.setAccessibleName("Close the inspector")
        self._close.clicked.connect(self.close_page)
        self._place = make_scroll_area()
        self._lay_out()
        self.set_theme(LIGHT)

    @cached_property
    def run_page(self) -> RunPage:
        """The form of a new run, kept so that its fields stay filled in; made when first opened."""
        page = RunPage(self._send)
        page.fill_in(self.state, self._past)
        page.set_theme(self.theme)
        page.setParent(self)
        page.hide()
        return page

    def _cached_pages(self) -> list[RunPage]:
        """Return the form, if it exists already."""
        return [self.run_page] if self._has_run_page() else []

    def _has_run_page(self) -> bool:
        return "run_page" in vars(self)

    def show_run_settings(self) -> None:
        self.open_page(self.run_page)

    def show_page(self, page: Page) -> None:
        """Show a page created elsewhere, and update it with the current state if it needs one."""
        if isinstance(page, (ChangesPage, ComparePage)):
            page.on_event(UndoChanged(), self.state)
            page.set_theme(self.theme)
        self.open_page(page)

    def show_about(self, spec: PanelSpec) -> None:
        self.open_page(AboutPage(spec, self.theme, self._view, self._send))

    def show_state(self, state: RunState, past: int | None = None) -> None:
        """Show a state, the current one or that of step `past`."""
        self.state, self._past = state, past
        if self._has_run_page():
            self.run_page.show_state(state, past)
        if isinstance(self.page, (ChangesPage, ComparePage)):
            self.page.on_event(UndoChanged(), state)
        if isinstance(self.page, AboutPage):
            self.page.refresh_trials()

    def on_event(self, event: Event, state: RunState) -> None:
        """Pass an event to the pages, open the page of a listed file, close finished pages.

        Args:
            event: The engine's event.
            state: The state after the event.
        """
        self.state = state
        own_run_started = False
        if self._has_run_page():
            own_run_started = self.run_page.awaiting and isinstance(event, RunStarted)
            self.run_page.on_event(event, state)
        if isinstance(self.page, (ChangesPage, ComparePage)):
            self.page.on_event(event, state)
        if isinstance(self.page, AboutPage):
            self.page.refresh_trials()
        match event:
            case ProbeExamples() | ExamplesListed() | ProbeSetChanged() | RunStarted() if (
                isinstance(self.page, ExamplesPage)
            ):
                self.page.on_event(event, state)
            case RunStarted() if own_run_started and self.page is self.run_page:
                self.dismiss_page()
            case _:
                self.files.on_event(event)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._close.setIcon(themed_icon("close", theme))
        self.setStyleSheet(f"#inspector, #inspector_page {{ background: {theme.panel}; }}")
        cached = self._cached_pages()
        for page in cached if self.page is None or self.page in cached else (*cached, self.page):
            page.set_theme(theme)

    def close_page(self) -> None:
        """Close the page, after it has released its file."""
        if isinstance(self.page, FilePage):
            self.page.prepare_to_close()
        self.dismiss_page()

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, 600)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_page()
        else:
            super().keyPressEvent(event)

    def open_page(self, page: Page) -> None:
        if isinstance(self.page, FilePage) and page is not self.page:
            self._send(CloseFile(self.page.listed.ticket))
        self._detach_page()
        page.setObjectName("inspector_page")
        self.page = page
        self._title.show_text(page.title)
        self._place.setWidget(page)
        page.show()
        self.page_opened.emit()

    def dismiss_page(self) -> None:
        self._detach_page()
        self.closed.emit()

    def _detach_page(self) -> None:
        """Remove the page from the column, and delete it unless it is cached."""
        widget = self._place.takeWidget()
        self.page = None
        if widget is not None:
            widget.hide()
            if widget in self._cached_pages():
                widget.setParent(self)
            else:
                widget.deleteLater()

    def _lay_out(self) -> None:
        head = make_row((self._title, 1), self._close, margins=(16, 8, 8, 4))
        make_column(head, (self._place, 1), into=self, spacing=0)
        self.setMinimumWidth(LEAST_WIDTH)


class ListedFiles:
    """The page of a file, opened once the engine has listed it, closed for the next one.

    `said` has the user's answers on how to read a network, by file path.
    """

    def __init__(self, inspector: Inspector, send: Callable[[Command], None]) -> None:
        self._inspector, self._send = inspector, send
        self._expected = False  # a requested file has not been listed yet
        self.said: dict[str, FileReading] = {}

    def expect_file(self) -> None:
        """Expect the listing of a newly requested file, which replaces the current page."""
        self._expected = True

    def close_file_page(self) -> None:
        """Close the page if it shows a file."""
        if isinstance(self._inspector.page, FilePage):
            self._inspector.close_page()

    def on_event(self, event: Event) -> None:
        page = self._inspector.page
        match event:
            case Refused() | Failed() if self._expected:
                self._expected = False
                self.close_file_page()
            case FileListed():
                self._expected = False
                self._on_listed(event)
            case CheckProgress() | NetworkChecked() | ReadingsFound() | ReadingRefused() if (
                isinstance(page, FilePage)
            ):
                page.on_event(event)
            case FileClosed(ticket=ticket) if _shows_file(page, ticket):
                self._inspector.dismiss_page()

    def _on_listed(self, listed: FileListed) -> None:
        """Open a page, or act right away if no run can be lost by it: compare, or show the network
        on its own while there is no run."""
        self.said[listed.path] = listed.reading
        page, state = self._inspector.page, self._inspector.state
        if isinstance(page, FilePage) and _shows_file(page, listed.ticket):
            page.show_listing(listed)
        elif listed.purpose == "compare" and listed.network.fits:
            self._send(CompareFile(listed.ticket))
        elif listed.purpose == "network" and listed.network.fits and state.shows_nothing:
            self._send(InspectFile(listed.ticket))
        else:
            known = state.catalogue.data if state.catalogue is not None else ()
            data_now = state.run.config.data if state.run is not None else None
            theme = self._inspector.theme
            page = FilePage(self._send, listed, theme, known, data_now)
            page.report_wanted.connect(self._inspector.report_wanted)
            self._inspector.open_page(page)


def _shows_file(page: Page | None, ticket: int) -> bool:
    return isinstance(page, FilePage) and page.listed.ticket == ticket


def _page_width() -> int:
    """Return the width of a page; larger type gets half of its share, for the panels' sake."""
    return (WIDTH + scaled(WIDTH)) // 2


class InspectorDock(QDockWidget):
    """The dock of the inspector, which moves panels aside instead of covering them.

    Its width is what the user has dragged it to, limited to leave enough space for the panels.
    """

    opening = Signal()  # emitted before it is shown

    def __init__(self, inspector: Inspector, window: QMainWindow) -> None:
        super().__init__("Inspector", window)
        self.setObjectName("dock.inspector")
        self.setTitleBarWidget(QWidget(self))  # the inspector has its own title
        self.setAllowedAreas(Qt.DockWidgetArea.RightDockWidgetArea)
        self.setFeatures(QDockWidget.DockWidgetFeature.NoDockWidgetFeatures)
        self.setWidget(inspector)
        self._window = window
        self._wanted = WIDTH  # or what the user has dragged it to
        self._drawing = False
        on_event = {
            QEvent.Type.Resize: lambda _event: self.fit_to_page(),
            QEvent.Type.Show: lambda _event: self.fit_to_page(),
            QEvent.Type.MouseButtonPress: self._on_press,
            QEvent.Type.MouseButtonRelease: lambda _event: self._on_release(),
        }
        EventFilter(self, on_event, window)
        inspector.page_opened.connect(self._on_page)
        inspector.closed.connect(self.hide)
        self.hide()

    def _on_page(self) -> None:
        if self.isHidden():
            self.opening.emit()
        self.show()
        self.fit_to_page()

    def _on_press(self, event: QMouseEvent) -> None:
        """Let the user drag the splitter left of the column."""
        distance = self.x() - event.position().x()
        if self.isVisible() and 0 < distance <= _SPLITTER:
            self._drawing = True
            self.setMaximumWidth(self._max_width())

    def _on_release(self) -> None:
        if self._drawing:
            self._drawing = False
            self._wanted = round(self.width() * WIDTH / _page_width())
            self.fit_to_page()

    def _max_width(self) -> int:
        """Return the maximum width, which leaves the panels their share and minimum width."""
        panels_width = self._window.minimumSizeHint().width() - self.minimumWidth()
        window_width = self._window.width()
        return max(
            self.minimumSizeHint().width(),
            min(round(_SHARE * window_width), window_width - panels_width),
        )

    def fit_to_page(self) -> None:
        """Set the width of the column.

        `resizeDocks` depends on sizes that may not be laid out yet, but Qt always respects minimum
        and maximum widths, so both are set for one layout pass.
        """
        if not self.isVisible() or self._drawing:
            return
        min_width = self.minimumWidth()
        wanted = round(self._wanted * _page_width() / WIDTH)
        self.setFixedWidth(min(wanted, self._max_width()))
        if (window_layout := self._window.layout()) is not None:
            window_layout.activate()
        self.setMinimumWidth(min_width)  # let the user shrink the window
