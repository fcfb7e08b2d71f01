"""Every row of the action table: enabled exactly when, and what exactly it does."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFocusEvent, QIcon, QKeyEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenuBar, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry, RegimeEntry
from dgn_engine.protocol.commands import (
    Advance,
    CloseComparison,
    Pause,
    Redo,
    Reset,
    Resume,
    SwapRegime,
    Undo,
)
from dgn_engine.protocol.events import (
    ComparisonOpened,
    EngineReady,
    Event,
    Finished,
    Paused,
    RunShown,
    Stopped,
    UndoChanged,
)
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.action_table import (
    MENUS,
    Parts,
    experiment_actions,
    fixed_actions,
    menu_of,
    panel_actions,
    regime_actions,
)
from dgn_viewer.actions.menus import Menus
from dgn_viewer.actions.palette import Palette, matches
from dgn_viewer.actions.registry import Actions, ActionSpec
from dgn_viewer.actions.shortcuts import ShortcutSheet
from dgn_viewer.scene.elements import Empty
from dgn_viewer.scene.panel_spec import About, PanelSpec
from dgn_viewer.shell.run_control import RunControl
from tests.viewer.layer_strip.strips import started

REGIMES = (
    RegimeEntry("DL", "Deep gating", "All train.", False, True, True, group="Learned"),
    RegimeEntry("FL", "FL of a file", "Gates stand still.", False, False, False, group="Fixed",
                for_copied_gates=True),
    RegimeEntry("ReLU", "ReLU", "Its own.", True, False, False, group="Own"),
)  # fmt: skip
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
    "inspected": after(READY, replace(RUN, inspected="x.pt", paused=True)),
    "compared": after(READY, RUN, ComparisonOpened("x.pt", "", "ReLU", ())),
    "undoable": after(READY, RUN, UndoChanged("regime FL", "β")),
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
        docks: Any = whole.docks
        docks.front = lambda: self.front
        docks.hosts = {"ntk": Recorder("ntk", self.log)}
        docks.hosts["ntk"].spec = "the spec of ntk"
        self.experiments = experiments
        self.parts = Parts(
            send=self.log.append,
            run=RunControl(self.log.append, lambda: self.state),
            files=whole.files,
            recorded=whole.recorded,
            exports=whole.exports,
            experiments=experiments,
            docks=docks,
            inspector=whole.inspector,
            notices=whole.notices,
            theme_choice=lambda: self.theme,
            choose_theme=whole.choose_theme,
            open_palette=whole.open_palette,
            show_shortcuts=whole.show_shortcuts,
            start_engine=whole.start_engine,
            quit=whole.quit,
        )
        self.rows = {row.id: row for row in fixed_actions(self.parts)}

    def done(self, name: str) -> list[Any]:
        """What triggering the row has done."""
        self.log.clear()
        self.rows[name].do()
        return list(self.log)


@pytest.fixture
def desk() -> Desk:
    return Desk()


# id, when it is enabled, what it does in the state 'paused'
ROWS: tuple[tuple[str, set[str], Any], ...] = (
    ("run.toggle", HAS_RUN, Resume()),
    ("run.step", HAS_RUN, Advance(1)),
    ("run.epoch", HAS_RUN, Advance(7)),
    ("run.reset", HAS_RUN, Reset()),
    ("run.start_engine", {"stopped"}, "start_engine"),
    ("file.new_run", READY_IN, "inspector.show_run_settings"),
    ("file.open_checkpoint", READY_IN, "files.open_checkpoint"),
    ("file.compare_run", SHOWS_RUN - {"stopped"}, "files.compare_run"),
    ("file.close_comparison", {"compared"}, CloseComparison()),
    ("file.save_configuration", SHOWS_RUN, "files.save_configuration"),
    ("file.save_weights", HAS_RUN, "files.save_weights"),
    ("file.open_run", READY_IN, "recorded.open_run"),
    ("file.open_session", READY_IN, "recorded.open_session"),
    ("file.save_session", SHOWS_RUN - {"stopped"}, "recorded.save_session"),
    ("file.go_back", {"shown instead"}, "recorded.go_back"),
    ("file.open_result", ALWAYS, "experiments.open_result"),
    ("file.export_panel", ALWAYS, ("exports.panel", "ntk")),
    ("file.export_all", ALWAYS, "exports.visible_panels"),
    ("file.quit", ALWAYS, "quit"),
    ("edit.undo", {"undoable"}, Undo()),
    ("edit.redo", {"undoable"}, Redo()),
    ("experiments.gate_information", SHOWS_RUN, "experiments.gate_information"),
    ("experiments.show", ALWAYS, "experiments.results.open"),
    ("experiments.stop", set(), "experiments.stop"),
    ("view.palette", ALWAYS, "open_palette"),
    ("view.reset_layout", ALWAYS, "docks.arrange"),
    ("view.notices", ALWAYS, "notices.show_recent"),
    ("view.theme.light", ALWAYS, ("choose_theme", "light")),
    ("view.theme.dark", ALWAYS, ("choose_theme", "dark")),
    ("view.theme.system", ALWAYS, ("choose_theme", "system")),
    ("help.panel", ALWAYS, ("inspector.show_about", "the spec of ntk")),
    ("help.shortcuts", ALWAYS, "show_shortcuts"),
)


def test_every_row_is_listed_here(desk: Desk) -> None:
    assert list(desk.rows) == [name for name, _, _ in ROWS]


@pytest.mark.parametrize(("name", "states", "_"), ROWS, ids=[row[0] for row in ROWS])
def test_an_action_is_enabled_exactly_then(
    desk: Desk, name: str, states: set[str], _: object
) -> None:
    enabled = desk.rows[name].enabled
    assert {state for state, now in STATES.items() if enabled(now)} == states


@pytest.mark.parametrize(("name", "_", "effect"), ROWS, ids=[row[0] for row in ROWS])
def test_an_action_does_exactly_this(desk: Desk, name: str, _: object, effect: object) -> None:
    assert desk.done(name) == [effect]


def test_an_experiment_that_runs_can_be_stopped_and_no_second_one_begun(desk: Desk) -> None:
    desk.experiments.running = True
    running = STATES["running"]
    assert desk.rows["experiments.stop"].enabled(running)
    assert not desk.rows["experiments.gate_information"].enabled(running)


def test_a_run_that_trains_is_paused_also_to_finish_its_epoch(desk: Desk) -> None:
    desk.state = STATES["running"]
    assert desk.done("run.toggle") == [Pause()]
    assert desk.done("run.epoch") == [Pause()]
    desk.state = STATES["paused"]
    desk.parts.run.on_event(Finished(5))
    assert desk.log == [Pause()]
    desk.parts.run.on_event(Paused(5))
    assert desk.log == [Pause(), Advance(7)]
    desk.parts.run.on_event(Paused(12))  # the end of that epoch is not that of another
    assert desk.log == [Pause(), Advance(7)]
    desk.log.clear()
    desk.state = STATES["finished"]
    assert desk.done("run.toggle") == [Resume()]


def test_without_a_panel_in_front_there_is_nothing_to_explain(desk: Desk) -> None:
    desk.front = ""
    assert desk.done("help.panel") == []


def test_the_first_button_says_what_it_would_do(desk: Desk) -> None:
    row = desk.rows["run.toggle"]
    assert row.text_now is not None
    assert row.icon_now is not None
    assert row.why_not is not None
    words = {name: (row.text_now(now), row.icon_now(now)) for name, now in STATES.items()}
    usual = dict.fromkeys(STATES, ("Run", "run"))
    going, shown = ("Pause", "pause"), ("Continue", "run")
    assert words == usual | {
        "running": going,
        "compared": going,
        "undoable": going,
        "shown": shown,
        "shown instead": shown,
    }
    reasons = {name: row.why_not(now) for name, now in STATES.items()}
    assert reasons == dict.fromkeys(STATES, "") | {
        "inspected": "Inspecting x.pt: not training. Begin a new run to train."
    }


def test_undo_and_redo_name_what_they_would_do(desk: Desk) -> None:
    undo, redo = desk.rows["edit.undo"].text_now, desk.rows["edit.redo"].text_now
    assert undo is not None
    assert redo is not None
    assert (undo(STATES["undoable"]), redo(STATES["undoable"])) == ("Undo regime FL", "Redo β")
    assert (undo(STATES["running"]), redo(STATES["running"])) == ("Undo", "Redo")
    long = after(READY, RUN, UndoChanged("x" * 60, "a & " + "y" * 57))
    assert undo(long) == "Undo " + "x" * 60
    assert redo(long) == "Redo a && " + "y" * 55 + "…"
    only_undo = after(READY, RUN, UndoChanged("β"))
    assert desk.rows["edit.undo"].enabled(only_undo)
    assert not desk.rows["edit.redo"].enabled(only_undo)
    stopped = only_undo.after(Stopped())
    assert not desk.rows["edit.undo"].enabled(stopped)


def test_the_theme_that_was_chosen_is_checked(desk: Desk) -> None:
    def checked() -> list[str]:
        rows = [row for row in desk.rows.values() if row.checked is not None]
        return [row.id for row in rows if row.checked is not None and row.checked(RunState())]

    assert checked() == ["view.theme.dark"]
    desk.theme = "system"
    assert checked() == ["view.theme.system"]


def test_shortcuts_are_those_of_the_manual(desk: Desk) -> None:
    assert {row.id: row.shortcuts for row in desk.rows.values() if row.shortcuts} == {
        "run.toggle": ("Space",),
        "run.step": (".",),
        "run.epoch": ("Shift+.",),
        "run.reset": ("Ctrl+R",),
        "file.new_run": ("Ctrl+N",),
        "file.open_checkpoint": ("Ctrl+O",),
        "file.compare_run": ("Ctrl+Shift+O",),
        "file.save_configuration": ("Ctrl+S",),
        "file.save_weights": ("Ctrl+Shift+S",),
        "file.open_run": ("Ctrl+Shift+R",),
        "file.open_session": ("Ctrl+Alt+O",),
        "file.save_session": ("Ctrl+Alt+S",),
        "file.export_panel": ("Ctrl+E",),
        "file.export_all": ("Ctrl+Shift+E",),
        "file.quit": ("Ctrl+Q",),
        "edit.undo": ("Ctrl+Z",),
        "edit.redo": ("Ctrl+Shift+Z", "Ctrl+Y"),
        "experiments.show": ("Ctrl+Shift+X",),
        "view.palette": ("Ctrl+Shift+P",),
        "help.panel": ("F1",),
        "help.shortcuts": ("?",),
    }


def test_each_regime_has_a_row_and_the_one_for_copied_gates_two() -> None:
    sent: list[Any] = []
    rows = regime_actions(CATALOGUE, sent.append)
    assert [(row.id, row.text, row.shortcuts, row.tip, row.group) for row in rows] == [
        ("regime.DL", "DL · Deep gating", ("Alt+1",), "All train.", "Learned"),
        ("regime.FL", "FL of a file", ("Alt+2",),
         "Gates stand still. The value network is drawn anew.", "Fixed"),
        ("regime.FL.keep", "FL, value network kept", (),
         "Freeze the feature network; the value network goes on from where it is", "Fixed"),
        ("regime.ReLU", "ReLU", ("Alt+3",), "Its own.", "Own"),
    ]  # fmt: skip
    for row in rows:
        row.do()
        assert {state for state, now in STATES.items() if row.enabled(now)} == HAS_RUN
    assert sent == [
        SwapRegime("DL"),
        SwapRegime("FL"),
        SwapRegime("FL", restart_value=False),
        SwapRegime("ReLU"),
    ]
    now = STATES["running"]
    assert [row.id for row in rows if row.checked is not None and row.checked(now)] == ["regime.DL"]
    many = Catalogue(tuple(replace(REGIMES[0], id=str(n)) for n in range(10)), (), (), (), ())
    keys = [row.shortcuts for row in regime_actions(many, sent.append)]
    assert keys == [(f"Alt+{place}",) for place in range(1, 10)] + [()]


def test_each_panel_and_each_experiment_has_a_row() -> None:
    log: list[Any] = []
    docks: Any = Recorder("docks", log)
    docks.is_open = lambda name: name == "p1"
    about = About("About it.")
    specs = {f"p{n}": PanelSpec(f"P{n}", (), lambda _: Empty("."), about) for n in range(11)}
    rows = panel_actions(docks, specs)
    assert [(row.id, row.text, row.tip) for row in rows[:2]] == [
        ("panel.p0", "P0", "Open or close P0"),
        ("panel.p1", "P1", "Open or close P1"),
    ]
    assert [row.shortcuts for row in rows[7:]] == [("Ctrl+8",), ("Ctrl+9",), (), ()]
    assert [row.checked is not None and row.checked(RunState()) for row in rows[:3]] == [
        False,
        True,
        False,
    ]
    rows[2].do()
    (row,) = experiment_actions(EXPERIMENTS, Recorder("page", log))
    assert (row.id, row.text, row.tip) == ("experiment.duality", "NPF: Duality…", "What it is.")
    row.do()
    assert log == [("docks.toggle", "p2"), ("page", EXPERIMENTS[0])]


def test_every_action_is_in_one_menu() -> None:
    found = {
        name: menu_of(name)
        for name in ("file.quit", "edit.redo", "run.start_engine", "regime.FL.keep", "panel.ntk",
                     "view.theme.dark", "view.palette", "experiment.a", "experiments.stop")
    }  # fmt: skip
    assert found == {
        "file.quit": "File",
        "edit.redo": "Edit",
        "run.start_engine": "Run",
        "regime.FL.keep": "Gates",
        "panel.ntk": "Panels",
        "view.theme.dark": "Theme",
        "view.palette": "View",
        "experiment.a": "Experiments",
        "experiments.stop": "Experiments",
    }
    with pytest.raises(KeyError):
        menu_of("nowhere")


# The registry, the menus, the palette and the sheet, made of rows


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


@pytest.fixture
def bench(qtbot: QtBot, desk: Desk) -> Bench:
    return Bench(qtbot, desk)


def test_a_row_becomes_an_action_that_shows_the_state(bench: Bench) -> None:
    actions, desk = bench.actions, bench.desk
    assert [spec.id for spec in actions.specs] == list(actions) == list(desk.rows)
    assert "run.toggle" in actions
    assert "run.fly" not in actions
    actions.refresh()
    toggle, undo = actions["run.toggle"], actions["edit.undo"]
    assert (toggle.text(), toggle.isEnabled(), toggle.isCheckable()) == ("Run", True, False)
    assert toggle.toolTip() == "Train, or pause between two steps (Space)"
    assert [keys.toString() for keys in actions["edit.redo"].shortcuts()] == [
        "Ctrl+Shift+Z",
        "Ctrl+Y",
    ]
    assert actions["file.quit"].toolTip() == "Quit (Ctrl+Q)"
    assert actions["view.theme.dark"].isChecked()
    assert not actions["view.theme.light"].isChecked()
    assert not undo.isEnabled()
    desk.state = STATES["undoable"]
    bench.icons.clear()
    actions.refresh()
    assert (undo.text(), undo.isEnabled(), toggle.text()) == ("Undo regime FL", True, "Pause")
    assert set(bench.icons) == {"pause", "undo", "redo"}
    desk.state = STATES["inspected"]
    actions.refresh()
    assert not toggle.isEnabled()
    assert toggle.toolTip().startswith("Inspecting x.pt")
    desk.state = STATES["paused"]
    actions.refresh()
    assert toggle.toolTip() == "Train, or pause between two steps (Space)"
    with pytest.raises(KeyError):
        actions["run.fly"]


def test_a_click_does_what_the_row_says_and_shows_the_state_after_it(bench: Bench) -> None:
    desk = bench.desk
    bench.actions.refresh()
    desk.log.clear()
    bench.actions["run.step"].trigger()
    assert desk.log == [Advance(1)]
    desk.theme = "light"
    bench.actions["view.theme.light"].trigger()
    assert bench.actions["view.theme.light"].isChecked()
    assert not bench.actions["view.theme.dark"].isChecked()


def test_rows_are_added_once_and_told_when_they_are_new(bench: Bench, qtbot: QtBot) -> None:
    again = ActionSpec("run.step", "Another", lambda: None)
    with qtbot.assertNotEmitted(bench.actions.changed):
        bench.actions.add((again,))
    assert bench.actions["run.step"].text() == "One step"
    with qtbot.waitSignal(bench.actions.changed):
        bench.actions.add((again, ActionSpec("run.fly", "Fly", lambda: None)))
    assert bench.actions["run.fly"].toolTip() == "Fly"
    assert [spec.id for spec in bench.actions.family("run.f*")] == ["run.fly"]
    assert [spec.id for spec in bench.actions.family("file.quit")] == ["file.quit"]
    bench.icons.clear()
    bench.actions.set_icons()
    assert bench.icons.count("run") == 1
    assert "" not in bench.icons


def titles(menu: Any) -> list[str]:
    return [action.text() for action in menu.actions()]


def test_menus_follow_the_registry(bench: Bench) -> None:
    bar = QMenuBar(bench.window)
    menus = Menus(bar, bench.actions)
    tops = {action.text(): action for action in bar.actions()}
    assert list(tops) == list(MENUS)
    assert not tops["Gates"].isVisible()  # empty yet
    assert tops["Edit"].isVisible()
    assert titles(tops["Edit"].menu()) == ["Undo", "Redo"]
    assert titles(tops["Run"].menu()) == [
        "Run", "One step", "One epoch", "Reset", "", "Start the engine again",
    ]  # fmt: skip
    assert titles(tops["View"].menu()) == [
        "Command palette…", "Panels", "", "Reset layout", "", "Theme", "", "Recent notices",
    ]  # fmt: skip
    bench.actions.add(regime_actions(CATALOGUE, bench.desk.log.append))
    assert tops["Gates"].isVisible()
    assert titles(tops["Gates"].menu()) == [
        "DL · Deep gating", "", "FL of a file", "FL, value network kept", "", "ReLU",
    ]  # fmt: skip
    theme = next(a for a in tops["View"].menu().actions() if a.text() == "Theme").menu()  # type: ignore[attr-defined]
    assert titles(theme) == ["Light", "Dark", "As the system"]
    menus.fill()
    assert len(titles(tops["View"].menu())) == 8
    assert isinstance(menus, QObject)


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("ONE step", "Run: One Step", True),
        ("step one", "Run: One step", True),
        ("step two", "Run: One step", False),
        ("  ", "Run", True),
    ],
)
def test_every_word_of_a_query_has_to_occur(query: str, text: str, found: bool) -> None:
    assert matches(query, text) is found


def test_the_palette_lists_names_before_tips_and_leaves_itself_out(bench: Bench) -> None:
    bench.actions.refresh()
    palette = Palette(bench.actions, bench.window)
    palette.open()
    assert len(palette.shown()) == len(ROWS) - 1
    assert "view.palette" not in palette.shown()
    palette.query.setText("undo")
    assert palette.shown() == ("edit.undo", "edit.redo", "file.go_back")[:2]
    palette.query.setText("theme light")
    assert palette.shown() == ("view.theme.light",)
    palette.query.setText("panel")
    assert palette.shown()[:2] == ("file.export_panel", "file.export_all")
    items = [palette.list.topLevelItem(row) for row in range(2)]
    assert items[0] is not None
    assert (items[0].text(0), items[0].text(1)) == (
        "File: Export panel…",
        QKeySequence("Ctrl+E").toString(QKeySequence.SequenceFormat.NativeText),
    )


def test_the_sheet_lists_every_shortcut_with_its_name(bench: Bench) -> None:
    sheet = ShortcutSheet(bench.actions, bench.window)
    rows = sheet.rows()
    assert len(rows) == 21
    assert rows[0] == ("Space", "Run")
    assert ("Ctrl+Shift+Z", "Redo") in rows


@pytest.fixture
def palette(bench: Bench, qtbot: QtBot) -> Palette:
    bench.actions.refresh()
    found = Palette(bench.actions, bench.window)
    with qtbot.waitExposed(bench.window):
        bench.window.show()
    bench.window.activateWindow()
    found.open()
    return found


def current(palette: Palette) -> str:
    item = palette.list.currentItem()
    return "" if item is None else str(item.data(0, Qt.ItemDataRole.UserRole))


def test_the_palette_has_its_place_over_the_window(bench: Bench, palette: Palette) -> None:
    assert (palette.objectName(), palette.isVisible()) == ("palette", True)
    assert (palette.width(), palette.x(), palette.y()) == (480, 160, 72)
    assert (palette.query.placeholderText(), palette.query.accessibleName()) == (
        "Find an action",
        "Find an action",
    )
    listed = palette.list
    assert (listed.columnCount(), listed.isHeaderHidden(), listed.rootIsDecorated()) == (
        2,
        True,
        False,
    )
    assert listed.uniformRowHeights()
    assert listed.focusPolicy() == Qt.FocusPolicy.NoFocus
    assert not listed.header().stretchLastSection()
    row = max(24, listed.sizeHintForRow(0))
    assert listed.height() == 12 * row + 4  # twelve rows, the others are scrolled to
    assert (palette.query.x(), palette.query.y()) == (8, 8)
    assert listed.y() == palette.query.geometry().bottom() + 1 + 8
    assert palette.height() == listed.geometry().bottom() + 1 + 8
    palette.query.setText("theme light")
    assert listed.height() == row + 4
    palette.query.setText("nothing is called so")
    assert palette.shown() == ()
    assert listed.height() == max(24, listed.sizeHintForRow(0)) + 4
    bench.window.resize(300, 220)
    palette.open()
    assert (palette.width(), palette.x()) == (268, 16)
    assert palette.query.text() == ""
    assert listed.height() == 60


def test_arrows_pass_over_what_cannot_be_done(bench: Bench, palette: Palette) -> None:
    palette.query.setText("undo")  # both are disabled, only 'Back' by its tip would match
    assert current(palette) == ""
    palette.query.setText("engine")
    first = palette.list.topLevelItem(0)
    assert first is not None
    assert first.isDisabled()
    palette.query.setText("run:")
    rows = palette.shown()
    assert rows == ("run.toggle", "run.step", "run.epoch", "run.reset", "run.start_engine")
    assert current(palette) == "run.toggle"
    QTest.keyClick(palette.query, Qt.Key.Key_Down)
    assert current(palette) == "run.step"
    QTest.keyClick(palette.query, Qt.Key.Key_Up)
    QTest.keyClick(palette.query, Qt.Key.Key_Up)
    assert current(palette) == "run.toggle"
    for _ in range(5):
        QTest.keyClick(palette.query, Qt.Key.Key_Down)
    assert current(palette) == "run.reset"  # the engine has not stopped
    bench.desk.log.clear()
    QTest.keyClick(palette.query, Qt.Key.Key_Return)
    assert bench.desk.log == [Reset()]
    assert not palette.isVisible()


def test_a_click_does_and_escape_leaves(bench: Bench, palette: Palette) -> None:
    palette.query.setText("one step")
    item = palette.list.topLevelItem(0)
    assert item is not None
    assert item.toolTip(0) == "Take one training step, then pause (.)"
    right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
    assert Qt.AlignmentFlag(item.textAlignment(1)) == right
    bench.desk.log.clear()
    palette.list.itemClicked.emit(item, 0)
    assert bench.desk.log == [Advance(1)]
    assert not palette.isVisible()
    palette.open()
    palette.query.setText("one step")
    bench.actions["run.step"].setEnabled(False)
    QTest.keyClick(palette.query, Qt.Key.Key_Enter)
    assert bench.desk.log == [Advance(1)]
    palette.open()
    QTest.keyClick(palette.query, Qt.Key.Key_Escape)
    assert not palette.isVisible()
    assert bench.desk.log == [Advance(1)]


def test_any_key_or_click_puts_the_sheet_away(bench: Bench) -> None:
    sheet = ShortcutSheet(bench.actions, bench.window)
    bench.window.show()
    assert (sheet.objectName(), sheet.isHidden()) == ("sheet", True)
    assert sheet.focusPolicy() == Qt.FocusPolicy.StrongFocus
    sheet.open()
    assert sheet.isVisible()
    assert sheet.x() == (bench.window.width() - sheet.width()) // 2
    assert sheet.y() == (bench.window.height() - sheet.height()) // 2
    grid: Any = sheet.layout()
    texts = {
        (row, column): grid.itemAtPosition(row, column).widget().text()
        for row, column in ((0, 0), (1, 0), (1, 1), (14, 0), (1, 2), (1, 3), (7, 3))
    }
    assert texts == {
        (0, 0): "Keyboard shortcuts",
        (1, 0): "Space",
        (1, 1): "Run",
        (14, 0): "Ctrl+Shift+E",  # fourteen in a column
        (1, 2): "Ctrl+Q",
        (1, 3): "Quit",
        (7, 3): "Keyboard shortcuts",
    }
    assert grid.itemAtPosition(0, 0).widget().property("role") == "title"
    assert grid.itemAtPosition(1, 0).widget().property("role") == "heading"
    assert grid.itemAtPosition(5, 1).widget().text() == "New run"  # without its dots
    margins = grid.contentsMargins()
    assert (margins.left(), margins.top(), margins.right(), margins.bottom()) == (24, 16, 24, 16)
    assert (grid.horizontalSpacing(), grid.verticalSpacing()) == (16, 8)
    count = grid.count()
    QTest.keyClick(sheet, Qt.Key.Key_A)
    assert not sheet.isVisible()
    sheet.open()
    assert grid.count() == count == 1 + 2 * 21
    QTest.mouseClick(sheet, Qt.MouseButton.LeftButton)
    assert not sheet.isVisible()
    sheet.open()
    QApplication.sendEvent(sheet, QFocusEvent(QEvent.Type.FocusOut))
    assert not sheet.isVisible()
    override = QKeyEvent(
        QEvent.Type.ShortcutOverride, Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier
    )
    override.ignore()
    QApplication.sendEvent(sheet, override)
    assert override.isAccepted()
