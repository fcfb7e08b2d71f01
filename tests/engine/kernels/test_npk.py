from __future__ import annotations

from itertools import permutations
from math import prod

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    GlobalAveragePool,
)
from tests.engine.kernels.enumeration import bundles, chain_features, features, without_skips
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    ONE_GATE_A_LAYER,
    draw_images,
    every_architecture,
    make_network,
    random_gates,
    random_masks,
)

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


@pytest.mark.check
@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("hard", [True, False])
def test_the_npk_counts_every_bundle_of_paths(name: str, hard: bool) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = draw_images(architecture, 4), random_gates(architecture, 4, hard)
    masks = random_masks(architecture, 4)
    phi = features(architecture, gates, x, masks)
    found = k.neural_path_kernel(architecture, gates, x, masks=masks)
    torch.testing.assert_close(found, phi @ phi.T, **TIGHT)
    ones = features(architecture, gates, torch.ones_like(x), masks)
    counted = (ones @ ones.T) / architecture.weight_layers[0].inputs
    if isinstance(
        architecture.weight_layers[0], Dense
    ):  # Λ = Π τ_l, whatever pools the image first
        counted /= architecture.pooled_paths**2
    torch.testing.assert_close(k.overlap(architecture, gates, masks=masks), counted, **TIGHT)


def test_the_number_of_bundles_is_the_papers() -> None:
    assert len(bundles(ARCHITECTURES["fc-deep"])) == 3 * 3**3
    assert len(bundles(ARCHITECTURES["conv-gap"])) == 648


def chain(maps: bool, width: int = 3) -> Architecture:
    """Three gate layers of one shape, dense or convolutional with zero padding."""
    if maps:
        convs = (Conv(1, width), Conv(width, width), Conv(width, width))
        return Architecture((1, 4, 4), (*convs, GlobalAveragePool(), Dense(width, 1, gated=False)))
    dense = (Dense(4, width), Dense(width, width), Dense(width, width))
    return Architecture((4,), (*dense, Dense(width, 1, gated=False)))


def relative(found: Tensor, kernel: Tensor) -> float:
    return float((found - kernel).norm() / kernel.norm())


@pytest.mark.parametrize("maps", [False, True])
def test_permuted_gate_layers_keep_the_npk_of_dense_networks_only(maps: bool) -> None:
    architecture = chain(maps)
    network, x = make_network(architecture, own=False), draw_images(architecture, 5)
    gates = network.trace(x).value.gates  # hard, of a random feature network
    kernel = k.neural_path_kernel(architecture, gates, x)
    changes = []
    for order in permutations(range(3)):
        moved = [gates[layer] for layer in order]
        phi = features(architecture, moved, x, [])
        found = k.neural_path_kernel(architecture, moved, x)
        torch.testing.assert_close(found, phi @ phi.T, **TIGHT)
        changes.append(relative(found, kernel))
    assert changes[0] == 0.0
    assert all(change > 1e-3 for change in changes[1:]) if maps else max(changes) < 1e-12


@pytest.mark.parametrize("maps", [False, True])
def test_units_moved_alike_for_all_examples_or_repeated_keep_the_npk_and_shifts_do_not(
    maps: bool,
) -> None:
    architecture = chain(maps)
    network, x = make_network(architecture, own=False), draw_images(architecture, 5)
    gates = network.trace(x).value.gates
    kernel = k.neural_path_kernel(architecture, gates, x)
    turned = [torch.roll(layer, 1 + place, 1) for place, layer in enumerate(gates)]
    assert relative(k.neural_path_kernel(architecture, turned, x), kernel) < 1e-12
    tiled = [torch.cat([layer, layer], 1) for layer in gates]
    found = k.neural_path_kernel(chain(maps, 6), tiled, x) / 2**3
    assert relative(found, kernel) < 1e-12
    if maps:
        shifted = [gates[0], torch.roll(gates[1], (1, 1), (2, 3)), gates[2]]
        assert relative(k.neural_path_kernel(architecture, shifted, x), kernel) > 1e-3


def test_for_dense_networks_the_npk_is_gram_times_overlap() -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = draw_images(architecture, 5), random_gates(architecture, 5, hard=True)
    product = k.input_gram(x)
    for layer in gates:
        product = product * k.layer_overlap(layer)
    torch.testing.assert_close(k.neural_path_kernel(architecture, gates, x), product, **TIGHT)


