from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.experiments import all_experiments
from dgn_engine.protocol.commands import Command, StartRun, SwapRegime
from dgn_engine.protocol.run_curves import TRAINING
from dgn_engine.regimes import find_regime, regime_entries
from dgn_viewer.experiments.papers import PAPERS
from dgn_viewer.scene.panel_spec import Series, View
from dgn_viewer.shell.claims_tour import ClaimActs

MakeView = Callable[..., View]


def any_regime(view: View) -> View:
    """With every regime to choose from."""
    return replace(view, regimes=regime_entries())


def with_accuracy(view: View, accuracy: float) -> View:
    """The view once so much of the test set is right."""
    series = Series(np.array([1, 2]), np.array([0.1, accuracy]))
    return replace(view, series={(TRAINING, "test_accuracy"): series}, outdated={})


def acts(seen: list[View], sent: list[Command], opened: list[str], qtbot: QtBot) -> ClaimActs:
    window, docks = QWidget(), QWidget()
    qtbot.addWidget(window)
    qtbot.addWidget(docks)
    unused: Any = docks  # no step is pointed at here
    return ClaimActs(window, sent.append, lambda: seen[0], unused, window, opened.append, window)


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
    seen[0] = with_accuracy(seen[0], 0.971)
    steps[2].act()
    seen[0] = with_accuracy(seen[0], 0.93)
    assert steps[2].seen() == f"{words} 97.1%\nrandom gates (FR-II): 93.0% so far"
