"""The start card: ways to start a run, one click each, over the panels until a run is shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial

from PySide6.QtCore import QEvent, QRect, QSize, Qt, QTimer
from PySide6.QtGui import QFontDatabase, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QMainWindow,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QToolBar,
    QWidget,
)

from dgn_engine.protocol.messages import EngineReady, Event, Failed, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import ContinueRun, ListRuns, RunShown, RunsListed
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_viewer.docks.panel_docks import PanelArrangement
from dgn_viewer.docks.panel_frame import PanelFrame
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.start_ways import (
    PLAYGROUND,
    WATCH_LINES,
    WAYS,
    StartWay,
    describe_last_run,
    find_last_run,
    first_run,
)
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.widgets.layouts import (
    PlainLabel,
    make_column,
    make_row,
    make_scroll_area,
    plain_label,
)

_WIDTH = 720  # pixels, if the panels leave so much
_COLUMNS = 2
_OF_PLANE = "teach"  # layout
_HEAD = 22  # pixels; the height of a small button, which one tile has beside its title
_LOADING = "Starts when torch is loaded…"
_LOOKING = "Looking for recorded runs…"
_MOVES = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Up: -_COLUMNS,
    Qt.Key.Key_Down: _COLUMNS,
}


class StartTile(QPushButton):
    """A large button: its key, its title, and what it does.

    `press_key` handles a key for the card and returns whether it did: the scroll area around the
    tiles would take the arrow keys.
    """

    def __init__(self, key: int, way: StartWay, press_key: Callable[[QKeyEvent], bool]) -> None:
        super().__init__()
        self.way, self._press_key = way, press_key
        self.setProperty("role", "tile")
        self.setAccessibleName(way.title)
        number, title = PlainLabel(str(key), role="small"), PlainLabel(way.title, role="heading")
        self.about = plain_label(role="small")
        for label in (number, title, self.about):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        title.setMinimumHeight(_HEAD)
        self.about.setMinimumHeight(2 * self.about.fontMetrics().lineSpacing())
        self.about.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        head = make_row((title, 1), number, spacing=8)
        make_column(head, (self.about, 1), into=self, margins=(12, 8, 12, 8), spacing=2)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.show_about(way.about)

    def show_about(self, text: str) -> None:
        self.about.setText(text)
        self.setAccessibleDescription(text)

    def sizeHint(self) -> QSize:
        """Return the size of the texts: a button's own hint knows nothing of its layout."""
        layout = self.layout()
        return super().sizeHint() if layout is None else layout.totalSizeHint()

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        elif not self._press_key(event):
            super().keyPressEvent(event)


class StartPages(QFrame):
    """The pages of the card: a tile for each way to start, and the lines for one's own loop."""

    def __init__(self, press_key: Callable[[QKeyEvent], bool]) -> None:
        """`press_key` handles a key for the card and returns whether it did."""
        super().__init__()
        self.setObjectName("start_card")
        self.tiles = {
            way.id: StartTile(index, way, press_key) for index, way in enumerate(WAYS, start=1)
        }
        self.settings = QPushButton("All settings…")
        self.copy = QPushButton("Copy")
        self.copy.setProperty("role", "primary")
        self.back = QPushButton("Back")
        self.keys = plain_label(role="small")
        self._pages = QStackedWidget()
        for page in (self._make_ways_page(), self._make_loop_page()):
            self._pages.addWidget(page)
        make_column(self._pages, into=self, margins=(20, 16, 20, 16))

    @property
    def is_on_ways(self) -> bool:
        return self._pages.currentIndex() == 0

    def show_ways(self) -> None:
        self._pages.setCurrentIndex(0)

    def show_loop(self) -> None:
        self._pages.setCurrentIndex(1)

    def _make_ways_page(self) -> QWidget:
        page = QWidget()
        grid = QGridLayout()
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(8)
        for index, tile in enumerate(self.tiles.values()):
            grid.addWidget(tile, *divmod(index, _COLUMNS))
        for column in range(_COLUMNS):
            grid.setColumnStretch(column, 1)
        foot = make_row((self.keys, 1), self.settings, PlainLabel("7", role="small"), spacing=8)
        make_column(PlainLabel("Start with", role="title"), grid, foot, into=page, spacing=12)
        return page

    def _make_loop_page(self) -> QWidget:
        page = QWidget()
        lines = QPlainTextEdit(WATCH_LINES.rstrip())
        lines.setReadOnly(True)
        lines.setAccessibleName("Lines to copy")
        lines.setTabChangesFocus(True)
        lines.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        lines.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        height = lines.fontMetrics().lineSpacing() * (WATCH_LINES.count("\n") + 2)
        lines.setFixedHeight(height)
        about = plain_label(
            "x, y are examples to read the network on. The script then records itself in "
            "runs/mine; drop that folder here to follow it live."
        )
        buttons = make_row(self.back, 1, self.copy, spacing=8)
        title = PlainLabel("My own training loop", role="title")
        make_column(title, lines, about, 1, buttons, into=page, spacing=12)
        return page


