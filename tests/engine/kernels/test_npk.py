from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels.recursion import path_recursion
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Flatten,
    Fork,
    Gating,
    GlobalAveragePool,
    MaxPool,
    Merge,
)
from tests.engine.kernels.enumeration import bundles, chain_features, features, without_skips
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    ONE_GATE_A_LAYER,
    every_architecture,
    images,
    make_network,
    random_gates,
    random_masks,
)

TIGHT = {"rtol": 1e-12, "atol": 1e-12}


@every_architecture
@pytest.mark.parametrize("hard", [True, False])
def test_the_npk_counts_every_bundle_of_paths(name: str, hard: bool) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard)
    masks = random_masks(architecture, 4)
    phi = features(architecture, gates, x, masks)
    found = k.neural_path_kernel(architecture, gates, x, masks=masks)
    torch.testing.assert_close(found, phi @ phi.T, **TIGHT)


@every_architecture
@pytest.mark.parametrize("hard", [True, False])
def test_the_overlap_counts_active_bundles_per_input_unit(name: str, hard: bool) -> None:
    architecture = ARCHITECTURES[name]
    gates = random_gates(architecture, 4, hard)
    masks = random_masks(architecture, 4)
    phi = features(architecture, gates, torch.ones_like(images(architecture, 4)), masks)
    counted = (phi @ phi.T) / architecture.weighted[0].inputs
    if isinstance(architecture.weighted[0], Dense):  # Λ = Π τ_l, whatever pools the image first
        counted /= architecture.pooled_paths**2
    torch.testing.assert_close(k.overlap(architecture, gates, masks=masks), counted, **TIGHT)


def test_the_number_of_bundles_is_the_papers() -> None:
    assert len(bundles(ARCHITECTURES["fc-deep"])) == 3 * 3**3
    assert len(bundles(ARCHITECTURES["conv-gap"])) == 648


def test_for_dense_networks_the_npk_is_gram_times_overlap() -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = images(architecture, 5), random_gates(architecture, 5, hard=True)
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


@every_architecture
def test_the_npk_grows_with_the_product_of_the_inputs_scales(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=True)
    scale = torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64)
    scaled = x * scale.reshape(-1, *[1] * (x.dim() - 1))
    masks = random_masks(architecture, 4)
    H = k.neural_path_kernel(architecture, gates, x, masks=masks)
    expected = H * scale[:, None] * scale[None, :]
    found = k.neural_path_kernel(architecture, gates, scaled, masks=masks)
    torch.testing.assert_close(found, expected, **TIGHT)


@every_architecture
def test_path_kernels_are_symmetric_and_positive_semidefinite(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 6), random_gates(architecture, 6, hard=True)
    masks = random_masks(architecture, 6)
    for kernel in (
        k.neural_path_kernel(architecture, gates, x, masks=masks),
        k.overlap(architecture, gates, masks=masks),
        k.sensitive_overlap(architecture, gates, gates, masks=masks),
    ):
        assert torch.equal(kernel, kernel.T)
        assert float(torch.linalg.eigvalsh(kernel)[0]) >= -1e-10 * float(kernel.trace())


@settings(max_examples=20, deadline=None)
@given(st.permutations([0, 1, 2]), st.integers(0, 1000))
def test_the_npk_of_a_dense_network_does_not_see_the_order_of_its_layers(
    order: list[int], seed: int
) -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=True, seed=seed)
    H = k.neural_path_kernel(architecture, gates, x)
    permuted = k.neural_path_kernel(architecture, [gates[i] for i in order], x)
    torch.testing.assert_close(permuted, H, **TIGHT)


def test_circular_padding_and_pooling_make_the_npk_blind_to_shifts() -> None:
    nodes = tuple(Conv(2, 2, circular=True) for _ in range(3))
    architecture = Architecture((2, 4, 3), (*nodes, GlobalAveragePool(), Dense(2, 2, gated=False)))
    x, gates = images(architecture, 3), random_gates(architecture, 3, hard=True)
    H = k.neural_path_kernel(architecture, gates, x)
    rolled = [torch.roll(t, (1, 2), dims=(2, 3)) for t in (x, *gates)]
    moved = k.neural_path_kernel(architecture, rolled[1:], rolled[0])
    torch.testing.assert_close(moved, H, **TIGHT)
    pairs = zip(rolled, (x, *gates), strict=True)
    first = [torch.cat([moved[:1], still[1:]]) for moved, still in pairs]
    torch.testing.assert_close(k.neural_path_kernel(architecture, first[1:], first[0]), H, **TIGHT)


