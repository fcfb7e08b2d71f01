"""The convolutional limit kernel slab by slab is that of the plain recursion."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.kernels import cntk, slabs
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from tests.engine.kernels.tiny import images


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the road of slabs however small the work is."""
    pytest.importorskip("numba")
    monkeypatch.setattr(cntk, "WORTH_COMPILING", 0.0)


def limits(
    architecture: Architecture, x: Tensor, patch: pytest.MonkeyPatch, plain: bool
) -> tuple[Tensor, Tensor]:
    with patch.context() as within:
        if plain:
            within.setattr(cntk, "map_limits", lambda *_: None)
        found = cntk.convolutional_limit(architecture, x)
    return found.tangent, found.covariance


def geometries() -> Iterator[Architecture]:
    sizes = itertools.product((1, 2, 3, 5), (1, 2), (0, 1), (False, True))
    for kernel, stride, padding, circular in sizes:
        first = Conv(2, 4, kernel, stride, padding, circular)
        others = (Conv(4, 4, circular=circular), Conv(4, 4, circular=circular))
        tail = (GlobalAveragePool(), Dense(4, 3), Dense(3, 1, gated=False))
        try:
            yield Architecture((2, 7, 6), (first, *others, *tail))
        except UserError:  # the map is too small for this window
            continue


@pytest.mark.usefixtures("compiled")
def test_slabs_give_the_plain_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    for architecture in geometries():
        x = images(architecture, 4)
        x[1, :, :4] = 0.0  # correlations are zero where an input is
        variances = cntk._variances(architecture, x)
        taken += cntk.map_limits(architecture, x, variances) is not None
        found = limits(architecture, x, monkeypatch, plain=False)
        expected = limits(architecture, x, monkeypatch, plain=True)
        for one, two in zip(found, expected, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=0.0)
    assert taken > 10


@pytest.mark.usefixtures("compiled")
def test_slabs_give_the_same_block_of_two_sets() -> None:
    nodes = (Conv(2, 4), Conv(4, 4), GlobalAveragePool(), Dense(4, 3), Dense(3, 1, gated=False))
    architecture = Architecture((2, 6, 5), nodes)
    x = images(architecture, 5)
    whole = cntk.convolutional_limit(architecture, x)
    block = cntk.convolutional_limit(architecture, x[3:], other=x[:3])
    torch.testing.assert_close(block.tangent, whole.tangent[3:, :3], rtol=1e-13, atol=0.0)
    torch.testing.assert_close(block.covariance, whole.covariance[3:, :3], rtol=1e-13, atol=0.0)


@pytest.mark.usefixtures("compiled")
def test_examples_that_look_the_same_agree_to_half_the_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = (Conv(2, 4), Conv(4, 4), GlobalAveragePool(), Dense(4, 1, gated=False))
    architecture = Architecture((2, 6, 5), nodes)
    x = images(architecture, 3)
    x[2] = x[1]
    x[0] = -x[1]
    found = limits(architecture, x, monkeypatch, plain=False)
    expected = limits(architecture, x, monkeypatch, plain=True)
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=0.0)


def test_other_networks_take_the_plain_road(monkeypatch: pytest.MonkeyPatch) -> None:
    pooled = (Conv(1, 2), GlobalAveragePool(), Dense(2, 1, gated=False))
    flattened = (Conv(1, 2), Flatten(), Dense(32, 1, gated=False))
    wide = (Conv(1, 2, padding=4), GlobalAveragePool(), Dense(2, 1, gated=False))
    mixed = (Conv(1, 2), Conv(2, 2, circular=True), GlobalAveragePool(), Dense(2, 1, gated=False))

    def taken(nodes: tuple[Conv | GlobalAveragePool | Flatten | Dense, ...]) -> bool:
        architecture = Architecture((1, 4, 4), nodes)
        x = images(architecture, 2)
        variances = cntk._variances(architecture, x)
        return cntk.map_limits(architecture, x, variances) is not None

    with monkeypatch.context() as patch:
        patch.setattr(slabs, "available", lambda: pytest.fail("numba was imported"))
        assert not taken(pooled)  # little work
    monkeypatch.setattr(cntk, "WORTH_COMPILING", 0.0)
    assert not any(taken(nodes) for nodes in (flattened, wide, mixed))
    monkeypatch.setattr(slabs, "available", lambda: False)
    assert not taken(pooled)
