"""Runs in float64 of which one takes its steps by hand and one by autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.model.architecture import Architecture
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer
from tests.engine.training.changed_config import change_config

BY_HAND = [regime.name for regime in all_regimes() if not regime.drawn_gates]


def exact_trainer(architecture: Architecture, regime: str, **parts: dict[str, Any]) -> Trainer:
    """In float64, on 11 drawn examples in batches of 4; `parts`: settings of a configuration."""
    parts = {**parts, "training": {"batch": 4, "learning_rate": 0.02, **parts.get("training", {})}}
    config = change_config(RunConfig(), **parts)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((11, *architecture.input_shape), generator=generator)
    y = torch.randint(0, max(2, architecture.classes), (11,), generator=generator)
    data = DeviceData(x, y, x[:4], y[:4])
    made = Trainer(config, architecture, data, find_regime(regime), torch.device("cpu"))
    made.network.double()
    made.batches.data = DeviceData(x.double(), y, x[:4].double(), y[:4])
    return made


def assert_equal_steps(ours: Trainer, theirs: Trainer, steps: int = 8) -> None:
    theirs.network_step.use_autograd()
    for _ in range(steps):
        ours.step()
        theirs.step()
    found, expected = ours.tensors(), theirs.tensors()
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-11, msg=name)
    assert ours.train_score().loss == pytest.approx(theirs.train_score().loss, rel=1e-12)
