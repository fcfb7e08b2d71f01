"""Configurations that experiments share: what the papers print of their settings, and what not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dgn_engine.config import (
    DataConfig,
    GatingConfig,
    NetConfig,
    OptionValue,
    RunConfig,
    TrainingConfig,
)
from dgn_engine.experiments._experiment import Request
from dgn_engine.experiments._findings import Printed, Row
from dgn_engine.sweep.unit import Training, UnitFile
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults
from dgn_engine.training.weight_keeper import BEST, KEPT

SGD_STEPS = (0.1, 0.01, 0.001)  # 'best of' in the papers
QUICK_FC: Mapping[str, OptionValue] = {"width": 64, "depth": 6}


def data_of(request: Request, paper: str) -> DataConfig:
    """The paper's data set; on the quick scale the digits, unless another one was asked for."""
    name = request.data or ("digits" if request.quick else paper)
    return DataConfig(
        name=name,
        root=request.data_root,
        download=request.download,
        train_limit=request.train_limit,
        test_limit=request.test_limit,
    )


def base(request: Request, net: NetConfig, data: DataConfig, epochs: int) -> RunConfig:
    """Adam 3e-4, batch 32, cross entropy, β = 8; 'as-in-code' has biases, Glorot's start and the
    soft gate 1.1/(1+exp(-4q)) of the authors' notebooks.
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


def under(config: RunConfig, regime: str, seed: int, **gating: object) -> RunConfig:
    """The configuration in a regime, with a seed and other settings of the gates."""
    changed = replace(config.gating, regime=regime, **gating)  # type: ignore[arg-type]
    return replace(config, gating=changed, seed=seed)


def trained_with(config: RunConfig, **training: object) -> RunConfig:
    """The configuration with other settings of the training."""
    return replace(config, training=replace(config.training, **training))  # type: ignore[arg-type]


def dual_config(request: Request, quick_epochs: int, full_epochs: int) -> RunConfig:
    """The CNN of [DUAL] on CIFAR-10 (4 × 128 channels, β = 10); on the quick scale a dense
    network of four gate layers of 64 units on the digits, with Adam 1e-3."""
    if request.quick:
        net, paper = NetConfig("fc", (("width", 64), ("depth", 5))), "mnist"
    else:
        net, paper = NetConfig("cnn4", (("channels", 128),)), "cifar10"
    epochs = request.epochs_or(quick_epochs, full_epochs)
    config = base(request, net, data_of(request, paper), epochs)
    if request.quick:  # so few steps an epoch that little is learnt with 3e-4
        config = trained_with(config, learning_rate=1e-3)
    return replace(config, gating=replace(config.gating, beta=10.0))


def row_of(
    label: str, runs: Sequence[TrainedRun], value: Printed | None = None, remark: str = ""
) -> Row:
    """Best test accuracies in percent of one cell."""
    return Row(
        label,
        tuple(100 * run.best for run in runs),
        value,
        epochs=last_epoch(runs),
        seconds=sum(run.seconds for run in runs),
        remark=remark,
    )


def last_epoch(runs: Sequence[TrainedRun]) -> float:
    """Of the run that came furthest; 0 where none came to the end of one."""
    return max((run.epochs[-1] for run in runs if run.epochs), default=0.0)


def gaps(one: Sequence[TrainedRun], other: Sequence[TrainedRun]) -> list[float]:
    """Differences of the best test accuracies in points, seed by seed."""
    return [100 * (a.best - b.best) for a, b in zip(one, other, strict=True)]


def five_regimes(prefix: str, config: RunConfig, seed: int) -> Iterator[Training]:
    """ReLU, FR-II, FR-DI, DL, and FL with the gates of that ReLU network at its best test score.

    Ids are 'PREFIX-REGIME-sSEED'.
    """
    relu = Training(
        f"{prefix}-ReLU-s{seed}", trained_with(under(config, "ReLU", seed), keep_best=True)
    )
    yield relu
    for regime in ("FR-II", "FR-DI", "DL"):
        yield Training(f"{prefix}-{regime}-s{seed}", under(config, regime, seed))
    yield Training(
        f"{prefix}-FL-s{seed}",
        under(config, "FL", seed),
        gates_from=UnitFile(relu.id, f"{KEPT}/{BEST}"),
    )


@dataclass(frozen=True)
class TrainedCell:
    """The runs of one cell, one for each seed, of the learning rate with the highest mean."""

    step: float
    runs: list[TrainedRun]


def cell_of(
    results: UnitResults, prefix: str, steps: Sequence[float], column: str, seeds: Sequence[int]
) -> TrainedCell:
    """The best of the runs whose ids are 'PREFIX-STEP-COLUMN-sSEED'. One without a score, because
    it diverged before its first, counts as zero."""

    def mean(cell: TrainedCell) -> float:
        scores = [0.0 if math.isnan(run.best) else run.best for run in cell.runs]
        return sum(scores) / len(scores)

    cells = (
        TrainedCell(
            step, [results.trained(f"{prefix}-{step:g}-{column}-s{seed}") for seed in seeds]
        )
        for step in steps
    )
    return max(cells, key=mean)
