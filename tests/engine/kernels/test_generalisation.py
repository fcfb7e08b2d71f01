"""The bound of Cao & Gu against its formula, written out."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.kernels.generalisation import has_relu_bound
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays
from dgn_engine.model.architecture import Architecture, Dense
from tests.engine.kernels.allocated import peak_bytes
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network
from tests.refusals import refused


def limit_kernel(x: np.ndarray, depth: int) -> np.ndarray:
    """K^(d) of unit inputs, entry by entry: hidden weights N(0, 2/w), output weights N(0, 1/w)."""
    n = len(x)
    kernel = np.empty((n, n))
    for s in range(n):
        for t in range(n):
            cosine = 1.0 if s == t else float(x[s] @ x[t])
            tangent = cosine
            for _ in range(depth - 1):
                angle = math.acos(cosine)
                slope = 1 - angle / math.pi
                cosine = (math.sin(angle) + (math.pi - angle) * cosine) / math.pi
                tangent = tangent * slope + cosine
            kernel[s, t] = (tangent + cosine) / 2
    return kernel


@pytest.mark.parametrize("depth", [2, 5])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_bound_is_depth_times_the_root_of_the_mean_quadratic_form(
    depth: int, classes: int
) -> None:
    draw = np.random.default_rng(depth)
    x, labels = draw.normal(size=(7, 4)), draw.integers(classes, size=7)
    y = np.stack([np.where(labels == c, 1.0, -1.0) for c in range(classes)], 1)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    inverse = np.linalg.inv(limit_kernel(unit, depth))
    form = np.mean([column @ inverse @ column for column in y.T])
    targets = k.class_targets(torch.from_numpy(labels), classes)
    found = k.relu_bound(torch.from_numpy(x), targets, depth)
    assert found.value == pytest.approx(depth * math.sqrt(form / 7), rel=1e-9)
    assert (found.rank, found.outside, found.ridge) == (7, 0.0, 0.0)
    again = k.relu_bound(torch.from_numpy(3 * x), targets, depth)
    assert again.value == pytest.approx(found.value, rel=1e-9)
    kernel = limit_kernel(unit, depth)
    ridged = kernel + 0.1 * np.trace(kernel) * np.eye(7)
    form = np.mean([column @ np.linalg.solve(ridged, column) for column in y.T])
    found = k.relu_bound(torch.from_numpy(x), targets, depth, ridge=0.1)
    assert found.value == pytest.approx(depth * math.sqrt(form / 7), rel=1e-9)


def test_a_singular_kernel_says_what_the_bound_leaves_out() -> None:
    x = torch.eye(3, dtype=torch.float64)[[0, 1, 2, 0]]
    found = k.relu_bound(x, torch.tensor([1.0, -1.0, 1.0, -1.0]), 3)
    assert found.rank == 3
    assert found.outside == pytest.approx(0.5)  # (1, −1)/√2 on the pair
    with refused("singular"):
        k.relu_bound(torch.zeros(2, 3), torch.tensor([1.0, -1.0]), 3)


@pytest.mark.parametrize(
    ("name", "bias", "has"),
    [("fc-deep", False, True), ("fc-deep", True, False), ("conv-gap", False, False)],
)
def test_a_report_has_the_bound_of_dense_networks_without_biases(
    name: str, bias: bool, has: bool
) -> None:
    network = make_network(ARCHITECTURES[name], bias=bias)
    x, labels = draw_images(network.architecture, 4), torch.tensor([0, 1, 0, 1])
    found = kernel_arrays(network, x, labels, KernelSettings(only=("npk", "nu")))
    assert ("bound" in found) == has
    assert has_relu_bound(network) == has
    if has:
        depth = len(network.architecture.weight_layers)
        bound = k.relu_bound(x, k.class_targets(labels, network.architecture.classes), depth)
        assert float(found["bound"]) == bound.value
        assert int(found["bound_rank"]) == bound.rank


def test_an_ungated_hidden_layer_has_no_bound() -> None:
    nodes = (Dense(2, 3), Dense(3, 3, gated=False), Dense(3, 2, gated=False))
    assert not has_relu_bound(make_network(Architecture((2,), nodes)))


def test_parallel_inputs_of_different_classes_make_the_kernel_singular() -> None:
    y = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    for seed in range(10):  # rounded, some of these pairs are not equal at norm 1
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(4, 40, generator=draw, dtype=torch.float64)
        x[1] = 3 * x[0]
        found = k.relu_bound(x, y, 3)
        assert found.rank == 3
        assert found.outside == pytest.approx(0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bound_takes_at_most_the_memory_that_is_said_of_nu(dtype: torch.dtype) -> None:
    nodes = (Dense(4000, 8), Dense(8, 2, gated=False))
    network = make_network(Architecture((4000,), nodes)).to(dtype)
    x, labels = torch.randn(300, 4000, dtype=dtype), torch.arange(300) % 2
    settings = KernelSettings(only=("nu",))
    plan = settings.make_plan(network, x, labels)
    taken = peak_bytes(partial(kernel_arrays, network, x, labels, settings, plan))
    assert 0 < taken <= plan.whole
