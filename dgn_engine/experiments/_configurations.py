"""Configurations of runs that experiments share, and how the quick scale departs from the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgn_engine.config import (
    DataConfig,
    GatingConfig,
    NetConfig,
    Optimiser,
    RunConfig,
    TrainingConfig,
)
from dgn_engine.experiments._experiment import Request
from dgn_engine.plugins import OptionValue

SGD_STEPS = (0.1, 0.01, 0.001)  # 'best of' in the papers
BEST_STEP = (
    "of several steps of SGD a row has one for all its columns, as each notebook has: the step "
    "with the highest accuracy in the mean over columns and seeds"
)
DIGITS = "the digits that come with the package (1,437 of 8×8)"


def data_of(request: Request, paper: str) -> DataConfig:
    """Return the paper's data set; on the quick scale the digits, unless another was asked for."""
    name = request.data or ("digits" if request.quick else paper)
    return DataConfig(
        name=name,
        root=request.data_root,
        download=request.download,
        train_limit=request.train_limit,
        test_limit=request.test_limit,
    )


def base(request: Request, net: NetConfig, data: DataConfig, epochs: int) -> RunConfig:
    """Return the settings of the papers: Adam 3e-4, batch 32, cross entropy, β = 8.

    'as-in-code' has biases, Glorot's start and the soft gate 1.1/(1+exp(-4q)) of the authors'
    notebooks.
    """
    gating = GatingConfig(beta=8.0)
    if request.protocol == "as-in-code":
        gating = GatingConfig(beta=4.0, epsilon=0.1)
        net = replace(net, bias=True, init="glorot")
    return RunConfig(
        data=data,
        net=net,
        gating=gating,
        training=TrainingConfig(epochs=epochs),
        device=request.device,
    )


def dense(width: int, depth: int) -> NetConfig:
    return NetConfig("fc", (("width", width), ("depth", depth)))


def in_regime(config: RunConfig, regime: str, seed: int, **gating: object) -> RunConfig:
    return replace(with_gating(config, regime=regime, **gating), seed=seed)


def with_gating(config: RunConfig, **gating: object) -> RunConfig:
    return replace(config, gating=replace(config.gating, **gating))  # type: ignore[arg-type]


def with_training(config: RunConfig, **training: object) -> RunConfig:
    return replace(config, training=replace(config.training, **training))  # type: ignore[arg-type]


def stands_in(request: Request, paper: str) -> tuple[str, ...]:
    """Say what the quick scale trains on instead of the paper's data set ('MNIST')."""
    if _plain(request.data) == _plain(paper):
        return ()
    if request.data in ("", "digits"):
        return (f"{DIGITS} stand for {paper}",)
    return (f"'{request.data}' stands for {paper}",)


def steps_of(request: Request, optimiser: Optimiser, notebook: float) -> tuple[float, ...]:
    """Return the steps to choose among; 'as-in-code' has that of the notebook."""
    if request.protocol == "as-in-code":
        return (notebook,)
    if optimiser == "adam":
        return (3e-4,)
    return request.steps or ((0.1,) if request.quick else SGD_STEPS)


def step_remark(label: str, step: float, steps: Sequence[float]) -> tuple[str, ...]:
    """Say which step a row has, where there was a choice."""
    if len(steps) < 2:
        return ()
    return (f"{label}: step {step:g}, the best of {', '.join(f'{one:g}' for one in steps)}.",)


def option(config: RunConfig, name: str) -> OptionValue:
    return dict(config.net.options)[name]


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
