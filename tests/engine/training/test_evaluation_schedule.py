"""When scores are due: a fake clock and a tiny run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dgn_engine.config import DataConfig
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured
from dgn_engine.training import evaluation_schedule, metrics
from dgn_engine.training.evaluation_schedule import TEST_SHARE, EvaluationSchedule
from dgn_engine.training.metrics import TestPass as Pass
from dgn_engine.training.readings.watch_budget import WatchBudget
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


def steps_of_tests(events: list[Event]) -> list[int]:
    scores = [event for event in events if isinstance(event, Measured)]
    return [score.step for score in scores if score.test_loss is not None]


def test_a_live_run_has_train_scores_from_its_first_step(
    make_run: Make, events: list[Event], clock: SimpleNamespace
) -> None:
    """At steps 1, 2, 4, … before the first regular score, and no more after it."""
    config = replace(TINY, training=replace(TINY.training, batch=2))  # 160 steps an epoch
    found = steps_with_scores(make_run("DL", config), events, live=True, steps=18)
    assert list(found) == [1, 2, 4, 8, 16]
    sums = [e.train_loss for e in events if isinstance(e, Measured)]
    assert len(set(sums)) == len(sums), "each is of the steps since the last"


def test_without_a_viewer_train_scores_come_every_fifth_step_and_tests_with_epochs(
    make_run: Make, events: list[Event]
) -> None:
    found = steps_with_scores(make_run("DL", TINY), events, live=False, steps=20)
    assert found == {5: False, 10: True, 15: False, 20: True}


def test_a_live_test_is_due_half_a_second_after_the_last(
    make_run: Make, events: list[Event], clock: SimpleNamespace
) -> None:
    run = make_run("DL", TINY)
    assert steps_with_scores(run, events, live=True, steps=3) == {1: True, 2: False}
    clock.now += 0.4
    run.step()
    clock.now += 0.1
    run.step()
    assert steps_of_tests(events) == [1, 5]


def test_where_nothing_generalises_train_scores_come_as_seldom_as_elsewhere(
    make_run: Make, events: list[Event], clock: SimpleNamespace
) -> None:
    """A test that was due when FRG began is never taken: it must not bring a score a step."""
    run = make_run("DL", TINY)
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live=True)
    run.control.swap_regime("FRG", restart_value=False)
    for _ in range(12):
        run.step()
    scores = [event for event in events if isinstance(event, Measured)]
    assert [score.step for score in scores] == [1, 2, 4, 5, 10]
    assert all(score.test_accuracy is None for score in scores)


def test_a_chunk_of_a_test_pass_is_no_step(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is told the engine by `advance` it keeps pace and counts steps."""
    monkeypatch.setattr(metrics, "CHUNK_VALUES", 1)
    run = make_run("DL", TINY)
    told = []
    while run.step_count < 10 or run.evaluation.has_pending_test:
        before = run.step_count
        told.append((run.advance(), run.step_count - before))
    assert told == [(True, 1)] * 10 + [(False, 0)] * 2  # 40 test examples, 32 at once


@pytest.fixture
def slow_chunks(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Each chunk of a test pass takes `seconds` of the fake clock."""
    pace = SimpleNamespace(seconds=0.0)
    advance = Pass.advance

    def slowly(test_pass: Pass) -> object:
        clock.now += pace.seconds
        return advance(test_pass)

    monkeypatch.setattr(Pass, "advance", slowly)
    return pace


@pytest.mark.parametrize("seconds", [1.0, 2.0])
def test_live_tests_take_two_fifths_of_what_may_be_spent(
    make_run: Make,
    events: list[Event],
    clock: SimpleNamespace,
    slow_chunks: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    """A pass of two chunks: the next begins 50 times as long after its end."""
    monkeypatch.setattr(metrics, "CHUNK_VALUES", 1)
    run = make_run("DL", TINY)
    budget = WatchBudget(clock=clock.monotonic, busy=clock.monotonic)
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live=True, budget=budget)
    slow_chunks.seconds = seconds
    run.step()
    due = clock.now + 2 * seconds / (TEST_SHARE * 0.05)
    clock.now = due - 0.01
    run.step()
    clock.now = due
    run.step()
    tested = [e.step for e in events if isinstance(e, Measured) and e.test_loss is not None]
    assert tested == [1, 3]


def test_there_is_no_test_in_between_where_epochs_are_short_for_what_one_costs(
    make_run: Make, events: list[Event], clock: SimpleNamespace, slow_chunks: SimpleNamespace
) -> None:
    """A pass takes 1 s, an epoch of ten steps 10 s: what an epoch's test cost is remembered."""
    run = make_run("DL", TINY)
    budget = WatchBudget(clock=clock.monotonic, busy=clock.monotonic)
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live=True, budget=budget)
    slow_chunks.seconds = 0.5
    for _ in range(40):
        clock.now += 1.0
        run.step()
    tested = [e.step for e in events if isinstance(e, Measured) and e.test_loss is not None]
    assert tested == [1, 10, 20, 30, 40]


