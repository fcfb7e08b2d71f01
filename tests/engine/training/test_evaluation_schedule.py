"""When scores are due: a fake clock and a tiny run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dgn_engine.config import DataConfig
from dgn_engine.protocol.events import Event, Measured
from dgn_engine.training import evaluation_schedule
from dgn_engine.training.evaluation_schedule import EvaluationSchedule
from dgn_engine.training.run import Run
from tests.engine.conftest import SMALL

Make = Callable[..., Run]
TINY = replace(SMALL, data=DataConfig(train_limit=320, test_limit=40))  # 10 steps an epoch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(evaluation_schedule, "time", clock)
    return clock


def steps_with_scores(run: Run, events: list[Event], live: bool, steps: int) -> dict[int, bool]:
    """The steps at which scores were told, and whether they hold a test score."""
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live)
    for _ in range(steps):
        run.step()
    scores = [event for event in events if isinstance(event, Measured)]
    return {score.step: score.test_accuracy is not None for score in scores}


def test_without_a_viewer_train_scores_come_every_fifth_step_and_tests_with_epochs(
    make_run: Make, events: list[Event]
) -> None:
    found = steps_with_scores(make_run("DL", TINY), events, live=False, steps=20)
    assert found == {5: False, 10: True, 15: False, 20: True}


def test_a_live_test_is_due_half_a_second_after_the_last(
    make_run: Make, events: list[Event], clock: SimpleNamespace
) -> None:
    run = make_run("DL", TINY)
    assert steps_with_scores(run, events, live=True, steps=3) == {1: True}
    clock.now += 0.4
    run.step()
    clock.now += 0.1
    run.step()
    tested = [e.step for e in events if isinstance(e, Measured) and e.test_loss is not None]
    assert tested == [1, 5]


def test_where_nothing_generalises_train_scores_come_as_seldom_as_elsewhere(
    make_run: Make, events: list[Event], clock: SimpleNamespace
) -> None:
    """A test that was due when FRG began is never taken: it must not bring a score a step."""
    run = make_run("DL", TINY)
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live=True)
    run.swap("FRG", restart_value=False)
    for _ in range(12):
        run.step()
    scores = [event for event in events if isinstance(event, Measured)]
    assert [score.step for score in scores] == [5, 10]
    assert all(score.test_accuracy is None for score in scores)
