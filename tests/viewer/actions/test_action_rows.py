"""Every row of the action table: enabled exactly when, and what exactly it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dgn_engine.protocol.branches import CloseComparison, StopBranch
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.files import TrainingOffered, TrainOn
from dgn_engine.protocol.messages import Stopped
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import (
    Advance,
    Diverged,
    Finished,
    GoBack,
    Pause,
    Paused,
    Redo,
    Reset,
    Resume,
    SwapRegime,
    Undo,
    UndoChanged,
    UndoSetting,
)
from dgn_engine.scene.elements import Empty
from dgn_engine.scene.panel_spec import About, PanelSpec
from dgn_viewer.actions.experiments_menu import experiment_rows
from dgn_viewer.actions.gates_menu import regime_rows
from dgn_viewer.actions.view_menu import panel_rows
from dgn_viewer.shell.inspector_pages import InspectorPages
from tests.viewer.actions.action_bench import (
    ALWAYS,
    CATALOGUE,
    EXPERIMENTS,
    HAS_RUN,
    READY,
    READY_IN,
    REGIMES,
    RUN,
    SHOWS_RUN,
    STATES,
    Bench,
    Desk,
    Recorder,
    after,
)

# id, when it is enabled, what it does in the state 'paused'
ROWS: tuple[tuple[str, set[str], Any], ...] = (
    ("run.toggle", HAS_RUN, Resume()),
    ("run.step", HAS_RUN, Advance(1)),
    ("run.epoch", HAS_RUN, Advance(7)),
    ("run.reset", HAS_RUN, Reset()),
    ("run.go_back", {"diverged"}, GoBack()),
    ("run.branch", HAS_RUN, "pages.compare"),
    ("run.stop_branch", set(), StopBranch()),
    ("run.train_on", {"inspected"}, TrainOn("ReLU")),
    ("run.train_on_gates", {"inspected"}, TrainOn("FL")),
    ("run.start_engine", {"stopped"}, "start_engine"),
    ("file.new_run", READY_IN, "pages.run_settings"),
    ("file.open_configuration", READY_IN, "files.open_configuration"),
    ("file.open_checkpoint", READY_IN, "files.open_checkpoint"),
    ("file.compare_run", SHOWS_RUN - {"stopped"}, "files.compare_run"),
    ("file.close_comparison", {"compared"}, CloseComparison()),
    ("file.save_configuration", SHOWS_RUN, "files.save_configuration"),
    ("file.save_weights", HAS_RUN, "files.save_weights"),
    ("file.open_run", READY_IN, "recorded.open_run"),
    ("file.follow_run", READY_IN, "recorded.remote.open"),
    ("file.open_session", READY_IN, "recorded.open_session"),
    ("file.save_session", SHOWS_RUN - {"stopped"}, "recorded.save_session"),
    ("file.go_back", {"shown instead"}, "recorded.go_back"),
    ("file.open_result", ALWAYS, "experiments.open_result"),
    ("file.export_panel", ALWAYS, "exports.save_front_panel"),
    ("file.export_all", ALWAYS, "exports.save_visible_panels"),
    ("file.save_animation", ALWAYS, "exports.animations.open"),
    ("file.quit", ALWAYS, "window.close"),
    ("edit.undo", {"undoable"}, Undo()),
    ("edit.redo", {"undoable"}, Redo()),
    ("edit.undo_setting", {"setting"}, UndoSetting()),
    ("edit.undo_layout", set(), "layouts.undo"),
    ("edit.redo_layout", set(), "layouts.redo"),
    ("edit.examples", SHOWS_RUN, "pages.examples"),
    ("edit.settings", ALWAYS, "pages.settings"),
    ("experiments.gate_information", SHOWS_RUN, "experiments.gate_information"),
    ("experiments.show", ALWAYS, "experiments.results.open"),
    ("experiments.stop", set(), "experiments.stop"),
    ("view.palette", ALWAYS, "palette.open"),
    ("panel.ntk", ALWAYS, ("docks.toggle", "ntk")),
    ("view.maximise", ALWAYS, "docks.toggle_maximised"),
    ("view.layout.overview", ALWAYS, ("docks.arrangement.arrange", "overview")),
    ("view.layout.kernels", ALWAYS, ("docks.arrangement.arrange", "kernels")),
    ("view.layout.gates", ALWAYS, ("docks.arrangement.arrange", "gates")),
    ("view.layout.curves", ALWAYS, ("docks.arrangement.arrange", "curves")),
    ("view.layout.teach", ALWAYS, ("docks.arrangement.arrange", "teach")),
    ("view.layout.compare", ALWAYS, ("docks.arrangement.arrange", "compare")),
    ("view.reset_layout", ALWAYS, "docks.arrangement.arrange"),
    ("view.theme.light", ALWAYS, ("theme.choose", "light")),
    ("view.theme.dark", ALWAYS, ("theme.choose", "dark")),
    ("view.theme.system", ALWAYS, ("theme.choose", "system")),
    ("time.previous", ALWAYS, ("cursor.move", -1)),
    ("time.next", ALWAYS, ("cursor.move", 1)),
    ("time.first", ALWAYS, "cursor.first"),
    ("time.live", ALWAYS, "cursor.live"),
    ("time.play", ALWAYS, "cursor.player.play"),
    ("time.compare", ALWAYS, "time.compare_step"),
    ("view.previous_event", SHOWS_RUN, ("events.go", -1)),
    ("view.next_event", SHOWS_RUN, ("events.go", 1)),
    ("view.follow", SHOWS_RUN, "events.follow"),
    ("view.delta", SHOWS_RUN, ("docks.steps.mark", 5)),
    ("view.no_delta", ALWAYS, "docks.steps.clear"),
    ("view.link_steps", ALWAYS, "docks.steps.toggle"),
    ("view.next_part", ALWAYS, ("walk.go", 1)),
    ("view.previous_part", ALWAYS, ("walk.go", -1)),
    ("view.compare", SHOWS_RUN, "pages.compare"),
    ("view.changes", SHOWS_RUN, "pages.changes"),
    ("view.notices", ALWAYS, "notices.show_recent"),
    ("view.chart_menu", ALWAYS, "ntk.charts.open_menu"),
    ("help.guide", ALWAYS, "guides.help.open"),
    ("help.tour", SHOWS_RUN - {"stopped"}, "guides.tour.start"),
    ("help.claims", SHOWS_RUN - {"stopped"}, "guides.start_claims"),
    ("help.panel", ALWAYS, "pages.about_front"),
    ("help.shortcuts", ALWAYS, "sheet.open"),
    ("help.log", ALWAYS, "guides.log.open"),
    ("help.about", ALWAYS, "pages.program"),
)


def test_every_row_is_listed_here(desk: Desk) -> None:
    assert list(desk.rows) == [name for name, _, _ in ROWS]


@pytest.mark.parametrize(("name", "states", "_"), ROWS, ids=[row[0] for row in ROWS])
def test_an_action_is_enabled_exactly_then(
    desk: Desk, name: str, states: set[str], _: object
) -> None:
    enabled = desk.rows[name].enabled
    assert {state for state, now in STATES.items() if enabled(now)} == states


@pytest.mark.parametrize(("name", "states", "effect"), ROWS, ids=[row[0] for row in ROWS])
def test_an_action_does_exactly_this(
    desk: Desk, name: str, states: set[str], effect: object
) -> None:
    if states == {"inspected"}:
        desk.state = STATES["inspected"]
    assert desk.done(name) == [effect]


def test_a_network_that_cannot_be_trained_on_says_why(desk: Desk) -> None:
    first, second = desk.rows["run.train_on"], desk.rows["run.train_on_gates"]
    assert first.why_not is not None
    assert second.why_not is not None
    inspected = STATES["inspected"]
    assert (first.why_not(inspected), first.why_not(STATES["running"])) == ("", "")
    read = replace(inspected, training=None)
    assert first.why_not(read) == "It is still being read."
    none = TrainingOffered(1, (), "x.pt has 5 outputs; these data need 10.")
    desk.state = replace(inspected, training=none)
    assert first.why_not(desk.state) == second.why_not(desk.state) == none.remark
    assert desk.done("run.train_on") == []
    one = replace(inspected, training=TrainingOffered(1, ("soft-ReLU",), ""))
    assert "Its own gates" in second.why_not(one)


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
    desk.control.on_event(Finished(5))
    assert desk.log == [Pause()]
    desk.control.on_event(Paused(5))
    assert desk.log == [Pause(), Advance(7)]
    desk.control.on_event(Paused(12))  # the end of that epoch is not that of another
    assert desk.log == [Pause(), Advance(7)]
    desk.log.clear()
    desk.state = STATES["finished"]
    assert desk.done("run.toggle") == [Resume()]


def test_without_a_panel_in_front_there_is_nothing_to_explain(desk: Desk) -> None:
    keys: Any = None
    pages = InspectorPages(desk.context, desk.inspector, desk.docks, desk.time, keys, print)
    desk.log.clear()
    pages.about_front()
    assert desk.log == [("inspector.show_about", "the spec of ntk")]
    desk.log.clear()
    desk.front = ""
    pages.about_front()
    assert desk.log == []


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
        "setting": going,
        "shown": shown,
        "shown instead": shown,
    }
    reasons = {name: row.why_not(now) for name, now in STATES.items()}
    assert reasons == dict.fromkeys(STATES, "") | {
        "inspected": "Inspecting x.pt: not training. Train on from here, or begin a run."
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
    only = desk.rows["edit.undo_setting"]
    assert only.text_now is not None
    assert only.text_now(STATES["setting"]) == "Put only β back"
    assert not only.enabled(STATES["setting"].after(Diverged(5)))  # no weights worth keeping


def test_the_theme_that_was_chosen_is_checked(desk: Desk) -> None:
    def checked() -> list[str]:
        rows = [row for row in desk.rows.values() if row.checked is not None]
        return [row.id for row in rows if row.checked is not None and row.checked(RunState())]

    assert checked() == ["view.theme.dark"]
    desk.theme.choice = "system"
    assert checked() == ["view.theme.system"]


def test_shortcuts_are_those_of_the_manual(desk: Desk) -> None:
    assert {row.id: row.keys for row in desk.rows.values() if row.keys} == {
        "run.toggle": ("Space",),
        "run.step": (".",),
        "run.epoch": ("Shift+.",),
        "run.reset": ("Ctrl+R",),
        "run.go_back": ("Ctrl+Alt+R",),
        "run.branch": ("Ctrl+B",),
        "edit.undo_layout": ("Ctrl+Alt+Z",),
        "edit.redo_layout": ("Ctrl+Alt+Shift+Z",),
        "view.compare": ("Ctrl+D",),
        "view.changes": ("Ctrl+H",),
        "file.new_run": ("Ctrl+N",),
        "file.open_configuration": ("Ctrl+Shift+N",),
        "file.open_checkpoint": ("Ctrl+O",),
        "file.compare_run": ("Ctrl+Shift+O",),
        "file.save_configuration": ("Ctrl+S",),
        "file.save_weights": ("Ctrl+Shift+S",),
        "file.open_run": ("Ctrl+Shift+R",),
        "file.open_session": ("Ctrl+Alt+O",),
        "file.save_session": ("Ctrl+Alt+S",),
        "file.export_panel": ("Ctrl+E",),
        "file.export_all": ("Ctrl+Shift+E",),
        "file.save_animation": ("Ctrl+Alt+E",),
        "file.quit": ("Ctrl+Q",),
        "edit.undo": ("Ctrl+Z",),
        "edit.redo": ("Ctrl+Shift+Z", "Ctrl+Y"),
        "edit.examples": ("Ctrl+Shift+D",),
        "edit.settings": ("Ctrl+,",),
        "experiments.show": ("Ctrl+Shift+X",),
        "view.previous_event": ("Alt+PgUp",),
        "view.next_event": ("Alt+PgDown",),
        "time.previous": ("Alt+Left",),
        "time.next": ("Alt+Right",),
        "time.first": ("Alt+Home",),
        "time.live": ("Ctrl+End",),
        "time.play": ("Shift+Space",),
        "time.compare": ("Ctrl+Alt+B",),
        "view.delta": ("Ctrl+Alt+D",),
        "view.no_delta": ("Ctrl+Alt+Shift+D",),
        "view.follow": ("Alt+End",),
        "view.next_part": ("F6", "Ctrl+Tab"),
        "view.previous_part": ("Shift+F6", "Ctrl+Shift+Tab"),
        "view.palette": ("Ctrl+Shift+P",),
        "view.chart_menu": ("Shift+F10", "Menu"),
        "view.maximise": ("Ctrl+Shift+M",),
        "panel.ntk": ("Ctrl+1",),
        "help.panel": ("F1",),
        "help.guide": ("Shift+F1",),
        "help.shortcuts": ("?",),
    }


def test_each_regime_has_a_row_and_the_one_for_copied_gates_two() -> None:
    sent: list[Any] = []
    rows = regime_rows(CATALOGUE, sent.append)
    assert [(row.id, row.title, row.keys, row.tip, row.group) for row in rows] == [
        ("regime.DL", "DL · Deep gating", ("Alt+1",), "All train.", "Learned"),
        (
            "regime.FL",
            "FL of a file",
            ("Alt+2",),
            "Gates stand still. The value network is drawn anew.",
            "Fixed",
        ),
        (
            "regime.FL.keep",
            "FL, value network kept",
            (),
            "Freeze the feature network; the value network goes on from where it is",
            "Fixed",
        ),
        ("regime.ReLU", "ReLU", ("Alt+3",), "Its own.", "Own"),
    ]
    for row in rows:
        row.callback()
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
    keys = [row.keys for row in regime_rows(many, sent.append)]
    assert keys == [(f"Alt+{place}",) for place in range(1, 10)] + [()]


def test_each_panel_and_each_experiment_has_a_row() -> None:
    log: list[Any] = []
    docks: Any = Recorder("docks", log)
    docks.arrangement = Recorder("docks.arrangement", log)
    docks.arrangement.is_open = lambda name: name == "p1"
    about = About("About it.")
    specs = {f"p{n}": PanelSpec(f"P{n}", (), lambda _: Empty("."), about) for n in range(11)}
    rows = panel_rows(docks, specs)
    assert [(row.id, row.title, row.tip) for row in rows[:2]] == [
        ("panel.p0", "P0", "Open or close P0"),
        ("panel.p1", "P1", "Open or close P1"),
    ]
    assert [row.keys for row in rows[7:]] == [("Ctrl+8",), ("Ctrl+9",), (), ()]
    assert [row.checked is not None and row.checked(RunState()) for row in rows[:3]] == [
        False,
        True,
        False,
    ]
    rows[2].callback()
    runner: Any = Recorder("runner", log)
    runner.made = lambda _id: "2026-11-02"
    (row,) = experiment_rows(CATALOGUE, runner)
    assert (row.id, row.title) == ("experiment.duality", "Duality…")
    assert (row.tip, row.group) == ("NPF. What it is.", "Other papers")
    assert row.text_now is not None
    assert row.text_now(RunState()) == "NPF: Duality… · ✓ result of 2026-11-02"
    row.callback()
    assert log == [("docks.toggle", "p2"), ("runner.open_page", EXPERIMENTS[0])]


def test_every_action_is_in_one_menu(bench: Bench) -> None:
    found = {
        name: bench.actions.menu_title(name)
        for name in (
            "file.quit",
            "edit.redo",
            "run.start_engine",
            "regime.FL.keep",
            "panel.ntk",
            "view.theme.dark",
            "view.palette",
            "experiment.a",
            "experiments.stop",
        )
    }
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
        bench.actions.menu_title("nowhere")
