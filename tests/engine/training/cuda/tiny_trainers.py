"""Trainers of a few examples, whose rates a captured step keeps exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from dgn_engine.config import GatingConfig, RunConfig, TrainingConfig
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer
from tests.engine.kernels.tiny import ARCHITECTURES
from tests.engine.training.chains import trainer

RATE = 2.0**-6  # in float32 too
EPOCH = 3  # batches of 4, 4 and 3 examples


def chain_trainer(regime: str, **parts: dict[str, Any]) -> Trainer:
    """Three gated dense layers in float64, 11 examples in batches of 4."""
    training = {"learning_rate": RATE, **parts.get("training", {})}
    return trainer(regime, **{**parts, "training": training})


def of_architecture(name: str, regime: str, images: int = 8, device: str = "cpu") -> Trainer:
    """A tiny network of any kind, in float64, batches of 4, plain descent."""
    architecture = ARCHITECTURES[name]
    shape = architecture.input_shape
    generator = torch.Generator().manual_seed(3)
    x = torch.randn((images, *shape), generator=generator).to(device)
    y = torch.randint(0, max(2, architecture.classes), (images,), generator=generator).to(device)
    config = RunConfig(
        training=TrainingConfig(batch=4, learning_rate=RATE, optimiser="sgd"),
        gating=replace(GatingConfig(), regime=regime),
    )
    data = DeviceData(x, y, x[:4], y[:4])
    made = Trainer(config, architecture, data, find_regime(regime), torch.device(device))
    made.network.double()
    made.batches.data = DeviceData(x.double(), y, x[:4].double(), y[:4])
    return made
