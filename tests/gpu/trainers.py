"""A small trainer on any device: 11 examples of 5 numbers in batches of 4, in float32."""

from __future__ import annotations

from dataclasses import replace

import torch

from dgn_engine.config import Precision, RunConfig, TrainingConfig
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.regimes import find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer

CHAIN = Architecture((5,), (Dense(5, 32), Dense(32, 32), Dense(32, 32), Dense(32, 3, gated=False)))


def trainer_on(
    device: torch.device,
    regime: str = "DL",
    architecture: Architecture = CHAIN,
    precision: Precision = "float32",
    optimiser: str = "adam",
    seed: int = 0,
) -> Trainer:
    """The same weights, examples and orders on every device."""
    training = TrainingConfig(batch=4, learning_rate=2.0**-8)
    training = replace(training, precision=precision, optimiser=optimiser)
    config = RunConfig(training=training, seed=seed)
    config = replace(config, gating=replace(config.gating, regime=regime))
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((11, *architecture.input_shape), generator=generator).to(device)
    y = torch.randint(0, 2, (11,), generator=generator).to(device)
    data = DeviceData(x, y, x[:4], y[:4])
    return Trainer(config, architecture, data, find_regime(regime), device)
