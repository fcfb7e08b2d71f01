"""What is done to a run between two steps: what it changes, and what is told of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import RegimeSwapped
from dgn_engine.training.devices import set_threads
from dgn_engine.training.run import Run
from tests.engine.conftest import SMALL

Make = Callable[..., Run]
DENSE = Architecture((3,), (Dense(3, 4), Dense(4, 2, gated=False)))
MAPS = Architecture((1, 4, 3), (Conv(1, 2), GlobalAveragePool(), Dense(2, 2, gated=False)))


class Match:
    """Layers of a file that fit: of the first `layers` of a network 64 → 16 → 16 → 16 → 10."""

    def __init__(self, layers: int, biases: bool = False) -> None:
        sizes = [(16, 64), (16, 16), (16, 16), (10, 16)][:layers]
        self.weights = [np.full(size, 0.5, np.float32) for size in sizes]
        self.biases = [np.ones(size[0], np.float32) if biases else None for size in sizes]
        self.rows = [type("Row", (), {"layer": f"layer {place}"}) for place in range(4)]


def match(layers: int, biases: bool = False) -> Any:
    return Match(layers, biases)


def swaps(events: list[Event]) -> list[RegimeSwapped]:
    return [event for event in events if isinstance(event, RegimeSwapped)]


def test_gates_of_a_file_begin_fl_and_end_the_epochs_that_would_have_learnt_them(
    make_run: Make, events: list[Event]
) -> None:
    run = make_run("FL", pretrain_epochs=1)
    assert run.control.pretrain_steps > 0
    run.control.take_gates(match(3), "net.pt", restart_value=False)
    (told,) = swaps(events)
    assert (told.before, told.after, told.source) == ("ReLU", "FL", "net.pt")
    assert told.copied == ("feature weights (from net.pt)",)
    assert told.kept == ("value weights",)
    assert told.redrawn == ()
    assert run.control.pretrain_steps == 0
    assert all(bool((w == 0.5).all()) for w in run.trainer.network.feature.weights[:3])
    for _ in range(3):
        run.step()
    assert swaps(events) == [told], "nothing is swapped once more"


def test_a_swap_ends_pre_training(make_run: Make, events: list[Event]) -> None:
    run = make_run("FL", pretrain_epochs=1)
    run.control.swap_regime("FR-II", restart_value=True)
    for _ in range(3):
        run.step()
    (told,) = swaps(events)
    assert (told.before, told.after, told.step, told.source) == ("ReLU", "FR-II", 0, "")
    count = sum(p.numel() for p in run.trainer.network.feature.parameters())
    assert told.parameters_feature == count


def test_what_was_there_before_a_change_is_announced_before_it(make_run: Make) -> None:
    run = make_run("DL")
    said: list[tuple[str, str]] = []
    run.control.before_change = lambda change: said.append((change, run.trainer.regime.name))
    run.control.swap_regime("FR-II", restart_value=True)
    run.control.take_gates(match(3), "net.pt", restart_value=False)
    run.control.take_weights(match(2), "other.pt")
    assert said == [("FR-II", "DL"), ("FL", "FR-II"), ("weights of other.pt", "FL")]


def test_weights_of_a_file_are_told_with_whether_any_bias_came_with_them(
    make_run: Make, events: list[Event]
) -> None:
    with_biases = replace(SMALL, net=replace(SMALL.net, bias=True))
    run, partly = make_run("DL", with_biases), match(3, biases=True)
    partly.biases[0] = None
    run.control.take_weights(match(4), "plain.pt")
    run.control.take_weights(partly, "partly.pt")
    told = [each for each in events if isinstance(each, WeightsTaken)]
    assert told == [
        WeightsTaken(0, "plain.pt", 4, (), False),
        WeightsTaken(0, "partly.pt", 3, ("layer 3",), True),
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.control.set_learning_rate(0.0),
        lambda run: run.control.set_beta(0.0),
        lambda run: run.control.set_value_input("noise"),
        lambda run: run.control.set_pace(-1.0),
    ],
)
def test_a_dial_out_of_bounds_is_refused_and_changes_nothing(
    make_run: Make, events: list[Event], change: Callable[[Run], None]
) -> None:
    run = make_run("DL")
    with pytest.raises(UserError):
        change(run)
    assert events == []
    network = run.trainer.network
    assert (run.trainer.optimizer.learning_rate, run.control.pace) == (0.001, 0.0)
    assert (network.gate.beta, network.value_input) == (8.0, "image")


def test_what_a_run_is_stands_in_its_first_event(make_run: Make) -> None:
    run = make_run("FR-II", wiring=(2, 0, 1), rotation=(0, 1, 0))
    told = run.started_event(paused=True)
    assert told.paused
    assert not run.started_event(paused=False).paused
    assert (told.run, told.regime, told.device) == (1, "FR-II", "cpu")
    assert (told.wiring, told.rotation, told.shift) == ((2, 0, 1), (0, 1, 0), ())
    weights = 64 * 16 + 16 * 16 * 2 + 16 * 10
    assert (told.parameters_value, told.parameters_feature) == (weights, weights)
    assert (told.train_examples, told.test_examples, told.classes) == (1437, 360, 10)
    assert (told.steps_per_epoch, told.total_steps) == (45, 45)
    assert [layer.kind for layer in told.layers] == ["dense"] * 3


@pytest.mark.parametrize(
    ("epochs", "pretrain", "steps", "total"),
    [(2, 0, 90, 180), (2, 3, 135, 225), (0, 0, 450, 0), (0, 2, 90, 0)],
)
def test_gates_are_learnt_for_as_many_epochs_as_asked_or_as_follow(
    make_run: Make, epochs: int, pretrain: int, steps: int, total: int
) -> None:
    """Ten where the run has no end and nothing is asked."""
    base = make_run().config
    config = replace(base, training=replace(base.training, epochs=epochs))
    run = make_run("FL", config, pretrain_epochs=pretrain)
    assert (run.control.pretrain_steps, run.total_steps) == (steps, total)
    assert not run.is_finished


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (8, 7), (None, 1)])
def test_convolutions_take_all_cores_but_one_and_dense_layers_one(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, threads: int
) -> None:
    found: list[int] = []
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    set_threads(MAPS)
    set_threads(DENSE)
    assert found == [threads, 1]


def test_a_run_sets_the_threads_for_its_layers(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    make_run("DL")
    assert found == [1]


def smallest_kept(prepare: Callable[[], object]) -> float:
    """2⁻¹⁴⁰ through one multiplication, in a thread of its own."""
    found: list[float] = []

    def work() -> None:
        prepare()
        found.append(float(torch.full((64,), 2.0**-70) @ torch.full((64,), 2.0**-70)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def test_numbers_too_small_for_a_normalised_float_are_zero_where_a_run_trains() -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    torch.set_flush_denormal(False)
    assert smallest_kept(lambda: torch.set_flush_denormal(False)) > 0
    assert smallest_kept(lambda: set_threads(DENSE)) == 0
