"""The networks of the table: as this engine has them, and as plain torch modules."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork

SOFT = Gate(soft=True, beta=4.0, epsilon=0.1)


def dense(classes: int) -> Architecture:
    """784-128×5-classes: six weight layers."""
    hidden = (Dense(784, 128), *(Dense(128, 128) for _ in range(4)))
    return Architecture((784,), (*hidden, Dense(128, classes, gated=False)))


def convolutional(channels: int, side: int, classes: int) -> Architecture:
    """Four convolutions 3×3, global average pooling, one linear layer, on (3, side, side)."""
    convolutions = (Conv(3, channels), *(Conv(channels, channels) for _ in range(3)))
    head = (GlobalAveragePool(), Dense(channels, classes, gated=False))
    return Architecture((3, side, side), (*convolutions, *head))


def network(architecture: Architecture, device: torch.device, gated: bool = False) -> GatedNetwork:
    """A ReLU network, or with `gated` a deep gated network with soft gates; Kaiming, seed 0."""
    made = GatedNetwork(architecture)
    generator = torch.Generator().manual_seed(0)
    made.value.init_weights("kaiming", generator)
    made.feature.init_weights("kaiming", generator)
    if gated:
        made.own_gates = False
        made.gate = SOFT
    return made.to(device)


def examples(architecture: Architecture, n: int, device: torch.device) -> Tensor:
    """Standard normal inputs, seed 1."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn((n, *architecture.input_shape), generator=generator).to(device)


def hard_gates(architecture: Architecture, n: int, device: torch.device) -> list[Tensor]:
    """Each gate open with chance one half, seed 2."""
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.rand((n, *shape), generator=generator) > 0.5).float().to(device)
        for shape in architecture.gated_shapes
    ]


def plain_module(architecture: Architecture, device: torch.device) -> nn.Sequential:
    """The ReLU network as a torch user writes it, with the weights of `network`."""
    weights = iter(network(architecture, device).value.weights)
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
