"""48 dense networks as one stack, and one by one with the trainer of a single run."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.cases.train_step_fc import trainer
from benchmarks.floors import training_amounts
from benchmarks.networks import dense
from benchmarks.training_epochs import BATCH, CLASSES, CONFIG
from dgn_engine.training.batched.stacked_network import TrainerStack

NETWORKS, STEPS = 48, 50


def _packed(device: torch.device, n: int) -> Work:
    """Steps of all networks at once; returns the mean loss of the first."""
    first = trainer(device, n)
    others = [trainer(device, n, seed, first.data) for seed in range(1, NETWORKS)]
    pack = TrainerStack([first, *others])

    def work() -> Tensor:
        for _ in range(STEPS):
            pack.step()
        return torch.tensor([pack.train_scores()[0].loss])

    return work


def _one_by_one(device: torch.device, n: int) -> Work:
    """The steps of one of the networks."""
    one = trainer(device, n)

    def work() -> Tensor:
        for _ in range(STEPS):
            one.step()
        return torch.tensor([one.train_score().loss])

    return work


def _floor(_: int) -> Amounts:
    return training_amounts(CONFIG, dense(CLASSES), STEPS * BATCH, STEPS, NETWORKS)


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
