"""Runs and configurations that a plan is expected to hold, said with every setting."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments import Request
from dgn_engine.experiments import find_experiment as find
from dgn_engine.sweep.unit import Training, Unit, UnitFile

BEST = "weights/best.safetensors"
LAST = "weights.safetensors"
CODE = Request(protocol="as-in-code")
FULL_CODE = Request(scale="full", protocol="as-in-code")


def fc(width: int, depth: int, **start: Any) -> NetConfig:
    return NetConfig("fc", (("width", width), ("depth", depth)), **start)


def glorot(net: NetConfig) -> NetConfig:
    """As in the authors' notebooks."""
    return replace(net, bias=True, init="glorot")


def run(
    data: str | DataConfig,
    net: NetConfig,
    epochs: int,
    *,
    beta: float = 8.0,
    epsilon: float = 0.0,
    step: float = 3e-4,
    optimiser: Any = "adam",
    batch: int = 32,
    loss: Any = "cross-entropy",
    **training: Any,
) -> RunConfig:
    """Adam 3e-4, batch 32, cross entropy, β = 8 unless said otherwise."""
    return RunConfig(
        data=DataConfig(data) if isinstance(data, str) else data,
        net=net,
        gating=GatingConfig(beta=beta, epsilon=epsilon),
        training=TrainingConfig(loss, optimiser, step, batch=batch, epochs=epochs, **training),
    )


def unit(
    config: RunConfig,
    cell: str,
    regime: str,
    seed: int,
    gates: tuple[str, str] | None = None,
    weights: tuple[str, str] | None = None,
    best: bool = False,
    **gating: Any,
) -> Training:
    """A run; `best`: it keeps its weights at its best; `gates` and `weights`: unit and file."""
    config = replace(config, seed=seed, gating=replace(config.gating, regime=regime, **gating))
    if best:
        config = replace(config, training=replace(config.training, keep_best=True))
    sources = [None if source is None else UnitFile(*source) for source in (gates, weights)]
    return Training(f"{cell}-s{seed}", config, *sources)


def five(config: RunConfig, seed: int, prefix: str) -> Iterator[Training]:
    yield unit(config, f"{prefix}-ReLU", "ReLU", seed, best=True)
    for regime in ("FR-II", "FR-DI", "DL"):
        yield unit(config, f"{prefix}-{regime}", regime, seed)
    yield unit(config, f"{prefix}-FL", "FL", seed, (f"{prefix}-ReLU-s{seed}", BEST))


def units(name: str, request: Request) -> list[Unit]:
    return list(find(name).plan(request).units)


CNN4 = NetConfig("cnn4", (("channels", 128),))


def pair(name: str) -> DataConfig:
    return DataConfig(name, binary=(4, 7))


def notebooks_net(width: int, depth: int) -> NetConfig:
    return fc(width, depth, init="bernoulli", sigma=math.sqrt(2 / width))


RMS = {"optimiser": "rmsprop", "step": 1e-4, "batch": 64, "loss": "squared"}
