"""The main window: creates all parts and passes events to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QKeySequence, QShowEvent
from PySide6.QtWidgets import QMainWindow

from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, EngineReady, Event, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import SAMPLES, HistoryReplayed
from dgn_engine.protocol.training import CancelLoading
from dgn_engine.scene.panel_spec import PREDICTIONS, PanelSpec
from dgn_engine.views.event_notices import Notice, time_of_day
from dgn_engine.views.history import History
from dgn_engine.views.past_view import BACK_TO_LIVE
from dgn_viewer.actions.action_views import ActionViews
from dgn_viewer.actions.edit_menu import edit_menu
from dgn_viewer.actions.experiments_menu import experiment_rows, experiments_menu
from dgn_viewer.actions.file_menu import file_menu
from dgn_viewer.actions.gates_menu import GATES_MENU, regime_rows
from dgn_viewer.actions.help_menu import help_menu
from dgn_viewer.actions.playground_menu import playground_rows
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.run_menu import run_menu
from dgn_viewer.actions.view_menu import view_menu
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.docks.panel_scheduler import PanelScheduler
from dgn_viewer.layer_strip.strip_widget import LayersStrip
from dgn_viewer.notices import Notices
from dgn_viewer.rail.rail_bar import RailBar
from dgn_viewer.settings import Settings
from dgn_viewer.shell.compare_room import CompareRoom
from dgn_viewer.shell.event_walk import EventWalk
from dgn_viewer.shell.experiment_runner import ExperimentRunner
from dgn_viewer.shell.export import Exports
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.guides import Guides
from dgn_viewer.shell.inspector_pages import InspectorPages
from dgn_viewer.shell.notice_views import NoticeViews
from dgn_viewer.shell.playground_bar import PlaygroundBar
from dgn_viewer.shell.playground_control import PlaygroundControl
from dgn_viewer.shell.presentation import Presentation
from dgn_viewer.shell.recorded_runs import RecordedRuns
from dgn_viewer.shell.run_control import RunControl
from dgn_viewer.shell.run_views import RunViews
from dgn_viewer.shell.start_card import StartCard
from dgn_viewer.shell.statusbar import StatusBar
from dgn_viewer.shell.time_controls import TimeControls
from dgn_viewer.shell.window_context import WindowContext
from dgn_viewer.shell.window_layout import FocusWalk, SideColumns, WindowLayout
from dgn_viewer.shell.window_theme import WindowTheme
from dgn_viewer.widgets.button_keys import press_focused_button

DEFAULT_SIZE = QSize(1440, 900)
LEAST_HEIGHT = 450  # panels stacked vertically become tabs before that


class Window(QMainWindow):
    """Main window with all parts of the viewer; the actions are declared in the menu modules."""

    event_taken = Signal(object, object)  # event, and the state shown after it
    engine_wanted = Signal()  # replace the stopped engine
    closed = Signal()

    def __init__(
        self,
        send: Callable[[Command], None],
        panels: Mapping[str, PanelSpec],
        settings: Settings,
        theme_choice: str = "",
    ) -> None:
        super().__init__()
        theme = WindowTheme(settings, theme_choice, self)
        theme.apply_theme()  # the widgets created below use its colours
        self.setObjectName("window")
        self.setWindowTitle("Deep gated networks")
        self.setDockNestingEnabled(True)
        self.setMinimumHeight(LEAST_HEIGHT)
        self.history = History(time_of_day)
        guarded = partial(self._send_if_seen, send)
        self.notices = Notices(self, lambda: self.run_state, guarded)
        self.context = context = WindowContext(
            window=self,
            send=guarded,
            settings=settings,
            notify=self.notices.add_notice,
            run_state=lambda: self.run_state,
            shown_state=lambda: self.shown_state,
            view=lambda: self.history.view({}),
            theme=theme,
        )
        self.docks = docks = PanelDocks(self, panels, theme.now)
        self.layouts = WindowLayout(self, docks, context)
        self.display = PanelScheduler(self.history, docks, dict(panels), guarded)
        probes = (PREDICTIONS, *(probe for spec in panels.values() for probe in spec.probes))
        self.time = TimeControls(context, self.history, probes, self.display)
        status = StatusBar(self, last_step=lambda: self.time.cursor.last_step)
        self.notice_views = NoticeViews(self.notices, status, self, theme)
        self.run_control = RunControl(context)
        self.playground = PlaygroundControl(context, docks)
        self.playground_bar = PlaygroundBar(self.playground, self)
        theme.changed.connect(self.playground_bar.set_theme)
        self.files = FileDialogs(context)
        self.columns = columns = SideColumns(self, context)
        self.inspector = inspector = columns.inspector
        self.runs = RailBar(guarded, settings, theme.now, self)
        self.recorded = RecordedRuns(context, self.runs, self.layouts, self.files.save_weights)
        self.exports = Exports(context, docks, self.history, self.time.cursor)
        self.experiments = ExperimentRunner(context, columns.results, inspector)
        self.registry = registry = Actions(context.shown_state, theme.make_icon, self)
        self.start_card = StartCard(
            context,
            self,
            docks.arrangement,
            self.files,
            self._trigger_action,
            inspector.show_run_settings,
        )
        events = EventWalk(context, docks, self.display.draw_now)
        show_step, keys = events.show_step, registry.keys
        self.pages = InspectorPages(
            context,
            inspector,
            docks,
            self.time,
            keys,
            show_step,
            self.display.watch_predictions,
            self.start_card.open,
        )
        self.action_views = ActionViews(registry, self, theme)
        strip = LayersStrip(guarded)
        self.presentation = Presentation(
            context, docks, panels, lambda: self.run_views, self.runs, columns.results
        )
        self._declare_actions(panels, events, FocusWalk(strip, docks, columns, self.runs))
        action = registry.__getitem__
        self.time.make_bars(*map(action, ("time.play", "time.live", "time.compare")))
        self.run_views = RunViews(context, self.time, inspector, strip, status, action)
        self.guides = Guides(context, docks, self.run_views, columns, self.experiments, self.time)
        registry.add_menus(help_menu(self.guides, self.pages, self.action_views))
        self.action_views.fill_menu_bar(self.menuBar())
        self.run_views.add_bars(self, self.playground_bar, self.notice_views.question)
        self.addToolBar(Qt.ToolBarArea.LeftToolBarArea, self.runs)
        self.compare_room = CompareRoom(self, docks, self.run_views.strip_bar, columns)
        self.notices.step_wanted.connect(show_step)
        self._connect_parts()
        if not self.layouts.restore_layout(DEFAULT_SIZE):
            docks.arrangement.arrange_preset()
        self.run_views.hide_banners()
        self.playground_bar.hide()
        self.time.compared_bar.hide()
        self.notice_views.question.hide()
        self.runs.show_saved()
        columns.hide_columns()
        theme.apply_theme()
        registry.refresh()

    def _declare_actions(
        self, panels: Mapping[str, PanelSpec], events: EventWalk, parts: FocusWalk
    ) -> None:
        """Register the menus; the palette lists their rows in this order."""
        context, pages, cursor = self.context, self.pages, self.time.cursor
        docks = self.docks
        self.registry.keys.sync_with_settings(context.settings)
        self.registry.add_menus(
            run_menu(context, self.run_control, pages, self.engine_wanted.emit, self.playground),
            file_menu(context, self.files, self.recorded, self.exports, pages, cursor),
            edit_menu(context, self.layouts.history, pages),
            GATES_MENU,
            experiments_menu(self.experiments),
            view_menu(
                context,
                docks,
                panels,
                self.time,
                events,
                parts,
                pages,
                self.files,
                self.notices,
                self.action_views,
                self.presentation,
            ),
        )

    @property
    def run_state(self) -> RunState:
        return self.history.state

    @property
    def shown_state(self) -> RunState:
        """State of the run, as it was at the past step that is shown, if any."""
        return self.history.shown_state

    def make_deferred_parts(self) -> None:
        """Create what is not needed for the first paint."""
        self.docks.make_scene_views()

    # Events and frames from the pump

    def on_event(self, event: Event) -> None:
        """Handle an event and pass it on; parts are separate slots, so an error stays in one."""
        if isinstance(event, HistoryReplayed):  # happened earlier: no notices
            self._replay_history(event)
        else:
            self._handle_event(event)
            self.notices.on_event(event)
        self.display.schedule_refresh()

    def on_frame(self, frame: Frame) -> None:
        if self.history.on_frame(frame):
            self.run_views.status.show_frame(frame)
            self.time.cursor.keeper.on_frame(frame)
            self.pages.show_answers()
            self.guides.tour.refresh_measurement()
            self.display.update_pace(frame.watching)
            self.display.schedule_refresh()
            self.guides.start_due_tour()

    def _replay_history(self, past: HistoryReplayed) -> None:
        """Handle past events; the many samples go only to the history."""
        before = self.run_state
        for event in past.events:
            self.history.on_event(event, replayed=True)
            if not isinstance(event, SAMPLES):
                self.event_taken.emit(event, self.shown_state)
        self.history.record_left_out(past)
        self._show_state(before)

    def _handle_event(self, event: Event) -> None:
        before = self.run_state
        self.history.on_event(event)
        if isinstance(event, EngineReady):
            self.pages.on_ready(event)
            catalogue, send = event.catalogue, self.context.send
            self.registry.register_rows(regime_rows(catalogue, send))
            self.registry.register_rows(playground_rows(catalogue, self.playground))
            self.registry.register_rows(experiment_rows(catalogue, self.experiments))
        self.run_control.on_event(event)
        self._show_state(before)
        self.event_taken.emit(event, self.shown_state)

    def _show_state(self, before: RunState) -> None:
        """Show the state of the run, if it has changed."""
        if self.run_state is not before:
            compared = self.run_state.comparison
            self.docks.arrangement.set_compared(compared and compared.subject)
            self.registry.refresh()
            self.run_views.show_state()

    # Commands from the parts

    def _send_if_seen(self, send: Callable[[Command], None], command: Command) -> None:
        """Send a command, unless it would change the run while a past step is shown."""
        step = self.time.cursor.step
        if command.changes_run and step is not None:
            action = command.in_words()
            at = f"while looking back at step {step:,}"
            self.time.offer_live(f"Cannot {action} {at}. {BACK_TO_LIVE}")
            self.event_taken.emit(Refused(action, BACK_TO_LIVE), self.shown_state)
            return
        self.files.recent.on_command(command)
        if isinstance(command, OpenFile):
            self.inspector.files.expect_file()
        send(command)

    # Qt

    def event(self, event: QEvent) -> bool:
        return press_focused_button(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle Escape, arrow keys and shortcuts of disabled actions.

        Escape undoes one thing at a time: it ends the tour, unpins, closes the inspector, restores
        a maximised panel, or returns to live. Arrow keys that no part has handled move in time.
        """
        escape, bar = event.key() == Qt.Key.Key_Escape, self.time.bar
        keys = QKeySequence(event.keyCombination())
        if escape and self.guides.tour.step_index >= 0:
            self.guides.tour.skip_tour()
        elif self.start_card.press_key(event) or (escape and self.docks.linked.unpin()):
            event.accept()
        elif escape and self.inspector.page is not None:
            self.inspector.close_page()
        elif escape and self.docks.arrangement.maximised_name:
            self.docks.arrangement.restore_panels()
            self.registry.refresh()
        elif escape and self.time.cursor.step is not None:
            self.time.cursor.go_live()
        elif not event.modifiers() and event.key() in bar.KEYS:
            bar.slider.keyPressEvent(event)
        elif not event.isAutoRepeat() and (why := self.registry.reason_disabled(keys)):
            self.notices.add_notice(Notice("info", why, listed=False))
        else:
            super().keyPressEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.docks.make_visible_panels()
        self.layouts.on_show()
        self.start_card.cover_panels()
        if not self.start_card.isVisible():
            self.setFocus(Qt.FocusReason.OtherFocusReason)  # not to the first small button

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save the layout; the engine is stopped by its owner."""
        self.presentation.leave()
        self.layouts.save_layout()
        self.display.stop()
        self.guides.close()
        event.accept()
        self.closed.emit()

    # Internal

    def _trigger_action(self, name: str) -> None:
        self.registry[name].trigger()

    def _connect_parts(self) -> None:
        docks, views, cursor = self.docks, self.run_views, self.time.cursor
        bars = views.toolbar, views.strip, self.playground_bar, self.runs, self.time.bar.dial
        parts = self.inspector, self.recorded, self.files.recent, self.playground, self.start_card
        for part in (*bars, *parts, self.guides.acts, cursor, self.time.compared):
            self.event_taken.connect(part.on_event)
        views.step_shown.connect(self.registry.refresh)
        views.step_shown.connect(self.pages.show_answers)
        cursor.acts_changed.connect(self.registry.refresh)
        layouts = self.layouts.history
        for source in (docks, docks.steps, layouts, self.files.recent, self.experiments):
            source.changed.connect(self.registry.refresh)
        cursor.acts_changed.connect(self.notices.close_stale_offers)
        self.display.drawn.connect(views.status.ensure_step_shown)
        views.status.cancel_wanted.connect(partial(self.context.send, CancelLoading()))
        for host in docks.hosts.values():
            host.command_wanted.connect(self.context.send)
        docks.linked.lighted.connect(views.strip.canvas.outline_layer)
        docks.steps.wanted.connect(cursor.go_to)
        docks.arrangement.arranged.connect(self.columns.page.fit_to_page)
        self.columns.make_room(self.runs)
        docks.arrangement.arranged.connect(self.start_card.cover_panels)
        self.files.drops.other_dropped.connect(self.inspector.files.close_file_page)
        self.files.opener.result_wanted.connect(self.experiments.show_folder)
        self.experiments.connect_reports(self.inspector, self.runs.rail)
        self.recorded.settings_wanted.connect(self.pages.open_settings)
        self.recorded.branch_page_wanted.connect(self.pages.open_branch_at)
        for owner in (self.time, self.experiments, self.exports):
            self.closed.connect(owner.close)
        self.closed.connect(self.runs.stop)
        self.context.theme.changed.connect(self.runs.set_theme)
        self.closed.connect(self.recorded.remote.stop)
