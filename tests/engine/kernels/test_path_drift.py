"""Moments of path features and values against sums over all paths, one by one, in float64."""

from __future__ import annotations

from math import prod

import pytest
import torch
from torch import Tensor

from dgn_engine.kernels import PathInputs
from dgn_engine.kernels.path_drift import feature_moments, relative_drift, value_product
from dgn_engine.model.architecture import Architecture, weight_shape
from tests.engine.kernels.enumeration import bundles, features, without_skips
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    HAND_WRITTEN,
    draw_images,
    make_network,
    random_gates,
)

# Those on which every path can be walked in a moment, one of each kind.
WALKED = ["fc-deep", "fc-flat", "conv-gap", "stride-flatten", "max-gap", "residual-dense"]
DRIFTED = [name for name in WALKED if name in HAND_WRITTEN]


def all_values(architecture: Architecture, weights: list[Tensor]) -> list[float]:
    """v of every bundle of every sub-network, of logit 0."""
    found = []
    numbers = {id(layer): place for place, layer in enumerate(architecture.weight_layers)}
    for chain, _, _, _ in without_skips(architecture):
        places = [numbers[id(layer)] for layer in chain.weight_layers]
        for bundle in bundles(chain):
            pairs = zip(places, bundle, strict=True)
            found.append(prod(float(weights[place][index]) for place, index in pairs))
    return found


@pytest.mark.parametrize("name", DRIFTED)
def test_the_moments_of_features_are_sums_over_paths(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x = draw_images(architecture, 3)
    inputs, phi = [], []
    for seed in (1, 2):
        gates = random_gates(architecture, 3, hard=False, seed=seed)
        masks = make_network(architecture).trace(x + seed).value.masks
        inputs.append(PathInputs(gates, x, masks))
        phi.append(features(architecture, gates, x, list(masks)))
    found = feature_moments(architecture, inputs[0], inputs[1])
    torch.testing.assert_close(found.now, (phi[0] ** 2).sum(1), rtol=1e-10, atol=0)
    torch.testing.assert_close(found.both, (phi[0] * phi[1]).sum(1), rtol=1e-10, atol=0)
    torch.testing.assert_close(found.then, (phi[1] ** 2).sum(1), rtol=1e-10, atol=0)
    moved = ((phi[0] - phi[1]) ** 2).sum(1)
    torch.testing.assert_close(found.squared_drift, moved, rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", DRIFTED)
def test_the_product_of_values_is_a_sum_over_paths(name: str) -> None:
    architecture = ARCHITECTURES[name]
    generator = torch.Generator().manual_seed(5)
    sets = [
        [
            torch.randn(weight_shape(layer), generator=generator, dtype=torch.float64)
            for layer in architecture.weight_layers
        ]
        for _ in range(2)
    ]
    for weights in sets:  # one logit only: `bundles` ends in the first
        weights[-1][1:] = 0.0
    one, two = (all_values(architecture, weights) for weights in sets)
    expected = sum(a * b for a, b in zip(one, two, strict=True))
    assert value_product(architecture, *sets) == pytest.approx(expected, rel=1e-10)
    square = sum(a * a for a in one)
    assert value_product(architecture, sets[0], sets[0]) == pytest.approx(square, rel=1e-10)


def test_what_is_nothing_has_no_drift() -> None:
    assert relative_drift(4.0, 0.0, 1.0) == pytest.approx((5.0**0.5, 0.0))
    assert relative_drift(1.0, 1.0, 1.0) == (0.0, 1.0)
    assert all(number != number for number in relative_drift(0.0, 0.0, 0.0))  # NaN
