"""Saved sequences: what they state is checked, and the words for those that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dgn_engine.cli import main
from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints import stated_layers
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.plain_data import to_plain
from tests.engine.importing.autograd_comparison import list_file
from tests.engine.importing.torch_networks import (
    assert_same_network,
    match_by_shape,
    state_arrays,
    with_trained_statistics,
)
from tests.refusals import refused, refused_command
from tests.snapshots import Recorded

SHAPE = (3, 14, 12)


def shown(saved: object, shape: tuple[int, ...] = SHAPE) -> ImportedNetwork:
    return network_of(list_file(saved), shape, torch.float64)


def lenet() -> nn.Module:
    return with_trained_statistics(
        nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 12),
            nn.ReLU(),
            nn.Linear(12, 10),
        )
    )


def test_lenet_has_the_gates_of_the_module() -> None:
    network = lenet()
    x = torch.randn((5, 1, 28, 28), dtype=torch.float64)
    saved = (network, nn.DataParallel(network, device_ids=[]), {"model": network})
    for each in saved:
        assert_same_network(network, shown(each, (1, 28, 28)), x)
    said = FileReading(activation="relu", geometry="p2,max2,s1,max2")
    assert_same_network(network, match_by_shape(state_arrays(network), (1, 28, 28), said), x)


def pooled(*more: nn.Module, inputs: int = 5) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 5, 3, padding=1),
        nn.ReLU(),
        *more,
        nn.Flatten(),
        nn.Linear(inputs, 2),
    )


@pytest.mark.parametrize(
    ("shape", "geometry", "kind"),
    [
        ((42,), "p1,p1,avg2", "not-images"),
        ((1, 14, 12), "p1,p1,avg2", "other-inputs"),
        (SHAPE, "p1,p1,skip", "wrong-shape"),
        (SHAPE, "p1,p1,avg2,max2", "bad-words"),
        (SHAPE, "p1,avg2", "bad-words"),
        (SHAPE, "p1,bn,act,p1,act,avg2,dense", "bad-words"),
        (SHAPE, "p1,act,p1,act,dense,dense", "bad-words"),
        (SHAPE, "p1,act,dense,dense", "bad-words"),
        (SHAPE, "p1,p1,avg2,odd", "bad-words"),
    ],
)
def test_words_that_do_not_fit_the_file_are_refused(
    shape: tuple[int, ...], geometry: str, kind: str
) -> None:
    network = with_trained_statistics(pooled(nn.AvgPool2d(2), inputs=210))
    with refused(kind) as refusal:
        match_by_shape(
            state_arrays(network), shape, FileReading(activation="relu", geometry=geometry)
        )
    assert not isinstance(refusal.error, OpenQuestions)


def test_a_network_that_is_named_and_does_not_fit_says_what_it_wants() -> None:
    arrays = state_arrays(with_trained_statistics(pooled(nn.AdaptiveAvgPool2d(1))))
    net = NetConfig(name="cnn4", options=(("channels", 4),))
    with refused("no-fit") as refusal:
        match_by_shape(arrays, SHAPE, FileReading(net=net))
    assert "4×3×3×3, 4×4×3×3" in str(refusal.error)


class Loud(nn.Module):
    """Not one of torch's: its forward would have to be run."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise AssertionError


def test_a_layer_of_another_kind_is_named_and_none_of_it_runs() -> None:
    for layer, named in ((nn.GELU(), "GELU"), (Loud(), "Loud"), (nn.LeakyReLU(), "LeakyReLU")):
        listing = list_file(with_trained_statistics(pooled(layer, inputs=840)))
        assert any(each.kind.endswith(named) for each in listing.layers)
        with pytest.raises(UserError, match=rf"layer 4 \({named}\)"):
            network_of(listing, SHAPE)


def changed(**attributes: object) -> nn.Module:
    network = pooled(nn.AdaptiveAvgPool2d(1))
    vars(network[0]).update(attributes)  # type: ignore[index] # it is a Sequential
    return network


@pytest.mark.parametrize(
    "attributes",
    [
        {"stride": (0, 0)},
        {"stride": (1 << 40, 1)},
        {"padding": (4, 4)},
        {"padding": [1, 2, 3]},
        {"in_channels": 7},
        {"out_channels": 1 << 20},
        {"kernel_size": (1 << 12, 1 << 12)},
        {"groups": 0},
        {"dilation": (2, 2)},
        {"padding_mode": "reflect"},
        {"forward": print},
        {"_forward_hooks": {0: print}},
    ],
    ids=str,
)
def test_a_layer_that_states_nonsense_is_refused(
    attributes: dict[str, Any], recorded: Recorded
) -> None:
    with pytest.raises(UserError) as refusal:
        shown(changed(**attributes))
    recorded([refusal.value.kind, type(refusal.value).__name__])


