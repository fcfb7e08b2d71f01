from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig
from dgn_engine.experiments import all_experiments
from dgn_engine.experiments.report.papers import PAPERS
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.protocol.training import StartRun, SwapRegime
from dgn_engine.regimes import find_regime
from dgn_engine.scene.panel_spec import Series, View, run_key
from dgn_engine.session.known_plug_ins import regime_entries
from dgn_viewer.shell.claims_tour import ClaimActs, tour_run
from tests.viewer.window_contexts import make_context

MakeView = Callable[..., View]


def any_regime(view: View) -> View:
    """With every regime to choose from."""
    return replace(view, regimes=regime_entries())


def with_accuracy(view: View, accuracy: float) -> View:
    """The view once so much of the test set is right."""
    series = Series(np.array([1, 2]), np.array([0.1, accuracy]), run_key(view.run))
    return replace(view, series={(TRAINING, "test_accuracy"): series}, outdated={})


def begun(view: View, command: Command) -> View:
    """The view once a run with this configuration has begun."""
    assert isinstance(command, StartRun)
    assert view.run is not None
    regime = command.config.gating.regime
    wiring = command.config.gating.wiring or (0, 1, 2, 3)
    run = replace(
        view.run, run=view.run.run + 1, config=command.config, regime=regime, wiring=wiring
    )
    return replace(view, run=run, regime=regime, wiring=wiring, series={}, outdated={})


def acts(seen: list[View], sent: list[Command], opened: list[str], qtbot: QtBot) -> ClaimActs:
    window, docks = QWidget(), QWidget()
    qtbot.addWidget(window)
    qtbot.addWidget(docks)
    unused: Any = docks  # no step is pointed at here
    context = make_context(window, sent.append, view=lambda: seen[0])
    return ClaimActs(context, unused, window, opened.append, window)


@pytest.mark.discovery
def test_every_paper_has_a_step_and_every_step_can_be_done(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    opened: list[str] = []
    steps = acts([any_regime(make_view("soft"))], sent, opened, qtbot).steps()
    for step in steps:
        step.act()
    text = " ".join(step.text for step in steps)
    assert all(f"[{paper}]" in text for paper in PAPERS)
    assert set(opened) <= set(all_experiments())
    assert len(sent) + len(opened) == len(steps)
    for command in sent:
        if isinstance(command, StartRun):
            gating = command.config.gating
            layers = dict(command.config.net.options)["depth"] - 1
            assert not gating.wiring or sorted(gating.wiring) == list(range(layers))
            assert find_regime(gating.regime)
        else:
            assert isinstance(command, SwapRegime)
            assert find_regime(command.regime)


@pytest.mark.discovery
def test_the_accuracies_of_the_runs_so_far_stand_side_by_side(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    seen = [replace(any_regime(make_view("soft")), series={})]
    steps = acts(seen, sent, [], qtbot).steps()
    assert steps[0].seen() == ""
    steps[0].act()
    words = "Test accuracy, one run of each\nlearnt gates (DL):"
    assert steps[0].seen() == f"{words} not measured yet"
    seen[0] = with_accuracy(seen[0], 0.5)  # of the run before
    assert steps[0].seen() == f"{words} not measured yet"
    seen[0] = with_accuracy(begun(seen[0], sent[-1]), 0.971)
    assert steps[0].seen() == f"{words} 97.1 % so far"
    steps[2].act()
    seen[0] = with_accuracy(begun(seen[0], sent[-1]), 0.93)
    assert steps[2].seen() == f"{words} 97.1 %\nrandom gates (FR-II): 93.0 % so far"


@pytest.mark.discovery
def test_a_run_that_no_card_has_begun_gives_no_card_its_accuracy(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    seen = [replace(any_regime(make_view("soft")), series={})]
    steps = acts(seen, sent, [], qtbot).steps()
    playground = StartRun(replace(tour_run(), data=DataConfig(name="xor")))
    for place, reached in ((4, 0.4), (5, None)):
        steps[place].act()
        seen[0] = begun(seen[0], sent[-1])
        if reached is not None:
            seen[0] = with_accuracy(seen[0], reached)
        before = steps[place].seen()
        seen[0] = with_accuracy(begun(seen[0], playground), 0.995)
        after = steps[place].seen()
        assert "99.5" not in after
        assert after != before  # it is over
    steps[1].act()  # the gates that XOR has learnt are no result of a paper
    assert isinstance(sent[-1], SwapRegime)
    seen[0] = with_accuracy(replace(seen[0], regime=sent[-1].regime), 0.99)
    assert steps[1].seen() == after
    assert after.count(":") == 2


@pytest.mark.discovery
def test_a_swap_by_hand_ends_what_is_counted_for_a_card(
    make_view: MakeView, sent: list[Command], qtbot: QtBot
) -> None:
    seen = [replace(any_regime(make_view("soft")), series={})]
    steps = acts(seen, sent, [], qtbot).steps()
    steps[0].act()
    seen[0] = with_accuracy(begun(seen[0], sent[-1]), 0.97)
    assert "97.0 % so far" in steps[0].seen()
    ours = seen[0]
    seen[0] = with_accuracy(replace(ours, regime="FR-II"), 0.3)
    assert steps[0].seen().endswith(": 97.0 %")
    seen[0] = ours
    steps[1].act()
    assert isinstance(sent[-1], SwapRegime)
    assert steps[1].seen().endswith("not measured yet")  # the swap is to come
    seen[0] = with_accuracy(replace(ours, regime=sent[-1].regime), 0.95)
    assert "97.0 %" in steps[1].seen()
    assert steps[1].seen().endswith("95.0 % so far")
