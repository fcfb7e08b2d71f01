"""A number that is none, in any tensor of a network: gates of it are closed, so it is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.tiny import draw_images, make_network, random_gates
from tests.refusals import refused

NORMAL = Architecture(
    (2, 3, 3), (Conv(2, 3, normal=True), GlobalAveragePool(), Dense(3, 3), Dense(3, 2, gated=False))
)
STACK = ("weights.0", "weights.1", "biases.0", "biases.1", "normalisation.scales.0")
NORMS = ("normalisation.shifts.0", "normalisation.mean_0", "normalisation.variance_0")


def network(own: bool) -> GatedNetwork:
    made = make_network(NORMAL, bias=True, own=own)
    with torch.no_grad():
        for name, buffer in made.named_buffers():
            if "variance" in name:
                buffer.fill_(0.7)
    assert made.value.normalisation is not None
    made.value.normalisation.active = own
    return made


def spoil(made: GatedNetwork, name: str, value: float) -> None:
    made.state_dict()[name].view(-1)[-1] = value


@pytest.mark.wide
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", [*STACK, *NORMS])
def test_a_network_with_one_number_that_is_not_finite_is_refused_by_every_kernel(
    name: str, own: bool, value: float
) -> None:
    made = network(own)
    x = draw_images(NORMAL, 3)
    part = "value" if own else "feature"
    paths = k.PathInputs.from_network(made, x)
    shared = k.SharedKernels(made, x)
    spoil(made, f"{part}.{name}", value)
    place = f"{part} {1 if name.endswith('s.1') else 0}"
    if name.endswith("variance_0") and value == math.inf:
        return  # x / √∞ is zero, as it is in the network's own pass
    for ask in (
        lambda: k.SharedKernels(made, x),
        lambda: k.tangent_kernels(made, x),
        lambda: shared.tangent,  # of a network that was spoilt in between
        lambda: k.tangent_operator(made, x),
        lambda: k.tangent_diagonal(made, x),
        lambda: k.PathInputs.from_network(made, x),
        lambda: k.TangentEstimator(made, x, torch.Generator()),
    ):
        with refused("not-finite", value=place):
            ask()
    assert bool(torch.isfinite(k.overlap(NORMAL, paths.gates)).all()), "gates that were made before"


def test_a_variance_below_zero_is_as_bad() -> None:
    made = network(own=True)
    spoil(made, "value.normalisation.variance_0", -1.0)
    with refused("not-finite", value="value 0"):
        k.SharedKernels(made, draw_images(NORMAL, 3))


def test_the_feature_network_of_gates_that_are_given_is_not_looked_at() -> None:
    made = network(own=False)
    spoil(made, "feature.biases.0", math.nan)
    given = made.with_gates(tuple(random_gates(NORMAL, 3, hard=True)))
    assert bool(torch.isfinite(k.SharedKernels(given, draw_images(NORMAL, 3)).npk()).all())


def test_large_weights_whose_sum_overflows_are_finite() -> None:
    made = make_network(Architecture((2,), (Dense(2, 4), Dense(4, 2, gated=False)))).float()
    with torch.no_grad():
        made.value.weights[0].fill_(3e38)
    gates = k.SharedKernels(made, torch.ones(2, 2)).gates
    assert np.isfinite(gates[0].numpy()).all()