def test_what_the_reading_process_tells_of_layers_is_checked_anew() -> None:
    layers = list_file(lenet()).layers
    told = to_plain(layers)
    assert stated_layers.check_stated_layers(told) == layers
    convolution = next(each for each in told if each["kind"] == "Conv2d")
    for lie in ({"stride": "1"}, {"stride": -1}, {"groups": True}, {"kernel_size": [1, 2, 3]}):
        with pytest.raises((ValueError, TypeError)):
            stated_layers.check_stated_layers(
                [{**convolution, "numbers": {**convolution["numbers"], **lie}}]
            )
    for other in ({}, [None], [{**convolution, "numbers": {}}], told * stated_layers.LAYERS):
        with pytest.raises((ValueError, TypeError)):
            stated_layers.check_stated_layers(other)


def test_sequences_in_each_other_without_end_are_cut_and_not_followed() -> None:
    inner = nn.Sequential(nn.ReLU())
    for _ in range(30):
        inner = nn.Sequential(inner, inner)  # 2^30 layers, if they were followed
    layers = list_file(nn.Sequential(nn.Linear(4, 3), inner, nn.Linear(3, 2))).layers
    assert len(layers) <= stated_layers.LAYERS


def test_inspect_lists_the_layers_and_shows_their_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layers = (nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    network, path = nn.Sequential(*layers, nn.Linear(64, 10)), tmp_path / "whole.pt"
    torch.save(network, path)
    with_data = ["inspect", path, "--data", "digits", "--examples", "4"]
    for words in (["inspect", path], with_data):
        assert main([str(word) for word in words]) == 0
        assert "1 → 4, 3×3" in capsys.readouterr().out or words is with_data
    torch.save(network.state_dict(), path)
    assert read_tensors(path).layers == ()
    assert isinstance(refused_command(*with_data), OpenQuestions)
    said = ["--activation", "relu", "--geometry", "p1,max2"]
    assert main([str(word) for word in (*with_data, *said)]) == 0
    assert "conv 1" in capsys.readouterr().out


def adaptive(layer: nn.Module, features: int) -> nn.Sequential:
    """On maps of 6×4, behind a convolution of 8×6."""
    torch.manual_seed(0)
    parts = (nn.Conv2d(3, 2, 3), nn.ReLU(), layer, nn.Flatten(), nn.Linear(features, 2))
    network = with_trained_statistics(nn.Sequential(*parts))
    assert isinstance(network, nn.Sequential)
    return network


@pytest.mark.parametrize(
    ("layer", "features"),
    [
        (nn.AdaptiveAvgPool2d((3, 2)), 12),
        (nn.AdaptiveMaxPool2d((3, 2)), 12),
        (nn.AdaptiveAvgPool2d((6, 4)), 48),
        (nn.AdaptiveMaxPool2d((6, 4)), 48),
        (nn.AdaptiveAvgPool2d((1, 1)), 2),
        (nn.AdaptiveMaxPool2d(1), 2),
    ],
)
def test_adaptive_pooling_is_the_windows_that_it_comes_to(layer: nn.Module, features: int) -> None:
    network = adaptive(layer, features)
    x = torch.randn((5, 3, 8, 6), dtype=torch.float64)
    assert_same_network(network, shown(network, (3, 8, 6)), x)


@pytest.mark.parametrize(("sides", "features"), [((4, 2), 16), ((2, 2), 8)])
def test_adaptive_pooling_to_unequal_windows_is_refused(
    sides: tuple[int, int], features: int
) -> None:
    with refused("not-supported"):
        shown(adaptive(nn.AdaptiveAvgPool2d(sides), features), (3, 8, 6))


@pytest.mark.parametrize(("scale", "shift"), [(True, False), (False, True), (False, False)])
def test_a_batchnorm_may_have_only_one_of_its_weights(scale: bool, shift: bool) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(5)
    network = with_trained_statistics(
        nn.Sequential(nn.Linear(4, 5), norm, nn.ReLU(), nn.Linear(5, 2))
    )
    norm.weight = norm.weight if scale else None  # type: ignore[assignment]
    norm.bias = norm.bias if shift else None  # type: ignore[assignment]
    x = torch.randn((5, 4), dtype=torch.float64)
    assert_same_network(network, shown(network, (4,)), x)
