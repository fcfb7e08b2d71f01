"""Tiles after the first, a last partial one, and the cut-offs, with thresholds set small."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.kernels import cntk, contraction, gram, infinite, ntk, recursion, slabs
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten, GlobalAveragePool
from dgn_engine.model.wiring import Route
from tests.engine.kernels.tiny import ARCHITECTURES, images, make_network, random_gates

TIGHT = {"rtol": 1e-10, "atol": 1e-11}
N = 13  # tiles of 4 leave one row over
CPU, CARD = torch.device("cpu"), torch.device("cuda")


def edges(tiles: Sequence[slice]) -> list[tuple[int, int]]:
    return [(tile.start, tile.stop) for tile in tiles]


def test_tiles_of_rows_keep_to_the_budget_and_end_with_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gram, "TILE_ITEMS", 100)
    monkeypatch.setattr(gram, "ROWS_AT_LEAST", 12)
    assert edges(list(gram.row_tiles(7, 30, CPU, symmetric=False))) == [(0, 3), (3, 6), (6, 7)]
    assert edges(list(gram.row_tiles(6, 30, CPU, symmetric=False))) == [(0, 3), (3, 6)]
    assert edges(list(gram.row_tiles(3, 500, CPU, symmetric=False))) == [(0, 1), (1, 2), (2, 3)]
    # symmetric: at least 12 rows, or n / 8
    assert edges(list(gram.row_tiles(30, 1, CPU))) == [(0, 12), (12, 24), (24, 30)]
    assert edges(list(gram.row_tiles(1000, 1, CPU)))[:2] == [(0, 100), (100, 200)]
    monkeypatch.setattr(gram, "TILE_ITEMS", 10**6)
    assert edges(list(gram.row_tiles(1000, 1, CPU)))[:2] == [(0, 125), (125, 250)]
    monkeypatch.setattr(gram, "ROWS_ON_A_CARD", 700)
    assert edges(list(gram.row_tiles(1000, 1, CARD))) == [(0, 700), (700, 1000)]


@pytest.mark.parametrize("lead", [(), (2,)])
def test_the_upper_half_is_mirrored_across_tiles(
    lead: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gram, "TILE_ITEMS", 4 * N)
    whole = torch.randn((*lead, N, N), dtype=torch.float64)
    upper = whole.triu()
    expected = upper + whole.triu(1).mT
    gram.mirror(upper)
    assert torch.equal(upper, expected)


def logits_of(network: torch.nn.Module, parameters: Sequence[Tensor], x: Tensor) -> Tensor:
    """Gradients (m, C, parameters) of the logits by autograd, an example and a logit at a time."""
    rows = []
    for one in x:
        logits = network(one[None])[0]
        slopes = [
            torch.autograd.grad(logit, parameters, retain_graph=True, allow_unused=True)
            for logit in logits
        ]
        flat = [
            torch.cat(
                [
                    (torch.zeros_like(p) if s is None else s).flatten()
                    for p, s in zip(parameters, slope, strict=True)
                ]
            )
            for slope in slopes
        ]
        rows.append(torch.stack(flat))
    return torch.stack(rows)


JOINED: dict[k.Logits, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": lambda a, b: torch.einsum("scp,tcp->st", a, b) / a.shape[1],
    "sumlogit": lambda a, b: torch.einsum("scp,tdp->st", a, b),
    "perclass": lambda a, b: torch.einsum("scp,tcp->cst", a, b),
    "full": lambda a, b: torch.einsum("scp,tdp->sctd", a, b),
}


@pytest.mark.parametrize("mode", list(JOINED))
@pytest.mark.parametrize("name", ["fc-deep", "conv-gap", "residual-conv", "stride-flatten"])
@pytest.mark.parametrize("turned", [False, True])
def test_tangent_kernels_in_many_tiles_are_products_of_gradients(
    name: str, mode: k.Logits, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    architecture = ARCHITECTURES[name]
    network = make_network(architecture, own=False, soft=True, bias=True)
    if turned:
        network.routes = tuple(
            Route(1, (1, 1) if len(shape) == 3 else (0, 0)) for shape in architecture.gated_shapes
        )
    x, other = images(architecture, N), images(architecture, 6, seed=4)
    monkeypatch.setattr(gram, "ROWS_AT_LEAST", 4)
    monkeypatch.setattr(gram, "TILE_ITEMS", 70)
    monkeypatch.setattr(contraction, "TILE_ITEMS", 70)
    monkeypatch.setattr(contraction, "CACHED", 60)
    monkeypatch.setattr(ntk, "DENSE_BYTES", 1)  # one logit at a time
    monkeypatch.setattr(ntk, "MAP_BYTES", 1)
    parts = [list(network.value.parameters()), list(network.feature.parameters())]
    ours = [logits_of(network, part, x) for part in parts]
    theirs = [logits_of(network, part, other) for part in parts]
    found, block = (
        k.tangent_kernels(network, x, mode),
        k.tangent_kernels(network, x, mode, other=other),
    )
    assert found.feature is not None
    assert block.feature is not None
    for place, (square, across) in enumerate(
        ((found.value, block.value), (found.feature, block.feature))
    ):
        torch.testing.assert_close(square, JOINED[mode](ours[place], ours[place]), **TIGHT)
        torch.testing.assert_close(across, JOINED[mode](ours[place], theirs[place]), **TIGHT)


def test_logits_are_streamed_so_that_all_examples_fit_the_budget() -> None:
    architecture = Architecture((3,), (Dense(3, 5), Dense(5, 7, gated=False)))
    each = 4 * (3 * 7) * 8  # examples × three tensors of the widest layer × bytes
    for fit in (1, 2, 3, 7):
        wanted = [(left, min(7, left + fit)) for left in range(0, 7, fit)]
        for spare in (0, each - 1):
            assert edges(ntk.logit_chunks(architecture, 4, 8, fit * each + spare)) == wanted
    assert len(ntk.logit_chunks(architecture, 4, 8, 0)) == 7
    maps = Architecture((2, 4, 4), (Conv(2, 3), GlobalAveragePool(), Dense(3, 5, gated=False)))
    each = 4 * (3 * 48 + 2 * 3 * 2 * 9) * 8  # and twice the weights of a convolution
    assert edges(ntk.logit_chunks(maps, 4, 8, 2 * each)) == [(0, 2), (2, 4), (4, 5)]
    assert edges(ntk.logit_chunks(maps, 4, 8, 2 * each - 1))[0] == (0, 1)


@pytest.mark.parametrize("name", ["fc-deep", "conv-gap", "residual-conv", "max-gap"])
def test_path_kernels_in_many_tiles_are_products_of_overlaps(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pair by pair in tiles of three against each pair by itself."""
    architecture = ARCHITECTURES[name]
    x = images(architecture, N)
    trace = make_network(architecture).trace(x).value
    gates, masks = trace.gates, trace.masks
    monkeypatch.setattr(gram, "ROWS_AT_LEAST", 4)
    small = 3 * 8 * recursion.pair_numbers(architecture)
    for spare in (0, 7):
        inputs = k.PathInputs(gates, x, masks, gates)
        found = recursion.path_recursion(architecture, inputs, tile_bytes=small + spare)
        assert found.derivative is not None
        for s, t in itertools.product(range(N), repeat=2):
            rows = [s, t]
            some = [g[rows] for g in gates]
            inputs = k.PathInputs(some, x[rows], [mask[rows] for mask in masks], some)
            pair = recursion.path_recursion(architecture, inputs)
            assert pair.derivative is not None
            torch.testing.assert_close(found.kernel[s, t], pair.kernel[0, 1], **TIGHT)
            torch.testing.assert_close(found.derivative[s, t], pair.derivative[0, 1], **TIGHT)


