"""Epochs of training a deep gated network: by our trainer, and as somebody writes them in torch."""

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


EAGER: list[str] = []  # why steps of this process were not captured, with the method's name


def record_eager(method: str, trainer: Trainer) -> Trainer:
    """Return the trainer; add to `EAGER` why its steps are not captured, where they are not."""
    trainer.network_step.on_eager = lambda reason: EAGER.append(f"{method}: {reason}")
    return trainer


def our_epochs(trainer: Trainer, method: str = "dgn_engine") -> Work:
    """An epoch; returns its mean loss."""
    record_eager(method, trainer)

    def work() -> Tensor:
        for _ in range(trainer.steps_per_epoch):
            trainer.step()
        return torch.tensor([trainer.train_score().loss])

    return work


class GatedModule(nn.Module):
    """The network of a trainer with the same weights, as somebody writes it who needs no more.

    `layer`: maps inputs and a weight to pre-activations; `head`: what comes before the last layer.
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
        for place, weight in enumerate(self.feature):
            q = self._layer(feature, weight)
            feature = F.relu(q)
            gate = self._top * torch.sigmoid(self._beta * q)
            value = self._layer(value, self.value[place]) * gate
        return F.linear(self._head(value), self.value[-1])


def orders(n: int) -> Iterator[Tensor]:
    """The order of the examples in each epoch, as our trainer has it."""
    epoch = 0
    while True:
        yield epoch_order(CONFIG.seed, epoch, n)
        epoch += 1


def eager_epochs(trainer: Trainer, module: nn.Module, optimiser: Optimizer) -> Work:
    """The same epochs by autograd: resident data, nothing read back before the end."""
    x, y = trainer.data.train_x, trainer.data.train_y
    n, device, shuffled = len(x), x.device, orders(len(x))

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
