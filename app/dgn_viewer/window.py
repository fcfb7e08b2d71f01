"""The window: toolbar, layers strip, docked panels, inspector, status bar; events go to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QGuiApplication, QIcon, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QMainWindow

from dgn_engine.protocol.commands import Advance, Command, Pause
from dgn_engine.protocol.events import (
    EngineReady,
    Event,
    HistoryReplayed,
    Measured,
    Paused,
    ProbeScalars,
)
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.action_table import fixed_actions, panel_actions, regime_actions
from dgn_viewer.actions.menus import Menus
from dgn_viewer.actions.palette import Palette
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.docks.panel_scheduler import PanelScheduler
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.inspector_dock import InspectorDock
from dgn_viewer.layer_strip.strip_bar import StripBar
from dgn_viewer.layer_strip.strip_widget import LayersStrip
from dgn_viewer.notices import Notice, Notices
from dgn_viewer.scene.panel_spec import PanelSpec
from dgn_viewer.settings import Settings
from dgn_viewer.shell.experiment_parts import ExperimentParts
from dgn_viewer.shell.export import export_all, export_panel
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.file_drops import DropTarget
from dgn_viewer.shell.inspected_banner import InspectedBanner
from dgn_viewer.shell.recorded_parts import RecordedParts
from dgn_viewer.shell.statusbar import StatusBar
from dgn_viewer.shell.toolbar import RunToolbar
from dgn_viewer.shell.window_state import remember, restore
from dgn_viewer.state.history import History
from dgn_viewer.style import appearance, stylesheet

DEFAULT_SIZE = QSize(1440, 900)


class Window(QMainWindow):
    """Every part of the viewer in its place. Implements `actions.Shell`."""

    event_taken = Signal(object, object)  # an event that is no sample, and the state after it
    engine_wanted = Signal()  # another one, in the place of one that has stopped
    closed = Signal()

    def __init__(
        self,
        send: Callable[[Command], None],
        panels: Mapping[str, PanelSpec],
        settings: Settings,
        theme_choice: str = "",
    ) -> None:
        super().__init__()
        self.setObjectName("window")
        self.setWindowTitle("Deep gated networks")
        self.setDockNestingEnabled(True)
        self.send = send
        self.settings = settings
        self._theme_choice = theme_choice or settings.theme
        self.theme = appearance.resolve(self._theme_choice)
        self._arranged = False
        self._finishing = False  # an epoch, as soon as the run stands
        self.history = History()
        self.registry = Actions(self, self._icon, self)
        self.registry.add((*fixed_actions(), *panel_actions(panels)))
        self.docks = PanelDocks(self, panels, self.theme)
        self.display = PanelScheduler(self.history, self.docks, dict(panels), send)
        self.toolbar = RunToolbar(send, self.registry)
        self.strip = LayersStrip(send)
        self.standing = InspectedBanner(self.registry, self)
        self.inspector = Inspector(send)
        self.status = StatusBar(self)
        self.notices = Notices(self, self._corner)
        self.palette_ = Palette(self.registry, self)
        self.sheet = ShortcutSheet(self.registry, self)
        self.drops = DropTarget(self, send, lambda why: self.notices.tell(Notice("refused", why)))
        self._files = FileDialogs(self, send, settings, self.notices.tell)
        self.menus = Menus(self.menuBar(), self.registry)
        self._place()
        self.recorded = RecordedParts(self, self)
        self.experiments = ExperimentParts(self, self, self._column)
        self._connect()
        self._restore()
        self._put_theme_on()
        self.registry.refresh()

    # What the pump brings

    def on_event(self, event: Event) -> None:
        """Take in one event and pass it on; each part is its own slot, so a fault stays in it."""
        if isinstance(event, HistoryReplayed):  # it does not happen again: nobody is told
            for one in event.events:
                self._take(one)
        else:
            self._take(event)
            self.notices.on_event(event)
        self.display.refresh()

    def _take(self, event: Event) -> None:
        before = self.run_state
        self.history.on_event(event)
        state = self.run_state
        if isinstance(event, EngineReady):
            self.registry.add(regime_actions(event.catalogue))
        if self._finishing and isinstance(event, Paused):
            self._finishing = False
            self.finish_epoch()
        if state is not before:
            self.registry.refresh()
            self.status.show_state(state)
            self.docks.compare(state.comparison is not None)
            self.standing.show_state(state)
        if not isinstance(event, (Measured, ProbeScalars)):  # many, and only history needs them
            self.event_taken.emit(event, state)

    def on_frame(self, frame: Frame) -> None:
        """Take in the newest frame."""
        if self.history.on_frame(frame):
            self.status.show_frame(frame)
            self.display.refresh()

    # What actions ask (actions.Shell)

    @property
    def run_state(self) -> RunState:
        """The state of engine and run after the events so far."""
        return self.history.state

    @property
    def theme_choice(self) -> str:
        """'light', 'dark' or 'system'."""
        return self._theme_choice

    @property
    def files(self) -> FileDialogs:
        """The questions for a file."""
        return self._files

    def panel_is_open(self, panel: str) -> bool:
        """Whether the panel has a place in the layout."""
        return self.docks.is_open(panel)

    def toggle_panel(self, panel: str) -> None:
        """Close it if it is seen, else open it."""
        self.docks.toggle(panel)

    def reset_layout(self) -> None:
        """The layout of the first start."""
        self.docks.arrange()

    def choose_theme(self, name: str, keep: bool = True) -> None:
        """Recolour everything at once; `keep`: at the next start too."""
        self._theme_choice = name
        if keep:
            self.settings.theme = name
        self._put_theme_on()

    def new_run(self) -> None:
        """The form of a new run in the inspector."""
        self.inspector.show_run_settings()

    def start_engine(self) -> None:
        """Ask for another engine."""
        self.engine_wanted.emit()

    def about_front(self) -> None:
        """What the panel in front shows, in the inspector."""
        if name := self.docks.front():
            self._about(name)

    def export_front(self) -> None:
        """Ask for a file; the panel in front goes there."""
        if name := self.docks.front():
            self._export(name)

    def export_all(self) -> None:
        """Ask for one name; every panel in sight goes beside it."""
        hosts = [self.docks.hosts[name] for name in self.docks.visible()]
        export_all(self, hosts, self.settings, self.notices.tell)

    def save_configuration(self) -> None:
        """Ask for a file; the configuration as it is now goes there."""
        config = self.run_state.current_config()
        if config is not None:
            self._files.save_configuration(config)

    def open_palette(self) -> None:
        """Every action in a list."""
        self.palette_.open()

    def show_shortcuts(self) -> None:
        """Every shortcut in a sheet."""
        self.sheet.open()

    def show_notices(self) -> None:
        """The last notices once more."""
        self.notices.show_recent()

    def finish_epoch(self) -> None:
        """Train to the end of this epoch; a run that trains stands first, to know where it is."""
        if self.run_state.running:
            self._finishing = True
            self.send(Pause())
        else:
            self.send(Advance(self.run_state.epoch_steps))

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape closes the inspector from anywhere."""
        if event.key() == Qt.Key.Key_Escape and self.inspector.page is not None:
            self.inspector.leave()
        else:
            super().keyPressEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        """Docks take their sizes only in a window that has one."""
        super().showEvent(event)
        if not self._arranged:
            self._arranged = True
            self.docks.share_out()
        self.setFocus(Qt.FocusReason.OtherFocusReason)  # else the first small button has it

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remember the window; the engine is stopped by whoever started it."""
        self.docks.compare(False)
        remember(self, self.settings, self.recorded.borrowed)
        self.display.stop()
        event.accept()
        self.closed.emit()

    # Inside

    def _place(self) -> None:
        self.addToolBar(self.toolbar)
        self.addToolBarBreak()
        self.addToolBar(StripBar(self.strip, self))
        self.addToolBarBreak()
        self.addToolBar(self.standing)
        self.setStatusBar(self.status)
        self._column = InspectorDock(self.inspector, self)
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self._column)
        self._column.hide()  # a dock that is added is shown
        self.docks.arrange()

    def _connect(self) -> None:
        for part in (self.toolbar, self.strip, self.inspector):
            self.event_taken.connect(part.on_event)
        self.inspector.page_opened.connect(self._column.show)
        self.inspector.closed.connect(self._column.hide)
        self._column.visibilityChanged.connect(lambda _seen: self.notices.settle())
        for host in self.docks.hosts.values():
            host.about_requested.connect(self._about)
            host.export_requested.connect(self._export)
        self.docks.changed.connect(self.registry.refresh)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_desktop_theme)

    def _restore(self) -> None:
        self._arranged = restore(self, self.settings, DEFAULT_SIZE)
        for part in (self._column, self.standing, self.recorded.bar, self.experiments.dock):
            part.hide()

    def _corner(self) -> QPoint:
        """The lower right corner of the panels, where notices sit: not on the inspector."""
        column = self._column
        right = column.x() if column.isVisible() else self.width()
        return QPoint(right, self.status.y())

    def _about(self, name: str) -> None:
        self.inspector.show_about(self.docks.hosts[name].spec)

    def _export(self, name: str) -> None:
        export_panel(self, self.docks.hosts[name], self.settings, self.notices.tell)

    def _on_desktop_theme(self) -> None:
        if self._theme_choice == "system":
            self._put_theme_on()

    def _put_theme_on(self) -> None:
        self.theme = appearance.resolve(self._theme_choice)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        appearance.put_on(application, self.theme)
        parts = (self.docks, self.toolbar, self.strip, self.standing, self.inspector, self.drops)
        for part in (*parts, self.recorded, self.experiments):
            part.set_theme(self.theme)
        self.registry.redress()

    def _icon(self, name: str) -> QIcon:
        return stylesheet.icon(name, self.theme)
