"""Epochs of training a deep gated network: by our trainer, and in hand-written torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from benchmarks.case import Work
from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.training.device_data import epoch_order
from dgn_engine.training.trainer import Trainer

CLASSES, BATCH = 10, 32
CONFIG = RunConfig(
    training=TrainingConfig(batch=BATCH, learning_rate=1e-4), gating=GatingConfig(regime="DL")
)


EAGER: list[str] = []  # 'METHOD: why its steps were not captured', for this process


def record_eager(method: str, trainer: Trainer) -> Trainer:
    """Add the reason to `EAGER` if the trainer's steps are not captured; return the trainer."""
    trainer.network_step.on_eager = lambda reason: EAGER.append(f"{method}: {reason}")
    return trainer


def make_epochs(trainer: Trainer, method: str = "dgn_engine") -> Work:
    """Return a function that trains one epoch and returns its mean loss."""
    record_eager(method, trainer)

    def work() -> Tensor:
        for _ in range(trainer.steps_per_epoch):
            trainer.step()
        return torch.tensor([trainer.train_score().loss])

    return work


class GatedModule(nn.Module):
    """A minimal hand-written version of a trainer's network, with the same weights.

    `layer` maps inputs and a weight to pre-activations; `head` is applied before the last layer.
    """

    def __init__(
        self,
        trainer: Trainer,
        layer: Callable[[Tensor, Tensor], Tensor],
        head: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__()
        gate = trainer.network.gate
        self._layer, self._head = layer, head
        self._beta, self._top = gate.beta, 1.0 + gate.epsilon
        self.value = nn.ParameterList([w.detach().clone() for w in trainer.network.value.weights])
        features = list(trainer.network.feature.weights)[:-1]
        self.feature = nn.ParameterList([w.detach().clone() for w in features])

    def forward(self, x: Tensor) -> Tensor:
        feature, value = x, x
        for index, weight in enumerate(self.feature):
            q = self._layer(feature, weight)
            feature = F.relu(q)
            gate = self._top * torch.sigmoid(self._beta * q)
            value = self._layer(value, self.value[index]) * gate
        return F.linear(self._head(value), self.value[-1])


def epoch_orders(n: int) -> Iterator[Tensor]:
    """Yield the order of the examples in each epoch, as our trainer uses it."""
    epoch = 0
    while True:
        yield epoch_order(CONFIG.seed, epoch, n)
        epoch += 1


def make_eager_epochs(trainer: Trainer, module: nn.Module, optimiser: Optimizer) -> Work:
    """Return a function for the same epochs by autograd: data on the device, no host reads."""
    x, y = trainer.data.train_x, trainer.data.train_y
    n, device, shuffled = len(x), x.device, epoch_orders(len(x))

    def work() -> Tensor:
        total = torch.zeros((), device=device)
        for rows in next(shuffled).to(device).split(BATCH):
            loss = F.cross_entropy(module(x[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(rows)
        return (total / n).cpu().reshape(1)

    return work
