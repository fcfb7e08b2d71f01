"""Networks of torchvision, by their names: the same logits and the same gates, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.importing.fold_batchnorm import fold_normalisation
from dgn_engine.importing.torchvision_nets import recognise_network
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.daily import nightly
from tests.engine.importing.torch_networks import (
    assert_same_network,
    match_by_shape,
    models,
    narrow_alexnet,
    narrow_resnet,
    narrow_vgg,
    state_arrays,
    with_trained_statistics,
)
from tests.refusals import refused

TORCHVISION = FileReading(geometry="torchvision")
RESNET = FileReading(activation="relu", geometry="resnet,s2p3,max3s2p1", norm_eps=1e-5)
BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "basic": lambda: narrow_resnet("BasicBlock", (2, 2, 2, 2)),
    "basic-34": lambda: narrow_resnet("BasicBlock", (3, 4, 6, 3)),
    "bottleneck": lambda: narrow_resnet("Bottleneck", (3, 4, 6, 3)),
    "vgg": lambda: narrow_vgg(norm=False),
    "vgg-bn": lambda: narrow_vgg(norm=True),
    "alexnet": narrow_alexnet,
}


@pytest.mark.parametrize(
    ("name", "side"),
    [*((name, 64) for name in BUILDERS), *nightly(("vgg-bn", 224), ("alexnet", 224))],
)
def test_logits_and_gates_are_torchvision_s_own(name: str, side: int) -> None:
    network = BUILDERS[name]()
    x = torch.randn((2, 3, side, side), dtype=torch.float64)
    assert_same_network(
        network, match_by_shape(state_arrays(network), (3, side, side), TORCHVISION), x
    )


def test_the_real_resnet_18_on_small_images_has_the_same_gates() -> None:
    torch.manual_seed(0)
    network = with_trained_statistics(models().resnet18(weights=None))
    x = torch.randn((2, 3, 32, 32), dtype=torch.float64)
    found = match_by_shape(state_arrays(network), (3, 32, 32), TORCHVISION)
    assert_same_network(network, found, x)
    assert len(found.network.architecture.gated_nodes) == 17


def test_a_resnet_for_small_images_in_a_lightning_file_sorted_by_name_is_read() -> None:
    network = narrow_resnet("BasicBlock", (2, 1, 1))
    stem = nn.Conv2d(3, 4, 3, padding=1, bias=False).double()
    network.conv1, network.maxpool = stem, nn.Identity()
    arrays = state_arrays(network)
    other = {
        f"model.{name.replace('downsample', 'shortcut').replace('fc.', 'linear.')}": array
        for name, array in arrays.items()
    }
    said = replace(RESNET, geometry="resnet,s1p1")
    found = match_by_shape({name: other[name] for name in sorted(other)}, (3, 16, 16), said)
    assert_same_network(network, found, torch.randn((3, 3, 16, 16), dtype=torch.float64))
    assert len(found.network.architecture.weight_layers) == 12


def test_another_epsilon_of_batchnorm_can_be_said() -> None:
    network = narrow_resnet("BasicBlock", (1, 1, 1, 1))
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.eps = 1e-3
    arrays = state_arrays(network)
    x = torch.randn((2, 3, 32, 32), dtype=torch.float64)
    for said in (TORCHVISION, RESNET):
        assert_same_network(
            network, match_by_shape(arrays, (3, 32, 32), replace(said, norm_eps=1e-3)), x
        )


def test_adaptive_pooling_is_folded_and_said() -> None:
    arrays = state_arrays(narrow_vgg(norm=False))
    assert [
        len(match_by_shape(arrays, (3, side, side), TORCHVISION).remarks) for side in (64, 224)
    ] == [
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("change", "shape", "kind"),
    [
        ({}, (1, 32, 32), "other-inputs"),
        ({}, (3072,), "not-images"),
        ({"bn1.running_mean": (9,)}, (3, 32, 32), "not-supported"),
    ],
)
def test_what_does_not_fit_is_refused(
    change: dict[str, tuple[int, ...]], shape: tuple[int, ...], kind: str
) -> None:
    arrays = state_arrays(narrow_resnet("BasicBlock", (1, 1, 1, 1)))
    arrays |= {name: np.zeros(sides) for name, sides in change.items()}
    with refused(kind):
        match_by_shape(arrays, shape, TORCHVISION)


def test_images_of_another_number_of_channels_are_refused_with_that_number() -> None:
    arrays = state_arrays(narrow_resnet("BasicBlock", (1, 1, 1, 1)))
    with refused("other-inputs", value=1):
        match_by_shape(arrays, (1, 32, 32), TORCHVISION)


@pytest.mark.parametrize(
    "change",
    [
        {"layer2.0.downsample.0.weight": None, "layer2.0.downsample.1.running_mean": None},
        {"layer1.0.conv2.weight": (4, 2, 3, 3)},  # in groups
        {"layer1.0.conv4.weight": (4, 4, 3, 3)},
        {"fc.weight": None},
    ],
)
def test_what_only_looks_like_a_resnet_is_not_taken_for_one(
    change: dict[str, tuple[int, ...] | None],
) -> None:
    arrays = state_arrays(narrow_resnet("BasicBlock", (1, 1, 1, 1)))
    for name, sides in change.items():
        if sides is None:
            del arrays[name]
        else:
            arrays[name] = np.zeros(sides)
    assert recognise_network(CheckpointContents("net.pth", arrays, {}), (3, 32, 32)) is None


class PreActivation(nn.Module):
    """What bn1 scales goes past it, too, so it may not be folded into conv0 either."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 4, 3)
        self.bn1, self.conv1 = nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3)
        self.fc = nn.Linear(4, 2)


def test_a_batchnorm_before_its_layer_is_not_folded_into_it() -> None:
    assert fold_normalisation(state_arrays(with_trained_statistics(PreActivation()))).into == {}