@every_architecture
def test_sensitive_overlap_is_the_sum_over_layers_with_that_layers_gates_replaced(
    name: str,
) -> None:
    architecture = ARCHITECTURES[name]
    gates = random_gates(architecture, 4, hard=True)
    sensitivities = random_gates(architecture, 4, hard=False, seed=2)
    masks = random_masks(architecture, 4)
    summed = torch.zeros((4, 4), dtype=torch.float64)
    for place, layer in enumerate(sensitivities):
        replaced = [*gates[:place], layer, *gates[place + 1 :]]
        silent = [*gates[:place], torch.zeros_like(layer), *gates[place + 1 :]]
        # Λ is affine in each τ_l: what does not pass through the layer is taken away.
        summed += k.overlap(architecture, replaced, masks=masks)
        summed -= k.overlap(architecture, silent, masks=masks)
    found = k.sensitive_overlap(architecture, gates, sensitivities, masks=masks)
    torch.testing.assert_close(found, summed, **TIGHT)


@pytest.mark.parametrize("name", ONE_GATE_A_LAYER)
def test_sensitive_overlap_is_the_derivative_of_the_overlap(name: str) -> None:
    # GGᵀ + εDDᵀ is the overlap of the gates [G, √ε D]; Λ is a polynomial in ε, fitted exactly.
    architecture = ARCHITECTURES[name]
    gates = random_gates(architecture, 3, hard=True)
    sensitivities = random_gates(architecture, 3, hard=False, seed=2)
    doubled = widened(architecture)
    degree, masks = len(gates), random_masks(architecture, 3)
    twice = [torch.cat([mask, mask], 1) for mask in masks]
    epsilons = torch.arange(degree + 1, dtype=torch.float64) / degree
    values = []
    for epsilon in epsilons:
        joined = [
            torch.cat([g, epsilon.sqrt() * d], 1) for g, d in zip(gates, sensitivities, strict=True)
        ]
        values.append(k.overlap(doubled, joined, masks=twice))
    powers = torch.linalg.vander(epsilons, N=degree + 1)
    fitted = torch.linalg.solve(powers, torch.stack(values).flatten(1))
    found = k.sensitive_overlap(architecture, gates, sensitivities, masks=masks)
    torch.testing.assert_close(found, fitted[1].reshape(3, 3), rtol=1e-9, atol=1e-10)


def widened(architecture: Architecture) -> Architecture:
    """The same geometry with every hidden layer twice as wide."""
    nodes, shape = [], architecture.input_shape
    first = True
    for node in architecture.nodes:
        if isinstance(node, (Conv, Dense)):
            fields = dict(node.__dict__)
            if not first:
                fields["inputs"] = 2 * node.inputs
            if node.gated:
                fields["outputs"] = 2 * node.outputs
            node, first = type(node)(**fields), False
        nodes.append(node)
    return Architecture(shape, tuple(nodes))


@pytest.mark.wide(4)
@every_architecture
def test_path_kernels_are_symmetric_and_positive_semidefinite(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = draw_images(architecture, 6), random_gates(architecture, 6, hard=True)
    masks = random_masks(architecture, 6)
    for kernel in (
        k.neural_path_kernel(architecture, gates, x, masks=masks),
        k.overlap(architecture, gates, masks=masks),
        k.sensitive_overlap(architecture, gates, gates, masks=masks),
    ):
        assert torch.equal(kernel, kernel.T)
        assert float(torch.linalg.eigvalsh(kernel)[0]) >= -1e-10 * float(kernel.trace())


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1), (2, 1, 0)])
def test_the_npk_of_a_dense_network_does_not_see_the_order_of_its_layers(
    order: tuple[int, ...],
) -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = draw_images(architecture, 4), random_gates(architecture, 4, hard=True)
    H = k.neural_path_kernel(architecture, gates, x)
    permuted = k.neural_path_kernel(architecture, [gates[i] for i in order], x)
    torch.testing.assert_close(permuted, H, **TIGHT)


def test_circular_padding_and_pooling_make_the_npk_blind_to_shifts() -> None:
    nodes = tuple(Conv(2, 2, circular=True) for _ in range(3))
    architecture = Architecture((2, 4, 3), (*nodes, GlobalAveragePool(), Dense(2, 2, gated=False)))
    x, gates = draw_images(architecture, 3), random_gates(architecture, 3, hard=True)
    H = k.neural_path_kernel(architecture, gates, x)
    rolled = [torch.roll(t, (1, 2), dims=(2, 3)) for t in (x, *gates)]
    moved = k.neural_path_kernel(architecture, rolled[1:], rolled[0])
    torch.testing.assert_close(moved, H, **TIGHT)
    pairs = zip(rolled, (x, *gates), strict=True)
    first = [torch.cat([moved[:1], still[1:]]) for moved, still in pairs]
    torch.testing.assert_close(k.neural_path_kernel(architecture, first[1:], first[0]), H, **TIGHT)


