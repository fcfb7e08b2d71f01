"""The window: toolbar, layers strip, docked panels, inspector, status bar; events go to each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QGuiApplication,
    QIcon,
    QKeyEvent,
    QKeySequence,
    QShowEvent,
)
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget

from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Command, EngineReady, Event, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import SAMPLES, HistoryReplayed
from dgn_engine.protocol.training import CancelLoading, GoBack, Redo, Undo, UndoSetting
from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.views.event_notices import Notice, NoticeButton, time_of_day
from dgn_engine.views.history import History
from dgn_engine.views.past_view import BACK_TO_LIVE
from dgn_viewer.actions import action_table as table
from dgn_viewer.actions.action_table import playground_actions
from dgn_viewer.actions.menus import Menus
from dgn_viewer.actions.palette import Palette
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.docks.layout_history import LayoutHistory
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.docks.panel_scheduler import PanelScheduler
from dgn_viewer.experiments.results_panel import ResultsDock
from dgn_viewer.inspector.inspector_column import Inspector, InspectorDock
from dgn_viewer.layer_strip.strip_widget import LayersStrip, StripBar
from dgn_viewer.notices import Notices
from dgn_viewer.settings import Settings
from dgn_viewer.shell import banner, window_layout
from dgn_viewer.shell.animation_export import AnimationExport
from dgn_viewer.shell.banner import Banner
from dgn_viewer.shell.claims_tour import ClaimActs
from dgn_viewer.shell.event_walk import EventWalk
from dgn_viewer.shell.experiment_runner import ExperimentRunner
from dgn_viewer.shell.export import PanelExport
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.file_drops import DropTarget
from dgn_viewer.shell.help_window import HelpWindow
from dgn_viewer.shell.inspector_pages import Appearance, InspectorPages
from dgn_viewer.shell.log_window import LogWindow
from dgn_viewer.shell.notice_line import NoticeLine
from dgn_viewer.shell.notice_list import NoticeList
from dgn_viewer.shell.recent_files import RecentFiles
from dgn_viewer.shell.recorded_runs import RecordedRuns
from dgn_viewer.shell.run_control import RunControl
from dgn_viewer.shell.statusbar import StatusBar
from dgn_viewer.shell.toolbar import RunToolbar
from dgn_viewer.shell.tour import Tour
from dgn_viewer.shell.tour_steps import TourActs
from dgn_viewer.shell.window_layout import FocusWalk, SideColumns, name_platform_parts
from dgn_viewer.style import appearance, stylesheet
from dgn_viewer.timeline.compared_bar import ComparedBar
from dgn_viewer.timeline.compared_cursor import ComparedCursor, compare_with_step
from dgn_viewer.timeline.step_cursor import StepCursor
from dgn_viewer.timeline.time_bar import AlignedSides, TimeBar
from dgn_viewer.widgets.button_keys import press_focused_button

DEFAULT_SIZE = QSize(1440, 900)
LEAST_HEIGHT = 450  # panels that stand one above the other become tabs on the way there


class Window(QMainWindow):
    """Every part of the viewer in its place; what actions do lies in `action_table`."""

    event_taken = Signal(object, object)  # an event, and the state that is shown after it
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
        appearance.apply(_application(), appearance.resolve(theme_choice or settings.theme))
        self.setObjectName("window")
        self.setWindowTitle("Deep gated networks")
        self.setDockNestingEnabled(True)
        self.setMinimumHeight(LEAST_HEIGHT)
        self.recent = RecentFiles(settings, send, lambda path: self.files.begin_with(path))
        self.send = self._guarded(send)
        self.settings = settings
        self._theme_choice = theme_choice or settings.theme
        self.theme = appearance.resolve(self._theme_choice, self.settings.numbers)
        self.history = History(time_of_day)
        self._torch_version = ""
        self._step_shown: tuple[RunState, int | None] = (RunState(), None)
        self._tour_due = False
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
            self._replay(event)
        else:
            self._take(event)
            self.notices.on_event(event)
        self.display.refresh()

    def _replay(self, past: HistoryReplayed) -> None:
        """Take in what happened before: scores, which are many, by the history alone."""
        before = self.run_state
        for one in past.events:
            self.history.on_event(one, replayed=True)
            if not isinstance(one, SAMPLES):
                self.event_taken.emit(one, self.shown_state)
        self.history.note_left_out(past)
        self._show_state(before)

    def _take(self, event: Event) -> None:
        before = self.run_state
        self.history.on_event(event)
        if isinstance(event, EngineReady):
            self._torch_version = event.torch_version
            if self.settings.budget:
                self.pages.set_watch_share(self.settings.budget)
            self.registry.add(table.regime_actions(event.catalogue, self.send))
            self.registry.add(playground_actions(event.catalogue, self.docks, self.send))
            entries, runner = event.catalogue.experiments, self.experiments
            self.registry.add(table.experiment_actions(entries, runner.open_page, runner.made))
        self.run_control.on_event(event)
        self._show_state(before)
        self.event_taken.emit(event, self.shown_state)

    def _show_state(self, before: RunState) -> None:
        """Show the state of the run where it is another than before."""
        if self.run_state is not before:
            self.docks.arrangement.compare(self.run_state.comparison is not None)
            self.registry.refresh()
            self._show_in_bars()

    def _show_in_bars(self) -> None:
        self.status.show_state(self.shown_state, self.step_cursor.step)
        for row in self.banners:
            row.show_state(self.shown_state)

    def _show_step(self) -> None:
        """Show the state of the step that is looked back at in every part that speaks of it."""
        state, past = self.shown_state, self.step_cursor.step
        if (state, past) != self._step_shown:
            self._step_shown = state, past
            for part in (self.toolbar, self.strip, self.inspector):
                part.show_state(state, past)
            self.registry.refresh()
            self._show_in_bars()

    def on_frame(self, frame: Frame) -> None:
        if self.history.on_frame(frame):
            self.status.show_frame(frame)
            self.step_cursor.keeper.on_frame(frame)
            self.tour.refresh()
            self.display.follow(frame.watching)
            self.display.refresh()
            if self._tour_due:
                self._tour_due = False
                self.settings.tour_seen = True
                self.tour.start()

    def offer_tour(self) -> None:
        """Begin the tour with the first frame, unless it was seen before."""
        self._tour_due = not self.settings.tour_seen

    @property
    def run_state(self) -> RunState:
        return self.history.state

    @property
    def shown_state(self) -> RunState:
        """The same with what was in force at the step that is looked back at."""
        return self.history.shown_state

    def choose_theme(self, name: str, keep: bool = True) -> None:
        """Recolour everything at once; `keep`: at the next start too."""
        self._theme_choice = name
        if keep:
            self.settings.theme = name
        self._apply_theme()

    def complete(self) -> None:
        """Make what is not to be seen in the first picture: the window is shown before it."""
        self.docks.make_scene_views()
        self.inspector.make_pages()

    # Qt

    def event(self, event: QEvent) -> bool:
        return press_focused_button(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape ends the tour, unpins, closes the inspector, ends a maximised panel or goes back
        to live, one at a time; arrow keys that no part has taken move in time."""
        escape = event.key() == Qt.Key.Key_Escape
        if escape and self.tour.place >= 0:
            self.tour.skip()
        elif escape and self.docks.linked.unpin():
            event.accept()
        elif escape and self.inspector.page is not None:
            self.inspector.leave()
        elif escape and self.docks.arrangement.maximised:
            self.docks.arrangement.restore()
            self.registry.refresh()
        elif escape and self.step_cursor.step is not None:
            self.step_cursor.live()
        elif not event.modifiers() and event.key() in self.time_bar.KEYS:
            self.time_bar.slider.keyPressEvent(event)
        elif not event.isAutoRepeat() and (why := self._refusal_of(event)):
            self.notices.tell(Notice("info", why, listed=False))
        else:
            super().keyPressEvent(event)

    def _refusal_of(self, event: QKeyEvent) -> str:
        return self.registry.refusal(QKeySequence(event.keyCombination()))

    def showEvent(self, event: QShowEvent) -> None:
        """Docks take their sizes only in a window that has one."""
        super().showEvent(event)
        if not self._arranged:
            self._arranged = True
            self.docks.arrangement.share_out()
        name_platform_parts(self)
        self.setFocus(Qt.FocusReason.OtherFocusReason)  # else the first small button has it

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save the layout; the engine is stopped by whoever started it."""
        self.layouts.stop()
        self.docks.arrangement.restore()
        self.docks.arrangement.compare(False)
        if not self._foreign_layout:
            window_layout.save(self, self.settings, self.docks)
        self.settings.save()
        self.display.stop()
        self.help.close()
        self.log.close()
        self.tour.skip()
        event.accept()
        self.closed.emit()

    # Inside

    def _make_parts(self, panels: Mapping[str, PanelSpec]) -> None:
        send, settings = self.send, self.settings

        def now() -> RunState:
            return self.run_state

        self.registry = Actions(lambda: self.shown_state, self._icon, self)
        self.docks = PanelDocks(self, panels, self.theme)
        self.layouts = LayoutHistory(self.docks, self, self.registry.refresh)
        self.display = PanelScheduler(self.history, self.docks, dict(panels), send)
        probes = tuple(probe for spec in panels.values() for probe in spec.probes)
        self.step_cursor = StepCursor(
            self.history,
            probes,
            self._draw_past,
            self._all_drawn,
            self,
            self.display.charge,
            self.display.look_back_in,
        )
        self.compared_cursor = ComparedCursor(
            self.history, probes, self._draw_past, lambda: self.step_cursor.source, self
        )
        self.inspector = Inspector(send, lambda: self.history.view({}))
        self.status = StatusBar(self, last_step=lambda: self.step_cursor.last_step)
        self.status.cancel_wanted.connect(partial(send, CancelLoading()))
        buttons = (partial(send, command()) for command in (Undo, Redo, GoBack, UndoSetting))
        self.notices = Notices(self, now, *buttons)
        self.notice_line = NoticeLine(self.notices)
        self.notice_list = NoticeList(self.notices, self, self.status)
        self.question = banner.QuestionRow(self.notices, self)
        self.status.hold(self.notice_line, lambda: self.notice_line.entry is not None)
        tell = self.notices.tell
        self.run_control = RunControl(send, now)
        self.files = files = FileDialogs(self, send, settings, tell, now)
        refuse = partial(_refuse, tell)
        self.drops = DropTarget(self, send, refuse, files.begin_with)
        self.recorded = RecordedRuns(
            self, send, settings, tell, now, self._layout_json, self.files.save_weights
        )
        self.exports = PanelExport(self, self.docks, settings, tell)
        self.animations = AnimationExport(
            self, self.docks, self.history, self.step_cursor, settings, tell
        )
        self.inspector_dock = InspectorDock(self.inspector, self)
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.inspector_dock)
        self.inspector_dock.hide()  # a dock that is added is shown
        self.results = ResultsDock(self, self.inspector_dock, self.theme)
        SideColumns(self, self.inspector, self.inspector_dock, self.results)
        self.experiments = ExperimentRunner(
            self, self.results, self.inspector, send, settings, tell, now
        )
        look = Appearance(
            lambda: self.theme, lambda: self._theme_choice, self.choose_theme, self._apply_theme
        )
        self.pages = InspectorPages(
            self.inspector,
            lambda command: self.send(command),
            self.history,
            self.docks,
            settings,
            self.registry,
            look,
            self._go_to_step,
            lambda: self._torch_version,
            lambda: self.step_cursor.last_step,
            lambda: self.step_cursor.step,
        )
        self.registry.take_keys(settings.shortcuts)
        self.registry.keys_changed.connect(self._keep_keys)
        self.palette_ = Palette(self.registry, self)
        self.help = HelpWindow(self, self.theme)
        self.log = LogWindow(self)
        self.sheet = ShortcutSheet(self.registry, self)
        self.registry.add(
            (
                *table.fixed_actions(self._parts()),
                *table.panel_actions(self.docks, panels),
                *table.recent_actions(self.recent),
            )
        )
        self.menus = Menus(self.menuBar(), self.registry)
        self.strip = LayersStrip(send)
        self.toolbar = RunToolbar(
            send,
            [*self._named(table.TOOLBAR_FIRST).values()],
            [*self._named(table.TOOLBAR_LAST).values()],
        )
        play, live = self.registry["time.play"], self.registry["time.live"]
        self.time_bar = TimeBar(self.step_cursor, self.history, play, live, self)
        self.compared_bar = ComparedBar(self.compared_cursor, self.step_cursor, self)
        AlignedSides(*((bar, bar.left, bar.right) for bar in (self.time_bar, self.compared_bar)))
        self._tour_acts = TourActs(
            self,
            send,
            now,
            lambda: self.history.view({}),
            self.docks,
            self.strip,
            self.toolbar.regime,
            self.inspector.leave,
        )
        self.tour = Tour(self, self._tour_acts.steps(), self.theme, self._return_to_live)
        self._claims = ClaimActs(
            self,
            send,
            lambda: self.history.view({}),
            self.docks,
            self.strip,
            self._open_experiment,
            self.inspector_dock,
        )
        inspected, recorded = table.INSPECTED_BANNER, table.RECORDED_BANNER
        self.banners = (
            banner.StandingBanner(
                self.step_cursor, self.compared_cursor, self._named(inspected), self
            ),
            Banner(
                "bar.recorded",
                "Recorded run",
                banner.recording,
                self._named(recorded),
                self,
                margin=4,
            ),
        )

    def _parts(self) -> table.Parts:
        return table.Parts(
            send=self.send,
            run=self.run_control,
            files=self.files,
            recorded=self.recorded,
            exports=self.exports,
            animations=self.animations,
            experiments=self.experiments,
            docks=self.docks,
            inspector=self.inspector,
            notices=self.notices,
            theme_choice=lambda: self._theme_choice,
            choose_theme=self.choose_theme,
            open_palette=self.palette_.open,
            show_shortcuts=self.sheet.open,
            open_settings=self.pages.settings,
            open_examples=self.pages.examples,
            open_guide=self.help.open,
            start_tour=lambda: self.tour.start(),
            start_claims=lambda: self.tour.start(self._claims.steps()),
            walk=FocusWalk(self._stops).go,
            events=EventWalk(
                lambda: self.history.view({}).marks, self.docks, self._go_to_step, self.notices.tell
            ),
            cursor=self.step_cursor,
            compare_step=partial(compare_with_step, self.step_cursor, self.send),
            show_program=self.pages.program,
            show_log=self.log.open,
            start_engine=self.engine_wanted.emit,
            open_compare=self.pages.compare,
            open_changes=self.pages.changes,
            layouts=self.layouts,
            quit=self.close,
        )

    def _guarded(self, send: Callable[[Command], None]) -> Callable[[Command], None]:
        """Send what parts of the window ask for, but no change of a run that is not seen."""

        def guarded(command: Command) -> None:
            if command.changes_run and self.step_cursor.step is not None:
                words, at = (
                    command.in_words(),
                    f"while looking back at step {self.step_cursor.step:,}",
                )
                self._offer_live(f"Cannot {words} {at}. {BACK_TO_LIVE}")
                self.event_taken.emit(Refused(words, BACK_TO_LIVE), self.shown_state)
                return
            self.recent.on_command(command)
            if isinstance(command, OpenFile):
                self.inspector.expect_file()
            send(command)

        return guarded

    def _offer_live(self, why: str = BACK_TO_LIVE) -> None:
        """Say that the past cannot be changed, with the way back to live."""
        cursor = self.step_cursor
        live = NoticeButton("Back to live", cursor.live, lambda: cursor.step is not None)
        self.notices.tell(Notice("info", why, offers=(live,), listed=False))

    def _return_to_live(self) -> bool:
        """Go back to live; whether one looked back."""
        back = self.step_cursor.step is not None
        self.step_cursor.live()
        return back

    def _stops(self) -> list[QWidget]:
        """The parts that the keyboard walks through."""
        chips = [chip for chip in self.strip.canvas.chips if chip.isEnabled()][:1]
        panels = [self.docks.hosts[name] for name in self.docks.visible()]
        page = [self.inspector] if self.inspector_dock.isVisible() else []
        return [*chips, *panels, *page]

    def _keep_keys(self) -> None:
        self.settings.shortcuts = self.registry.own_keys

    def _on_menu(self, title: str) -> None:
        if title == "File":
            self.recent.look()
        elif title == "Experiments":
            self.experiments.look()

    def _named(self, names: tuple[str, ...]) -> dict[str, QAction]:
        return {name: self.registry[name] for name in names}

    def _place(self) -> None:
        self.addToolBar(self.toolbar)
        for row in (StripBar(self.strip, self), *self.banners, self.question):
            self.addToolBarBreak()
            self.addToolBar(row)
        self.addToolBar(Qt.ToolBarArea.BottomToolBarArea, self.time_bar)
        self.addToolBarBreak(Qt.ToolBarArea.BottomToolBarArea)
        self.addToolBar(Qt.ToolBarArea.BottomToolBarArea, self.compared_bar)
        self.setStatusBar(self.status)
        self.docks.arrangement.arrange()

    def _connect(self) -> None:
        for part in (
            self.toolbar,
            self.strip,
            self.inspector,
            self.recorded,
            self.recent,
            self._tour_acts,
        ):
            self.event_taken.connect(part.on_event)
        self.drops.other_dropped.connect(self.inspector.leave_file)
        for cursor in (self.step_cursor, self.compared_cursor):
            self.event_taken.connect(cursor.on_event)
            self.closed.connect(cursor.close)
        self.step_cursor.changed.connect(self._show_step)
        self.step_cursor.acts_changed.connect(self.registry.refresh)
        self.step_cursor.acts_changed.connect(self.notices.drop_impossible)
        for part in (self.toolbar, self.strip):
            part.live_wanted.connect(self._offer_live)
        self.step_cursor.thinned.connect(lambda words: self.notices.tell(Notice("info", words)))
        self.display.drawn.connect(self.status.keep_up)
        self.status.was_written.connect(self.time_bar.renew)
        for signal in (
            self.step_cursor.changed,
            self.step_cursor.reach_changed,
            self.step_cursor.steps_changed,
        ):
            signal.connect(self.status.catch_up)
        self.notices.changed.connect(self.status.share_room)
        self.notices.step_wanted.connect(self._go_to_step)
        for host in self.docks.hosts.values():
            host.about_requested.connect(self.pages.about)
            host.export_requested.connect(self.exports.panel)
            host.animation_requested.connect(self.animations.open)
            host.command_wanted.connect(self.send)
        self.docks.changed.connect(self.registry.refresh)
        self.docks.steps.changed.connect(self.registry.refresh)
        self.docks.linked.lighted.connect(self.strip.canvas.light)
        self.docks.steps.wanted.connect(self.step_cursor.go_to)
        self.docks.changed.connect(partial(name_platform_parts, self))
        self.docks.arrangement.arranged.connect(self.inspector_dock.fit)
        self.docks.arrangement.arranged.connect(partial(name_platform_parts, self))
        self.recent.changed.connect(self.registry.refresh)
        self.files.configured.connect(partial(self.recent.add, "configuration"))
        self.menus.opening.connect(self._on_menu)
        self.recorded.layout_opened.connect(self._apply_layout)
        self.recorded.list_wanted.connect(self.inspector.show_runs)
        self.recorded.settings_wanted.connect(self.pages.settings)
        self.recorded.trash_missing.connect(self.inspector.ask_for_good)
        self.inspector.run_export_wanted.connect(self.recorded.export_run)
        self.inspector.run_trash_wanted.connect(self.recorded.to_trash)
        self.experiments.changed.connect(self.registry.refresh)
        self.closed.connect(self.experiments.close)
        self.closed.connect(self.exports.close)
        self.closed.connect(self.animations.close)
        self.closed.connect(self.recorded.remote.close)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._on_desktop_theme)

    def _restore(self) -> None:
        self._arranged = window_layout.restore(self, self.settings, DEFAULT_SIZE)
        window_layout.restore_charts(self.docks, self.settings)
        if self._arranged:
            self.docks.arrangement.adopt(self.settings.layout_preset)
        for part in (self.inspector_dock, self.results, *self.banners, self.question):
            part.hide()

    def _draw_past(self, seconds: float) -> None:
        self.display.charge(seconds)
        self.display.refresh()

    def _all_drawn(self) -> bool:
        return not self.display.stale()

    def _layout_json(self) -> str:
        return window_layout.layout_json(self, self.theme.name, self.docks)

    def _apply_layout(self, layout: str) -> None:
        self._foreign_layout = True
        theme = window_layout.apply_layout(self, self.docks, layout)
        if theme:
            self.choose_theme(theme, keep=False)

    def _go_to_step(self, step: int) -> None:
        """Show a step on every time axis in sight; where there is none, in Training."""
        if not self.docks.go_to_step(step) and "training" in self.docks.hosts:
            self.docks.show("training")
            self.display.draw_now()
            self.docks.go_to_step(step)

    def _open_experiment(self, name: str) -> None:
        """The page of an experiment of the catalogue."""
        catalogue = self.run_state.catalogue
        for entry in catalogue.experiments if catalogue is not None else ():
            if entry.id == name:
                self.experiments.open_page(entry)

    def _on_desktop_theme(self) -> None:
        if self._theme_choice == "system":
            self._apply_theme()

    def _apply_theme(self) -> None:
        self.theme = appearance.resolve(self._theme_choice, self.settings.numbers)
        appearance.apply(_application(), self.theme)
        parts = (
            self.docks,
            self.toolbar,
            self.strip,
            self.inspector,
            self.drops,
            self.results,
            self.help,
            self.tour,
            *self.banners,
            self.question,
            self.time_bar,
            self.compared_bar,
            self.notice_line,
            self.notice_list,
        )
        for part in parts:
            part.set_theme(self.theme)
        self.registry.set_icons()

    def _icon(self, name: str) -> QIcon:
        return stylesheet.icon(name, self.theme)


def _refuse(tell: Callable[[Notice], None], why: str) -> None:
    tell(Notice("refused", why))


def _application() -> QApplication:
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    return application
