"""Files are known by the names and widths of torchvision's networks, and chains by their shapes."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.importing.match_layers import match_layers
from dgn_engine.importing.torchvision_nets import understood_as
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import CheckpointContents

KNOWN = {
    "resnet18": "torchvision's ResNet-18, 1,000 classes",
    "resnet34": "torchvision's ResNet-34, 1,000 classes",
    "resnet50": "torchvision's ResNet-50, 1,000 classes",
    "vgg11": "torchvision's VGG-11, 1,000 classes",
    "vgg11_bn": "torchvision's VGG-11 with BatchNorm, 1,000 classes",
    "vgg13": "torchvision's VGG-13, 1,000 classes",
    "vgg13_bn": "torchvision's VGG-13 with BatchNorm, 1,000 classes",
    "vgg16": "torchvision's VGG-16, 1,000 classes",
    "vgg16_bn": "torchvision's VGG-16 with BatchNorm, 1,000 classes",
    "vgg19": "torchvision's VGG-19, 1,000 classes",
    "vgg19_bn": "torchvision's VGG-19 with BatchNorm, 1,000 classes",
    "alexnet": "torchvision's AlexNet, 1,000 classes",
}
OTHER = ("wide_resnet50_2", "resnext50_32x4d", "squeezenet1_0", "mobilenet_v2", "densenet121")


def listing(shapes: dict[str, tuple[int, ...]]) -> CheckpointContents:
    """Zeros of these shapes that take no memory."""
    arrays = {name: np.broadcast_to(np.float32(0), shape) for name, shape in shapes.items()}
    return CheckpointContents("net.pth", arrays, dict.fromkeys(arrays, "float32"))


def shapes_of(network: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(t.shape) for name, t in network.state_dict().items()}


def built(name: str) -> nn.Module:
    import_torchvision()
    models = importlib.import_module("torchvision.models")
    with torch.device("meta"):
        network = getattr(models, name)(weights=None)
    assert isinstance(network, nn.Module)
    return network


@pytest.mark.parametrize("name", KNOWN)
def test_torchvision_s_networks_are_named(name: str) -> None:
    assert understood_as(listing(shapes_of(built(name)))) == KNOWN[name]


@pytest.mark.parametrize("name", OTHER)
def test_networks_that_are_nearly_those_are_not_taken_for_them(name: str) -> None:
    said = understood_as(listing(shapes_of(built(name))))
    assert said.endswith("tensors of no network that is known here")


def test_a_network_in_a_lightning_module_and_with_ten_classes_is_still_named() -> None:
    shapes = {f"model.{name}": shape for name, shape in shapes_of(built("resnet18")).items()}
    shapes["model.fc.weight"] = (10, 512)
    assert understood_as(listing(shapes)) == "torchvision's ResNet-18, 10 classes"
    cut = {name: shape for name, shape in shapes.items() if ".fc." not in name}
    assert understood_as(listing(cut)) == "torchvision's ResNet-18, without its output layer"


def test_a_resnet_for_small_images_says_so() -> None:
    shapes = shapes_of(built("resnet18")) | {"conv1.weight": (64, 3, 3, 3)}
    assert "with a first convolution of 3×3" in understood_as(listing(shapes))


def test_a_chain_is_described() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.Flatten(),
        nn.Linear(16 * 4, 10),
    )
    said = understood_as(listing(shapes_of(network)))
    assert said == (
        "a chain of 2 convolutions, 1 dense layer and 1 BatchNorm, 3 channels, 10 outputs, by the "
        "shapes of its tensors"
    )


@pytest.mark.parametrize(
    "shapes",
    [
        {"a.weight": (3, 4), "b.weight": (5, 4)},
        {"a.weight": (3, 4), "norm.weight": (3,), "b.weight": (5, 3)},
        {"a.weight": (3, 4), "b.weight": (5, 3, 1, 1)},
        {"a.weight": (0, 4), "b.weight": (5, 0, 1, 1)},
        {"a": (3,)},
    ],
)
def test_what_makes_no_chain_is_only_counted(shapes: dict[str, tuple[int, ...]]) -> None:
    assert "of no network that is known here" in understood_as(listing(shapes))


def test_our_own_files_are_known_and_what_they_say_is_escaped() -> None:
    own = listing({"value.weights.0": (2, 2)})
    own.metadata.update({"format": "dgn-viewer weights 1", "regime": "DL\x1b[2J"})
    assert understood_as(own) == "both networks of dgn-viewer, regime DL\\x1b[2J"


CNN = Architecture((3, 8, 8), (Conv(3, 4), GlobalAveragePool(), Dense(4, 2, gated=False)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "resnet18",
            "It is torchvision's ResNet-18, 1,000 classes; its skip connections make it no chain "
            "of layers. Nothing was changed.",
        ),
        ("alexnet", "It is torchvision's AlexNet, 1,000 classes. Nothing was changed."),
    ],
)
def test_a_known_network_that_does_not_fit_is_named_in_the_verdict(name: str, said: str) -> None:
    reading = FileReading(norm_eps=1e-5, batchnorm="before")
    match = match_layers(replace(listing(shapes_of(built(name))), reading=reading), CNN)
    assert not match.fits
    assert match.verdict.endswith(said)
