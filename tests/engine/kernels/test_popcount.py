"""Path kernels on packed bits are those of the plain recursion, for every geometry it takes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels import gram, popcount, recursion, slabs
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from tests.engine.kernels.tiny import ARCHITECTURES, every_architecture, images, random_gates


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the road of bits however small the work is."""
    pytest.importorskip("numba")
    monkeypatch.setattr(popcount, "WORTH_COMPILING", 0.0)


def plain(
    architecture: Architecture, gates: list[Tensor], x: Tensor | None, patch: pytest.MonkeyPatch
) -> Tensor:
    with patch.context() as within:
        within.setattr(popcount, "packed_maps", lambda *_: None)
        return recursion.path_recursion(architecture, k.PathInputs(gates, x)).kernel


def packed(
    architecture: Architecture, gates: list[Tensor], x: Tensor
) -> popcount.PackedMaps | None:
    return popcount.packed_maps(architecture, gates, x, gram.KernelBlock.whole(len(x)))


def relative(one: Tensor, two: Tensor) -> float:
    return float((one - two).abs().max() / two.abs().max())


def geometries() -> Iterator[Architecture]:
    """Every kernel, stride, padding and head on maps of 7×6, above and below another layer."""
    sizes = itertools.product((1, 2, 3, 5), (1, 2, 3), (0, 1, 2), (False, True), (False, True))
    for kernel, stride, padding, circular, flat in sizes:
        one = Conv(2, 5, kernel, stride, padding, circular)
        two = Conv(5, 70, 3, 1, 1, circular=circular)
        head = Flatten() if flat else GlobalAveragePool()
        high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in (7, 6))
        features = 70 * high * wide if flat else 70
        try:
            yield Architecture((2, 7, 6), (one, two, head, Dense(features, 1, gated=False)))
        except UserError:  # the map is too small for this window
            continue


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", ["gap-circular-dense", "stride-flatten"])
def test_packed_bits_give_the_same_block_of_two_sets(name: str) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 5), random_gates(architecture, 5, hard=True)
    assert packed(architecture, gates, x) is not None
    train, test = (k.PathInputs([g[s] for g in gates], x[s]) for s in (slice(3), slice(3, 5)))
    whole = k.neural_path_kernel(architecture, gates, x)
    block = k.neural_path_kernel(architecture, test.gates, x[3:], other=train)
    torch.testing.assert_close(block, whole[3:, :3], rtol=1e-13, atol=0.0)


@pytest.mark.usefixtures("compiled")
def test_packed_bits_give_the_plain_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    for architecture in geometries():
        x, gates = images(architecture, 3), random_gates(architecture, 3, hard=True)
        found = packed(architecture, gates, x)
        if found is None:
            continue
        taken += 1
        kernel = recursion.path_recursion(architecture, k.PathInputs(gates, x)).kernel
        assert relative(kernel, plain(architecture, gates, x, monkeypatch)) < 1e-12
    assert taken > 70


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    "name", ["conv-gap", "gap-circular-dense", "stride-flatten", "circular-stride"]
)
def test_npk_and_overlap_take_packed_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 5), random_gates(architecture, 5, hard=True)
    npk = k.neural_path_kernel(architecture, gates, x, "width")
    overlap = k.overlap(architecture, gates, "width")
    assert relative(npk, plain(architecture, gates, x, monkeypatch)) < 1e-12
    assert relative(overlap, plain(architecture, gates, None, monkeypatch)) < 1e-12


@pytest.mark.usefixtures("compiled")
def test_a_mid_size_network_in_single_precision_with_two_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = (Conv(3, 100), Conv(100, 130), GlobalAveragePool(), Dense(130, 4, gated=False))
    architecture = Architecture((3, 8, 8), nodes)
    x = images(architecture, 20).float()
    gates = [layer.float() for layer in random_gates(architecture, 20, hard=True)]
    monkeypatch.setattr(slabs.torch, "get_num_threads", lambda: 2)
    found = recursion.path_recursion(architecture, k.PathInputs(gates, x)).kernel
    exact = [layer.double() for layer in gates]
    assert relative(found, plain(architecture, exact, x.double(), monkeypatch)) < 1e-12


@pytest.mark.usefixtures("compiled")
@every_architecture
def test_soft_gates_take_the_plain_road(name: str) -> None:
    architecture = ARCHITECTURES[name]
    gates = random_gates(architecture, 3, hard=False)
    assert packed(architecture, gates, images(architecture, 3)) is None


@pytest.mark.usefixtures("compiled")
def test_alternating_paddings_take_the_plain_road() -> None:
    nodes = (Conv(1, 2), Conv(2, 2, circular=True), GlobalAveragePool(), Dense(2, 1, gated=False))
    architecture = Architecture((1, 4, 4), nodes)
    gates = random_gates(architecture, 3, hard=True)
    assert packed(architecture, gates, images(architecture, 3)) is None


def test_little_work_or_no_numba_takes_the_plain_road(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = ARCHITECTURES["conv-gap"]
    x, gates = images(architecture, 3), random_gates(architecture, 3, hard=True)
    with monkeypatch.context() as patch:
        patch.setattr(slabs, "available", lambda: pytest.fail("numba was imported"))
        assert packed(architecture, gates, x) is None
    monkeypatch.setattr(popcount, "WORTH_COMPILING", 0.0)
    monkeypatch.setattr(slabs, "available", lambda: False)
    assert packed(architecture, gates, x) is None


def test_a_numba_that_refuses_to_be_imported_is_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # as where NumPy is too new for it
    slabs.available.cache_clear()
    try:
        assert not slabs.available()
    finally:
        monkeypatch.undo()
        slabs.available.cache_clear()
