"""A step of training a dense deep gated network (DL, batch 32, Adam), against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.case import Case, Faster, Method, Work
from benchmarks.networks import dense
from benchmarks.training_epochs import (
    BATCH,
    CLASSES,
    CONFIG,
    GatedModule,
    eager_epochs,
    orders,
    our_epochs,
)
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer


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
    return our_epochs(trainer(device, n))


def _module(made: Trainer) -> GatedModule:
    return GatedModule(made, F.linear, lambda value: value)


def _hand_tuned(device: torch.device, n: int) -> Work:
    """Resident data, fused Adam, nothing read back before the end."""
    made = trainer(device, n)
    module = _module(made)
    return eager_epochs(made, module, torch.optim.Adam(module.parameters(), lr=1e-4, fused=True))


def _tutorial(device: torch.device, n: int) -> Work:
    """A DataLoader, Adam as it comes, the loss read at every step."""
    made = trainer(device, n)
    module, shuffled = _module(made), orders(n)
    examples = TensorDataset(made.data.train_x.cpu(), made.data.train_y.cpu())
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

CASE = Case(
    title="DGN 784-128×5-10, training in DL, batch 32, an epoch",
    n=320,
    quick=320,
    methods=tuple(Method(name, prepare) for name, prepare in PREPARE.items()),
    bars=(Faster("hand-tuned eager", 1.3), Faster("tutorial style", 2.2)),
    most_rounds=200,
)
