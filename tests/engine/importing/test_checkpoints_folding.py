"""BatchNorm in evaluation becomes part of its layer: the same numbers come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dgn_engine.importing.fold_batchnorm import fold_normalisation
from dgn_engine.importing.match_layers import match_layers
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents, natural_key
from tests.engine.importing.torch_networks import state_arrays, with_trained_statistics


def sequential(**how: object) -> nn.Module:
    return with_trained_statistics(
        nn.Sequential(
            nn.Conv2d(3, 5, 3, padding=1, bias=bool(how.get("bias", True))),
            nn.BatchNorm2d(5, affine=bool(how.get("affine", True))),
            nn.ReLU(),
            nn.Conv2d(5, 7, 3, padding=1, bias=False),
            nn.BatchNorm2d(7),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(7, 2),
        )
    )


def listing(arrays: dict[str, Array]) -> CheckpointContents:
    """Of a file whose ε is said."""
    return CheckpointContents("bn.pt", arrays, {}, reading=FileReading(norm_eps=1e-5))


CNN = Architecture(
    (3, 6, 6), (Conv(3, 5), Conv(5, 7), GlobalAveragePool(), Dense(7, 2, gated=False))
)


@pytest.mark.wide
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_what_enters_the_gates_is_the_same_after_folding(affine: bool, bias: bool) -> None:
    network = sequential(affine=affine, bias=bias)
    found = listing(state_arrays(network))
    match = match_layers(found, CNN)
    assert match.fits
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64)
    hidden = x
    for place, (weight, shift) in enumerate(zip(match.weights[:2], match.biases[:2], strict=True)):
        assert shift is not None
        wanted = network[: 3 * place + 2](x)  # type: ignore[index]  # it is a Sequential
        hidden = torch.conv2d(
            hidden, torch.from_numpy(weight), torch.from_numpy(shift), padding="same"
        )
        torch.testing.assert_close(hidden, wanted, rtol=1e-12, atol=1e-12)
        hidden = hidden.relu()


def test_the_verdict_says_that_and_how_it_was_folded() -> None:
    match = match_layers(listing(state_arrays(sequential())), CNN)
    assert [row.remark.partition(" ")[0] for row in match.rows] == ["1", "4", "with"]
    assert "1e-05" in match.verdict


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv2, self.bn2 = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.conv10, self.bn10 = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)
        self.fc1, self.norm_fc = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 2)


@pytest.mark.parametrize("key", [str, natural_key])
def test_names_tell_the_layer_where_the_order_is_the_alphabet_s(key: Callable[[str], Any]) -> None:
    """A safetensors file has bn10, bn2, conv10, conv2; others have bn2 before bn10."""
    arrays = state_arrays(with_trained_statistics(Named()))
    shuffled = {name: arrays[name] for name in sorted(arrays, key=key)}
    del shuffled["norm_fc.running_var"]  # not a whole BatchNorm: it stays
    folding = fold_normalisation(shuffled)
    assert folding.into == {"conv2.weight": "bn2", "conv10.weight": "bn10"}
    assert "norm_fc.running_mean" in folding.arrays


def test_a_batchnorm_right_behind_a_layer_belongs_to_it_whatever_its_name() -> None:
    folding = fold_normalisation(state_arrays(with_trained_statistics(Named())))
    assert folding.into["fc1.weight"] == "norm_fc"
    assert len(folding.into) == 3


def test_a_batchnorm_before_every_layer_is_not_folded() -> None:
    network = with_trained_statistics(
        nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    )
    folding = fold_normalisation(state_arrays(network))
    assert folding.into == {}
    fc = Architecture((4,), (Dense(4, 4), Dense(4, 2, gated=False)))
    said = FileReading(norm_eps=1e-5, batchnorm="before")
    match = match_layers(CheckpointContents("x.pt", folding.arrays, {}, reading=said), fc)
    assert "'0.weight'" in match.verdict
