"""Scores that a card still computes: nobody waits for them within an epoch, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from dgn_engine.config import DataConfig
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Diverged, Measured
from dgn_engine.random_streams import send_to_device
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.metrics import RunningScore
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import capture_run
from dgn_engine.training.steps.host_copies import HostCopier, HostCopy
from tests.engine.conftest import SMALL

Make = Callable[..., Run]
TINY = replace(SMALL, data=DataConfig(train_limit=320, test_limit=40))  # 10 steps an epoch


class Arrival:
    """An event of a card that comes to it after so many questions."""

    def __init__(self, questions: int, waited: list[str]) -> None:
        self._left = questions
        self._waited = waited

    def query(self) -> bool:
        self._left -= 1
        return self._left < 0

    def synchronize(self) -> None:
        if self._left >= 0:
            self._waited.append("waited")


class LateCourier(HostCopier):
    """As of a card that is `questions` steps behind."""

    def __init__(self, questions: int) -> None:
        super().__init__(torch.device("cpu"))
        self.waited: list[str] = []
        self._questions = questions

    def fetch(self, tensor: Tensor) -> HostCopy:
        event: Any = Arrival(self._questions, self.waited)
        return HostCopy(tensor.detach().clone(), event)


def late(run: Run, questions: int = 3) -> LateCourier:
    run.trainer.train_sums._courier = courier = LateCourier(questions)
    return courier


def scores(events: list[Event]) -> list[Measured]:
    return [event for event in events if isinstance(event, Measured)]


def test_late_scores_are_the_same_in_the_same_order_and_only_the_ends_of_epochs_wait(
    make_run: Make, events: list[Event]
) -> None:
    run = make_run("DL", TINY)
    courier = late(run)
    for _ in range(5):
        run.step()
    assert scores(events) == []  # of step 5 it is still on its way
    for _ in range(3):
        run.step()
    assert [score.step for score in scores(events)] == [5]
    assert courier.waited == []
    for _ in range(12):
        run.step()
    assert len(courier.waited) == 2
    found = scores(events)
    events.clear()
    other = make_run("DL", TINY)
    for _ in range(20):
        other.step()
    assert found == scores(events)
    assert run.evaluation.epoch_accuracy == other.evaluation.epoch_accuracy


def test_a_run_that_is_left_or_recorded_has_its_scores_first(
    make_run: Make, events: list[Event]
) -> None:
    run = make_run("DL", TINY)
    late(run)
    for _ in range(5):
        run.step()
    run.wait_for_scores()
    assert [score.step for score in scores(events)] == [5]
    for _ in range(20):
        run.step()
    snapshot = capture_run(run)
    assert snapshot is not None
    assert [score.step for score in scores(events)] == [5, 10, 15, 20, 25]
    assert snapshot.state["epoch_train"][1] == 160


def test_a_swap_is_told_after_the_scores_of_the_steps_before_it(
    make_run: Make, events: list[Event]
) -> None:
    run = make_run("DL", TINY)
    late(run)
    for _ in range(5):
        run.step()
    run.control.swap_regime("FR-II", restart_value=False)
    assert [type(event).__name__ for event in events[-2:]] == ["Measured", "RegimeSwapped"]


def test_a_loss_that_is_no_number_ends_the_run_once_when_it_has_arrived(
    make_run: Make, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("DL", TINY)
    late(run)
    monkeypatch.setattr(RunningScore, "is_finite", True)  # as on a card, which is not waited for
    with torch.no_grad():
        run.trainer.network.value.weights[-1].fill_(float("nan"))
    steps = 0
    while not run.diverged:
        run.step()
        steps += 1
    run.wait_for_scores()
    assert steps == 8
    assert len([event for event in events if isinstance(event, Diverged)]) == 1
    assert capture_run(run) is None


def test_numbers_are_those_of_the_moment_they_were_asked_for() -> None:
    numbers = torch.ones(2)
    copy = HostCopier(torch.device("cpu")).fetch(numbers)
    numbers.zero_()
    assert copy.is_ready
    assert copy.tensor.tolist() == [1.0, 1.0]
    assert send_to_device(numbers, torch.device("cpu")) is numbers


def stack(make_run: Make, regime: str) -> TrainerStack:
    config = replace(TINY, training=replace(TINY.training, learning_rate=2.0**-9, batch=60))
    return TrainerStack([make_run(regime, replace(config, seed=seed)).trainer for seed in (0, 1)])


def test_a_stack_on_a_card_finds_what_diverged_without_waiting_but_at_an_epochs_end(
    make_run: Make,
) -> None:
    pack = stack(make_run, "ReLU")
    pack._courier = courier = LateCourier(2)
    pack._sums[1, 0] = float("nan")
    assert [pack.find_diverged(wait=False) for _ in range(3)] == [[], [], [1]]
    assert courier.waited == []
    assert pack.find_diverged() == [1]
    assert courier.waited == ["waited"]
