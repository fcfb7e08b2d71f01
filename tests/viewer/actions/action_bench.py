"""The parts that actions act on, as recorders, and a registry of all rows in a window."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from types import SimpleNamespace
from typing import Any

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import ComparisonOpened
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry, RegimeEntry
from dgn_engine.protocol.files import TrainingOffered
from dgn_engine.protocol.messages import EngineReady, Event, Stopped
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunShown
from dgn_engine.protocol.training import (
    ChangesListed,
    Diverged,
    Finished,
    ListedChange,
    Paused,
    UndoChanged,
)
from dgn_engine.scene.elements import Empty
from dgn_engine.scene.panel_spec import About, PanelSpec, View
from dgn_viewer.actions.action_rows import ActionRow, walk_menus
from dgn_viewer.actions.edit_menu import edit_menu
from dgn_viewer.actions.experiments_menu import experiments_menu
from dgn_viewer.actions.file_menu import file_menu
from dgn_viewer.actions.gates_menu import GATES_MENU
from dgn_viewer.actions.help_menu import help_menu
from dgn_viewer.actions.registry import Actions
from dgn_viewer.actions.run_menu import run_menu
from dgn_viewer.actions.view_menu import view_menu
from dgn_viewer.shell.run_control import RunControl
from dgn_viewer.shell.window_context import WindowContext
from tests.engine.views.begun_run import make_run_started

REGIMES = (
    RegimeEntry("DL", "Deep gating", "All train.", False, True, True, group="Learned"),
    RegimeEntry(
        "FL",
        "FL of a file",
        "Gates stand still.",
        False,
        False,
        False,
        group="Fixed",
        for_copied_gates=True,
    ),
    RegimeEntry("ReLU", "ReLU", "Its own.", True, False, False, group="Own"),
)
EXPERIMENTS = (ExperimentEntry("duality", "Duality", "NPF", "What it is.", (), "", ""),)
CATALOGUE = Catalogue(REGIMES, (), (), (), (), EXPERIMENTS)
READY = EngineReady(CATALOGUE, "")
PANELS = {"ntk": PanelSpec("NTK", (), lambda _: Empty("."), About("About it."))}
RUN = replace(make_run_started(), steps_per_epoch=12)


def after(*events: Event) -> RunState:
    return reduce(RunState.after, events, RunState())


STATES = {
    "starting": RunState(),
    "idle": after(READY),
    "running": after(READY, RUN).moved_to_step(5),
    "paused": after(READY, RUN, Paused(5)),
    "finished": after(READY, RUN, Finished(5)),
    "shown": after(READY, RUN, RunShown("a", "finished", 5)),
    "shown instead": after(READY, RUN, RunShown("a", "finished", 5, replaced="/runs/b")),
    "inspected": after(
        READY,
        replace(RUN, inspected="x.pt", paused=True),
        TrainingOffered(RUN.run, ("ReLU", "FL"), "BatchNorm is folded."),
    ),
    "compared": after(READY, RUN, ComparisonOpened("x.pt", "", "ReLU", ())),
    "diverged": after(READY, RUN, Diverged(8, back_to=5)),
    "undoable": after(READY, RUN, UndoChanged("regime FL", "β")),
    "setting": after(READY, RUN, ChangesListed((ListedChange(5, "β 8 → 4", "β"),))),
    "stopped": after(READY, RUN, Stopped()),
}
ALWAYS = set(STATES)
HAS_RUN = ALWAYS - {"starting", "idle", "inspected", "stopped"}


class Recorder:
    """Stands for a part of the window: every call is written down by its name."""

    def __init__(self, name: str, log: list[Any]) -> None:
        self._name, self._log = name, log

    def __getattr__(self, name: str) -> Any:
        part = Recorder(f"{self._name}.{name}" if self._name else name, self._log)
        setattr(self, name, part)  # so that what is set on it stays
        return part

    def __call__(self, *arguments: Any) -> None:
        self._log.append((self._name, *arguments) if arguments else self._name)


class Desk:
    """The parts that actions act on, as recorders, and the state that they ask for."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.state = STATES["paused"]
        self.front = "ntk"
        whole: Any = Recorder("", self.log)
        experiments: Any = whole.experiments
        experiments.is_running = False
        cursor: Any = whole.cursor
        cursor.reason_not_available, cursor.step, cursor.player.is_playing = "", 5, False
        docks: Any = whole.docks
        docks.front_panel = lambda: self.front
        docks.arrangement = Recorder("docks.arrangement", self.log)
        docks.arrangement.maximised_name = docks.arrangement.preset = ""
        docks.arrangement.is_showing_preset = docks.arrangement.is_open = lambda _: False
        docks.steps = Recorder("docks.steps", self.log)
        docks.steps.is_linked, docks.steps.marks = False, (5,)
        docks.hosts = {"ntk": Recorder("ntk", self.log)}
        docks.hosts["ntk"].spec = "the spec of ntk"
        layouts: Any = whole.layouts
        layouts.can_undo = layouts.can_redo = False
        self.experiments = experiments
        theme: Any = whole.theme
        theme.choice = "dark"
        files: Any = whole.files
        files.recent = SimpleNamespace(
            items=(), check_missing=whole.look, open_item=whole.open_recent
        )
        files.recent.is_on_disk, files.recent.menu_text = lambda _: False, lambda _: ""
        self.theme = theme
        window: Any = whole.window
        settings: Any = whole.settings
        self.context = WindowContext(
            window=window,
            send=self.log.append,
            settings=settings,
            notify=whole.notify,
            run_state=lambda: self.state,
            shown_state=lambda: self.state,
            view=View,
            theme=theme,
        )
        self.control = RunControl(self.context)
        time: Any = whole.time
        time.cursor = cursor
        pages: Any = whole.pages
        parts: Any = whole
        parts.presentation.is_on = False
        self.menus = (
            run_menu(self.context, self.control, pages, parts.start_engine, parts.playground),
            file_menu(self.context, files, parts.recorded, parts.exports, pages, cursor),
            edit_menu(self.context, layouts, pages),
            GATES_MENU,
            experiments_menu(experiments),
            view_menu(
                self.context,
                docks,
                PANELS,
                time,
                parts.events,
                parts.walk,
                pages,
                files,
                parts.notices,
                parts.action_views,
                parts.presentation,
            ),
            help_menu(parts.guides, pages, parts.action_views),
        )
        rows = [entry for _, entry in walk_menus(self.menus) if isinstance(entry, ActionRow)]
        self.docks, self.inspector, self.time = docks, whole.inspector, time
        self.rows = {row.id: row for row in rows if row.fixed}

    def done(self, name: str) -> list[Any]:
        """What triggering the row has done."""
        self.log.clear()
        self.rows[name].callback()
        return list(self.log)


class Bench:
    """A registry of all rows in a window of its own."""

    def __init__(self, qtbot: QtBot, desk: Desk) -> None:
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.window.resize(800, 600)
        self.icons: list[str] = []
        self.desk = desk
        self.actions = Actions(lambda: desk.state, self._icon, self.window)
        self.actions.add_menus(*desk.menus)

    def _icon(self, name: str) -> QIcon:
        self.icons.append(name)
        return QIcon()
