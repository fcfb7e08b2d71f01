"""Run configurations shared by experiments, and how the quick scale differs from the paper."""

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
    "where several learning rates of SGD are tried, a row uses one for all its columns, as in the "
    "notebooks: the one with the highest mean accuracy over columns and seeds"
)
DIGITS = "the digits that come with the package (1,437 of 8×8)"


def data_of(request: Request, paper: str) -> DataConfig:
    """Return the requested data set, else the digits at quick scale and the paper's at full."""
    name = request.data or ("digits" if request.quick else paper)
    return DataConfig(
        name=name,
        root=request.data_root,
        download=request.download,
        train_limit=request.train_limit,
        test_limit=request.test_limit,
    )


def paper_config(request: Request, net: NetConfig, data: DataConfig, epochs: int) -> RunConfig:
    """Return the settings of the papers: Adam 3e-4, batch 32, cross entropy, β = 8.

    'as-in-code' uses biases, Glorot initialisation and the soft gate 1.1/(1 + exp(−4q)) of the
    authors' notebooks.
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


def dense_net_config(width: int, depth: int) -> NetConfig:
    return NetConfig("fc", (("width", width), ("depth", depth)))


def in_regime(config: RunConfig, regime: str, seed: int, **gating: object) -> RunConfig:
    return replace(with_gating(config, regime=regime, **gating), seed=seed)


def with_gating(config: RunConfig, **gating: object) -> RunConfig:
    return replace(config, gating=replace(config.gating, **gating))  # type: ignore[arg-type]


def with_training(config: RunConfig, **training: object) -> RunConfig:
    return replace(config, training=replace(config.training, **training))  # type: ignore[arg-type]


def data_substitution(request: Request, paper: str) -> tuple[str, ...]:
    """Return a phrase on what the quick scale uses in place of the paper's data set ('MNIST')."""
    if _compare_key(request.data) == _compare_key(paper):
        return ()
    if request.data in ("", "digits"):
        return (f"{DIGITS} instead of {paper}",)
    return (f"'{request.data}' instead of {paper}",)


def steps_of(request: Request, optimiser: Optimiser, notebook: float) -> tuple[float, ...]:
    """Return the learning rates to try; 'as-in-code' uses that of the notebook."""
    if request.protocol == "as-in-code":
        return (notebook,)
    if optimiser == "adam":
        return (3e-4,)
    return request.steps or ((0.1,) if request.quick else SGD_STEPS)


def step_remark(label: str, step: float, steps: Sequence[float]) -> tuple[str, ...]:
    """Return a sentence on the chosen learning rate, if several were tried."""
    if len(steps) < 2:
        return ()
    return (
        f"{label}: learning rate {step:g}, the best of {', '.join(f'{rate:g}' for rate in steps)}.",
    )


def net_option(config: RunConfig, name: str) -> OptionValue:
    return dict(config.net.options)[name]


def _compare_key(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
