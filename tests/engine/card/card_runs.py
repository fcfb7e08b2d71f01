"""Runs that do on a simulated card what they do on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal
from unittest import mock

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import Measured
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.run import Run
from dgn_engine.training.steps import network_step
from dgn_engine.training.steps.graphs import WARM_UP, GraphSteps
from dgn_engine.training.trainer import Trainer
from tests.engine.any_run import any_config
from tests.simulated_card import is_on_card, simulated_card

Device = Literal["cpu", "cuda"]
Script = Callable[[Run], None]
UNTIL_CAPTURED = WARM_UP + 1
RATE = 2.0**-8  # the same in float32, in which a card keeps it


def small_config(regime: str, net: str, **training: Any) -> RunConfig:
    """Any network and gates, batches of one size, until it is stopped."""
    config = any_config(regime, net, seed=0)
    given = {"batch": 4, "learning_rate": RATE, "epochs": 0, **training}
    return replace(
        config,
        training=replace(config.training, **given),
        data=replace(config.data, train_limit=12, test_limit=8),
        gating=replace(config.gating, pretrain_epochs=1 if config.gating.regime == "FL" else 0),
    )


def begin_run(config: RunConfig, device: Device, events: list[Event]) -> Run:
    return Run(1, replace(config, device=device), events.append, lambda *_: None, live=False)


def assert_captured(made: Trainer | TrainerStack) -> None:
    assert isinstance(made.steps, GraphSteps)
    assert made.steps.trouble == ""
    assert made.steps.captures > 0
    assert all(
        map(
            is_on_card, (made.network_step if isinstance(made, Trainer) else made).changed_tensors()
        )
    )


def numbers_of(config: RunConfig, script: Script, device: Device) -> dict[str, Tensor]:
    """Return the state of a run, and its scores, after what the script does to it."""
    events: list[Event] = []
    run = begin_run(config, device, events)
    script(run)
    run.wait_for_scores()
    if device == "cuda":
        assert_captured(run.trainer)
    scores = [
        (event.train_loss, event.train_accuracy) for event in events if isinstance(event, Measured)
    ]
    if run.trainer.regime.generalises:
        test = run.trainer.test_score()
        scores.append((test.loss, test.accuracy))
    return {
        **{
            name: tensor.detach().to("cpu", copy=True)
            for name, tensor in run.trainer.tensors().items()
        },
        "scores": torch.tensor(scores, dtype=torch.float64),
    }


def assert_same_on_card(config: RunConfig, script: Script, most: float = 0.0) -> None:
    """Numbers differ by no more than `most` in norm; 0: they are the same bits.

    A CPU takes convolutions in the order of memory of a card.
    """
    with mock.patch.object(network_step, "is_chain_of_convolutions", return_value=False):
        expected = numbers_of(config, script, "cpu")
    with simulated_card() as card:
        result = numbers_of(config, script, "cuda")
    assert card.faults == []
    assert result.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (result[name] - tensor).norm() <= most * tensor.norm(), name
