"""A step of training a dense deep gated network (DL, batch 32, Adam), against plain torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.case import Case, Faster, Method, Work
from benchmarks.networks import dense
from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData, epoch_order
from dgn_engine.training.trainer import Trainer

CLASSES, BATCH = 10, 32
CONFIG = RunConfig(
    training=TrainingConfig(batch=BATCH, learning_rate=1e-4), gating=GatingConfig(regime="DL")
)


def trainer(
    device: torch.device, n: int, seed: int = CONFIG.seed, data: DeviceData | None = None
) -> Trainer:
    """Of n drawn examples, or of `data`."""
    if data is None:
        generator = torch.Generator().manual_seed(1)
        x = torch.rand((n, 784), generator=generator).to(device)
        y = torch.randint(0, CLASSES, (n,), generator=generator).to(device)
        data = DeviceData(x, y, x[:BATCH], y[:BATCH])
    return Trainer(replace(CONFIG, seed=seed), dense(CLASSES), data, find_regime("DL"), device)


def _ours(device: torch.device, n: int) -> Work:
    """An epoch; returns its mean loss."""
    made = trainer(device, n)

    def work() -> Tensor:
        for _ in range(made.steps_per_epoch):
            made.step()
        return torch.tensor([made.train_score().loss])

    return work


class _Gated(nn.Module):
    """The same network with the same weights, as somebody writes it who needs no more."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        gate = trainer.network.gate
        self._beta, self._top = gate.beta, 1.0 + gate.epsilon
        self.value = nn.ParameterList([w.detach().clone() for w in trainer.network.value.weights])
        features = list(trainer.network.feature.weights)[:-1]
        self.feature = nn.ParameterList([w.detach().clone() for w in features])

    def forward(self, x: Tensor) -> Tensor:
        feature, value = x, x
        for place, weight in enumerate(self.feature):
            q = F.linear(feature, weight)
            feature = F.relu(q)
            gate = self._top * torch.sigmoid(self._beta * q)
            value = F.linear(value, self.value[place]) * gate
        return F.linear(value, self.value[-1])


def _orders(n: int) -> Iterator[Tensor]:
    epoch = 0
    while True:
        yield epoch_order(CONFIG.seed, epoch, n)
        epoch += 1


def _hand_tuned(device: torch.device, n: int) -> Work:
    """Resident data, fused Adam, nothing read back before the end."""
    made = trainer(device, n)
    module, orders = _Gated(made), _orders(n)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-4, fused=True)

    def work() -> Tensor:
        total = torch.zeros((), device=device)
        for rows in next(orders).to(device).split(BATCH):
            x, y = made.data.train_x[rows], made.data.train_y[rows]
            loss = F.cross_entropy(module(x), y)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(rows)
        return (total / n).cpu().reshape(1)

    return work


def _tutorial(device: torch.device, n: int) -> Work:
    """A DataLoader, Adam as it comes, the loss read at every step."""
    made = trainer(device, n)
    module, orders = _Gated(made), _orders(n)
    examples = TensorDataset(made.data.train_x.cpu(), made.data.train_y.cpu())
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-4)

    def work() -> Tensor:
        total = 0.0
        order: list[int] = next(orders).tolist()
        for x, y in DataLoader(examples, BATCH, sampler=order):
            optimiser.zero_grad()
            loss = F.cross_entropy(module(x.to(device)), y.to(device))
            loss.backward()
            optimiser.step()
            total += loss.item() * len(y)
        return torch.tensor([total / n])

    return work


PREPARE: dict[str, Callable[[torch.device, int], Work]] = {
    "dgn_engine": _ours,
    "hand-tuned eager": _hand_tuned,
    "tutorial style": _tutorial,
}

CASE = Case(
    title="DGN 784-128×5-10, training in DL, batch 32, an epoch",
    n=320,
    quick=320,
    methods=tuple(Method(name, prepare) for name, prepare in PREPARE.items()),
    bars=(Faster("hand-tuned eager", 1.3), Faster("tutorial style", 2.2)),
    most_rounds=200,
)
