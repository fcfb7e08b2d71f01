"""Networks of every kind, large enough that their kernels take memory, by a number."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.config import NetConfig
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.model.architecture import (
    Architecture,
    AveragePool,
    Conv,
    Dense,
    Flatten,
    GlobalMaxPool,
    MaxPool,
)
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.wiring import Route


@dataclass(frozen=True)
class DrawnNetwork:
    """A network with its inputs and with what is asked of it."""

    network: GatedNetwork
    x: Tensor
    other: Tensor | None
    logits: k.Logits
    folded: bool


def _built(name: str, shape: tuple[int, ...], classes: int, **options: int) -> Architecture:
    return build_architecture(NetConfig(name, tuple(options.items())), shape, classes)


def _pooled(head: Flatten | GlobalMaxPool, size: int) -> Architecture:
    nodes = (Conv(3, 16, 5, padding=1), MaxPool(3, 1, 1), Conv(16, 16, circular=True))
    return Architecture((3, 8, 8), (*nodes, AveragePool(2, 1), head, Dense(size, 5, gated=False)))


ARCHITECTURES = [
    _built("fc", (300,), 2, width=60, depth=5),
    _built("davidnet", (3, 8, 8), 5, width=8),
    _built("resnet_fc", (50,), 10, blocks=3, width=120),
    _pooled(Flatten(), 400),
    _built("fc", (10,), 10, width=500, depth=3),
    _built("resnet18", (3, 8, 8), 10, stages=2, width=16),
    _built("cnn4", (1, 8, 8), 1, channels=16),
    _pooled(GlobalMaxPool(), 16),
]
KINDS = list(itertools.product((torch.float32, torch.float64), (False, True), (False, True)))


def drawn_network(seed: int) -> DrawnNetwork:
    draw = random.Random(seed)
    architecture = ARCHITECTURES[seed % len(ARCHITECTURES)]
    dtype, bias, own = KINDS[draw.randrange(len(KINDS))]
    network = GatedNetwork(architecture, bias)
    network.own_gates, network.gate = own, Gate(soft=draw.random() < 0.6, beta=2.0)
    if not own:
        network.value_input = draw.choice(("image", "ones", "random"))
        if draw.random() < 0.5:
            network.routes = tuple(Route(rotate=1) for _ in network.routes)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    many = 20 if len(architecture.input_shape) == 1 else 1
    n, m = draw.choice(((4, 0), (9, 0), (6, 3), (5, 5)))
    inputs = torch.randn((many * (n + m), *architecture.input_shape), generator=generator).to(dtype)
    logits = draw.choice(("mean", "mean", "sumlogit", "perclass", "full"))
    other = inputs[many * n :] if m else None
    folded = draw.random() < 0.3
    return DrawnNetwork(network.to(dtype), inputs[: many * n], other, logits, folded)
