"""Local complexity, counted vertex by vertex, and by the distance of hyperplanes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import dgn_engine.kernels as k
from dgn_engine.kernels import gate_boundaries as module
from dgn_engine.kernels.gate_boundaries import local_complexity, orthonormal_directions
from dgn_engine.model.gates import Gate
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    draw_images,
    every_architecture,
    make_network,
    random_gates,
)
from tests.refusals import refused


def counted(network: GatedNetwork, x: Tensor, directions: Tensor, radius: float) -> list[list[int]]:
    """Layer by layer and example by example, from one pass per vertex."""
    counts: list[list[int]] = []
    for example in x:
        seen: list[list[Tensor]] = []
        for direction in directions:
            for sign in (1.0, -1.0):
                trace = network.trace((example + sign * radius * direction)[None])
                pre = trace.value.pre if network.own_gates else trace.feature.pre  # type: ignore[union-attr]
                seen.append([(q > 0).flatten() for q in pre])
        by_layer = []
        for layer in zip(*seen, strict=True):
            first = layer[0]
            switched = torch.zeros_like(first)
            for other in layer[1:]:
                switched |= other != first
            by_layer.append(int(switched.sum()))
        counts.append(by_layer)
    return [list(layer) for layer in zip(*counts, strict=True)]


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("kind", ["relu", "pair", "soft pair"])
def test_the_count_is_that_of_one_pass_per_vertex(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "VERTICES_AT_ONCE", 12)  # two examples at once
    own, soft = kind == "relu", kind == "soft pair"
    network = make_network(ARCHITECTURES[name], bias=True, own=own, soft=soft)
    x = draw_images(network.architecture, 3)
    directions = orthonormal_directions(network.architecture.input_shape, 3)
    for radius in (0.1, 1.0):
        found = [layer.tolist() for layer in local_complexity(network, x, directions, radius)]
        assert found == counted(network, x, directions, radius)


@pytest.mark.parametrize("linear", [False, True])
def test_a_hyperplane_crosses_if_it_is_nearer_than_its_farthest_vertex(linear: bool) -> None:
    """A hyperplane ⟨w, x⟩ + b = 0 divides the vertices if |⟨w, x⟩ + b| < r·max_i |⟨w, v_i⟩|.

    All boundaries of linear features are hyperplanes, of the products W_l … W_1.
    """
    network = make_network(ARCHITECTURES["fc-deep"], bias=True, own=False)
    network.feature_activation = "linear" if linear else "relu"
    x = 0.5 * draw_images(network.architecture, 40)
    directions = orthonormal_directions((3,), 2)
    layers = local_complexity(network, x, directions, 0.4)
    normal, offset = torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    with torch.no_grad():
        for count, weight, bias in zip(
            layers, network.feature.weights, network.feature.biases, strict=False
        ):
            assert bias is not None
            normal, offset = weight @ normal, weight @ offset + bias
            reach = 0.4 * (normal @ directions.T).abs().amax(1)
            crossed = ((x @ normal.T + offset).abs() < reach).sum(1)
            assert torch.equal(count, crossed)
            assert 0 < int(crossed.sum()) < crossed.numel() * len(offset)
            if not linear:
                break


def test_directions_are_orthonormal_and_equal_for_equal_seeds() -> None:
    directions = orthonormal_directions((2, 3, 2), 5)
    assert directions.shape == (5, 2, 3, 2)
    flat = directions.flatten(1)
    torch.testing.assert_close(flat @ flat.T, torch.eye(5, dtype=torch.float64))
    assert torch.equal(directions, orthonormal_directions((2, 3, 2), 5))
    assert not torch.equal(directions, orthonormal_directions((2, 3, 2), 5, seed=1))
    assert len(orthonormal_directions((3,), 20)) == 3  # no more than there are dimensions


def test_gates_used_twice_or_moved_are_counted_once() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    x, directions = draw_images(network.architecture, 4), orthonormal_directions((3,), 3)
    plain = local_complexity(network, x, directions, 0.5)
    network.wiring = (2, 0, 1)
    for one, other in zip(plain, local_complexity(network, x, directions, 0.5), strict=True):
        assert torch.equal(one, other)
    assert sum(int(layer.sum()) for layer in plain)


def test_gates_without_boundaries_are_refused() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    x, directions = draw_images(network.architecture, 2), orthonormal_directions((3,), 3)
    gates = random_gates(network.architecture, 2, hard=True)
    with refused("not-supported"):
        local_complexity(network.with_gates(tuple(gates)), x, directions, 0.5)
    network.gate = Gate(open=True)
    with refused("not-supported"):
        local_complexity(network, x, directions, 0.5)
    network.gate = Gate()
    with refused("out-of-bounds"):
        local_complexity(network, x, directions, 0.0)
    with refused("wrong-shape", value=(3, 2)):
        local_complexity(network, x, directions[:, :2], 0.5)


def test_a_module_of_the_user_is_counted_at_its_own_activations() -> None:
    torch.manual_seed(1)
    user = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 5), nn.LeakyReLU(0.2))
    whole = nn.Sequential(*user, nn.Linear(5, 2)).double()
    x, directions = torch.randn(6, 4, dtype=torch.float64), orthonormal_directions((4,), 4)
    found = local_complexity(k.adapt(whole, (4,)), x, directions, 0.6)
    for layer, at in enumerate((0, 2)):
        for row, example in enumerate(x):
            vertices = torch.cat([example + 0.6 * directions, example - 0.6 * directions])
            signs = whole[: at + 1](vertices) > 0
            assert int(found[layer][row]) == int((signs.any(0) & ~signs.all(0)).sum())
