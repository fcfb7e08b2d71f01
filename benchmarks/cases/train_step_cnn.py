"""A step of training a convolutional deep gated network (DL, batch 32), against plain torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.case import Case, Faster, Method, Work
from benchmarks.cases.train_step_fc import BATCH, CLASSES, CONFIG
from benchmarks.networks import convolutional
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData, epoch_order
from dgn_engine.training.trainer import Trainer

CHANNELS, SIDE = 32, 28  # of cnn4 as it comes, on maps of MNIST's size


def _trainer(device: torch.device, n: int) -> Trainer:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((n, 3, SIDE, SIDE), generator=generator).to(device)
    y = torch.randint(0, CLASSES, (n,), generator=generator).to(device)
    data = DeviceData(x, y, x[:BATCH], y[:BATCH])
    architecture = convolutional(CHANNELS, SIDE, CLASSES)
    return Trainer(CONFIG, architecture, data, find_regime("DL"), device)


def _ours(device: torch.device, n: int) -> Work:
    """An epoch; returns its mean loss."""
    return _epochs(_trainer(device, n))


def _by_autograd(device: torch.device, n: int) -> Work:
    trainer = _trainer(device, n)
    trainer.use_autograd()
    return _epochs(trainer)


def _epochs(trainer: Trainer) -> Work:
    def work() -> Tensor:
        for _ in range(trainer.steps_per_epoch):
            trainer.step()
        return torch.tensor([trainer.train_score().loss])

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
            q = F.conv2d(feature, weight, padding=1)
            feature = F.relu(q)
            gate = self._top * torch.sigmoid(self._beta * q)
            value = F.conv2d(value, self.value[place], padding=1) * gate
        return F.linear(value.mean(dim=(2, 3)), self.value[-1])


def _plain(device: torch.device, n: int) -> Work:
    """Resident data, Adam as it comes, the loss read at the end of the epoch."""
    trainer = _trainer(device, n)
    module = _Gated(trainer)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-4)
    epoch = 0

    def work() -> Tensor:
        nonlocal epoch
        order = epoch_order(CONFIG.seed, epoch, n).to(device)
        epoch += 1
        total = torch.zeros((), device=device)
        for rows in order.split(BATCH):
            x, y = trainer.data.train_x[rows], trainer.data.train_y[rows]
            loss = F.cross_entropy(module(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(rows)
        return (total / n).cpu().reshape(1)

    return work


PREPARE: dict[str, Callable[[torch.device, int], Work]] = {
    "dgn_engine": _ours,
    "plain eager": _plain,
    "dgn_engine by autograd": _by_autograd,
}

CASE = Case(
    title="DGN cnn4 (32 channels, 28×28), training in DL, batch 32, an epoch",
    n=160,
    quick=64,
    methods=tuple(Method(name, prepare) for name, prepare in PREPARE.items()),
    bars=(Faster("plain eager", 1.3),),
)
