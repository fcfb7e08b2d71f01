"""The networks of the benchmarks, as engine networks and as plain torch modules."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork

SOFT = Gate(soft=True, beta=4.0, epsilon=0.1)


def dense_architecture(classes: int, width: int = 128, inputs: int = 784) -> Architecture:
    """Return inputs-width×5-classes: six weight layers."""
    hidden = (Dense(inputs, width), *(Dense(width, width) for _ in range(4)))
    return Architecture((inputs,), (*hidden, Dense(width, classes, gated=False)))


def convolutional_architecture(channels: int, side: int, classes: int) -> Architecture:
    """Return four 3×3 convolutions, global average pooling, a linear layer; (3, side, side) in."""
    convolutions = (Conv(3, channels), *(Conv(channels, channels) for _ in range(3)))
    head = (GlobalAveragePool(), Dense(channels, classes, gated=False))
    return Architecture((3, side, side), (*convolutions, *head))


def make_network(
    architecture: Architecture, device: torch.device, gated: bool = False
) -> GatedNetwork:
    """Return a ReLU network, or with `gated` a DGN with soft gates; Kaiming init, seed 0."""
    model = GatedNetwork(architecture)
    generator = torch.Generator().manual_seed(0)
    model.value.init_weights("kaiming", generator)
    model.feature.init_weights("kaiming", generator)
    if gated:
        model.own_gates = False
        model.gate = SOFT
    return model.to(device)


def draw_examples(architecture: Architecture, n: int, device: torch.device) -> Tensor:
    """Return n standard normal inputs (n, *input_shape), seed 1."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn((n, *architecture.input_shape), generator=generator).to(device)


def draw_hard_gates(architecture: Architecture, n: int, device: torch.device) -> list[Tensor]:
    """Return random hard gates, each open with probability 1/2, seed 2."""
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.rand((n, *shape), generator=generator) > 0.5).float().to(device)
        for shape in architecture.gated_shapes
    ]


def make_plain_module(architecture: Architecture, device: torch.device) -> nn.Sequential:
    """Return the ReLU network of `make_network` as a plain `nn.Sequential`, same weights."""
    weights = iter(make_network(architecture, device).value.weights)
    layers: list[nn.Module] = []
    for node in architecture.nodes:
        match node:
            case Dense():
                layers.append(nn.Linear(node.inputs, node.outputs, bias=False))
            case Conv():
                layers.append(nn.Conv2d(node.inputs, node.outputs, 3, padding=1, bias=False))
            case _:
                layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
                continue
        layers[-1].weight = nn.Parameter(cast(Tensor, next(weights)).detach().clone())
        if node.gated:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers).to(device)
