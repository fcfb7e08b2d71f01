"""The parts that actions act on, as recorders, and a registry of all rows in a window."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
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
from dgn_viewer.actions.action_table import (
    Parts,
    fixed_actions,
)
from dgn_viewer.actions.registry import Actions
from dgn_viewer.shell.run_control import RunControl
from tests.engine.views.begun_run import started

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
RUN = replace(started(), steps_per_epoch=12)


def after(*events: Event) -> RunState:
    return reduce(RunState.after, events, RunState())


STATES = {
    "starting": RunState(),
    "idle": after(READY),
    "running": after(READY, RUN).at(5),
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
READY_IN = ALWAYS - {"starting", "stopped"}
SHOWS_RUN = ALWAYS - {"starting", "idle"}
HAS_RUN = SHOWS_RUN - {"inspected", "stopped"}


class Recorder:
    """Stands for a part of the window: every call is written down by its name."""

    def __init__(self, name: str, log: list[Any]) -> None:
        self._name, self._log = name, log

    def __getattr__(self, name: str) -> Any:
        return Recorder(f"{self._name}.{name}" if self._name else name, self._log)

    def __call__(self, *arguments: Any) -> None:
        self._log.append((self._name, *arguments) if arguments else self._name)


class Desk:
    """The parts that actions act on, as recorders, and the state that they ask for."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.state = STATES["paused"]
        self.theme = "dark"
        self.front = "ntk"
        whole: Any = Recorder("", self.log)
        experiments: Any = whole.experiments
        experiments.running = False
        cursor: Any = whole.cursor
        cursor.why_not, cursor.step, cursor.player.playing = "", 5, False
        docks: Any = whole.docks
        docks.front = lambda: self.front
        docks.arrangement = Recorder("docks.arrangement", self.log)
        docks.arrangement.maximised = docks.arrangement.preset = ""
        docks.arrangement.stands_as = lambda _: False
        docks.steps = Recorder("docks.steps", self.log)
        docks.steps.linked, docks.steps.marks = False, (5,)
        docks.hosts = {"ntk": Recorder("ntk", self.log)}
        docks.hosts["ntk"].spec = "the spec of ntk"
        layouts: Any = whole.layouts
        layouts.can_undo = layouts.can_redo = False
        self.experiments = experiments
        self.parts = Parts(
            send=self.log.append,
            run=RunControl(self.log.append, lambda: self.state),
            files=whole.files,
            recorded=whole.recorded,
            exports=whole.exports,
            animations=whole.animations,
            experiments=experiments,
            docks=docks,
            inspector=whole.inspector,
            notices=whole.notices,
            theme_choice=lambda: self.theme,
            choose_theme=whole.choose_theme,
            open_palette=whole.open_palette,
            show_shortcuts=whole.show_shortcuts,
            open_settings=whole.open_settings,
            open_examples=whole.open_examples,
            open_guide=whole.open_guide,
            start_tour=whole.start_tour,
            start_claims=whole.start_claims,
            walk=whole.walk,
            events=whole.events,
            cursor=cursor,
            show_log=whole.show_log,
            show_program=whole.show_program,
            start_engine=whole.start_engine,
            open_compare=whole.open_compare,
            compare_step=whole.compare_step,
            open_changes=whole.open_changes,
            layouts=layouts,
            quit=whole.quit,
        )
        self.rows = {row.id: row for row in fixed_actions(self.parts)}

    def done(self, name: str) -> list[Any]:
        """What triggering the row has done."""
        self.log.clear()
        self.rows[name].do()
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
        self.actions.add(tuple(desk.rows.values()))

    def _icon(self, name: str) -> QIcon:
        self.icons.append(name)
        return QIcon()
