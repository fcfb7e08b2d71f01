"""A stack by itself: what drawing and taking weights touches, and what it leaves alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dgn_engine.model.architecture import (
    Architecture,
    ChannelScale,
    Conv,
    Dense,
    Fork,
    Gating,
    GlobalAveragePool,
    Merge,
)
from dgn_engine.model.stack import Stack, apply_weight

SCALED = Architecture(
    (6,), (Dense(6, 5), ChannelScale(5), Gating(), Dense(5, 4), Dense(4, 2, gated=False))
)
MAPS = Architecture((3, 4, 4), (Conv(3, 50), GlobalAveragePool(), Dense(50, 40, gated=False)))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def layer_of(stack: Stack, place: int) -> tuple[Tensor, Tensor | None]:
    weights, biases = stack.folded_tensors()
    return weights[place], biases[place]


def copies(stack: Stack) -> list[Tensor]:
    return [weight.detach().clone() for weight in stack.weights]


@pytest.mark.parametrize("init", ["kaiming", "bernoulli", "glorot"])
def test_scaled_channels_start_as_the_identity_and_all_other_layers_are_drawn(init: str) -> None:
    """They start as γ = 1, β = 0 of a new BatchNorm, whatever they were before."""
    stack = Stack(SCALED, bias=True)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.fill_(3.0)
    stack.init_weights(init, generator())  # type: ignore[arg-type]
    scaled = [place for place, layer in enumerate(SCALED.weight_layers) if layer == ChannelScale(5)]
    assert [p for p, weight in enumerate(copies(stack)) if bool((weight == 1).all())] == scaled
    assert all(not bool((weight == 3).any()) for weight in copies(stack))
    z = torch.randn(7, 5, generator=generator())
    for place in scaled:
        assert torch.equal(apply_weight(SCALED.weight_layers[place], *layer_of(stack, place), z), z)


@pytest.mark.parametrize("init", ["kaiming", "bernoulli", "glorot"])
def test_drawing_is_a_function_of_the_seed_and_resets_biases(init: str) -> None:
    stack = Stack(MAPS, bias=True)
    drawn = []
    for seed in (1, 1, 2):
        with torch.no_grad():
            for bias in stack.biases:
                bias.fill_(3.0)
        stack.init_weights(init, generator(seed))  # type: ignore[arg-type]
        assert all(not bool(bias.any()) for bias in stack.biases)
        drawn.append(copies(stack))
    assert all(torch.equal(a, b) for a, b in zip(drawn[0], drawn[1], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(drawn[0], drawn[2], strict=True))


@pytest.mark.parametrize("sigma", [0.0, 0.7])
def test_weights_have_the_spread_that_their_law_says(sigma: float) -> None:
    """Of a convolution fan-in is 3·9 = 27 and fan-out 50·9; of the dense layer 50 and 40."""
    stack = Stack(MAPS, bias=False)
    for place, (inputs, outputs) in enumerate(((27, 450), (50, 40))):
        stack.init_weights("bernoulli", generator(), sigma)
        expected = sigma or math.sqrt(2 / inputs)
        signs = stack.weights[place].detach() / expected
        assert torch.allclose(signs.abs(), torch.ones(()))
        assert abs(float(signs.mean())) < 0.1
        stack.init_weights("kaiming", generator(), sigma)
        spread = float(stack.weights[place].detach().std())
        assert spread == pytest.approx(expected, rel=0.1)
        stack.init_weights("glorot", generator(), sigma)
        bound = math.sqrt(6 / (inputs + outputs))
        drawn = stack.weights[place].detach()
        assert float(drawn.max()) == pytest.approx(bound, rel=0.02)
        assert float(drawn.min()) == pytest.approx(-bound, rel=0.02)
        assert float(drawn.max()) < bound


def test_taking_some_layers_leaves_the_others() -> None:
    stack = Stack(MAPS, bias=True)
    stack.init_weights("kaiming", generator())
    last = stack.weights[1].detach().clone()
    stack.load_layers([torch.full((50, 3, 3, 3), 2.0)], [torch.full((50,), 5.0)])
    assert bool((stack.weights[0] == 2).all())
    assert bool((stack.biases[0] == 5).all())
    assert torch.equal(stack.weights[1], last)
    stack.load_layers([torch.full((50, 3, 3, 3), 1.0)], [None])
    assert not bool(stack.biases[0].any())


def test_biases_find_room_where_there_are_biases() -> None:
    some = [None, torch.zeros(40)]
    assert Stack(MAPS, bias=True).accepts_biases(some)
    assert not Stack(MAPS, bias=False).accepts_biases(some)
    assert Stack(MAPS, bias=False).accepts_biases([None, None])


def test_a_block_multiplies_its_branches_by_their_factors() -> None:
    nodes = (Dense(3, 3), Fork(), Dense(3, 3, gated=False), Merge(pre=0.5, post=3.0), Gating())
    chain = Architecture((3,), (*nodes, Dense(3, 2, gated=False)))
    stack = Stack(chain, bias=False).double()
    stack.init_weights("kaiming", generator())
    x = torch.randn((4, 3), generator=generator(), dtype=torch.float64)
    one, two, head = (weight.detach() for weight in stack.weights)
    z = torch.relu(x @ one.T)
    summed = torch.relu(3.0 * (0.5 * (z @ two.T) + z))
    found = stack.run(x, lambda _, q: (q > 0).to(q.dtype))
    torch.testing.assert_close(found.output, summed @ head.T)