@every_architecture
def test_the_normalisations_are_scalings_of_the_plain_kernel(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = draw_images(architecture, 4), random_gates(architecture, 4, hard=False)
    masks = random_masks(architecture, 4)
    H = k.neural_path_kernel(architecture, gates, x, masks=masks)
    by_width = k.neural_path_kernel(architecture, gates, x, "width", masks)
    torch.testing.assert_close(by_width, counted_by_width(architecture, gates, x, masks), **TIGHT)
    by_trace = k.neural_path_kernel(architecture, gates, x, "trace", masks)
    torch.testing.assert_close(by_trace, H / H.trace(), **TIGHT)
    cosine = k.neural_path_kernel(architecture, gates, x, "cosine", masks)
    root = H.diagonal().sqrt()
    torch.testing.assert_close(cosine, H / root[:, None] / root[None, :], **TIGHT)


def counted_by_width(
    architecture: Architecture, gates: list[Tensor], x: Tensor, masks: list[Tensor]
) -> Tensor:
    """Every sub-network's path kernel divided by the widths of its own hidden layers."""
    total = torch.zeros((len(x), len(x)), dtype=torch.float64)
    for chain, places, pooled, scale in without_skips(architecture):
        own = [masks[place] for place in pooled]
        phi = scale * chain_features(chain, [gates[place] for place in places], x, own)
        total += phi @ phi.T / prod(layer.outputs for layer in chain.weight_layers[:-1])
    return total


@pytest.mark.parametrize("how", ["trace", "cosine", "width"])
def test_a_deep_wide_network_in_float32_does_not_overflow(how: k.Normalise) -> None:
    layers = [Dense(4, 512), *[Dense(512, 512) for _ in range(120)]]
    architecture = Architecture((4,), (*layers, Dense(512, 2, gated=False)))
    gates = [torch.ones((3, 512)) for _ in layers]
    kernel = k.neural_path_kernel(architecture, gates, torch.ones((3, 4)), how)
    assert bool(torch.isfinite(kernel).all())
    assert float(kernel[0, 0]) > 0


def test_an_example_with_no_active_path_is_empty_not_wrong() -> None:
    architecture = ARCHITECTURES["fc-deep"]
    gates = [torch.ones((3, 3)) for _ in range(3)]
    gates[1][1] = 0.0
    unit = k.overlap(architecture, gates, "cosine")
    assert bool(unit[1].isnan().all())
    assert bool(unit[:, 1].isnan().all())
    torch.testing.assert_close(unit[::2, ::2], torch.ones((2, 2), dtype=torch.float64))


@pytest.mark.wide(4)
@every_architecture
def test_single_precision_gates_give_the_double_precision_overlap(name: str) -> None:
    architecture = ARCHITECTURES[name]
    gates = random_gates(architecture, 4, hard=True)
    masks = random_masks(architecture, 4)
    exact = k.overlap(architecture, gates, masks=masks)
    single = k.overlap(architecture, [layer.float() for layer in gates], masks=masks)
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, exact, rtol=1e-6, atol=0.0)


def test_a_layers_overlap_averages_the_positions_of_a_map() -> None:
    maps = torch.randn((3, 2, 4, 5), dtype=torch.float64)
    expected = torch.einsum("ncyx,mcyx->nm", maps, maps) / 20
    torch.testing.assert_close(k.layer_overlap(maps), expected, **TIGHT)
    torch.testing.assert_close(k.layer_sensitivity(maps), expected, **TIGHT)


def test_the_cost_of_a_path_kernel_is_the_work_of_its_layers() -> None:
    """Of 3 examples 9 pairs of vectors, 6 of maps; it grows with the pairs."""
    dense = Architecture((7,), (Dense(7, 5), Dense(5, 2, gated=False)))
    maps = Architecture((2, 4, 3), (Conv(2, 5), GlobalAveragePool(), Dense(5, 2, gated=False)))
    assert k.npk_cost(dense, 3) == 9 * 2 * (7 + 5)
    assert k.npk_cost(maps, 3) == 6 * (2 * 2 * 12**2 + 2 * 5 * 12**2 + 2 * 3 * 30**2)
    for architecture in ARCHITECTURES.values():
        for cost in (k.npk_cost, k.ntk_cost):
            assert cost(architecture, 20) > 2 * cost(architecture, 10) > 0
