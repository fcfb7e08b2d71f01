"""Tiny networks in float64 on which every kernel can be counted path by path."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod

import pytest
import torch
from torch import Tensor

from dgn_engine.model.architecture import (
    Architecture,
    AveragePool,
    ChannelScale,
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
from dgn_engine.model.nets import Net, all_nets
from dgn_engine.model.network import GatedNetwork
from tests.plugins import each

# Hand-written ones have a hyphen in their name, which no plug-in has.
ARCHITECTURES: dict[str, Architecture] = {
    "fc-deep": Architecture(
        (3,), (Dense(3, 3), Dense(3, 3), Dense(3, 3), Dense(3, 2, gated=False))
    ),
    "fc-flat": Architecture((1, 2, 2), (Flatten(), Dense(4, 3), Dense(3, 3, gated=False))),
    "conv-gap": Architecture(
        (2, 3, 4),
        (Conv(2, 2), Conv(2, 2), GlobalAveragePool(), Dense(2, 3, gated=False)),
    ),
    "gap-circular-dense": Architecture(
        (1, 3, 3),
        (
            Conv(1, 2, circular=True),
            Conv(2, 2, circular=True),
            GlobalAveragePool(),
            Dense(2, 3),
            Dense(3, 3),
            Dense(3, 2, gated=False),
        ),
    ),
    "stride-flatten": Architecture(
        (1, 5, 4),
        (Conv(1, 2, stride=2), Conv(2, 2, padding=0, kernel=2), Flatten(), Dense(4, 3),
         Dense(3, 3, gated=False)),
    ),
    "circular-stride": Architecture(
        (2, 4, 4),
        (Conv(2, 2, kernel=3, stride=2, circular=True), Conv(2, 2, kernel=2, padding=1),
         Flatten(), Dense(18, 2, gated=False)),
    ),
    "padding-two": Architecture(
        (1, 3, 3),
        (Conv(1, 2, padding=2, circular=True), Conv(2, 1, padding=2), GlobalAveragePool(),
         Dense(1, 2, gated=False)),
    ),
    "max-gap": Architecture(
        (1, 5, 4),
        (Conv(1, 2), MaxPool(), Conv(2, 2, padding=1), GlobalAveragePool(), Dense(2, 3),
         Dense(3, 2, gated=False)),
    ),
    "max-overlapping": Architecture(
        (2, 5, 5),
        (Conv(2, 2), MaxPool(kernel=3, stride=2), Flatten(), Dense(8, 2, gated=False)),
    ),
    "average-global-max": Architecture(
        (1, 5, 4),
        (Conv(1, 2), AveragePool(kernel=2, stride=1), Conv(2, 2, kernel=2, circular=True),
         GlobalMaxPool(), Dense(2, 2, gated=False)),
    ),
    "pool-first": Architecture(
        (1, 6, 5),
        (AveragePool(kernel=3, stride=2), Conv(1, 2), AveragePool(), Flatten(),
         Dense(2, 3, gated=False)),
    ),
    "pooled-dense": Architecture(
        (1, 4, 5), (AveragePool(), Flatten(), Dense(4, 3), Dense(3, 2, gated=False)),
    ),
    "residual-dense": Architecture(
        (3,),
        (Dense(3, 3), Fork(), Dense(3, 2), Dense(2, 3), Merge(pre=0.7, post=1.2),
         Fork(), Dense(3, 3), Merge(pre=1.5, post=0.8), Dense(3, 2), Dense(2, 2, gated=False)),
    ),
    "residual-conv": Architecture(
        (1, 4, 4),
        (Conv(1, 1, kernel=2, padding=0), Fork(), Conv(1, 1, circular=True), Merge(pre=0.7),
         Fork(), Conv(1, 2, kernel=1, padding=0), Conv(2, 1), Merge(post=1.3), GlobalAveragePool(),
         Fork(), Dense(1, 1), Merge(), Dense(1, 2), Dense(2, 2, gated=False)),
    ),
    "gated-sums": Architecture(
        (3,),
        (Dense(3, 3), Fork(), Dense(3, 2), Dense(2, 2, gated=False), Skip(),
         Dense(3, 2, gated=False), Merge(pre=0.7, post=1.2), Gating(),
         Fork(), Dense(2, 2), Dense(2, 2, gated=False), Merge(), Gating(),
         Fork(), Dense(2, 2), Merge(pre=1.3), Gating(), Dense(2, 2, gated=False)),
    ),
    "ungated-layers": Architecture(
        (1, 3, 3),
        (Conv(1, 2, kernel=2, padding=0, gated=False), Conv(2, 2, kernel=2, padding=1),
         GlobalAveragePool(), Dense(2, 2, gated=False), Dense(2, 2), Dense(2, 2, gated=False)),
    ),
    "basic-blocks": Architecture(  # torchvision's: padded max pooling, then both kinds of block
        (1, 4, 4),
        (Conv(1, 2, kernel=2, padding=0), MaxPool(kernel=3, stride=2, padding=1),
         Fork(), Conv(2, 1), Conv(1, 2, kernel=1, padding=0, gated=False), Merge(), Gating(),
         Fork(), Conv(2, 1, kernel=2, stride=2, padding=0),
         Conv(1, 2, kernel=1, padding=0, gated=False), Skip(),
         Conv(2, 2, kernel=1, stride=2, padding=0, gated=False), Merge(post=0.8), Gating(),
         GlobalAveragePool(), Dense(2, 2, gated=False)),
    ),
    "max-after-sum": Architecture(  # as in DavidNet
        (1, 4, 4),
        (Conv(1, 2, kernel=2, padding=0), MaxPool(stride=1),
         Fork(), Conv(2, 2, kernel=1, padding=0),
         Conv(2, 2, kernel=2, padding=1, gated=False), MaxPool(stride=1), Merge(pre=0.6),
         GlobalMaxPool(), Dense(2, 2, gated=False)),
    ),
    "average-then-gated-sum": Architecture(
        (1, 4, 4),
        (Conv(1, 2, kernel=2, padding=0), AveragePool(stride=1), Fork(),
         Conv(2, 2, kernel=1, padding=0), Merge(), Gating(), MaxPool(stride=1), Gating(),
         Flatten(), Dense(2, 2, gated=False)),
    ),
    "pool-in-block": Architecture(
        (1, 4, 3),
        (Conv(1, 2, kernel=2, padding=1, gated=False), Gating(), Fork(),
         Conv(2, 2, kernel=1, padding=0), MaxPool(kernel=2, stride=2), Skip(),
         Conv(2, 2, kernel=2, stride=2, padding=0), Merge(pre=1.4), Gating(),
         Conv(2, 1, kernel=2, padding=0), Flatten(), Dense(1, 2, gated=False)),
    ),
}  # fmt: skip


def smallest(name: str, net: Net) -> Architecture:
    """A network of the discovery on 8×8 images, with small numbers in its form, and as few channels
    and as small windows as leave it less than 5,000 paths.

    Batch normalisation and constant factors are left out: they are folded into the weights before
    a kernel sees these.
    """
    options = {
        field.name: min(field.default, field.least + 1)  # type: ignore[type-var]
        if isinstance(field.default, int) and field.least is not None
        else field.default
        for field in net.options
    }
    whole = net.build((1, 8, 8), 2, options)
    sizes = itertools.product((3, 1), (8, 2, 1))
    for size in sizes:
        small = _reduced(whole, *size)
        if _paths(small) < 5000:
            return small
    raise AssertionError(
        f"dgn_engine/model/nets/{name}.py has {_paths(small):,} paths even with one channel; "
        "let its options make it smaller: its kernels are to be counted path by path"
    )


def _paths(architecture: Architecture) -> int:
    """At most so many: all of a network whose blocks are not skipped, for each choice of skips."""
    number = 2 ** sum(isinstance(node, Merge) for node in architecture.nodes)
    shape = architecture.input_shape
    for node, after in architecture.shapes():
        match node:
            case Conv():
                number *= node.outputs * node.kernel**2
            case Dense():
                number *= node.outputs
            case Flatten() if shape != architecture.input_shape:  # which its first layer counts
                number *= prod(shape[1:])
        shape = after
    return number * architecture.weight_layers[0].inputs


def _reduced(architecture: Architecture, window: int, channels: int) -> Architecture:
    """Windows and channels of at most so many; the sides of maps stay as they are."""
    nodes: list[Node] = []
    kept: list[tuple[int, ...]] = []
    shape = architecture.input_shape
    for place, node in enumerate(architecture.nodes):
        match node:
            case Fork():
                kept.append(shape)
            case Skip():
                shape, kept[-1] = kept[-1], shape
            case Merge():
                kept.pop()
            case Conv():
                kernel = min(node.kernel, window)
                padding = node.padding - (node.kernel - kernel) // 2
                node = replace(
                    node,
                    inputs=shape[0],
                    outputs=min(node.outputs, channels),
                    kernel=kernel,
                    padding=padding,
                    normal=False,
                )
            case ChannelScale():
                node = ChannelScale(shape[0])
            case Dense() if node is not architecture.nodes[-1]:
                node = replace(node, inputs=prod(shape), outputs=min(node.outputs, channels))
            case Dense():
                node = replace(node, inputs=prod(shape), factor=1.0)
        nodes.append(node)
        shape = shape_after(node, shape, place)
    return Architecture(architecture.input_shape, tuple(nodes))


HAND_WRITTEN = list(ARCHITECTURES)
ARCHITECTURES |= {name: smallest(name, net) for name, net in all_nets().items()}

# Those whose every hidden weight layer has a gate layer of its own, and nothing else has one.
ONE_GATE_A_LAYER = [
    name for name, chain in ARCHITECTURES.items() if chain.gated_nodes == chain.weight_layers[:-1]
]

every_architecture = pytest.mark.parametrize("name", HAND_WRITTEN + each(all_nets()))


def draw_images(architecture: Architecture, n: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((n, *architecture.input_shape), generator=generator, dtype=torch.float64)


def random_gates(architecture: Architecture, n: int, hard: bool, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    draws = [
        torch.rand((n, *shape), generator=generator, dtype=torch.float64)
        for shape in architecture.gated_shapes
    ]
    return [(draw > 0.4).to(torch.float64) if hard else draw for draw in draws]


def make_network(
    architecture: Architecture,
    *,
    bias: bool = False,
    own: bool = True,
    soft: bool = False,
    wiring: tuple[int, ...] | None = None,
    value_input: str = "image",
    epsilon: float = 0.1,
) -> GatedNetwork:
    generator = torch.Generator().manual_seed(7)
    network = GatedNetwork(architecture, bias).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)
        network.get_buffer("random_input").normal_(generator=generator)
    network.own_gates = own
    network.gate = Gate(soft=soft, beta=1.5, epsilon=epsilon)
    network.value_input = value_input  # type: ignore[assignment]  # parametrised by word
    if wiring is not None:
        network.wiring = wiring
    return network


def random_masks(architecture: Architecture, n: int, seed: int = 3) -> list[Tensor]:
    """Arg-max positions of random maps, one for each max pooling."""
    network = make_network(architecture)
    return list(network.trace(draw_images(architecture, n, seed)).value.masks)
