"""A step of a convolutional network with 128 channels: bf16, TF32, float32, and plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.case import Case, Faster, Method, Work
from benchmarks.networks import convolutional
from benchmarks.training_epochs import CONFIG
from dgn_engine.config import Precision
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer

CLASSES, BATCH, SIDE = 10, 128, 32


def _trainer(device: torch.device, n: int, precision: Precision) -> Trainer:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((n, 3, SIDE, SIDE), generator=generator).to(device)
    y = torch.randint(0, CLASSES, (n,), generator=generator).to(device)
    training = replace(CONFIG.training, batch=BATCH, precision=precision)
    config = replace(CONFIG, training=training)
    data = DeviceData(x, y, x[:BATCH], y[:BATCH])
    return Trainer(config, convolutional(128, SIDE, CLASSES), data, find_regime("DL"), device)


def _ours(precision: Precision) -> Callable[[torch.device, int], Work]:
    def prepare(device: torch.device, n: int) -> Work:
        made = _trainer(device, n, precision)

        def work() -> Tensor:
            for _ in range(made.steps_per_epoch):
                made.step()
            return torch.tensor([made.train_score().loss])

        return work

    return prepare


def _plain(device: torch.device, n: int) -> Work:
    """The network's own forward pass, autograd, fused Adam, float32; the loss read at the end."""
    made = _trainer(device, n, "float32")
    network = made.network
    optimiser = torch.optim.Adam(network.parameters(), lr=CONFIG.training.learning_rate, fused=True)

    def work() -> Tensor:
        total = torch.zeros((), device=device)
        for rows in torch.arange(n, device=device).split(BATCH):
            found = F.cross_entropy(network(made.data.train_x[rows]), made.data.train_y[rows])
            optimiser.zero_grad(set_to_none=True)
            found.backward()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
            optimiser.step()
            total += found.detach() * len(rows)
        return (total / n).cpu().reshape(1)

    return work


CASE = Case(
    title="DGN of four convolutions of 128 channels, 32×32, DL, batch 128, an epoch",
    n=2560,
    quick=256,
    methods=(
        Method("dgn_engine, bf16", _ours("bf16")),
        Method("dgn_engine, TF32", _ours("tf32")),
        Method("dgn_engine, float32", _ours("float32")),
        Method("plain eager, float32", _plain),
    ),
    bars=(Faster("plain eager, float32", 3.0),),
    agreement=0.1,
    rank=3,
)
