"""Parallel feature layers: each reads the input, and nothing else of the network is like that."""

from __future__ import annotations

from itertools import pairwise

import torch

from dgn_engine.model.architecture import Architecture, Conv, Dense, FromInput, GlobalAveragePool
from dgn_engine.model.feature_layers import parallel_features, value_and_feature
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from tests.refusals import refused

CHAIN = Architecture((5,), (Dense(5, 4), Dense(4, 7), Dense(7, 3), Dense(3, 2, gated=False)))


def drawn_network() -> GatedNetwork:
    network = GatedNetwork(CHAIN, feature_architecture=parallel_features(CHAIN))
    network.feature = Stack(parallel_features(CHAIN), bias=True)
    generator = torch.Generator().manual_seed(1)
    for parameter in network.parameters():
        parameter.data.normal_(generator=generator)
    network.own_gates = False
    return network.double()


def test_each_gate_is_open_on_one_side_of_a_hyperplane_of_the_inputs() -> None:
    network = drawn_network()
    x = torch.randn(9, 5, generator=torch.Generator().manual_seed(2)).double()
    trace = network.trace(x)
    for layer, gates in enumerate(trace.value.gates):
        weight, bias = network.feature.weights[layer], network.feature.biases[layer]
        assert torch.equal(gates, (x @ weight.T + bias > 0).double())
    # Along a line a gate of a half-space switches at most once, whatever its layer.
    steps = torch.linspace(0, 1, 101, dtype=torch.float64)[:, None]
    for start, end in pairwise(x):
        for gates in network.trace(start + steps * (end - start)).value.gates:
            assert int((gates[1:] != gates[:-1]).sum(0).max()) <= 1


def test_the_activation_of_parallel_features_has_no_effect() -> None:
    network, x = drawn_network(), torch.randn(6, 5).double()
    logits = network(x)
    network.feature_activation = "linear"
    assert torch.equal(network(x), logits)


def test_gate_layers_and_output_are_those_of_the_chain() -> None:
    makers = parallel_features(CHAIN)
    assert makers.gated_shapes == CHAIN.gated_shapes
    assert makers.gate_names == CHAIN.gate_names
    assert [(layer.inputs, layer.outputs) for layer in makers.weight_layers] == [
        *((5, 4), (5, 7), (5, 3)),
        (3, 2),
    ]
    single = Architecture((5,), (Dense(5, 4), Dense(4, 2, gated=False)))
    assert parallel_features(single) == single
    wide, tiled = value_and_feature(CHAIN, (1, 2, 3), "parallel")
    assert (wide.gated_shapes, tiled) == (((4,), (14,), (9,)), makers)
    assert value_and_feature(CHAIN, (), "chain") == (CHAIN, CHAIN)


def test_what_would_lose_layers_is_refused() -> None:
    with refused("not-supported"):
        GatedNetwork(parallel_features(CHAIN))
    ungated = Architecture((5,), (Dense(5, 4), Dense(4, 4, gated=False), Dense(4, 2, gated=False)))
    with refused("not-supported", place="gating.feature_layers"):
        parallel_features(ungated)
    maps = (Conv(1, 2), FromInput(), Conv(1, 2), GlobalAveragePool(), Dense(2, 1, gated=False))
    with refused("not-supported"):
        Architecture((1, 4, 4), maps)
