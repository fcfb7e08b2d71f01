"""The optimiser over both networks: torch's own by name, in its quick form where there is one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dgn_engine.config import TrainingConfig
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.training.steps.optimizer import NetworkOptimizer, make_optimiser

CHAIN = Architecture((3,), (Dense(3, 4), Dense(4, 2, gated=False)))


def made(**training: object) -> tuple[GatedNetwork, NetworkOptimizer]:
    network = GatedNetwork(CHAIN, True)
    return network, NetworkOptimizer(TrainingConfig(**training), network)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["adam", "sgd", "rmsprop"])
def test_steps_are_those_of_torch_bit_for_bit(word: str) -> None:
    torch.manual_seed(0)
    ours, theirs = (nn.Parameter(torch.randn(5, 3)) for _ in range(2))
    theirs.data.copy_(ours.data)
    config = TrainingConfig(optimiser=word, learning_rate=0.1, momentum=0.9)  # type: ignore[arg-type]
    mine = make_optimiser([{"params": [ours]}], config)
    usual = {
        "adam": lambda: torch.optim.Adam([theirs], lr=0.1, fused=True),
        "sgd": lambda: torch.optim.SGD([theirs], lr=0.1, momentum=0.9, fused=True),
        "rmsprop": lambda: torch.optim.RMSprop([theirs], lr=0.1, alpha=config.smoothing),
    }[word]()
    for _ in range(3):
        gradient = torch.randn(5, 3)
        for weight, optimiser in ((ours, mine), (theirs, usual)):
            weight.grad = gradient.clone()
            optimiser.step()
            optimiser.zero_grad()
            assert weight.grad is None
        assert torch.equal(ours, theirs)


def test_there_is_no_quick_form_where_torch_has_none() -> None:
    weight = nn.Parameter(torch.zeros(2, device="meta"))
    found = make_optimiser([{"params": [weight]}], TrainingConfig(optimiser="adam"))
    assert found.param_groups[0]["fused"] is False


def test_a_rate_of_a_group_may_be_another() -> None:
    weight = nn.Parameter(torch.zeros(2))
    found = make_optimiser([{"params": [weight], "lr": 7.0}], TrainingConfig(learning_rate=0.5))
    assert found.param_groups[0]["lr"] == 7.0


def stepped(network: GatedNetwork, optimizer: NetworkOptimizer) -> None:
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_new_feature_network_is_trained_in_the_place_of_the_old_one() -> None:
    network, optimizer = made(learning_rate=0.5)
    stepped(network, optimizer)
    old = list(network.feature.parameters())
    network.feature = Stack(CHAIN, bias=False)
    optimizer.replace_feature(network.feature)
    assert not any(parameter in optimizer.torch.state for parameter in old)
    before = network.feature.weights[0].detach().clone()
    stepped(network, optimizer)
    assert not torch.equal(network.feature.weights[0], before)


@pytest.mark.parametrize("word", ["adam", "sgd", "rmsprop"])
def test_a_state_goes_over_by_name_and_what_it_does_not_name_starts_afresh(word: str) -> None:
    network, optimizer = made(optimiser=word, momentum=0.9)
    stepped(network, optimizer)
    tensors = optimizer.state_tensors(network)
    assert all(name.startswith(("optimiser.value.", "optimiser.feature.")) for name in tensors)
    other, fresh = made(optimiser=word, momentum=0.9)
    stepped(other, fresh)
    stepped(other, fresh)
    some = {name: t for name, t in tensors.items() if name.startswith("optimiser.value.")}
    fresh.restore_state(other, some)
    assert set(fresh.state_tensors(other)) == set(some)
    for name, tensor in fresh.state_tensors(other).items():
        assert torch.equal(tensor, some[name])
        assert tensor.data_ptr() != some[name].data_ptr(), "a copy"
