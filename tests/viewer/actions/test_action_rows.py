"""Every row of the action table: enabled exactly when, and what exactly it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dgn_engine.protocol.catalogue import Catalogue, DataEntry
from dgn_engine.protocol.files import TrainingOffered
from dgn_engine.protocol.messages import Stopped
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import (
    Advance,
    Diverged,
    Finished,
    Pause,
    Paused,
    Resume,
    SwapRegime,
    UndoChanged,
)
from dgn_engine.scene.elements import Empty
from dgn_engine.scene.panel_spec import About, PanelSpec
from dgn_viewer.actions.action_rows import ActionRow
from dgn_viewer.actions.experiments_menu import experiment_rows
from dgn_viewer.actions.gates_menu import regime_rows
from dgn_viewer.actions.playground_menu import playground_rows
from dgn_viewer.actions.view_menu import panel_rows
from dgn_viewer.shell.inspector_pages import InspectorPages
from tests.snapshots import Recorded
from tests.viewer.actions.action_bench import (
    ALWAYS,
    CATALOGUE,
    EXPERIMENTS,
    HAS_RUN,
    READY,
    REGIMES,
    RUN,
    STATES,
    Bench,
    Desk,
    Recorder,
    after,
)


def described(bench: Bench, row: ActionRow) -> dict[str, object]:
    """Its menu, its keys, the states in which it can be chosen, and what it then does."""
    desk = bench.desk
    enabled = [state for state, now in STATES.items() if row.enabled(now)]
    desk.state = STATES["inspected" if enabled == ["inspected"] else "paused"]
    return {
        "menu": bench.actions.menu_title(row.id),
        "keys": row.keys,
        "in": "always" if set(enabled) == ALWAYS else ", ".join(enabled),
        "does": [str(one) for one in desk.done(row.id)],
    }


def test_every_row_stands_in_its_menu_has_its_keys_and_does_what_is_recorded(
    bench: Bench, recorded: Recorded
) -> None:
    recorded({name: described(bench, row) for name, row in bench.desk.rows.items()})


def test_a_network_that_cannot_be_trained_on_says_why(desk: Desk) -> None:
    first, second = desk.rows["run.train_on"], desk.rows["run.train_on_gates"]
    assert first.why_not is not None
    assert second.why_not is not None
    inspected = STATES["inspected"]
    assert (first.why_not(inspected), first.why_not(STATES["running"])) == ("", "")
    assert first.why_not(replace(inspected, training=None))  # it is still being read
    none = TrainingOffered(1, (), "x.pt has other outputs.")
    desk.state = replace(inspected, training=none)
    assert first.why_not(desk.state) == second.why_not(desk.state) == none.remark
    assert desk.done("run.train_on") == []
    one = replace(inspected, training=TrainingOffered(1, ("soft-ReLU",), ""))
    assert (first.why_not(one), bool(second.why_not(one))) == ("", True)


def test_an_experiment_that_runs_can_be_stopped_and_no_second_one_begun(desk: Desk) -> None:
    desk.experiments.is_running = True
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
    pages = InspectorPages(desk.context, desk.inspector, desk.docks, desk.time, keys, *[print] * 3)
    desk.log.clear()
    pages.open_about_front_panel()
    assert desk.log == [("inspector.show_about", "the spec of ntk")]
    desk.log.clear()
    desk.front = ""
    pages.open_about_front_panel()
    assert desk.log == []


def test_the_first_button_says_what_it_would_do(desk: Desk, recorded: Recorded) -> None:
    row = desk.rows["run.toggle"]
    assert row.text_now is not None
    assert row.icon_now is not None
    assert row.why_not is not None
    recorded({name: (row.text_now(now), row.icon_now(now)) for name, now in STATES.items()})
    assert [name for name, now in STATES.items() if row.why_not(now)] == ["inspected"]
    assert "x.pt" in row.why_not(STATES["inspected"])


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
    assert only.text_now(STATES["setting"]) == "Revert β only"
    assert not only.enabled(STATES["setting"].after(Diverged(5)))  # no weights worth keeping


def test_the_theme_that_was_chosen_is_checked(desk: Desk) -> None:
    def checked() -> list[str]:
        rows = [row for row in desk.rows.values() if row.checked is not None]
        return [row.id for row in rows if row.checked is not None and row.checked(RunState())]

    assert checked() == ["view.theme.dark"]
    desk.theme.choice = "system"
    assert checked() == ["view.theme.system"]


def test_each_regime_has_a_row_and_the_one_for_copied_gates_two() -> None:
    sent: list[Any] = []
    rows = regime_rows(CATALOGUE, sent.append)
    assert [(row.id, row.title, row.keys, row.group) for row in rows] == [
        ("regime.DL", "DL · Deep gating", ("Alt+1",), "Learned"),
        ("regime.FL", "FL of a file", ("Alt+2",), "Fixed"),
        ("regime.FL.keep", "FL, value network kept", (), "Fixed"),
        ("regime.ReLU", "ReLU", ("Alt+3",), "Own"),
    ]
    assert (rows[0].tip, rows[3].tip) == ("All train.", "Its own.")
    assert rows[1].tip.startswith("Gates stand still. ")
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
    (row,) = experiment_rows(CATALOGUE, runner)
    assert (row.id, row.title) == ("experiment.duality", "Duality…")
    assert row.tip == "Duality. NPF. What it is."
    row.callback()
    assert log == [("docks.toggle_panel", "p2"), ("runner.open_page", EXPERIMENTS[0])]


def test_each_set_of_the_plane_has_a_row_that_starts_its_playground() -> None:
    log: list[Any] = []
    playground: Any = Recorder("playground", log)
    data = (
        DataEntry("moons", "Two moons (2-D)", True, ""),
        DataEntry("xor", "XOR (2-D)", True, "", plane=True),
    )
    (row,) = playground_rows(Catalogue((), (), data, (), ()), playground)
    assert (row.id, row.title) == ("playground.xor", "Playground: XOR (2-D)")
    assert not row.enabled(RunState())
    row.callback()
    assert log == [("playground.start_on", "xor")]
