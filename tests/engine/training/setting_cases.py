"""A case for each setting, by its name, and the small runs that cases are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.protocol.messages import Event
from dgn_engine.training.run import Run
from tests.engine.slow_table import stream

BASE = RunConfig.from_dict(
    {
        "data": {"train_limit": 50, "test_limit": 20},
        "net": {"options": {"width": 9, "depth": 4}},
        "gating": {"regime": "DL", "beta": 2.0},
        "training": {"batch": 20, "epochs": 2, "learning_rate": 0.01},
        "device": "cpu",
        "probe_examples": 10,
    }
)
CASES: dict[str, Callable[[Path], None]] = {}
NO_SETTING = {"options"}  # of a data set and of a network: declared by their plug-ins


def case(*names: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def keep(check: Callable[[Path], None]) -> Callable[[Path], None]:
        CASES.update(dict.fromkeys(names, check))
        return check

    return keep


def changed(config: RunConfig = BASE, **parts: dict[str, object] | object) -> RunConfig:
    """`changed(net={'bias': True}, seed=3)`."""
    whole = {
        name: replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in parts.items()
    }
    return replace(config, **whole)


def run_of(config: RunConfig = BASE, events: list[Event] | None = None, **parts: Any) -> Run:
    emit = (lambda _: None) if events is None else events.append
    return Run(1, changed(config, **parts), emit, lambda *_: None, live=False)


def examples_of(**data: object) -> Examples:
    return load_examples(changed(data=data).data)


def parameters(run: Run) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in run.trainer.network.parameters()]


def value_weights(run: Run) -> list[Tensor]:
    return [weight.detach().clone() for weight in run.trainer.network.value.weights]


def first_gradients(run: Run) -> list[Tensor]:
    """Of the mean loss of the first batch, by autograd, for the value weights."""
    trainer, training = run.trainer, run.config.training
    order = torch.randperm(len(trainer.data.train_y), generator=stream("order", run.config.seed, 0))
    rows = order[: training.batch]
    logits = trainer.network(trainer.data.train_x[rows])
    loss = -torch.log_softmax(logits, 1)[torch.arange(len(rows)), trainer.data.train_y[rows]].mean()
    return list(torch.autograd.grad(loss, list(trainer.network.value.weights)))


def first_move(**training: object) -> tuple[list[Tensor], list[Tensor]]:
    """What the first step adds to the value weights, and the gradients before it."""
    run = run_of(training=training)
    gradients, before = first_gradients(run), value_weights(run)
    run.trainer.step()
    return [a - b for a, b in zip(value_weights(run), before, strict=True)], gradients


def assert_close(ours: list[Tensor], theirs: list[Tensor], atol: float = 1e-6) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=atol, rtol=1e-4)
