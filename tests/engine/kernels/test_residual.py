from __future__ import annotations

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels import residual
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
from tests.engine.kernels.tiny import ARCHITECTURES, images, random_gates, random_masks

BLOCKS = (Fork(), Dense(3, 3), Merge(pre=0.5, post=2.0))
TAIL = (Dense(3, 2, gated=False),)
RESIDUAL = [name for name, architecture in ARCHITECTURES.items() if architecture.residual]


def test_the_path_kernel_of_a_residual_network_is_a_product_over_its_blocks() -> None:
    architecture = ARCHITECTURES["residual-dense"]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=True)
    t = [k.layer_overlap(layer) for layer in gates]
    first = 1.2**2 * (1 + 0.7**2 * t[1] * t[2])
    second = 0.8**2 * (1 + 1.5**2 * t[3])
    expected = k.input_gram(x) * t[0] * first * second * t[4]
    found = k.neural_path_kernel(architecture, gates, x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RESIDUAL)
def test_all_sub_networks_add_up_to_the_path_kernel(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=False)
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
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=True)
    gates[1].zero_()
    plain = Architecture((3,), (Dense(3, 3), *TAIL))
    expected = 4.0 * k.neural_path_kernel(plain, gates[:1], x)
    torch.testing.assert_close(k.neural_path_kernel(architecture, gates, x), expected)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((Dense(3, 3), Fork(), Dense(3, 3), *TAIL), "not closed"),
        ((Dense(3, 3), Merge(), *TAIL), "no Fork"),
        ((Fork(), Dense(3, 2), Merge(), Dense(2, 2, gated=False)), "shapes must be equal"),
        ((Dense(3, 3), Skip(), *TAIL), r"Node 1 \(Skip\) has no Fork"),
        ((Fork(), Dense(3, 3), Skip(), Skip(), Merge(), *TAIL), "second skip"),
        ((Gating(), *TAIL), "begin with weights"),
        ((Fork(), Dense(3, 3), Merge(), Gating(), *TAIL), "begin with weights"),
        ((Fork(), Dense(3, 3, gated=False), Merge(), *TAIL), "needs gated layers"),
        ((Dense(3, 3), Fork(), Dense(3, 3), Merge()), "needs gated layers"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(nodes: tuple[Node, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Architecture((3,), nodes)


def test_pooling_inside_a_block_is_refused() -> None:
    nodes = (Conv(1, 1), Fork(), GlobalAveragePool(), Merge(), Dense(1, 1, gated=False))
    with pytest.raises(UserError, match="inside a block"):
        Architecture((1, 3, 3), nodes)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((MaxPool(), Conv(1, 1)), "begin with weights"),
        ((Conv(1, 1), GlobalAveragePool(), Gating()), "must be followed by weights"),
        ((Conv(1, 1), MaxPool(padding=2)), "half of its window"),
        ((Conv(1, 1), MaxPool(kernel=6)), "as large as its window"),
    ],
)
def test_pooling_and_gates_that_do_not_fit_are_refused(nodes: tuple[Node, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Architecture((1, 4, 4), (*nodes, GlobalAveragePool(), Dense(1, 1, gated=False)))


def test_a_skip_that_is_not_written_is_put_in() -> None:
    written = Architecture((3,), (Dense(3, 3), Fork(), Dense(3, 3), Skip(), Merge(), *TAIL))
    assert Architecture((3,), (Dense(3, 3), Fork(), Dense(3, 3), Merge(), *TAIL)) == written


def test_gates_after_the_additions_of_nested_blocks_multiply_each_path() -> None:
    inner = (Fork(), Dense(2, 2, gated=False), Merge(pre=0.5), Gating())
    outer = (Fork(), *inner, Skip(), Dense(2, 2, gated=False), Merge(), Gating())
    architecture = Architecture((2,), (Dense(2, 2), *outer, Dense(2, 1, gated=False)))
    x, (a, b, c) = images(architecture, 3), random_gates(architecture, 3, hard=False)

    def tau(*layers: Tensor) -> Tensor:
        return k.layer_overlap(torch.stack(layers).prod(0))

    # Paths through the inner block, past it, and through the outer projection.
    paths = 0.25 * tau(a) * tau(b, c) + tau(a, b, c) + tau(a) * tau(c)
    found = k.neural_path_kernel(architecture, [a, b, c], x)
    torch.testing.assert_close(found, k.input_gram(x) * paths, rtol=1e-12, atol=1e-12)


def test_sub_networks_that_do_not_exist_are_refused() -> None:
    architecture = Architecture((3,), (Dense(3, 3), *BLOCKS, *TAIL))
    with pytest.raises(UserError, match=r"Blocks \[1\]"):
        k.sub_network(architecture, (1,))
    many = Architecture((3,), (Dense(3, 3), *(BLOCKS * 13), *TAIL))
    x, gates = images(many, 2), random_gates(many, 2, hard=True)
    with pytest.raises(UserError, match=r"2\^13"):
        k.sub_network_shares(many, gates, x)
    nested = Architecture((3,), (Dense(3, 3), Fork(), *BLOCKS, Merge(), *TAIL))
    with pytest.raises(UserError, match="nested"):
        k.sub_network(nested, ())


def test_as_many_blocks_as_allowed_have_their_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = ARCHITECTURES["residual-dense"]
    x, gates = images(architecture, 3), random_gates(architecture, 3, hard=True)
    monkeypatch.setattr(residual, "MOST_BLOCKS", 2)
    shares = k.sub_network_shares(architecture, gates, x)
    assert list(shares) == [(), (0,), (1,), (0, 1)]
    assert sum(shares.values()) == pytest.approx(1.0)
    monkeypatch.setattr(residual, "MOST_BLOCKS", 1)
    with pytest.raises(ValueError, match=r"2 blocks make 2\^2 sub-networks; 1 is the most"):
        k.sub_network_shares(architecture, gates, x)
