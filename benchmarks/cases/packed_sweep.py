"""A sweep of dense networks in stacks, where a CPU uses them, against one after another.

The row is the narrow end of the table in `training/steps/choice.py`; `sweep_on_cores` measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.floors import count_training_work
from benchmarks.networks import dense_architecture
from benchmarks.training_epochs import BATCH, CLASSES, CONFIG
from dgn_engine.config import RunConfig
from dgn_engine.regimes import find_regime
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer

REGIMES, SEEDS, WIDTH = ("ReLU", "FR-II", "DL"), range(16), 16
ARCHITECTURE = dense_architecture(CLASSES, WIDTH)


def _config(regime: str, seed: int = 0) -> RunConfig:
    return replace(CONFIG, seed=seed, gating=replace(CONFIG.gating, regime=regime))


def _trainers(device: torch.device, n: int) -> list[list[Trainer]]:
    """Return, for each regime, the trainers of 16 seeds on the same examples."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((n, 784), generator=generator).to(device)
    y = torch.randint(0, CLASSES, (n,), generator=generator).to(device)
    data = DeviceData(x, y, x[:BATCH], y[:BATCH])

    def trainer(name: str, seed: int) -> Trainer:
        return Trainer(_config(name, seed), ARCHITECTURE, data, find_regime(name), device)

    return [[trainer(name, seed) for seed in SEEDS] for name in REGIMES]


def _means(losses: Sequence[float]) -> Tensor:
    return torch.tensor(losses)


def _packed(device: torch.device, n: int) -> Work:
    """Return a function that trains each stack for an epoch: the mean losses of all 48."""
    stacks = [TrainerStack(group) for group in _trainers(device, n)]

    def work() -> Tensor:
        for stack in stacks:
            for _ in range(stack.steps_per_epoch):
                stack.step()
        return _means([score.loss for stack in stacks for score in stack.train_scores()])

    return work


def _one_by_one(device: torch.device, n: int) -> Work:
    """Return a function that trains each network for an epoch, with the step of a single run."""
    trainers = [trainer for group in _trainers(device, n) for trainer in group]

    def work() -> Tensor:
        for trainer in trainers:
            for _ in range(trainer.steps_per_epoch):
                trainer.step()
        return _means([trainer.train_score().loss for trainer in trainers])

    return work


PREPARE: dict[str, Callable[[torch.device, int], Work]] = {
    "dgn_engine, packed": _packed,
    "dgn_engine, one by one": _one_by_one,
}


def _floor(n: int) -> Amounts:
    """Return the least work of an epoch of all networks; frozen gates are looked up, so that FR-II
    costs as much as ReLU."""
    each = [
        count_training_work(_config(name), ARCHITECTURE, n, n // BATCH, len(SEEDS))
        for name in ("ReLU", "ReLU", "DL")
    ]
    return Amounts(sum(work.flops for work in each), sum(work.bytes for work in each))


CASE = Case(
    title="48 networks 784-16×5-10 (ReLU, FR-II, DL; 16 seeds each), batch 32, an epoch",
    n=640,
    quick=128,
    methods=tuple(Method(name, prepare) for name, prepare in PREPARE.items()),
    bars=(Faster("dgn_engine, one by one", 1.5),),
    floor=_floor,
)