class StartCard(QFrame):
    """Card in the middle of the panels, which it covers.

    A choice made while the engine is still loading is carried out as soon as possible. The card
    closes when a run is shown.

    Args:
        context: Services of the window.
        window: The window.
        arrangement: The layout of its panels.
        files: Its file dialogs.
        trigger: Triggers an action of the window.
        open_settings: Opens the form with all settings of a run.
    """

    def __init__(
        self,
        context: WindowContext,
        window: QMainWindow,
        arrangement: PanelArrangement,
        files: FileDialogs,
        trigger: Callable[[str], object],
        open_settings: Callable[[], object],
    ) -> None:
        super().__init__(window)
        self.setObjectName("start_cover")
        self.setAccessibleName("Start")
        self._context, self._window, self._files = context, window, files
        self._arrangement = arrangement
        self._trigger, self._open_settings = trigger, open_settings
        self._chosen = ""  # the way that waits for the engine
        self._runs: RunsListed | None = None
        self._no_list = False  # the runs folder cannot be listed
        files.images_chosen.connect(self._wait_for_images)
        self._fitting = QTimer(self, singleShot=True, interval=0)
        self._fitting.timeout.connect(self.fit_to_panels)
        changes = (QEvent.Type.Resize, QEvent.Type.LayoutRequest)
        EventFilter(self, dict.fromkeys(changes, lambda _event: self._schedule_fit()), window)
        self.hide()

    @cached_property
    def pages(self) -> StartPages:
        """The pages of the card, made when it is first opened."""
        pages = StartPages(self.press_key)
        for name, tile in pages.tiles.items():
            tile.clicked.connect(partial(self.choose, name))
        pages.settings.clicked.connect(self._show_settings)
        pages.copy.clicked.connect(self._copy_lines)
        pages.back.clicked.connect(self._show_ways)
        inner = QWidget()
        make_column(1, make_row(1, pages, 1), 2, into=inner, margins=(8, 8, 8, 8))
        area = make_scroll_area(inner)  # for a low window
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        make_column(area, into=self)
        return pages

    def open(self) -> None:
        """Show the card; the runs are listed anew, for the last one."""
        self._chosen = ""
        self.pages.copy.setText("Copy")
        self._show_ways()
        if self._context.run_state().is_ready:
            self._context.send(ListRuns())
        self.fit_to_panels()
        self.show()
        self.raise_()
        self._first_tile().setFocus(Qt.FocusReason.OtherFocusReason)

    def close_card(self) -> None:
        self._chosen = ""
        if self.isVisibleTo(self._window):
            self.hide()
            self._window.setFocus(Qt.FocusReason.OtherFocusReason)

    def choose(self, way: str) -> None:
        """Carry out a choice now, or once the engine can."""
        match way:
            case "data":
                self._files.open_any()
            case "checkpoint":
                self._leave_plane()
                self._files.open_any()
            case "loop":
                self.pages.show_loop()
                self.pages.copy.setFocus(Qt.FocusReason.OtherFocusReason)
            case _:
                self._chosen = way
                self._start_chosen()
                self._refresh_tiles()

    def on_event(self, event: Event, _state: RunState) -> None:
        match event:
            case RunStarted() | RunShown():
                self.close_card()
            case RunsListed():
                self._runs, self._no_list = event, False
            case Refused(what=what) if what == ListRuns().in_words():
                self._no_list = True
                self._chosen = "" if self._chosen == "last" else self._chosen
            case Refused() | Failed():
                if self._chosen == "last sent":  # it may have been deleted or damaged meanwhile
                    self._context.send(ListRuns())
                self._chosen = ""
        if not self.isVisibleTo(self._window):
            return
        if isinstance(event, EngineReady | RunsListed):
            self._start_chosen()
        self._refresh_tiles()

    def press_key(self, event: QKeyEvent) -> bool:
        """Handle a key while the card is open; return whether it has a meaning here."""
        if not self.isVisible():
            return False
        tiles = [*self.pages.tiles.values()]
        key, on_ways = event.key(), self.pages.is_on_ways
        if key == Qt.Key.Key_Escape:
            (self.close_card if on_ways else self._show_ways)()
        elif on_ways and event.text() in {str(index + 1) for index in range(len(tiles))}:
            tiles[int(event.text()) - 1].click()
        elif on_ways and event.text() == str(len(tiles) + 1):
            self.pages.settings.click()
        elif on_ways and key in _MOVES:
            self._move_focus(_MOVES[Qt.Key(key)])
        else:
            return False
        return True

    def event(self, event: QEvent) -> bool:
        """Keep the card's keys from the shortcuts of the window."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            plain = event.modifiers() in (
                Qt.KeyboardModifier.NoModifier,
                Qt.KeyboardModifier.KeypadModifier,
            )
            if plain and (event.key() in _MOVES or event.text().isdecimal()):
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.press_key(event):
            super().keyPressEvent(event)

    def fit_to_panels(self) -> None:
        """Cover the panels: from side to side, and from the upper to the lower bars."""
        self.setGeometry(_panel_area(self._window))
        self.pages.setFixedWidth(min(_WIDTH, max(self.width() - 32, 240)))

    def cover_panels(self) -> None:
        """Put the card on top again: docks that are arranged or first shown are raised."""
        if self.isVisible():
            self.fit_to_panels()
            self.raise_()

    def _schedule_fit(self) -> None:
        if self.isVisible():
            self._fitting.start()

    def _start_chosen(self) -> None:
        """Carry out the choice that waits, if the engine has what it needs."""
        context = self._context
        match self._chosen:
            case "digits":
                self._chosen = "digits sent"
                self._leave_plane()
                context.send(StartRun(first_run()))
            case "playground" if context.run_state().is_ready:
                self._chosen = "playground sent"
                self._trigger(PLAYGROUND)
            case "last" if self._runs is not None:
                run = find_last_run(self._runs.runs)
                self._chosen = "last sent" if run is not None else ""
                if run is not None:
                    context.send(ContinueRun(run.folder))

    def _wait_for_images(self) -> None:
        self._chosen = "data sent"
        self._leave_plane()
        self._refresh_tiles()

    def _leave_plane(self) -> None:
        """Return from the layout of the playground, which has panels for the plane only."""
        if self._arrangement.preset == _OF_PLANE:
            self._arrangement.arrange_preset()

    def _refresh_tiles(self) -> None:
        """Show what each tile would do now, or what the chosen one waits for."""
        if "pages" not in vars(self):
            return
        state, chosen = self._context.run_state(), self._chosen.removesuffix(" sent")
        last, why_not = self._describe_last()
        for name, tile in self.pages.tiles.items():
            about = last if name == "last" else tile.way.about
            if name == chosen:
                about = (
                    (f"{state.working}…" if state.working else "Starting…")
                    if (state.is_ready)
                    else _LOADING
                )
            tile.show_about(about)
            tile.setEnabled(not chosen and not (name == "last" and why_not))
        escape = "returns to the run" if state.run is not None else "closes this card"
        self.pages.keys.setText(f"Keys 1 to {len(self.pages.tiles) + 1} choose; Esc {escape}")
        self.pages.settings.setEnabled(not chosen)

    def _describe_last(self) -> tuple[str, bool]:
        """Return the text for the last run, and whether there is none to continue."""
        if self._no_list:
            return "The runs folder cannot be listed", True
        if self._runs is None:
            return _LOOKING, False
        run = find_last_run(self._runs.runs)
        if run is not None:
            return describe_last_run(run, time.time()), False
        if not self._runs.root:
            return "Runs are not recorded in this window", True
        none = not self._runs.runs
        return ("No run is recorded yet" if none else "No earlier run can be continued"), True

    def _first_tile(self) -> StartTile:
        return next(iter(self.pages.tiles.values()))

    def _move_focus(self, step: int) -> None:
        """Move the focus to the next tile that can be chosen in this direction."""
        tiles = [*self.pages.tiles.values()]
        focused = self._window.focusWidget()
        index = tiles.index(focused) if isinstance(focused, StartTile) else -step
        while 0 <= (index := index + step) < len(tiles):
            if tiles[index].isEnabled():
                tiles[index].setFocus(Qt.FocusReason.TabFocusReason)
                return

    def _show_ways(self) -> None:
        self.pages.show_ways()
        self._refresh_tiles()
        if self.isVisible():
            self.pages.tiles["loop"].setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_settings(self) -> None:
        self.close_card()
        self._open_settings()

    def _copy_lines(self) -> None:
        QGuiApplication.clipboard().setText(WATCH_LINES)
        self.pages.copy.setText("Copied")


def _panel_area(window: QMainWindow) -> QRect:
    """Return the rectangle of the docked panels, with their tabs, in the window."""
    area, panels = window.rect(), QRect()
    if (menu := window.menuWidget()) is not None:
        area.setTop(menu.geometry().bottom() + 1)
    for bar in window.findChildren(QToolBar):
        if not bar.isVisibleTo(window) or bar.isFloating():
            continue
        if window.toolBarArea(bar) == Qt.ToolBarArea.TopToolBarArea:
            area.setTop(max(area.top(), bar.geometry().bottom() + 1))
        elif window.toolBarArea(bar) == Qt.ToolBarArea.BottomToolBarArea:
            area.setBottom(min(area.bottom(), bar.geometry().top() - 1))
    area.setBottom(min(area.bottom(), window.statusBar().geometry().top() - 1))
    for dock in window.findChildren(PanelFrame):
        if dock.isVisibleTo(window) and not dock.isFloating():
            panels |= dock.geometry()
    if not panels.isEmpty():
        area.setLeft(max(area.left(), panels.left()))
        area.setRight(min(area.right(), panels.right()))
    return area