@every_architecture
@pytest.mark.parametrize("bytes_per_tile", [1, 10_000])
def test_the_size_of_a_tile_changes_nothing(name: str, bytes_per_tile: int) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 5), random_gates(architecture, 5, hard=False)
    masks = random_masks(architecture, 5)
    inputs = k.PathInputs(gates, x, masks)
    whole = path_recursion(architecture, inputs).kernel
    tiled = path_recursion(architecture, inputs, tile_bytes=bytes_per_tile).kernel
    torch.testing.assert_close(tiled, whole, **TIGHT)


@every_architecture
def test_the_normalisations_are_scalings_of_the_plain_kernel(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=False)
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
        total += phi @ phi.T / prod(layer.outputs for layer in chain.weighted[:-1])
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


def test_gates_of_a_real_network_go_straight_in() -> None:
    network = make_network(ARCHITECTURES["conv-gap"], own=False, soft=True, wiring=(1, 0))
    x = images(network.architecture, 3)
    trace = network.trace(x)
    gates = list(trace.value.gates)
    phi = features(network.architecture, gates, x)
    H = k.neural_path_kernel(network.architecture, trace.value.gates, x)
    torch.testing.assert_close(H, (phi @ phi.T).detach(), **TIGHT)


def test_gates_and_inputs_that_do_not_fit_are_refused_by_layer() -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=True)
    with pytest.raises(UserError, match="2 gates were given; the network has 3 gate layers"):
        k.overlap(architecture, gates[:2])
    with pytest.raises(UserError, match=r"Layer 1 of gates has shape \(4, 2\)"):
        k.overlap(architecture, [gates[0], gates[1][:, :2], gates[2]])
    with pytest.raises(UserError, match=r"x_value has shape \(4, 2\)"):
        k.neural_path_kernel(architecture, gates, x[:, :2])
    with pytest.raises(UserError, match="1 masks were given; the network has 0 max poolings"):
        k.overlap(architecture, gates, masks=[torch.zeros(1)])
    with pytest.raises(UserError, match="normalise is 'max'"):
        k.overlap(architecture, gates, "max")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("architecture", "work"),
    [
        # Of 3 examples 6 pairs are computed where there are maps, all 9 of vectors.
        (Architecture((7,), (Dense(7, 5), Dense(5, 2, gated=False))), 9 * 2 * (7 + 5)),
        (
            Architecture((2, 4, 3), (Conv(2, 5), GlobalAveragePool(), Dense(5, 2, gated=False))),
            6 * (2 * 2 * 12**2 + 2 * 5 * 12**2 + 2 * 3 * 30**2),
        ),
        (
            Architecture(
                (2, 4, 4),
                (Conv(2, 5), MaxPool(), Flatten(), Dense(20, 3), Dense(3, 2, gated=False)),
            ),
            6 * (2 * 2 * 16**2 + 2 * 5 * 16**2 + 2 * 3 * 36**2 + 8 * 5 * 4**2) + 9 * 2 * 3,
        ),
        (
            Architecture(
                (1, 3, 3),
                (
                    *(Conv(1, 2, kernel=1, padding=0), Fork()),
                    *(Conv(2, 2, kernel=1, padding=0, gated=False), Merge(), Gating()),
                    *(GlobalAveragePool(), Dense(2, 2, gated=False)),
                ),
            ),
            6 * (2 * 9**2 + 2 * (2 * 2 * 9**2 + 2 * 9**2) + 2 * 2 * 9**2),
        ),
    ],
)
def test_the_cost_of_a_path_kernel_is_the_work_of_its_layers(
    architecture: Architecture, work: int
) -> None:
    """Σ, then of each pair of positions the channels that meet and the window's sums; a gate after
    a sum meets every channel again, and pooling looks at each pair of windows."""
    assert k.npk_cost(architecture, 3) == work
