"""Random networks of every kind, large enough that their kernels take memory, by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.model.architecture import (
    Architecture,
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Fork,
    Gating,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
    Skip,
    shape_after,
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


def drawn_network(seed: int) -> DrawnNetwork:
    draw = random.Random(seed)
    kind = draw.choice(("dense", "wide", "conv", "pooled", "residual", "normal", "residual dense"))
    architecture = _architecture(kind, draw)
    network = _network(architecture, draw)
    dtype = draw.choice((torch.float32, torch.float64))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    n, m = draw.choice(((4, 0), (9, 0), (6, 3), (5, 5)))
    if kind in ("dense", "wide", "residual dense"):
        n, m = 20 * n, 20 * m
    inputs = torch.randn((n + m, *architecture.input_shape), generator=generator).to(dtype)
    logits = draw.choice(("mean", "mean", "sumlogit", "perclass", "full"))
    folded = draw.random() < 0.3
    return DrawnNetwork(
        network.to(dtype),
        inputs[:n],
        inputs[n:] if m else None,
        logits,  # type: ignore[arg-type]  # words of Logits
        folded,
    )


def _architecture(kind: str, draw: random.Random) -> Architecture:
    classes = draw.choice((1, 2, 5, 10))
    if kind in ("dense", "wide"):
        width = draw.choice((20, 60)) if kind == "dense" else draw.choice((200, 500))
        inputs = draw.choice((10, 300))
        widths = [inputs, *[width] * draw.choice((1, 2, 4))]
        hidden = [Dense(a, b) for a, b in pairwise(widths)]
        return Architecture((inputs,), (*hidden, Dense(width, classes, gated=False)))
    if kind == "residual dense":
        w = draw.choice((30, 120))
        blocks: list[Node] = []
        for _ in range(draw.choice((1, 3))):
            blocks += [Fork(), Dense(w, w, gated=draw.random() < 0.5), Merge(pre=0.7)]
            blocks += [Gating()] if draw.random() < 0.5 else []
        return Architecture((50,), (Dense(50, w), *blocks, Dense(w, classes, gated=False)))
    side = draw.choice((5, 8))
    channels = draw.choice((4, 16))
    normal = kind == "normal"
    shape: tuple[int, ...] = (draw.choice((1, 3)), side, side)
    nodes: list[Node] = [
        Conv(shape[0], channels, kernel=draw.choice((3, 5)), padding=1, normal=normal)
    ]
    if kind in ("conv", "normal"):
        for _ in range(draw.choice((1, 3))):
            circular = draw.random() < 0.3
            nodes.append(Conv(channels, channels, circular=circular, normal=normal))
    elif kind == "pooled":
        pools = [MaxPool(), AveragePool(), MaxPool(3, 1, 1), AveragePool(2, 1)]
        for _ in range(draw.choice((1, 2)) if side > 5 else 1):
            nodes += [draw.choice(pools), Conv(channels, channels)]
    else:
        if draw.random() < 0.3:
            nodes.append(MaxPool(stride=draw.choice((1, 2))))
        for _ in range(draw.choice((1, 2, 3))):
            nodes += _block(channels, draw)
    return _headed(shape, nodes, classes, draw)


def _block(channels: int, draw: random.Random) -> list[Node]:
    inner = draw.choice((channels, channels // 2))
    gated_end = draw.random() < 0.5
    block: list[Node] = [Fork(), Conv(channels, inner), Conv(inner, channels, gated=gated_end)]
    if draw.random() < 0.4:
        block += [Skip(), Conv(channels, channels, kernel=1, padding=0, gated=False)]
    block.append(Merge(pre=0.8))
    return block if gated_end else [*block, Gating()]


def _headed(
    shape: tuple[int, ...], nodes: list[Node], classes: int, draw: random.Random
) -> Architecture:
    after = shape
    for place, node in enumerate(nodes):
        after = shape_after(node, after, place)
    ends_gated = isinstance(nodes[-1], Gating)
    heads: list[Node] = [GlobalAveragePool(), Flatten()] + ([] if ends_gated else [GlobalMaxPool()])
    head = draw.choice(heads)
    size = prod(after) if isinstance(head, Flatten) else after[0]
    tail: list[Node] = [Dense(size, classes, gated=False)]
    if draw.random() < 0.3:
        tail = [Dense(size, 30), Dense(30, classes, gated=False)]
    return Architecture(shape, (*nodes, head, *tail))


def _network(architecture: Architecture, draw: random.Random) -> GatedNetwork:
    network = GatedNetwork(architecture, bias=draw.random() < 0.4)
    network.own_gates = draw.random() < 0.4
    network.gate = Gate(soft=draw.random() < 0.6, beta=2.0)
    if not network.own_gates:
        network.value_input = draw.choice(("image", "ones", "random"))  # type: ignore[assignment]
        if draw.random() < 0.5:
            network.routes = tuple(Route(rotate=1) for _ in network.routes)
    return network
