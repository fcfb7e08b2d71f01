"""The inspector: one column on the right that shows one page at a time, when it is asked for."""

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
    NetworkChecked,
    ReadingRefused,
    ReadingsFound,
)
from dgn_engine.protocol.messages import Command, Event, Failed, Refused, Working
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import ListRuns, RunContinued, RunShown, RunsListed
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
from dgn_viewer.inspector.pages.runs_page import RunsPage
from dgn_viewer.inspector.pages.settings_page import SettingsPage
from dgn_viewer.style.stylesheet import icon
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import column, row, scrolling

WIDTH = 400
LEAST_WIDTH = 352
_SHARE = 0.45  # of the window, that the column may have
_SPLITTER = 8  # pixels beside the column in which the mouse takes the splitter
Page = (
    AboutPage
    | ChangesPage
    | ComparePage
    | ExamplesPage
    | ExperimentPage
    | FilePage
    | ProgramPage
    | RunPage
    | RunsPage
    | SettingsPage
)


class Inspector(QFrame):
    """Run settings, a listed file, or 'what am I seeing'; never more than one of them."""

    page_opened = Signal()
    closed = Signal()
    run_export_wanted = Signal(object)  # a `RecordedRun`
    run_trash_wanted = Signal(tuple)  # folders of runs

    def __init__(self, send: Callable[[Command], None], view: Callable[[], View] = View) -> None:
        """`view()`: what is seen now, without the choices of a panel."""
        super().__init__()
        self.setObjectName("inspector")
        self.setAccessibleName("Inspector")
        self._send, self._view = send, view
        self.theme = LIGHT
        self.page: Page | None = None
        self.state = RunState()
        self.files = ListedFiles(self, send)
        self._title = ElidedLabel(role="title")
        self._close = QToolButton()
        self._close.setIconSize(QSize(16, 16))
        self._close.setToolTip("Close (Esc)")
        self._close.setAccessibleName("Close the inspector")
        self._close.clicked.connect(self.leave)
        self._place = scrolling()
        self._lay_out()
        self.set_theme(LIGHT)

    @cached_property
    def run_page(self) -> RunPage:
        """Kept: what was filled in stays filled in."""
        page = RunPage(self._send)
        self._keep(page)
        return page

    @cached_property
    def runs_page(self) -> RunsPage:
        """Kept: what is ticked stays drawn."""
        page = RunsPage(self._send, self.theme)
        page.export_wanted.connect(self.run_export_wanted)
        page.trash_wanted.connect(self.run_trash_wanted)
        self._keep(page)
        return page

    def _keep(self, page: RunPage | RunsPage) -> None:
        page.set_theme(self.theme)
        page.setParent(self)
        page.hide()

    def _kept(self) -> list[RunPage | RunsPage]:
        """The pages that are kept, as far as they were made."""
        return [vars(self)[name] for name in ("run_page", "runs_page") if name in vars(self)]

    def make_pages(self) -> None:
        """Make the pages that are kept: the form hears every event of the engine."""
        _ = self.run_page, self.runs_page

    def show_run_settings(self) -> None:
        self.open(self.run_page)

    def show_runs(self) -> None:
        self.open(self.runs_page)
        self.runs_page.await_list(self.state.working)

    def show_page(self, page: Page) -> None:
        """A page that somebody else has made; some follow the engine, from its state of now on."""
        if isinstance(page, (ChangesPage, ComparePage)):
            page.on_event(UndoChanged(), self.state)
            page.set_theme(self.theme)
        self.open(page)

    def show_about(self, spec: PanelSpec) -> None:
        self.open(AboutPage(spec, self.theme, self._view, self._send))

    def show_state(self, state: RunState, past: int | None = None) -> None:
        """Show this state; `past`: the step that it was the state of, None: now."""
        self.state = state
        self.run_page.show_state(state, past)
        if isinstance(self.page, (ChangesPage, ComparePage)):
            self.page.on_event(UndoChanged(), state)
        if isinstance(self.page, AboutPage):
            self.page.refresh()

    def on_event(self, event: Event, state: RunState) -> None:
        """A listed file opens its page; a run that began puts its form away.

        `state` is the one after the event.
        """
        self.state = state
        began = self.run_page.awaiting and isinstance(event, RunStarted)
        self.run_page.on_event(event, state)
        if isinstance(self.page, (ChangesPage, ComparePage)):
            self.page.on_event(event, state)
        if isinstance(self.page, AboutPage):
            self.page.refresh()
        match event:
            case RunsListed():
                self.runs_page.show_runs(event)
            case Working() if isinstance(self.page, RunsPage):
                self.page.show_work(event.sentence)
            case ProbeExamples() | ExamplesListed() | ProbeSetChanged() | RunStarted() if (
                isinstance(self.page, ExamplesPage)
            ):
                self.page.on_event(event, state)
            case RunShown() if isinstance(self.page, RunsPage):
                self._send(ListRuns())  # the run before has ended
            case RunContinued() if isinstance(self.page, RunsPage):
                self.put_away()
            case RunStarted() if began and self.page is self.run_page:
                self.put_away()
            case _:
                self.files.on_event(event)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._close.setIcon(icon("close", theme))
        self.setStyleSheet(f"#inspector, #inspector_page {{ background: {theme.panel}; }}")
        kept = self._kept()
        for page in kept if self.page is None or self.page in kept else (*kept, self.page):
            page.set_theme(theme)

    def leave(self) -> None:
        """Close the page; a listed file is forgotten."""
        if isinstance(self.page, (FilePage, RunsPage)):
            self.page.leave()
        self.put_away()

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, 600)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.leave()
        else:
            super().keyPressEvent(event)

    def open(self, page: Page) -> None:
        if isinstance(self.page, FilePage) and page is not self.page:
            self._send(CloseFile(self.page.listed.ticket))
        self._take_down()
        page.setObjectName("inspector_page")
        self.page = page
        self._title.say(page.title)
        self._place.setWidget(page)
        page.show()
        self.page_opened.emit()

    def put_away(self) -> None:
        self._take_down()
        self.closed.emit()

    def _take_down(self) -> None:
        """Take the page out; only the form of a new run and the table of runs are kept."""
        widget = self._place.takeWidget()
        self.page = None
        if widget is not None:
            widget.hide()
            if widget in self._kept():
                widget.setParent(self)
            else:
                widget.deleteLater()

    def _lay_out(self) -> None:
        head = row((self._title, 1), self._close, margins=(16, 8, 8, 4))
        column(head, (self._place, 1), into=self, spacing=0)
        self.setMinimumWidth(LEAST_WIDTH)


