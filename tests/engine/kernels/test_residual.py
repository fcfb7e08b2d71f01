from __future__ import annotations

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Fork,
    Gating,
    GlobalAveragePool,
    MaxPool,
    Merge,
    Node,
    Skip,
)
from tests.engine.kernels.conftest import Take
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, random_gates, random_masks
from tests.refusals import refused

BLOCKS = (Fork(), Dense(3, 3), Merge(pre=0.5, post=2.0))
TAIL = (Dense(3, 2, gated=False),)
HEAD = (Dense(1, 1, gated=False),)
RESIDUAL = [name for name, architecture in ARCHITECTURES.items() if architecture.is_residual]


def test_the_path_kernel_of_a_residual_network_is_a_product_over_its_blocks() -> None:
    architecture = ARCHITECTURES["residual-dense"]
    x, gates = draw_images(architecture, 4), random_gates(architecture, 4, hard=True)
    t = [k.layer_overlap(layer) for layer in gates]
    first = 1.2**2 * (1 + 0.7**2 * t[1] * t[2])
    second = 0.8**2 * (1 + 1.5**2 * t[3])
    expected = k.input_gram(x) * t[0] * first * second * t[4]
    found = k.neural_path_kernel(architecture, gates, x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RESIDUAL)
def test_all_sub_networks_add_up_to_the_path_kernel(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = draw_images(architecture, 4), random_gates(architecture, 4, hard=False)
    masks = random_masks(architecture, 4)
    shares = k.sub_network_shares(architecture, gates, x, masks)
    assert len(shares) == 2 ** k.residual_blocks(architecture)
    assert sum(shares.values()) == pytest.approx(1.0)
    total = torch.zeros((4, 4), dtype=torch.float64)
    for kept in shares:
        total += k.sub_network_kernel(architecture, gates, x, kept, masks)
    expected = k.neural_path_kernel(architecture, gates, x, masks=masks)
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=1e-12)


def test_a_block_whose_gates_are_closed_leaves_only_its_skip() -> None:
    architecture = Architecture((3,), (Dense(3, 3), *BLOCKS, *TAIL))
    x, gates = draw_images(architecture, 4), random_gates(architecture, 4, hard=True)
    gates[1].zero_()
    plain = Architecture((3,), (Dense(3, 3), *TAIL))
    expected = 4.0 * k.neural_path_kernel(plain, gates[:1], x)
    torch.testing.assert_close(k.neural_path_kernel(architecture, gates, x), expected)


NO_BLOCK: list[tuple[tuple[int, ...], tuple[Node, ...], str]] = [
    ((3,), (Dense(3, 3), Fork(), Dense(3, 3), *TAIL), "missing"),
    ((3,), (Dense(3, 3), Merge(), *TAIL), "missing"),
    ((3,), (Fork(), Dense(3, 2), Merge(), Dense(2, 2, gated=False)), "other-inputs"),
    ((3,), (Dense(3, 3), Skip(), *TAIL), "missing"),
    ((3,), (Fork(), Dense(3, 3), Skip(), Skip(), Merge(), *TAIL), "not-supported"),
    ((3,), (Gating(), *TAIL), "not-supported"),
    ((3,), (Fork(), Dense(3, 3), Merge(), Gating(), *TAIL), "not-supported"),
    ((3,), (Fork(), Dense(3, 3, gated=False), Merge(), *TAIL), "no-gates"),
    ((3,), (Dense(3, 3), Fork(), Dense(3, 3), Merge()), "no-gates"),
    ((1, 4, 4), (Conv(1, 1), Fork(), GlobalAveragePool(), Merge(), *HEAD), "not-supported"),
    ((1, 4, 4), (MaxPool(), Conv(1, 1), GlobalAveragePool(), *HEAD), "not-supported"),
    ((1, 4, 4), (Conv(1, 1), GlobalAveragePool(), Gating(), *HEAD), "not-supported"),
    ((1, 4, 4), (Conv(1, 1), MaxPool(padding=2), GlobalAveragePool(), *HEAD), "not-supported"),
    ((1, 4, 4), (Conv(1, 1), MaxPool(kernel=6), GlobalAveragePool(), *HEAD), "too-small"),
]


@pytest.mark.parametrize(("shape", "nodes", "kind"), NO_BLOCK)
def test_nodes_that_do_not_fit_are_refused(
    shape: tuple[int, ...], nodes: tuple[Node, ...], kind: str
) -> None:
    with refused(kind):
        Architecture(shape, nodes)


def test_a_skip_that_is_not_written_is_put_in() -> None:
    written = Architecture((3,), (Dense(3, 3), Fork(), Dense(3, 3), Skip(), Merge(), *TAIL))
    assert Architecture((3,), (Dense(3, 3), Fork(), Dense(3, 3), Merge(), *TAIL)) == written


def test_gates_after_the_additions_of_nested_blocks_multiply_each_path() -> None:
    inner = (Fork(), Dense(2, 2, gated=False), Merge(pre=0.5), Gating())
    outer = (Fork(), *inner, Skip(), Dense(2, 2, gated=False), Merge(), Gating())
    architecture = Architecture((2,), (Dense(2, 2), *outer, Dense(2, 1, gated=False)))
    x, (a, b, c) = draw_images(architecture, 3), random_gates(architecture, 3, hard=False)

    def tau(*layers: Tensor) -> Tensor:
        return k.layer_overlap(torch.stack(layers).prod(0))

    # Paths through the inner block, past it, and through the outer projection.
    paths = 0.25 * tau(a) * tau(b, c) + tau(a, b, c) + tau(a) * tau(c)
    found = k.neural_path_kernel(architecture, [a, b, c], x)
    torch.testing.assert_close(found, k.input_gram(x) * paths, rtol=1e-12, atol=1e-12)


def test_sub_networks_that_do_not_exist_are_refused() -> None:
    architecture = Architecture((3,), (Dense(3, 3), *BLOCKS, *TAIL))
    with refused("out-of-bounds"):
        k.sub_network(architecture, (1,))
    nested = Architecture((3,), (Dense(3, 3), Fork(), *BLOCKS, Merge(), *TAIL))
    with refused("not-supported"):
        k.sub_network(nested, ())


def test_as_many_blocks_as_allowed_have_their_shares(take: Take) -> None:
    take("few blocks")
    architecture = ARCHITECTURES["residual-dense"]
    x, gates = draw_images(architecture, 3), random_gates(architecture, 3, hard=True)
    shares = k.sub_network_shares(architecture, gates, x)
    assert list(shares) == [(), (0,), (1,), (0, 1)]
    assert sum(shares.values()) == pytest.approx(1.0)
    three = Architecture((3,), (Dense(3, 3), *(BLOCKS * 3), *TAIL))
    with refused("too-large"):
        k.sub_network_shares(three, random_gates(three, 2, hard=True), draw_images(three, 2))
