"""48 dense networks as one stack, against one by one with the trainer of a single run."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.cases.train_step_fc import make_trainer
from benchmarks.floors import count_training_work
from benchmarks.networks import dense_architecture
from benchmarks.training_epochs import BATCH, CLASSES, CONFIG, record_eager
from dgn_engine.training.batched.stacked_network import TrainerStack

NETWORKS, STEPS = 48, 50


def _count_steps(n: int) -> int:
    """Return the number of steps, which is small in a dry run."""
    return min(STEPS, n // BATCH)


def _packed(device: torch.device, n: int) -> Work:
    """Return steps of all networks at once; their result is the mean loss of the first."""
    first = record_eager("packed", make_trainer(device, n))
    others = [make_trainer(device, n, seed, first.data) for seed in range(1, NETWORKS)]
    pack, steps = TrainerStack([first, *others]), _count_steps(n)

    def work() -> Tensor:
        for _ in range(steps):
            pack.step()
        return torch.tensor([pack.train_scores()[0].loss])

    return work


def _one_by_one(device: torch.device, n: int) -> Work:
    """Return the steps of a single network."""
    single, steps = record_eager("one by one", make_trainer(device, n)), _count_steps(n)

    def work() -> Tensor:
        for _ in range(steps):
            single.step()
        return torch.tensor([single.train_score().loss])

    return work


def _floor(n: int) -> Amounts:
    steps = _count_steps(n)
    return count_training_work(CONFIG, dense_architecture(CLASSES), steps * BATCH, steps, NETWORKS)


CASE = Case(
    title=f"{NETWORKS} DGNs 784-128×5-10, DL, batch 32, {STEPS} steps of each",
    n=6400,
    quick=1600,
    methods=(
        Method("packed", _packed),
        Method("one by one", _one_by_one, share=1 / NETWORKS),
    ),
    bars=(Faster("one by one", 10.0),),
    agreement=1e-2,
    rank=7,
    dry=64,
    floor=_floor,
)
