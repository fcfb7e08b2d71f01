"""A kernel between two sets of examples is the corner of the kernel of both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.routed import NETWORKS as ROUTED
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, every_architecture, make_network
from tests.refusals import refused

EXACT = {"rtol": 1e-12, "atol": 1e-13}
TRAIN, TEST = 3, 2

Made = Callable[[], GatedNetwork]

WIRED: dict[str, Made] = {
    **ROUTED,
    "permuted": lambda: make_network(
        ARCHITECTURES["fc-deep"], own=False, soft=True, wiring=(2, 0, 1)
    ),
    "ones": lambda: make_network(ARCHITECTURES["conv-gap"], own=False, value_input="ones"),
    "random": lambda: make_network(ARCHITECTURES["conv-gap"], own=False, value_input="random"),
    "own soft gates": lambda: make_network(ARCHITECTURES["fc-deep"], bias=True, soft=True),
}


def check_corners(network: GatedNetwork) -> None:
    """Every kernel of the door, for each scale that a block has."""
    both = draw_images(network.architecture, TRAIN + TEST)
    test, train = both[TRAIN:], both[:TRAIN]
    whole, block = k.SharedKernels(network, both), k.SharedKernels(network, test, other=train)

    def equal(corner: Tensor, found: Tensor) -> None:
        torch.testing.assert_close(found, corner[TRAIN:, :TRAIN], **EXACT, equal_nan=True)

    how: k.Normalise
    for how in ("none", "width", "cosine"):
        equal(whole.overlap(how), block.overlap(how))
        equal(whole.sensitive_overlap(how), block.sensitive_overlap(how))
        equal(whole.npk(how), block.npk(how))
    equal(whole.gram, block.gram)
    if not network.own_gates:
        equal(whole.expected_value(), block.expected_value())
    for layer in range(len(whole.gates)):
        equal(whole.layer_overlap(layer), block.layer_overlap(layer))
    for part in ("value", "feature", "cross", "total_kernel"):
        one, two = getattr(whole.tangent, part), getattr(block.tangent, part)
        assert (one is None) == (two is None)
        if one is not None:
            equal(one, two)


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("soft", [False, True])
def test_every_block_is_the_corner_of_the_kernel_of_both(name: str, soft: bool) -> None:
    check_corners(make_network(ARCHITECTURES[name], own=False, soft=soft))


@pytest.mark.parametrize("name", list(WIRED))
def test_every_block_follows_the_wiring_of_the_gates(name: str) -> None:
    check_corners(WIRED[name]())


@pytest.mark.parametrize("name", ["fc-deep", "max-gap", "basic-blocks"])
def test_path_kernels_take_the_gates_of_the_other_examples(name: str) -> None:
    network = make_network(ARCHITECTURES[name], own=False)
    architecture = network.architecture
    both = draw_images(architecture, TRAIN + TEST)
    all_, test, train = (
        k.PathInputs.from_network(network, x) for x in (both, both[TRAIN:], both[:TRAIN])
    )
    one, two = ((p.gates, p.x_value, "none", p.masks) for p in (all_, test))
    corner = (slice(TRAIN, None), slice(None, TRAIN))
    expected = k.neural_path_kernel(architecture, *one)
    torch.testing.assert_close(
        k.neural_path_kernel(architecture, *two, other=train), expected[corner], **EXACT
    )
    generators = [torch.Generator().manual_seed(0) for _ in range(2)]
    estimates = [
        k.estimate_path_kernel(
            architecture, part.gates, part.x_value, 5, generator, "width", part.masks, other
        )
        for part, generator, other in zip((all_, test), generators, (None, train), strict=True)
    ]
    torch.testing.assert_close(estimates[1].kernel, estimates[0].kernel[corner], **EXACT)
    torch.testing.assert_close(estimates[1].error, estimates[0].error[corner], **EXACT)


def test_sub_networks_of_a_block_add_up_to_its_path_kernel() -> None:
    network = make_network(ARCHITECTURES["residual-dense"], own=False)
    architecture = network.architecture
    x = draw_images(architecture, TRAIN + TEST)
    test, train = (
        k.PathInputs.from_network(network, x[TRAIN:]),
        k.PathInputs.from_network(network, x[:TRAIN]),
    )
    parts = [
        k.sub_network_kernel(architecture, test.gates, x[TRAIN:], kept, other=train)
        for kept in ((), (0,), (1,), (0, 1))
    ]
    whole = k.neural_path_kernel(architecture, test.gates, x[TRAIN:], other=train)
    torch.testing.assert_close(sum(parts), whole, **EXACT)


def test_a_block_has_no_trace() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    x = draw_images(network.architecture, TRAIN)
    shared = k.SharedKernels(network, x, other=x)
    for kernel in (shared.npk, shared.overlap, shared.sensitive_overlap):
        with pytest.raises(ValueError, match="has no trace"):
            kernel("trace")


def test_gates_that_no_network_makes_have_no_block_with_other_inputs() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    x = draw_images(network.architecture, TRAIN)
    drawn = network.with_gates(tuple(torch.ones(TRAIN, *s) for s in ((3,), (3,), (3,))))
    for ask in (k.SharedKernels, k.tangent_kernels):
        with pytest.raises(ValueError, match="FRG"):
            ask(drawn, x, other=x)


def test_other_inputs_that_do_not_fit_are_refused() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    architecture = network.architecture
    paths = k.PathInputs.from_network(network, draw_images(architecture, TRAIN))
    narrow = [gates[:, :2] for gates in paths.gates]
    for gates, kind in ((paths.gates[:2], "wrong-length"), (narrow, "wrong-shape")):
        with refused(kind):
            k.overlap(architecture, paths.gates, other=k.PathInputs(gates, paths.x_value))
    for ask, x in ((k.neural_path_kernel, paths.x_value), (k.sensitive_overlap, paths.gates)):
        with pytest.raises(ValueError, match=r"x_value|sensitivities"):
            ask(architecture, paths.gates, x, other=k.PathInputs(paths.gates))
