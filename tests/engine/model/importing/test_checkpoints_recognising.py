"""Networks of torchvision, by their names: the same logits and the same gates, in float64."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.errors import UserError
from dgn_engine.model.importing.fold_batchnorm import fold_normalisation
from dgn_engine.model.importing.from_file import ImportedNetwork, network_of
from dgn_engine.model.importing.torchvision_nets import recognise
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from tests.engine.model.importing.test_checkpoints_folding import arrays_of, in_use


def models() -> Any:
    import_torchvision()
    return importlib.import_module("torchvision.models")


def narrow_resnet(block: str, layers: tuple[int, ...], width: int = 4) -> nn.Module:
    """torchvision's own ResNet with every width divided by 64 / `width`."""
    module = importlib.import_module("torchvision.models.resnet", models().__name__)
    kind = getattr(module, block)
    with torch.device("meta"):  # every weight is made anew below
        network = module.ResNet(kind, [*layers, 1][:4], num_classes=5)
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            part.in_channels = max(part.in_channels * width // 64, 3)
            part.out_channels = part.out_channels * width // 64
            sides = part.kernel_size
            part.weight = nn.Parameter(torch.empty(part.out_channels, part.in_channels, *sides))
            nn.init.kaiming_normal_(part.weight)
        elif isinstance(part, nn.BatchNorm2d):
            part.__init__(part.num_features * width // 64)  # type: ignore[misc]  # made anew
    network.fc = nn.Linear(network.fc.in_features * width // 64, 5)
    if len(layers) < 4:
        network.layer4, network.fc = nn.Identity(), nn.Linear(network.fc.in_features // 2, 5)
    return in_use(network)


def narrow_vgg(norm: bool, pooled: int = 7) -> nn.Module:
    module = importlib.import_module("torchvision.models.vgg", models().__name__)
    plan = [4, "M", 5, "M", 6, 6, "M", 5, 5, "M", 4, 4, "M"]
    with torch.device("meta"):
        network = module.VGG(nn.Identity(), num_classes=5, init_weights=False)
    network.features = module.make_layers(plan, batch_norm=norm)
    network.classifier[0] = nn.Linear(4 * pooled**2, 9)
    network.classifier[3], network.classifier[6] = nn.Linear(9, 8), nn.Linear(8, 5)
    return in_use(network)


def narrow_alexnet() -> nn.Module:
    with torch.device("meta"):
        network = models().AlexNet(num_classes=5)
    widths = (3, 4, 6, 5, 4, 4)
    convolutions = [part for part in network.features if isinstance(part, nn.Conv2d)]
    for part, (inputs, outputs) in zip(convolutions, pairwise(widths), strict=True):
        part.weight = nn.Parameter(torch.randn(outputs, inputs, *part.kernel_size) * 0.2)
        part.bias = nn.Parameter(torch.randn(outputs))
    network.classifier[1], network.classifier[4] = nn.Linear(4 * 36, 9), nn.Linear(9, 8)
    network.classifier[6] = nn.Linear(8, 5)
    return in_use(network)


def torch_gates(network: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits and, in the order of their calls, what was open behind every ReLU."""
    gates: list[Tensor] = []
    hooks = [
        part.register_forward_hook(lambda _m, _i, out: gates.append(out > 0))
        for part in network.modules()
        if isinstance(part, nn.ReLU)
    ]
    with torch.no_grad():
        logits = network(x)
    for hook in hooks:
        hook.remove()
    return logits, gates


def found_in(arrays: dict[str, Array], shape: tuple[int, ...]) -> ImportedNetwork:
    listing = CheckpointContents("net.pth", arrays, dict.fromkeys(arrays, "float64"))
    return network_of(listing, shape, None, torch.float64)


def holds(network: nn.Module, found: ImportedNetwork, x: Tensor) -> None:
    logits, gates = torch_gates(network, x)
    with torch.no_grad():
        trace = found.network.trace(x).value
    scale = float(logits.abs().max())
    torch.testing.assert_close(trace.output, logits, rtol=0.0, atol=1e-10 * scale)
    assert len(trace.gates) == len(gates)
    for ours, theirs in zip(trace.gates, gates, strict=True):
        assert torch.equal(ours != 0, theirs.reshape(ours.shape))


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "basic": lambda: narrow_resnet("BasicBlock", (2, 2, 2, 2)),
    "basic-34": lambda: narrow_resnet("BasicBlock", (3, 4, 6, 3)),
    "bottleneck": lambda: narrow_resnet("Bottleneck", (3, 4, 6, 3)),
    "vgg": lambda: narrow_vgg(norm=False),
    "vgg-bn": lambda: narrow_vgg(norm=True),
    "alexnet": narrow_alexnet,
}


@pytest.mark.parametrize(
    ("name", "side"), [*((name, 64) for name in BUILDERS), ("vgg-bn", 224), ("alexnet", 224)]
)
def test_logits_and_gates_are_torchvision_s_own(name: str, side: int) -> None:
    network = BUILDERS[name]()
    x = torch.randn((2, 3, side, side), dtype=torch.float64)
    holds(network, found_in(arrays_of(network), (3, side, side)), x)


def test_the_real_resnet_18_on_small_images_has_the_same_gates() -> None:
    torch.manual_seed(0)
    network = in_use(models().resnet18(weights=None))
    x = torch.randn((2, 3, 32, 32), dtype=torch.float64)
    found = found_in(arrays_of(network), (3, 32, 32))
    holds(network, found, x)
    assert found.title == "torchvision's ResNet-18, 1,000 classes"
    assert len(found.network.architecture.gated) == 17
    assert "7×7, is taken with stride 2 and 3×3 max pooling" in found.remarks[0]
    assert "ε of 1e-05" in found.remarks[1]


def test_a_resnet_for_small_images_in_a_lightning_file_sorted_by_name_is_read() -> None:
    network = narrow_resnet("BasicBlock", (2, 1, 1))
    stem = nn.Conv2d(3, 4, 3, padding=1, bias=False).double()
    network.conv1, network.maxpool = stem, nn.Identity()
    arrays = arrays_of(network)
    other = {
        f"model.{name.replace('downsample', 'shortcut').replace('fc.', 'linear.')}": array
        for name, array in arrays.items()
    }
    found = found_in({name: other[name] for name in sorted(other)}, (3, 16, 16))
    holds(network, found, torch.randn((3, 3, 16, 16), dtype=torch.float64))
    assert found.title == "a ResNet by its names, 12 weight layers, 5 classes"
    assert "3×3, is taken with stride 1 and no max pooling" in found.remarks[0]


def test_another_epsilon_of_batchnorm_can_be_said() -> None:
    network = narrow_resnet("BasicBlock", (1, 1, 1, 1))
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.eps = 1e-3
    arrays = arrays_of(network)
    x = torch.randn((2, 3, 32, 32), dtype=torch.float64)
    listing = CheckpointContents("net.pth", arrays, dict.fromkeys(arrays, "float64"))
    holds(network, network_of(listing, (3, 32, 32), None, torch.float64, epsilon=1e-3), x)


def test_adaptive_pooling_is_folded_and_said() -> None:
    arrays = arrays_of(narrow_vgg(norm=False))
    assert "2×2 to 7×7" in found_in(arrays, (3, 64, 64)).remarks[0]
    assert found_in(arrays, (3, 224, 224)).remarks == ()


@pytest.mark.parametrize(
    ("change", "shape", "words"),
    [
        ({}, (1, 32, 32), "takes images with 3 channels, but these have 1"),
        ({}, (3072,), "takes images, but these examples are vectors"),
        ({"bn1.running_mean": (9,)}, (3, 32, 32), "'bn1.running_mean', that stands behind none"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    change: dict[str, tuple[int, ...]], shape: tuple[int, ...], words: str
) -> None:
    arrays = arrays_of(narrow_resnet("BasicBlock", (1, 1, 1, 1)))
    arrays |= {name: np.zeros(sides) for name, sides in change.items()}
    with pytest.raises(UserError, match=words):
        found_in(arrays, shape)


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
    arrays = arrays_of(narrow_resnet("BasicBlock", (1, 1, 1, 1)))
    for name, sides in change.items():
        if sides is None:
            del arrays[name]
        else:
            arrays[name] = np.zeros(sides)
    assert recognise(CheckpointContents("net.pth", arrays, {}), (3, 32, 32)) is None


class PreActivation(nn.Module):
    """What bn1 scales goes past it, too, so it may not be folded into conv0 either."""

    def __init__(self) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(3, 4, 3)
        self.bn1, self.conv1 = nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3)
        self.fc = nn.Linear(4, 2)


def test_a_batchnorm_before_its_layer_is_not_folded_into_it() -> None:
    assert fold_normalisation(arrays_of(in_use(PreActivation()))).into == {}