@pytest.mark.parametrize(("chunk", "first"), [(0.19, True), (0.21, False)])
def test_the_first_live_test_waits_where_a_pass_takes_more_than_a_quarter_of_a_second(
    make_run: Make,
    events: list[Event],
    clock: SimpleNamespace,
    slow_chunks: SimpleNamespace,
    chunk: float,
    first: bool,
) -> None:
    """Tried on 32 of the 40 test examples, so that a whole pass takes 40/32 of a chunk."""
    run = make_run("DL", TINY)
    slow_chunks.seconds = chunk
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live=True)
    slow_chunks.seconds = 0.0
    run.step()
    assert steps_of_tests(events) == [1] * first
    if not first:
        clock.now += chunk * 40 / 32 / 0.05 - 0.01
        run.step()
        assert steps_of_tests(events) == []
        clock.now += 0.02
        run.step()
        assert steps_of_tests(events) == [3]


def test_scores_come_twenty_times_an_epoch_where_it_is_long(
    make_run: Make, events: list[Event]
) -> None:
    config = replace(TINY, training=replace(TINY.training, batch=2))  # 160 steps an epoch
    found = steps_with_scores(make_run("DL", config), events, live=False, steps=17)
    assert list(found) == [8, 16]


def flat_after(run: Run, patience: int, accuracies: list[float]) -> int | None:
    training = replace(run.trainer.config.training, patience=patience)
    run.trainer.config = replace(run.trainer.config, training=training)
    schedule = EvaluationSchedule(run.trainer, lambda _: None, live=False)
    for epoch, accuracy in enumerate(accuracies, 1):
        if schedule.is_flat(accuracy):
            return epoch
    return None


def test_a_run_is_flat_where_its_best_accuracy_rose_by_less_than_half_a_point(
    make_run: Make,
) -> None:
    run = make_run("DL", TINY)
    assert flat_after(run, 0, [0.5] * 9) is None, "never, where nothing was asked"
    assert flat_after(run, 1, [0.5, 0.504]) == 2
    assert flat_after(run, 1, [0.5, 0.506, 0.512, 0.516]) == 4
    assert flat_after(run, 2, [0.5, 0.504, 0.506, 0.508]) == 4
    assert flat_after(run, 2, [0.5, 0.4, 0.3]) == 3, "the best counts, not the last"
    assert flat_after(run, 3, [0.5, 0.6, 0.6, 0.6]) is None
    assert flat_after(run, 3, [0.5, 0.6, 0.6, 0.6, 0.6]) == 5


def test_a_change_of_the_network_begins_patience_anew_and_tells_what_waited(
    make_run: Make, events: list[Event], clock: SimpleNamespace
) -> None:
    run = make_run("DL", TINY)
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live=False)
    run.evaluation.peaks[:] = [0.5, 0.6]
    while not run.evaluation.has_pending_test:
        run.advance()
    waiting = run.evaluation.pending_scores
    assert waiting is not None
    assert events[-1] != waiting
    run.evaluation.restart_test()
    assert events[-1] == waiting
    assert run.evaluation.pending_scores is None
    assert not run.evaluation.peaks
    count = len(events)
    run.evaluation.restart_test()
    assert len(events) == count


def test_the_accuracy_of_an_epoch_is_over_all_its_examples(
    make_run: Make, events: list[Event]
) -> None:
    run = make_run("DL", TINY)
    run.evaluation = EvaluationSchedule(run.trainer, events.append, live=False)
    for _ in range(5):
        run.step()
    right, seen = run.evaluation.epoch_so_far
    assert seen == 160
    for _ in range(5):
        run.step()
    first, second = (e for e in events if isinstance(e, Measured))
    assert right == pytest.approx(160 * first.train_accuracy)
    assert run.evaluation.epoch_so_far == (0.0, 0)
    whole = (first.train_accuracy + second.train_accuracy) / 2
    assert run.evaluation.epoch_accuracy == pytest.approx(whole)
