"""Networks whose batch normalisations have learnt and gathered something."""

from __future__ import annotations

import torch

from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Fork,
    GlobalAveragePool,
    GlobalMaxPool,
    Merge,
)
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.tiny import make_network

NORMALISED: dict[str, Architecture] = {
    "small-maps": Architecture(  # pairs of positions cost less than gradients
        (2, 2, 2),
        (
            Conv(2, 9, normal=True),
            Conv(9, 8, normal=True),
            GlobalAveragePool(),
            Dense(8, 2, gated=False, factor=0.125),
        ),
    ),
    "large-maps": Architecture(
        (1, 5, 5),
        (
            Conv(1, 2, normal=True),
            Fork(),
            Conv(2, 2, normal=True),
            Merge(),
            GlobalMaxPool(),
            Dense(2, 3, factor=3.0),
            Dense(3, 2, gated=False, factor=0.125),
        ),
    ),
    "dense": Architecture((3,), (Dense(3, 4, factor=0.2), Dense(4, 2, gated=False, factor=5.0))),
}


def learnt(name: str, *, bias: bool, own: bool, soft: bool) -> GatedNetwork:
    """A network whose normalisations have learnt and gathered something."""
    network = make_network(NORMALISED[name], bias=bias, own=own, soft=soft)
    for stack in (network.value, network.feature):
        if stack.normalisation is not None:
            for number, buffer in enumerate(stack.normalisation.buffers()):
                buffer.add_(torch.linspace(0.1, 0.9, len(buffer)) * (1 + number % 3))
            stack.normalisation.active = own or stack is network.feature
    return network