class ListedFiles:
    """The page of a file: opened once the engine has listed it, closed when another comes.

    `said`: how networks in files are read, by their paths.
    """

    def __init__(self, inspector: Inspector, send: Callable[[Command], None]) -> None:
        self._inspector, self._send = inspector, send
        self._expected = False  # a file that was asked for has not been listed yet
        self.said: dict[str, FileReading] = {}

    def expect(self) -> None:
        """Another file was asked for: its page comes in the place of that of a file before."""
        self._expected = True

    def leave(self) -> None:
        """Close the page of a file, where one is open: another file has come after it."""
        if isinstance(self._inspector.page, FilePage):
            self._inspector.leave()

    def on_event(self, event: Event) -> None:
        page = self._inspector.page
        match event:
            case Refused() | Failed() if self._expected:
                self._expected = False
                self.leave()
            case FileListed():
                self._expected = False
                self._on_listed(event)
            case CheckProgress() | NetworkChecked() | ReadingsFound() | ReadingRefused() if (
                isinstance(page, FilePage)
            ):
                page.on_event(event)
            case FileClosed(ticket=ticket) if _shows(page, ticket):
                self._inspector.put_away()

    def _on_listed(self, listed: FileListed) -> None:
        """A comparison changes nothing, so that it needs no page where the file is a network."""
        self.said[listed.path] = listed.reading
        page, state = self._inspector.page, self._inspector.state
        if isinstance(page, FilePage) and _shows(page, listed.ticket):
            page.show_listing(listed)
        elif listed.purpose == "compare" and listed.network.fits:
            self._send(CompareFile(listed.ticket))
        else:
            known = state.catalogue.data if state.catalogue is not None else ()
            data_now = state.run.config.data if state.run is not None else None
            theme = self._inspector.theme
            self._inspector.open(FilePage(self._send, listed, theme, known, data_now))


def _shows(page: Page | None, ticket: int) -> bool:
    return isinstance(page, FilePage) and page.listed.ticket == ticket


class InspectorDock(QDockWidget):
    """A column of the window, so that panels are moved aside and not covered.

    It is as wide as its page wants, or as the user has drawn it, as far as panels keep their part.
    """

    opening = Signal()  # it is about to be shown

    def __init__(self, inspector: Inspector, window: QMainWindow) -> None:
        super().__init__("Inspector", window)
        self.setObjectName("dock.inspector")
        self.setTitleBarWidget(QWidget(self))  # the inspector has its own
        self.setAllowedAreas(Qt.DockWidgetArea.RightDockWidgetArea)
        self.setFeatures(QDockWidget.DockWidgetFeature.NoDockWidgetFeatures)
        self.setWidget(inspector)
        self._window = window
        self._wanted = WIDTH
        self._drawn: dict[int, int] = {}  # by what the page wants, what the user has given it
        self._drawing = False
        self._inspector = inspector
        on_event = {
            QEvent.Type.Resize: lambda _event: self.fit(),
            QEvent.Type.Show: lambda _event: self.fit(),
            QEvent.Type.MouseButtonPress: self._on_press,
            QEvent.Type.MouseButtonRelease: lambda _event: self._on_release(),
        }
        EventFilter(self, on_event, window)
        inspector.page_opened.connect(self._on_page)
        inspector.closed.connect(self.hide)
        self.hide()

    def _on_page(self) -> None:
        page = self._inspector.page
        self._wanted = page.wanted_width if isinstance(page, RunsPage) else WIDTH
        if self.isHidden():
            self.opening.emit()
        self.show()
        self.fit()

    def _on_press(self, event: QMouseEvent) -> None:
        """The splitter beside the column is the user's."""
        beside = self.x() - event.position().x()
        if self.isVisible() and 0 < beside <= _SPLITTER:
            self._drawing = True
            self.setMaximumWidth(self._most())

    def _on_release(self) -> None:
        if self._drawing:
            self._drawing = False
            self._drawn[self._wanted] = self.width()
            self.fit()

    def _most(self) -> int:
        """The widest: panels keep their part of the window, and at least what they need."""
        beside = self._window.minimumSizeHint().width() - self.minimumWidth()
        width = self._window.width()
        return max(self.minimumSizeHint().width(), min(round(_SHARE * width), width - beside))

    def fit(self) -> None:
        """Take the width that is due. Qt shares room out by the ratio of sizes that may not be
        laid out yet, but it heeds the least and the most.
        """
        if not self.isVisible() or self._drawing:
            return
        least = self.minimumWidth()
        self.setFixedWidth(min(self._drawn.get(self._wanted, self._wanted), self._most()))
        if (room := self._window.layout()) is not None:
            room.activate()
        self.setMinimumWidth(least)  # so that the window may be made small
