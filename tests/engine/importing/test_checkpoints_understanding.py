"""Files are known by the names and widths of torchvision's networks, and chains by their shapes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.importing.match_layers import match_layers
from dgn_engine.importing.torchvision_nets import describe_file, known_network
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.snapshots import Recorded

Shapes = dict[str, tuple[int, ...]]
KNOWN = ["resnet18", "resnet34", "resnet50", "alexnet"]
KNOWN += [f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")]
OTHER = ["wide_resnet50_2", "resnext50_32x4d", "squeezenet1_0", "mobilenet_v2", "densenet121"]
CNN = Architecture((3, 8, 8), (Conv(3, 4), GlobalAveragePool(), Dense(4, 2, gated=False)))


def listing(shapes: Shapes) -> CheckpointContents:
    """Zeros of these shapes that take no memory."""
    arrays = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    return CheckpointContents("net.pth", arrays, dict.fromkeys(arrays, "float32"))


def shapes_of(network: nn.Module) -> Shapes:
    return {name: tuple(t.shape) for name, t in network.state_dict().items()}


def built(name: str) -> Shapes:
    import_torchvision()
    models = importlib.import_module("torchvision.models")
    with torch.device("meta"):
        return shapes_of(getattr(models, name)(weights=None))


def wrapped(head: bool) -> Shapes:
    shapes = {f"model.{name}": shape for name, shape in built("resnet18").items()}
    shapes["model.fc.weight"] = (10, 512)
    return {name: shape for name, shape in shapes.items() if head or ".fc." not in name}


def chain() -> Shapes:
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    return shapes_of(nn.Sequential(*layers, nn.Conv2d(8, 16, 3), nn.Flatten(), nn.Linear(64, 10)))


FILES: dict[str, Callable[[], Shapes]] = {
    "in a Lightning module, ten classes": lambda: wrapped(head=True),
    "without its output layer": lambda: wrapped(head=False),
    "for small images": lambda: built("resnet18") | {"conv1.weight": (64, 3, 3, 3)},
    "a chain": chain,
    "two heads": lambda: {"a.weight": (3, 4), "b.weight": (5, 4)},
    "a norm": lambda: {"a.weight": (3, 4), "norm.weight": (3,), "b.weight": (5, 3)},
    "a convolution last": lambda: {"a.weight": (3, 4), "b.weight": (5, 3, 1, 1)},
    "nothing in it": lambda: {"a.weight": (0, 4), "b.weight": (5, 0, 1, 1)},
    "no matrix": lambda: {"a": (3,)},
}


@pytest.mark.parametrize("name", [*KNOWN, *OTHER])
def test_torchvision_s_networks_are_named_and_those_that_are_nearly_them_are_not(
    name: str, recorded: Recorded
) -> None:
    found = known_network(built(name))
    assert bool(found) == (name in KNOWN)
    recorded(found)


@pytest.mark.parametrize("name", FILES)
def test_what_a_file_is_is_told_by_its_shapes(name: str, recorded: Recorded) -> None:
    recorded(describe_file(listing(FILES[name]())))


def test_our_own_files_are_known_and_what_they_say_is_escaped() -> None:
    own = listing({"value.weights.0": (2, 2)})
    own.metadata.update({"format": "dgn-viewer weights 1", "regime": "DL\x1b[2J"})
    assert describe_file(own).endswith("DL\\x1b[2J")


@pytest.mark.parametrize("name", ["resnet18", "alexnet"])
def test_a_known_network_that_does_not_fit_is_named_in_the_verdict(name: str) -> None:
    reading = FileReading(norm_eps=1e-5, batchnorm="before")
    match = match_layers(replace(listing(built(name)), reading=reading), CNN)
    assert not match.fits
    assert known_network(built(name)) in match.verdict
