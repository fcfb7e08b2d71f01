"""Steps of a gated DavidNet at its author's width and batch, by precision, against torch."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.case import Case, Faster
from benchmarks.image_epochs import PLAIN, ImageEpochs
from benchmarks.training_epochs import CLASSES
from dgn_engine.config import GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments.composite_davidnet import STEP
from dgn_engine.importing.from_config import build_architecture

NET = NetConfig("davidnet", (("width", 64),))
EPOCHS = ImageEpochs(
    RunConfig(
        net=NET,
        training=TrainingConfig(batch=512, optimiser="sgd", learning_rate=STEP),
        gating=GatingConfig(regime="DL", beta=10.0),
    ),
    build_architecture(NET, (3, 32, 32), CLASSES),
    partial(torch.optim.SGD, lr=STEP, fused=True),
)

CASE = Case(
    title="DavidNet of width 64, DL, SGD, batch 512, ten steps",
    n=5120,
    quick=5120,
    methods=EPOCHS.methods,
    bars=(Faster(PLAIN, 1.0),),
    agreement=float("inf"),  # random labels and a large step: losses run apart
    rank=8,
    dry=2,
    floor=EPOCHS.floor,
)
