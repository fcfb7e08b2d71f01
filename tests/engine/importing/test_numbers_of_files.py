"""A number that is none in any tensor of a file, or in the precision that it is read in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import gates_for, match_file, module_in, network_of
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.engine.importing.autograd_comparison import list_file
from tests.engine.importing.torch_networks import with_trained_statistics
from tests.refusals import refused

SAID = FileReading(activation="relu", norm_eps=1e-5)
DENSE = Architecture((4,), (Dense(4, 5), Dense(5, 5), Dense(5, 3, gated=False)))
TENSORS = ("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "5.bias")
SAVED: dict[str, Callable[[nn.Module], CheckpointContents]] = {
    "whole": list_file,
    "state dict": lambda module: replace(list_file(module.state_dict()), reading=SAID),
}
READERS: dict[str, Callable[[CheckpointContents], Any]] = {
    "network": lambda listing: network_of(listing, (4,), torch.float64),
    "module": lambda listing: module_in(listing, (4,)),
    "gates": lambda listing: gates_for(listing, DENSE, torch.float64),
}


def spoilt(name: str, value: float) -> nn.Module:
    layers = (nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU())
    module = with_trained_statistics(nn.Sequential(*layers, nn.Linear(5, 3)))
    module.state_dict()[name].view(-1)[-1] = value
    return module


@pytest.mark.wide
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("saved", SAVED)
@pytest.mark.parametrize("name", TENSORS)
def test_a_file_with_one_number_that_is_not_finite_is_refused(
    name: str, saved: str, reader: str, value: float
) -> None:
    listing = SAVED[saved](spoilt(name, value))
    if reader == "gates" and saved == "state dict" and name == "5.bias":
        READERS[reader](listing)  # no gate depends on the output layer
        return
    with pytest.raises(UserError) as refusal:
        READERS[reader](listing)
    assert refusal.value.kind in ("not-finite", "no-fit")
    READERS[reader](SAVED[saved](spoilt(name, 0.5)))  # it was that number


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("saved", SAVED)
def test_a_variance_below_zero_is_refused(saved: str, reader: str) -> None:
    with pytest.raises(UserError) as refusal:
        READERS[reader](SAVED[saved](spoilt("1.running_var", -1.0)))
    assert refusal.value.kind in ("not-finite", "no-fit")
    READERS[reader](SAVED[saved](spoilt("1.running_var", -1e-9)))  # ε makes it positive


@pytest.mark.parametrize("saved", SAVED)
def test_numbers_that_float32_does_not_hold_are_refused_in_float32_alone(saved: str) -> None:
    listing = SAVED[saved](spoilt("0.bias", 1e300))
    with refused("overflow"):
        network_of(listing, (4,), torch.float32)
    found = network_of(listing, (4,), torch.float64).network
    assert all(bool(torch.isfinite(one).all()) for one in found.value.parameters())
    assert match_file(listing, DENSE).fits is False


def test_a_file_that_is_written_anew_at_its_place_is_read_anew(tmp_path: Path) -> None:
    from dgn_engine.config import NetConfig
    from dgn_engine.importing.from_file import architecture_for

    path = tmp_path / "net.pt"
    found = []
    for width in (5, 7, 5):
        module = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3))
        torch.save(module, path)
        found.append(architecture_for(NetConfig(f"file:{path}"), (4,), 3).gated_shapes)
    assert found == [((5,),), ((7,),), ((5,),)]
