"""Every fast road to a kernel gives what the plain one gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.kernels import contraction, gram, tangent_sweep
from dgn_engine.model.architecture import Conv
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    every_architecture,
    images,
    make_network,
    random_gates,
    random_masks,
)

TIGHT = {"rtol": 1e-11, "atol": 1e-12}
Road = Callable[[pytest.MonkeyPatch], None]


def always(answer: bool) -> Callable[..., bool]:
    return lambda *_: answer


ROADS: dict[str, Road] = {
    "grouped": lambda patch: patch.setattr(contraction, "takes_groups", always(True)),
    "windows": lambda patch: patch.setattr(contraction, "takes_groups", always(False)),
    "gradients": lambda patch: patch.setattr(tangent_sweep, "is_pairwise", always(False)),
    "pairwise": lambda patch: patch.setattr(
        tangent_sweep,
        "is_pairwise",
        lambda layer, how, *_: isinstance(layer, Conv) and how != "full",
    ),
    "one-row-tiles": lambda patch: patch.setattr(gram, "TILE_ITEMS", 1),
    "two-row-tiles": lambda patch: patch.setattr(gram, "ROWS_AT_LEAST", 2),
}


@pytest.mark.parametrize("name", ["fc-deep", "gap-circular-dense", "max-gap", "residual-conv"])
@pytest.mark.parametrize("road", list(ROADS))
@pytest.mark.parametrize("mode", ["mean", "full", "perclass"])
def test_no_road_changes_a_tangent_kernel(
    name: str, road: str, mode: k.Logits, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = make_network(ARCHITECTURES[name], bias=True, soft=True)
    x = images(network.architecture, 5)
    expected = k.tangent_kernels(network, x, mode)
    block = k.tangent_kernels(network, x[:2], mode, other=x)
    ROADS[road](monkeypatch)
    found = k.tangent_kernels(network, x, mode)
    found_block = k.tangent_kernels(network, x[:2], mode, other=x)
    for one, two in ((expected, found), (block, found_block)):
        torch.testing.assert_close(two.value, one.value, **TIGHT)
        torch.testing.assert_close(two.feature, one.feature, **TIGHT)
        torch.testing.assert_close(two.cross, one.cross, **TIGHT)


@every_architecture
def test_tangent_kernels_add_up_pairwise_in_tiles_of_one_row(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = make_network(ARCHITECTURES[name], own=False, soft=True)
    x = images(network.architecture, 5)
    expected = k.tangent_kernels(network, x).whole
    ROADS["pairwise"](monkeypatch)
    ROADS["one-row-tiles"](monkeypatch)
    torch.testing.assert_close(k.tangent_kernels(network, x).whole, expected, **TIGHT)


@every_architecture
@pytest.mark.parametrize("road", ["one-row-tiles", "two-row-tiles"])
def test_no_tile_changes_a_path_kernel(
    name: str, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 5), random_gates(architecture, 5, hard=False)
    masks = random_masks(architecture, 5)

    def kernels() -> tuple[torch.Tensor, torch.Tensor]:
        return (
            k.neural_path_kernel(architecture, gates, x, masks=masks),
            k.sensitive_overlap(architecture, gates, gates, masks=masks),
        )

    plain = kernels()
    ROADS[road](monkeypatch)
    for found, expected in zip(kernels(), plain, strict=True):
        torch.testing.assert_close(found, expected, **TIGHT)


def test_pairs_of_positions_are_chosen_for_small_maps_with_many_weights() -> None:
    wide = Conv(128, 128)
    assert contraction.is_pairwise(wide, "total", 64, 1, 4)
    assert not contraction.is_pairwise(wide, "total", 64, 1, 1024)


@pytest.mark.parametrize("faster", [True, False])
def test_either_library_multiplies_the_same(faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if faster and not torch.backends.mkldnn.is_available():
        pytest.skip("oneDNN is not built in")
    monkeypatch.setattr(gram, "onednn_is_faster", lambda: faster)
    one, two = torch.randn((40, 30)), torch.randn((20, 30))
    expected = (one.double() @ two.double().T).float()
    torch.testing.assert_close(gram.product(one, two), expected)
    torch.testing.assert_close(gram.product(one.double(), two.double()).float(), expected)


def test_a_machine_without_onednn_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> torch.Tensor:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(gram, "_onednn", missing)
    assert gram.onednn_is_faster.__wrapped__() is False
