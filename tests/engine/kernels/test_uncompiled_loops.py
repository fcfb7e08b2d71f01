"""The loops that numba compiles say as plain Python what the plain recursions say.

Where they are compiled the same is tested beside `popcount` and `cntk`; a fault of the
compiler and one of the loops are told apart by this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.kernels import cntk, popcount, recursion
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from tests.engine.kernels.tiny import images, random_gates

WINDOWS = [
    pytest.param(Conv(2, 3), id="three, padded"),
    pytest.param(Conv(2, 3, circular=True), id="three, cyclic"),
    pytest.param(Conv(2, 3, 2, 2, 0), id="two by steps of two"),
    pytest.param(Conv(2, 3, 1, 1, 0), id="one"),
]


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")

    def as_it_is(**_: object) -> Callable[[Any], Any]:
        return lambda function: function

    monkeypatch.setattr(numba, "njit", as_it_is)
    for loops in (popcount, cntk):
        uncompiled = loops.compiled_pairs.__wrapped__  # type: ignore[attr-defined]
        monkeypatch.setattr(loops, "compiled_pairs", uncompiled)
        monkeypatch.setattr(loops, "WORTH_COMPILING", 0.0)


# Bits are counted by a product that is meant to overflow.
@pytest.mark.filterwarnings("ignore:overflow encountered in scalar multiply")
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("flat", [False, True], ids=["pooled", "flat"])
@pytest.mark.parametrize("first", WINDOWS)
def test_bits_give_the_plain_path_kernel(
    first: Conv, flat: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = (4 + 2 * first.padding - first.kernel) // first.stride + 1
    last = Conv(3, 65, circular=first.circular)  # two words of bits
    head = Flatten() if flat else GlobalAveragePool()
    features = 65 * side * side if flat else 65
    nodes = (first, last, head, Dense(features, 1, gated=False))
    architecture = Architecture((2, 4, 4), nodes)
    inputs = k.PathInputs(random_gates(architecture, 3, hard=True), images(architecture, 3))
    calls: list[str] = []
    counted = popcount._count_bits
    monkeypatch.setattr(
        popcount, "_count_bits", lambda *given: (calls.append("bits"), counted(*given))
    )
    found = recursion.path_recursion(architecture, inputs).kernel
    assert calls
    monkeypatch.setattr(popcount, "packed_maps", lambda *_: None)
    plain = recursion.path_recursion(architecture, inputs).kernel
    torch.testing.assert_close(found, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("first", WINDOWS)
def test_slabs_give_the_plain_limit_kernel(first: Conv, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = (
        first,
        Conv(3, 3, circular=first.circular),
        GlobalAveragePool(),
        Dense(3, 2),
        Dense(2, 1, gated=False),
    )
    architecture = Architecture((2, 4, 4), nodes)
    x = images(architecture, 3)
    x[1] = -x[0]  # correlations below zero, down to minus one
    x[2, :, :2] = 0.0  # and none, where an input is zero
    variances = cntk._variances(architecture, x)
    assert cntk.map_limits(architecture, x, variances) is not None
    found = cntk.convolutional_limit(architecture, x)
    monkeypatch.setattr(cntk, "map_limits", lambda *_: None)
    plain = cntk.convolutional_limit(architecture, x)
    torch.testing.assert_close(found.tangent, plain.tangent, rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(found.covariance, plain.covariance, rtol=1e-8, atol=1e-12)
