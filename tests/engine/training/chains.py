"""Trainers of a chain of dense layers in float64, and what can be set of them."""

from __future__ import annotations

from typing import Any

import torch

from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.training.trainer import Trainer
from tests.engine.training.step_cases import exact_trainer

HIDDEN = (Dense(5, 6), Dense(6, 6), Dense(6, 6))
CHAIN = Architecture((5,), (*HIDDEN, Dense(6, 3, gated=False)))
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases": {"net": {"bias": True}},
    "turned": {"gating": {"wiring": (2, 0, 1), "rotation": (1, 0, 4)}},
    "tiled": {"gating": {"tiling": (2, 1, 3), "rotation": (0, 5, 2), "wiring": (1, 2, 0)}},
    "parallel": {
        "gating": {"feature_layers": "parallel", "rotation": (0, 5, 2), "wiring": (1, 2, 0)},
        "net": {"bias": True},
    },
    "ones": {"gating": {"value_input": "ones", "beta": 3.0}, "net": {"bias": True}},
    "random input": {"gating": {"value_input": "random", "epsilon": 0.2}},
    "squared": {"training": {"loss": "squared"}},
    "momentum": {"training": {"optimiser": "sgd", "momentum": 0.9}},
    "plain descent": {"training": {"optimiser": "sgd"}},
    "rmsprop": {"training": {"optimiser": "rmsprop"}},
}


def trainer(
    regime: str, classes: int = 3, hidden: tuple[Dense, ...] = HIDDEN, **parts: dict[str, Any]
) -> Trainer:
    nodes = (*hidden, Dense(hidden[-1].outputs, classes, gated=False))
    return exact_trainer(Architecture((5,), nodes), regime, **parts)


CHAIN_WEIGHTS = [torch.empty(6, 5), torch.empty(6, 6), torch.empty(6, 6), torch.empty(3, 6)]
