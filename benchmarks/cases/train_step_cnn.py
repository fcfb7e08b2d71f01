"""A step of training a convolutional deep gated network (DL, batch 32), against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional as F

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.floors import count_training_work
from benchmarks.networks import convolutional_architecture
from benchmarks.training_epochs import (
    BATCH,
    CLASSES,
    CONFIG,
    GatedModule,
    make_eager_epochs,
    make_epochs,
)
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer

CHANNELS, SIDE = 32, 28  # of cnn4 as it comes, on maps of MNIST's size


def _trainer(device: torch.device, n: int) -> Trainer:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((n, 3, SIDE, SIDE), generator=generator).to(device)
    y = torch.randint(0, CLASSES, (n,), generator=generator).to(device)
    data = DeviceData(x, y, x[:BATCH], y[:BATCH])
    architecture = convolutional_architecture(CHANNELS, SIDE, CLASSES)
    return Trainer(CONFIG, architecture, data, find_regime("DL"), device)


def _ours(device: torch.device, n: int) -> Work:
    return make_epochs(_trainer(device, n))


def _default_order(device: torch.device, n: int) -> Work:
    """Return the same epochs with maps in torch's default memory format, channels first."""
    trainer = _trainer(device, n)
    setattr(trainer.network_step, "_takes_channels_last", lambda _: False)  # noqa: B010 - for mypy
    return make_epochs(trainer)


def _plain(device: torch.device, n: int) -> Work:
    """Return epochs with data on the device, default Adam, and the loss read at the end."""
    trainer = _trainer(device, n)
    module = GatedModule(trainer, partial(F.conv2d, padding=1), lambda v: v.mean(dim=(2, 3)))
    return make_eager_epochs(trainer, module, torch.optim.Adam(module.parameters(), lr=1e-4))


PREPARE: dict[str, Callable[[torch.device, int], Work]] = {
    "dgn_engine": _ours,
    "plain eager": _plain,
    "dgn_engine, channels first": _default_order,
}


def _floor(n: int) -> Amounts:
    architecture = convolutional_architecture(CHANNELS, SIDE, CLASSES)
    return count_training_work(CONFIG, architecture, n, n // BATCH)


CASE = Case(
    title="DGN cnn4 (32 channels, 28×28), training in DL, batch 32, an epoch",
    n=160,
    quick=64,
    methods=tuple(Method(name, prepare) for name, prepare in PREPARE.items()),
    bars=(Faster("dgn_engine, channels first", 1.0),),
    floor=_floor,
)