def test_pairs_are_tiled_row_by_row_and_bounded() -> None:
    chain = ARCHITECTURES["conv-gap"]
    numbers = recursion.pair_numbers(chain)
    tiles = list(recursion._tiles(chain, gram.KernelBlock.whole(5), 8, 2 * 8 * numbers))
    by_hand = [
        (0, (0, 2)),
        (0, (2, 4)),
        (0, (4, 5)),
        (1, (1, 3)),
        (1, (3, 5)),
        (2, (2, 4)),
        (2, (4, 5)),
        (3, (3, 5)),
        (4, (4, 5)),
    ]
    assert [(row, (columns.start, columns.stop)) for row, columns in tiles] == by_hand
    assert (
        len(list(recursion._tiles(chain, gram.KernelBlock.whole(5), 8, 2 * 8 * numbers - 1))) == 15
    )


GAP = Architecture(
    (2, 4, 4), (Conv(2, 3), Conv(3, 3), GlobalAveragePool(), Dense(3, 1, gated=False))
)
FLAT = Architecture((2, 4, 4), (Conv(2, 3), Flatten(), Dense(48, 1, gated=False)))


@pytest.mark.parametrize("architecture", [GAP, FLAT])
def test_a_convolutional_limit_in_many_tiles_is_the_one_of_each_pair(
    architecture: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = images(architecture, 7)
    monkeypatch.setattr(cntk, "map_limits", lambda *_: None)
    pairs = {}
    for s, t in itertools.combinations(range(7), 2):
        pairs[s, t] = k.convolutional_limit(architecture, x[[s, t]])
    positions = 16 if architecture is FLAT else 256
    monkeypatch.setattr(cntk, "TILE_BYTES", 3 * 8 * positions + 5)
    variances = cntk._variances(architecture, x)
    flat = architecture is FLAT
    at_once = cntk._pairs_at_once(variances, flat)
    of_row = [cut for row, cut in gram.KernelBlock.whole(7).stretches(at_once) if row == 2]
    assert edges(of_row) == [(2, 5), (5, 7)]
    found = k.convolutional_limit(architecture, x)
    for (s, t), pair in pairs.items():
        for one, two in ((found.tangent, pair.tangent), (found.covariance, pair.covariance)):
            torch.testing.assert_close(one[s, t], two[0, 1], **TIGHT)
            torch.testing.assert_close(one[t, s], two[0, 1], **TIGHT)
            torch.testing.assert_close(one[s, s], two[0, 0], **TIGHT)


def test_slabs_take_every_pair_once_and_count_their_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "PAIRS_AT_ONCE", 3)
    route = slabs.route(GAP)
    assert route is not None
    whole = gram.KernelBlock.whole(7)
    assert (
        route.work(whole) == (16**2 + 16**2) * 28
    )  # positions squared, two layers, pairs with s ≤ t
    seen: list[tuple[int, int]] = []
    route.fill(lambda row, cut: seen.extend((row, t) for t in range(cut.start, cut.stop)), whole)
    assert sorted(seen) == [(s, t) for s in range(7) for t in range(s, 7)]


