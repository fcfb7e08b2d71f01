"""No path leaves a stale score on the screen: Training, its line, the status bar, the panels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig
from dgn_engine.protocol.files import OpenFile, TakeGates
from dgn_engine.protocol.runs import ShowRun
from dgn_engine.protocol.training import (
    Advance,
    Reset,
    StartRun,
    SwapRegime,
    Undo,
)
from dgn_engine.scene.elements import Fact, Scene
from dgn_engine.session.engine import Engine
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.window import Window
from tests.viewer.conftest import Begin, small_run

Open = Callable[..., Viewer]


def facts(window: Window) -> dict[str, str]:
    """What Training says above its curves, the test accuracy with the step that is on hover."""
    window.display.draw_now()
    shown = window.docks.hosts["training"].shown_content()
    return {fact.name: with_step(fact) for fact in shown.facts} if isinstance(shown, Scene) else {}


def with_step(fact: Fact) -> str:
    """Return '35.00 % at step 45, before FL'."""
    step = re.search(r"on the whole test set (at step [\d,]+)", fact.about)
    value, comma, change = fact.value.partition(",")
    return f"{value} {step[1]}{comma}{change}" if step is not None else fact.value


def footer(window: Window, panel: str = "training") -> str:
    window.display.draw_now()
    return window.docks.hosts[panel].footer_text()


def train(window: Window, qtbot: QtBot, epochs: int = 1) -> str:
    """Train to the end of an epoch, where the whole test set is scored; 'at step 45'."""
    run = window.run_state.run
    assert run is not None
    step = run.steps_per_epoch * epochs
    window.context.send(Advance(step - window.run_state.step))

    def tested() -> bool:
        series = window.history.view({}).series.get(("training", "test_accuracy"))
        return window.run_state.is_paused and series is not None and int(series.steps[-1]) == step

    qtbot.waitUntil(tested)
    return f"at step {step}"


def first(window: Window) -> str:
    """Where the first epoch ends."""
    run = window.run_state.run
    assert run is not None
    return f"at step {run.steps_per_epoch}"


@pytest.fixture
def scored(begin_run: Begin, qtbot: QtBot) -> Window:
    """A window with a paused run that was tested at its last step."""
    window = begin_run(small_run(pace=0.0), paused=True).window
    at = train(window, qtbot)
    assert facts(window)["test"].endswith(at)
    return window


def test_a_second_pause_has_the_scores_of_a_run_that_pauses_there_for_the_first_time(
    scored: Window, qtbot: QtBot
) -> None:
    before = facts(scored)
    train(scored, qtbot, 2)
    engine = Engine(lambda _: None, lambda _: None)
    engine.handle_command(StartRun(small_run(pace=0.0), paused=True))
    run = engine.run
    assert run is not None
    gathered = [(0.0, 0)]  # losses and examples up to each step: nothing is scored between
    for _ in range(90):
        run.trainer.step()
        sums = run.trainer.train_sums
        gathered.append((float(sums.sums[0]), sums.examples))
    score = run.trainer.test_score()
    engine.close()
    assert facts(scored)["test"] == f"{100 * score.accuracy:.2f} % at step 90"
    assert before["test"] != f"{100 * score.accuracy:.2f} % at step 45"
    series = scored.history.view({}).series
    names = ("test_loss", "test_accuracy")
    own = [float(series["training", name].values[-1]) for name in names]
    assert own == [score.loss, score.accuracy]
    losses = series["training", "train_loss"]
    since = gathered[int(losses.steps[-2])]
    total, count = (late - early for early, late in zip(since, gathered[90], strict=True))
    assert losses.values[-1] == pytest.approx(total / count)
    status = scored.run_views.status
    status.write_now()
    shown = tuple(status.field_text(name) for name in ("phase", "step", "epoch"))
    assert shown == ("paused", "step 90", "epoch 2.0")
    scored.pages.open_differences()
    page = scored.inspector.page
    assert isinstance(page, ComparePage)
    assert page.origin.chosen_step() is None
    page.origin.line.setText("91")
    assert not page.start.isEnabled()
    page.origin.line.setText("90")
    assert page.start.isEnabled()


def test_after_an_undo_while_paused_the_scores_say_that_they_are_of_before(
    scored: Window, qtbot: QtBot
) -> None:
    scored.context.send(SwapRegime("FL", restart_value=True))
    qtbot.waitUntil(lambda: scored.run_state.regime == "FL")
    assert facts(scored)["test"].endswith(f" {first(scored)}, before FL")
    second = train(scored, qtbot, 2)
    tested = facts(scored)["test"]
    assert tested.endswith(second)
    scored.context.send(Undo())
    qtbot.waitUntil(lambda: scored.run_state.regime == "DL")
    assert facts(scored)["test"] == f"{tested}, before undo"
    assert facts(scored)["train loss"].endswith(", before undo")
    assert f"{second[3:]}, before undo" in footer(scored)
    qtbot.waitUntil(lambda: "before" not in footer(scored, "overlap"))  # it is read again
    scored.run_views.status.write_now()
    assert scored.run_views.status.field_text("regime") == "DL"
    assert scored.run_views.status.field_text("speed") == ""
    third = train(scored, qtbot, 3)
    assert facts(scored)["test"].endswith(third)


def test_in_frg_there_is_no_test_score(scored: Window, qtbot: QtBot) -> None:
    scored.context.send(SwapRegime("FRG"))
    qtbot.waitUntil(lambda: scored.run_state.regime == "FRG")
    assert facts(scored)["test"] == "none in FRG"
    step = scored.run_state.step + 60
    scored.context.send(Advance(60))
    qtbot.waitUntil(lambda: scored.run_state.step == step and scored.run_state.is_paused)
    assert facts(scored)["test"] == "none in FRG"
    assert "before" not in facts(scored)["train loss"]
    scored.context.send(SwapRegime("DL"))
    qtbot.waitUntil(lambda: scored.run_state.regime == "DL")
    assert f"{first(scored)}, before DL" in facts(scored)["test"]


def test_a_reset_and_a_new_run_on_other_data_begin_without_scores(
    scored: Window, qtbot: QtBot
) -> None:
    begun = scored.run_state.run
    curves = scored.docks.hosts["training"].charts.view
    assert scored.docks.go_to_step(20)
    assert not curves.charts.items[curves.charts.shown_keys()[0]].following
    scored.context.send(Reset())
    qtbot.waitUntil(lambda: scored.run_state.run is not begun)
    assert facts(scored) == {}
    assert scored.history.view({}).marks == ()
    scored.run_views.status.write_now()
    assert scored.run_views.status.field_text("step") == "step 0"
    assert scored.run_views.status.field_text("epoch") in ("", "epoch 0.0")
    train(scored, qtbot)
    facts(scored)
    assert curves.charts.items[
        curves.charts.shown_keys()[0]
    ].following  # not at the steps of the run before
    second = scored.run_state.run
    other = replace(small_run(pace=0.0), data=DataConfig(name="digits", binary=(4, 7)))
    scored.context.send(StartRun(other, paused=True))
    qtbot.waitUntil(lambda: scored.run_state.run is not second)
    assert facts(scored) == {}
    view = scored.history.view({})
    assert not [name for source, name in view.series if source == "training"]
    assert (view.outdated, view.last) == ({}, None)


def test_a_refused_drop_changes_no_number(scored: Window, qtbot: QtBot, tmp_path: Path) -> None:
    bad = tmp_path / "broken.safetensors"
    bad.write_bytes(b"nothing" * 99)
    before, line = facts(scored), footer(scored)
    scored.context.send(OpenFile(str(bad), "gates"))
    qtbot.waitUntil(
        lambda: any("broken" in notice.text for notice in scored.notices.recent_notices)
    )
    scored.context.send(TakeGates(99))  # of a file that is not there
    told = len(scored.notices.recent_notices)
    qtbot.waitUntil(lambda: len(scored.notices.recent_notices) > told)
    assert facts(scored) == before
    assert footer(scored) == line
    assert scored.history.view({}).outdated == {}
    assert scored.history.view({}).marks == ()


def test_a_recorded_run_shows_its_own_scores_and_nothing_of_the_run_before(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    window = make_viewer(small_run(pace=0.0), paused=True, home="home").window
    at = train(window, qtbot)
    (folder,) = [path for path in (tmp_path / "home" / "runs").iterdir() if path.is_dir()]
    own = facts(window)
    begun = window.run_state.run
    window.context.send(StartRun(small_run("ReLU", pace=0.0), paused=True))
    qtbot.waitUntil(lambda: window.run_state.run is not begun)
    train(window, qtbot, 2)
    assert facts(window) != own
    window.context.send(ShowRun(str(folder)))
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    assert facts(window) == own
    window.run_views.status.write_now()
    assert window.run_views.status.field_text("speed") == ""
    assert window.run_views.status.field_text("step") == at[3:]


def test_a_panel_that_was_closed_says_when_it_was_not_measured_also_in_the_recorded_run(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    window = make_viewer(small_run(pace=0.0), paused=True, home="home").window

    def read_at(steps: int) -> None:
        step = window.run_state.step + steps
        window.context.send(Advance(steps))
        qtbot.waitUntil(lambda: window.run_state.step == step and window.run_state.is_paused)

    def measured() -> bool:
        series = window.history.view({}).series.get(("ntk", "trace_value"))
        return series is not None and int(series.steps[-1]) == window.run_state.step

    for _ in range(2):
        read_at(5)
        qtbot.waitUntil(measured)
    window.docks.toggle_panel("ntk")
    read_at(200)
    assert not measured()
    before = int(window.history.view({}).series["ntk", "trace_value"].steps[-1])
    window.docks.show_panel("ntk")
    qtbot.waitUntil(measured)
    assert window.history.view({}).gaps["ntk"][-1] == (before, 210)
    qtbot.waitUntil(lambda: f"step {before} to 210" in footer(window, "ntk"))
    read_at(5)
    begun = window.run_state.run
    (folder,) = [path for path in (tmp_path / "home" / "runs").iterdir() if path.is_dir()]
    window.context.send(StartRun(small_run(pace=0.0), paused=True))
    qtbot.waitUntil(lambda: window.run_state.run is not begun)
    assert window.history.view({}).gaps == {}
    window.context.send(ShowRun(str(folder)))
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    assert window.history.view({}).gaps["ntk"] == ((before, 210),)
