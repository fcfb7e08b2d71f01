from __future__ import annotations

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.architecture import Architecture, Conv, Dense, Fork, GlobalAveragePool, Merge
from dgn_engine.refusal import Refusal
from tests.kernels.tiny import ARCHITECTURES, images, random_gates

BLOCKS = (Fork(), Dense(3, 3), Merge(pre=0.5, post=2.0))
TAIL = (Dense(3, 2, gated=False),)


def test_the_path_kernel_of_a_residual_network_is_a_product_over_its_blocks() -> None:
    architecture = ARCHITECTURES["residual-dense"]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=True)
    t = [k.layer_overlap(layer) for layer in gates]
    first = 1.2**2 * (1 + 0.7**2 * t[1] * t[2])
    second = 0.8**2 * (1 + 1.5**2 * t[3])
    expected = k.input_gram(x) * t[0] * first * second * t[4]
    found = k.neural_path_kernel(architecture, gates, x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["residual-dense", "residual-conv"])
def test_all_sub_networks_add_up_to_the_path_kernel(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=False)
    shares = k.sub_network_shares(architecture, gates, x)
    assert len(shares) == 2 ** k.residual_blocks(architecture)
    assert sum(shares.values()) == pytest.approx(1.0)
    total = torch.zeros((4, 4), dtype=torch.float64)
    for kept in shares:
        total += k.sub_network_kernel(architecture, gates, x, kept)
    expected = k.neural_path_kernel(architecture, gates, x)
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
    ],
)
def test_blocks_that_do_not_fit_are_refused(nodes: tuple[Dense, ...], words: str) -> None:
    with pytest.raises(Refusal, match=words):
        Architecture((3,), nodes)


def test_pooling_inside_a_block_is_refused() -> None:
    nodes = (Conv(1, 1), Fork(), GlobalAveragePool(), Merge(), Dense(1, 1, gated=False))
    with pytest.raises(Refusal, match="inside a block"):
        Architecture((1, 3, 3), nodes)


def test_sub_networks_that_do_not_exist_are_refused() -> None:
    architecture = Architecture((3,), (Dense(3, 3), *BLOCKS, *TAIL))
    with pytest.raises(Refusal, match=r"Blocks \[1\]"):
        k.sub_network(architecture, (1,))
    many = Architecture((3,), (Dense(3, 3), *(BLOCKS * 13), *TAIL))
    x, gates = images(many, 2), random_gates(many, 2, hard=True)
    with pytest.raises(Refusal, match=r"2\^13"):
        k.sub_network_shares(many, gates, x)
    nested = Architecture((3,), (Dense(3, 3), Fork(), *BLOCKS, Merge(), *TAIL))
    with pytest.raises(Refusal, match="nested"):
        k.sub_network(nested, ())
