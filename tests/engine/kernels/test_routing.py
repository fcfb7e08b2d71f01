"""Rotated, shifted and tiled gates: the wiring beyond permutation, in every kernel."""

from __future__ import annotations

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.model.wiring import Route
from tests.engine.kernels.jacobians import MODES, check_parts
from tests.engine.kernels.routed import FC, NETWORKS, WIDE, routed, tiled
from tests.engine.kernels.tiny import draw_images


@pytest.mark.wide
@pytest.mark.parametrize("name", list(NETWORKS))
@pytest.mark.parametrize("mode", MODES)
def test_every_part_of_the_tangent_kernel_agrees_with_autograd(name: str, mode: str) -> None:
    check_parts(NETWORKS[name](), mode)


@pytest.mark.parametrize(
    ("route", "shape"),
    [(Route(1), (2, 3)), (Route(2, tile=3), (2, 3)), (Route(1, (1, 2), 2), (2, 3, 4, 5))],
)
def test_the_way_back_is_the_transpose_of_the_way_there(
    route: Route, shape: tuple[int, ...]
) -> None:
    q = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    there = route(q)
    delta = torch.randn(there.shape, dtype=q.dtype, generator=torch.Generator().manual_seed(1))
    back = route.transpose(delta)
    assert back.shape == q.shape
    assert torch.allclose((there * delta).sum(), (q * back).sum())


def test_a_rotation_leaves_the_path_kernel_of_a_dense_network_as_it_is() -> None:
    x = draw_images(FC, 6)
    plain, turned = routed(FC, Route(), Route()), routed(FC, Route(3), Route(1))
    kernels = [
        k.neural_path_kernel(FC, network.trace(x).value.gates, x) for network in (plain, turned)
    ]
    assert torch.allclose(*kernels, rtol=1e-12)


def test_tiling_k_times_multiplies_each_overlap_by_k() -> None:
    network = tiled(WIDE, FC, (2, 3))
    x = draw_images(FC, 6)
    trace = network.trace(x)
    assert trace.feature is not None
    for layer, times in enumerate((2, 3)):
        narrow = network.gate(trace.feature.pre[layer])
        assert torch.allclose(
            k.layer_overlap(trace.value.gates[layer]), times * k.layer_overlap(narrow)
        )
