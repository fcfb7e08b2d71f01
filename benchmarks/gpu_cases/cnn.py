"""An epoch of a convolutional network with 128 channels: bf16, TF32, float32, and plain torch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from benchmarks.case import Case, Faster
from benchmarks.image_epochs import PLAIN, ImageEpochs
from benchmarks.networks import convolutional_architecture
from benchmarks.training_epochs import CLASSES, CONFIG

EPOCHS = ImageEpochs(
    replace(CONFIG, training=replace(CONFIG.training, batch=128)),
    convolutional_architecture(128, 32, CLASSES),
    partial(torch.optim.Adam, lr=CONFIG.training.learning_rate, fused=True),
)

CASE = Case(
    title="DGN of four convolutions of 128 channels, 32×32, DL, batch 128, an epoch",
    n=2560,
    quick=1280,
    methods=EPOCHS.methods,
    bars=(Faster(PLAIN, 3.0),),
    agreement=0.1,
    rank=2,
    dry=4,
    floor=EPOCHS.floor,
)
