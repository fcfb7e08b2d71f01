"""Tiny networks whose gates are rotated, shifted and tiled on their way."""

from __future__ import annotations

import torch

from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    GlobalAveragePool,
    GlobalMaxPool,
)
from dgn_engine.model.feature_layers import parallel_features
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.wiring import Route
from tests.engine.kernels.tiny import make_network

FC = Architecture((3,), (Dense(3, 4), Dense(4, 4), Dense(4, 2, gated=False)))
WIDE = Architecture((3,), (Dense(3, 8), Dense(8, 12), Dense(12, 2, gated=False)))
CONV = Architecture(
    (2, 4, 4),
    (Conv(2, 3), Conv(3, 3, circular=True), GlobalAveragePool(), Dense(3, 2, gated=False)),
)
POOLED = Architecture((2, 4, 4), (Conv(2, 3), GlobalMaxPool(), Dense(3, 2, gated=False)))
POOLED_WIDE = Architecture((2, 4, 4), (Conv(2, 6), GlobalMaxPool(), Dense(6, 2, gated=False)))


def tiled(value: Architecture, feature: Architecture, tiles: tuple[int, ...]) -> GatedNetwork:
    generator = torch.Generator().manual_seed(5)
    network = GatedNetwork(value, feature_architecture=feature).double()
    for parameter in network.parameters():
        parameter.data.normal_(generator=generator)
    network.own_gates = False
    network.gate = Gate(soft=True, beta=1.5)
    network.routes = tuple(Route(tile=tile) for tile in tiles)
    return network


def routed(architecture: Architecture, *routes: Route) -> GatedNetwork:
    network = make_network(architecture, own=False, soft=True)
    network.routes = routes
    return network


def parallel(linear: bool = False) -> GatedNetwork:
    """Feature layers that each read the input, permuted, rotated and tiled."""
    network = tiled(WIDE, parallel_features(FC), (2, 3))
    network.wiring, network.routes = (1, 0), (Route(1, tile=2), Route(tile=3))
    network.feature_activation = "linear" if linear else "relu"
    return network


NETWORKS = {
    "fc rotated": lambda: routed(FC, Route(1), Route(-2)),
    "fc tiled": lambda: tiled(WIDE, FC, (2, 3)),
    "conv rotated and shifted": lambda: routed(CONV, Route(2, (1, -1)), Route(1, (0, 2))),
    "fc with parallel features": parallel,
    "fc with parallel linear features": lambda: parallel(linear=True),
    "max pool tiled": lambda: tiled(POOLED_WIDE, POOLED, (2,)),
}
