"""The banner says what A and B are, and which of their steps is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.branches import BranchChanges, BranchStatus, ComparisonOpened
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunShown
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_viewer.shell.banner import ShownSteps, inspection

OPENED = ComparisonOpened("second at step 40", "DL · 3 gate layers · step 40", "DL", ())
STARTED = RunStarted(
    1, RunConfig(), "DL", "cpu", (), (), 0, 0, 0, 0, 2, 0, 0, ProbeSet((), (), (), ""), True
)
COMPARED = RunState(run=STARTED, regime="FR-II", comparison=OPENED)
SHOWN = replace(COMPARED, recorded=RunShown("first", "finished", 90))


def test_only_the_branch_that_is_compared_with_can_be_stopped_there() -> None:
    changes = BranchChanges(regime="FR-II")
    status = BranchStatus("training", "b", "/runs/b", "p", 40, changes)
    same_name = replace(OPENED, name=changes.name_from(40))
    for folder, at_step, stops in (("/runs/b", None, 1), ("/runs/c", None, 0), ("/runs/b", 3, 0)):
        compared = replace(same_name, folder=folder, at_step=at_step)
        message = inspection(replace(COMPARED, comparison=compared, branch=status), ShownSteps())
        assert message is not None
        assert message.buttons.count("run.stop_branch") == stops


@pytest.mark.parametrize(
    ("now", "shown", "said"),
    [
        (
            COMPARED,
            ShownSteps(),
            ("current run, FR-II", "second at step 40 · DL · 3 gate layers · step 40"),
        ),
        (
            COMPARED,
            ShownSteps(1200, 30, "second"),
            ("current run, FR-II · step 1,200", "second · step 30"),
        ),
        (
            COMPARED,
            ShownSteps(None, 0, "this run"),
            ("current run, FR-II", "this run · step 0"),
        ),
        (
            SHOWN,
            ShownSteps(45, 60, "second"),
            ("first, FR-II, not training · step 45", "second · step 60"),
        ),
    ],
)
def test_both_sides_are_named_with_the_step_that_is_shown(
    now: RunState, shown: ShownSteps, said: tuple[str, str]
) -> None:
    message = inspection(now, shown)
    assert message is not None
    assert tuple(text[0] for text in message.texts) == said
