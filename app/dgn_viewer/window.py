"""The window: toolbar, layers strip, docked panels, inspector, status bar; events go to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QAction, QCloseEvent, QGuiApplication, QIcon, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QMainWindow

from dgn_engine.protocol.commands import Command
from dgn_engine.protocol.events import EngineReady, Event, HistoryReplayed, Measured, ProbeScalars
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions import action_table as table
from dgn_viewer.actions.menus import Menus
from dgn_viewer.actions.palette import Palette
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.docks.panel_scheduler import PanelScheduler
from dgn_viewer.experiments.results_panel import ResultsDock
from dgn_viewer.inspector.inspector_column import Inspector, InspectorDock
from dgn_viewer.layer_strip.strip_widget import LayersStrip, StripBar
from dgn_viewer.notices import Notice, Notices
from dgn_viewer.scene.panel_spec import PanelSpec
from dgn_viewer.settings import Settings
from dgn_viewer.shell import banner, window_layout
from dgn_viewer.shell.banner import Banner
from dgn_viewer.shell.experiment_runner import ExperimentRunner
from dgn_viewer.shell.export import PanelExport
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.file_drops import DropTarget
from dgn_viewer.shell.recorded_runs import RecordedRuns
from dgn_viewer.shell.run_control import RunControl
from dgn_viewer.shell.statusbar import StatusBar
from dgn_viewer.shell.toolbar import RunToolbar
from dgn_viewer.state.history import History
from dgn_viewer.style import appearance, stylesheet

DEFAULT_SIZE = QSize(1440, 900)


class Window(QMainWindow):
    """Every part of the viewer in its place; what actions do lies in `action_table`."""

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
        self.history = History()
        self._arranged = False
        self._foreign_layout = False  # of a session that was opened: it is not kept
        self._make_parts(panels)
        self._place()
        self._connect()
        self._restore()
        self._apply_theme()
        self.registry.refresh()

    # Events and frames, as the pump brings them

    def on_event(self, event: Event) -> None:
        """Take in one event and pass it on; each part is its own slot, so a fault stays in it."""
        if isinstance(event, HistoryReplayed):  # it happened before: no notices
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
            self.registry.add(table.regime_actions(event.catalogue, self.send))
            entries = event.catalogue.experiments
            self.registry.add(table.experiment_actions(entries, self.experiments.open_page))
        self.run_control.on_event(event)
        if state is not before:
            self.registry.refresh()
            self.status.show_state(state)
            self.docks.compare(state.comparison is not None)
            for row in self.banners:
                row.show_state(state)
        if not isinstance(event, (Measured, ProbeScalars)):  # many, and only history needs them
            self.event_taken.emit(event, state)

    def on_frame(self, frame: Frame) -> None:
        if self.history.on_frame(frame):
            self.status.show_frame(frame)
            self.display.refresh()

    @property
    def run_state(self) -> RunState:
        return self.history.state

    def choose_theme(self, name: str, keep: bool = True) -> None:
        """Recolour everything at once; `keep`: at the next start too."""
        self._theme_choice = name
        if keep:
            self.settings.theme = name
        self._apply_theme()

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
        """Save the layout; the engine is stopped by whoever started it."""
        self.docks.compare(False)
        if not self._foreign_layout:
            window_layout.save(self, self.settings)
        self.settings.save()
        self.display.stop()
        event.accept()
        self.closed.emit()

    # Inside

    def _make_parts(self, panels: Mapping[str, PanelSpec]) -> None:
        send, settings = self.send, self.settings

        def now() -> RunState:
            return self.run_state

        self.registry = Actions(now, self._icon, self)
        self.docks = PanelDocks(self, panels, self.theme)
        self.display = PanelScheduler(self.history, self.docks, dict(panels), send)
        self.inspector = Inspector(send)
        self.status = StatusBar(self)
        self.notices = Notices(self, self._corner)
        tell = self.notices.tell
        self.drops = DropTarget(self, send, lambda why: tell(Notice("refused", why)))
        self.run_control = RunControl(send, now)
        self.files = FileDialogs(self, send, settings, tell, now)
        self.recorded = RecordedRuns(
            self, send, settings, tell, now, self._layout_json, self.files.save_weights
        )
        self.exports = PanelExport(self, self.docks, settings, tell)
        self.inspector_dock = InspectorDock(self.inspector, self)
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.inspector_dock)
        self.inspector_dock.hide()  # a dock that is added is shown
        self.results = ResultsDock(self, self.inspector_dock, self.theme)
        self.experiments = ExperimentRunner(
            self, self.results, self.inspector, send, settings, tell, now
        )
        self.palette_ = Palette(self.registry, self)
        self.sheet = ShortcutSheet(self.registry, self)
        self.registry.add(
            (*table.fixed_actions(self._parts()), *table.panel_actions(self.docks, panels))
        )
        self.menus = Menus(self.menuBar(), self.registry)
        self.strip = LayersStrip(send)
        self.toolbar = RunToolbar(
            send, [*self._named(table.TOOLBAR_FIRST).values()],
            [*self._named(table.TOOLBAR_LAST).values()],
        )  # fmt: skip
        inspected, recorded = table.INSPECTED_BANNER, table.RECORDED_BANNER
        self.banners = (
            Banner("bar.standing", "Inspected and compared", banner.inspection,
                   self._named(inspected), self),
            Banner("bar.recorded", "Recorded run", banner.recording,
                   self._named(recorded), self, margin=4),
        )  # fmt: skip

    def _parts(self) -> table.Parts:
        return table.Parts(
            send=self.send,
            run=self.run_control,
            files=self.files,
            recorded=self.recorded,
            exports=self.exports,
            experiments=self.experiments,
            docks=self.docks,
            inspector=self.inspector,
            notices=self.notices,
            theme_choice=lambda: self._theme_choice,
            choose_theme=self.choose_theme,
            open_palette=self.palette_.open,
            show_shortcuts=self.sheet.open,
            start_engine=self.engine_wanted.emit,
            quit=self.close,
        )

    def _named(self, names: tuple[str, ...]) -> dict[str, QAction]:
        return {name: self.registry[name] for name in names}

    def _place(self) -> None:
        self.addToolBar(self.toolbar)
        for row in (StripBar(self.strip, self), *self.banners):
            self.addToolBarBreak()
            self.addToolBar(row)
        self.setStatusBar(self.status)
        self.docks.arrange()

    def _connect(self) -> None:
        for part in (self.toolbar, self.strip, self.inspector, self.recorded):
            self.event_taken.connect(part.on_event)
        self.inspector_dock.visibilityChanged.connect(lambda _seen: self.notices.settle())
        for host in self.docks.hosts.values():
            host.about_requested.connect(self._about)
            host.export_requested.connect(self.exports.panel)
        self.docks.changed.connect(self.registry.refresh)
        self.recorded.layout_opened.connect(self._apply_layout)
        self.recorded.list_wanted.connect(self.inspector.show_runs)
        self.experiments.changed.connect(self.registry.refresh)
        self.closed.connect(self.experiments.close)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_desktop_theme)

    def _restore(self) -> None:
        self._arranged = window_layout.restore(self, self.settings, DEFAULT_SIZE)
        for part in (self.inspector_dock, self.results, *self.banners):
            part.hide()

    def _layout_json(self) -> str:
        return window_layout.layout_json(self, self.theme.name, self.docks)

    def _apply_layout(self, layout: str) -> None:
        self._foreign_layout = True
        theme = window_layout.apply_layout(self, self.docks, layout)
        if theme:
            self.choose_theme(theme, keep=False)

    def _corner(self) -> QPoint:
        """The lower right corner of the panels, where notices sit: not on the inspector."""
        column = self.inspector_dock
        right = column.x() if column.isVisible() else self.width()
        return QPoint(right, self.status.y())

    def _about(self, name: str) -> None:
        self.inspector.show_about(self.docks.hosts[name].spec)

    def _on_desktop_theme(self) -> None:
        if self._theme_choice == "system":
            self._apply_theme()

    def _apply_theme(self) -> None:
        self.theme = appearance.resolve(self._theme_choice)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        appearance.apply(application, self.theme)
        parts = (self.docks, self.strip, self.inspector, self.drops, self.results, *self.banners)
        for part in parts:
            part.set_theme(self.theme)
        self.registry.set_icons()

    def _icon(self, name: str) -> QIcon:
        return stylesheet.icon(name, self.theme)
