"""The banner says what A and B are, and which of their steps is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.events import ComparisonOpened, ProbeSet, RunShown, RunStarted
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.shell.banner import ShownSteps, inspection

OPENED = ComparisonOpened("second at step 40", "DL · 3 gate layers · step 40", "DL", ())
STARTED = RunStarted(
    1, RunConfig(), "DL", "cpu", (), (), 0, 0, 0, 0, 2, 0, 0, ProbeSet((), (), (), ""), True
)
COMPARED = RunState(run=STARTED, regime="FR-II", comparison=OPENED)
SHOWN = replace(COMPARED, recorded=RunShown("first", "finished", 90))


@pytest.mark.parametrize(
    ("now", "shown", "said"),
    [
        (
            COMPARED, ShownSteps(),
            ("current run, FR-II", "second at step 40 · DL · 3 gate layers · step 40"),
        ),
        (
            COMPARED, ShownSteps(1200, 30, "second"),
            ("current run, FR-II · step 1,200", "second · step 30"),
        ),
        (
            COMPARED, ShownSteps(None, 0, "this run"),
            ("current run, FR-II", "this run · step 0"),
        ),
        (
            SHOWN, ShownSteps(45, 60, "second"),
            ("first, FR-II, not training · step 45", "second · step 60"),
        ),
    ],
)  # fmt: skip
def test_both_sides_are_named_with_the_step_that_is_shown(
    now: RunState, shown: ShownSteps, said: tuple[str, str]
) -> None:
    message = inspection(now, shown)
    assert message is not None
    assert tuple(text[0] for text in message.texts) == said
