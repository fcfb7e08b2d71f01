"""A step of training a dense deep gated network (DL, batch 32, Adam), against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.floors import count_training_work
from benchmarks.networks import dense_architecture
from benchmarks.training_epochs import (
    BATCH,
    CLASSES,
    CONFIG,
    GatedModule,
    epoch_orders,
    make_eager_epochs,
    make_epochs,
)
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer


def make_trainer(
    device: torch.device, n: int, seed: int = CONFIG.seed, data: DeviceData | None = None
) -> Trainer:
    """Return a trainer on n random examples, or on `data`."""
    if data is None:
        generator = torch.Generator().manual_seed(1)
        x = torch.rand((n, 784), generator=generator).to(device)
        y = torch.randint(0, CLASSES, (n,), generator=generator).to(device)
        data = DeviceData(x, y, x[:BATCH], y[:BATCH])
    return Trainer(
        replace(CONFIG, seed=seed), dense_architecture(CLASSES), data, find_regime("DL"), device
    )


def _ours(device: torch.device, n: int) -> Work:
    return make_epochs(make_trainer(device, n))


def _make_module(trainer: Trainer) -> GatedModule:
    return GatedModule(trainer, F.linear, lambda value: value)


def _hand_tuned(device: torch.device, n: int) -> Work:
    """Return epochs with data on the device, fused Adam, and no host reads before the end."""
    model = make_trainer(device, n)
    module = _make_module(model)
    return make_eager_epochs(
        model, module, torch.optim.Adam(module.parameters(), lr=1e-4, fused=True)
    )


def _tutorial(device: torch.device, n: int) -> Work:
    """Return epochs with a DataLoader, default Adam, and the loss read at every step."""
    model = make_trainer(device, n)
    module, shuffled = _make_module(model), epoch_orders(n)
    examples = TensorDataset(model.data.train_x.cpu(), model.data.train_y.cpu())
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-4)

    def work() -> Tensor:
        total = 0.0
        order: list[int] = next(shuffled).tolist()
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


def compute_floor(n: int) -> Amounts:
    """Return the least work of an epoch of n examples."""
    return count_training_work(CONFIG, dense_architecture(CLASSES), n, n // BATCH)


CASE = Case(
    title="DGN 784-128×5-10, training in DL, batch 32, an epoch",
    n=320,
    quick=320,
    methods=tuple(Method(name, prepare) for name, prepare in PREPARE.items()),
    bars=(Faster("hand-tuned eager", 1.5), Faster("tutorial style", 2.2)),
    most_rounds=200,
    floor=compute_floor,
)