def test_expectations_in_small_blocks_are_those_in_large_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    std = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    rho = torch.tensor([[1.0, 0.3, -0.9], [0.3, 1.0, 1.0], [-0.9, 1.0, 1.0]], dtype=torch.float64)
    pairs = [(torch.relu, torch.relu), (torch.sigmoid, torch.tanh)]
    expected, bound = infinite.expectations(pairs, std, std, rho)
    monkeypatch.setattr(
        infinite, "SAME_AT_ONCE", 2
    )  # five pairs agree: three chunks, the last of one
    monkeypatch.setattr(infinite, "BLOCK", 7)
    found, close = infinite.expectations(pairs, std, std, rho)
    assert max(bound, close) < 1e-6
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)
    angle = torch.acos(rho)  # the closed form of 2E[χχ'], diagonal and all
    arc = (torch.sin(angle) + (torch.pi - angle) * rho) / (2 * torch.pi) * torch.outer(std, std)
    torch.testing.assert_close(found[0], arc, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cutoff_is_examples_times_rounding_times_the_largest_eigenvalue(
    dtype: torch.dtype,
) -> None:
    kernel = torch.diag(torch.tensor([6.0, 2, 2, 2, 2, 2])).to(dtype)
    labels = torch.tensor([1.0, -1, 1, -1, 1, -1])
    found = k.nu(kernel, labels)
    assert found.cutoff == pytest.approx(6 * torch.finfo(dtype).eps * 6 / 16, rel=1e-9)
    assert found.value == pytest.approx(16 / 6 + 5 * 8, rel=1e-12)


def test_the_path_kernel_of_soft_gates_in_tiles_is_the_product_of_their_overlaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = images(architecture, N), random_gates(architecture, N, hard=False)
    monkeypatch.setattr(gram, "ROWS_AT_LEAST", 4)
    overlaps = torch.stack([gate @ gate.T for gate in gates]).prod(0)
    found = k.neural_path_kernel(architecture, gates, x)
    scale = found[0, 0] / ((x @ x.T) * overlaps)[0, 0]
    torch.testing.assert_close(found, (x @ x.T) * overlaps * scale, **TIGHT)
