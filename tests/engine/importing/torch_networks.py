"""Networks of torch, small and with statistics in use, and what is found in their arrays."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents


def with_trained_statistics(network: nn.Module, seed: int = 0) -> nn.Module:
    """With statistics and scales as training leaves them."""
    torch.manual_seed(seed)
    for module in network.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.1, 3.0)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return network.double().eval()


def state_arrays(network: nn.Module) -> dict[str, Array]:
    return {name: tensor.numpy() for name, tensor in network.state_dict().items()}


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
    return with_trained_statistics(network)


def narrow_vgg(norm: bool, pooled: int = 7) -> nn.Module:
    module = importlib.import_module("torchvision.models.vgg", models().__name__)
    plan = [4, "M", 5, "M", 6, 6, "M", 5, 5, "M", 4, 4, "M"]
    with torch.device("meta"):
        network = module.VGG(nn.Identity(), num_classes=5, init_weights=False)
    network.features = module.make_layers(plan, batch_norm=norm)
    network.classifier[0] = nn.Linear(4 * pooled**2, 9)
    network.classifier[3], network.classifier[6] = nn.Linear(9, 8), nn.Linear(8, 5)
    return with_trained_statistics(network)


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
    return with_trained_statistics(network)


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


NOTHING = FileReading()


def match_by_shape(
    arrays: dict[str, Array], shape: tuple[int, ...], said: FileReading = NOTHING
) -> ImportedNetwork:
    listing = CheckpointContents("net.pth", arrays, dict.fromkeys(arrays, "float64"), reading=said)
    return network_of(listing, shape, torch.float64)


def assert_same_network(network: nn.Module, found: ImportedNetwork, x: Tensor) -> None:
    logits, gates = torch_gates(network, x)
    with torch.no_grad():
        trace = found.network.trace(x).value
    scale = float(logits.abs().max())
    torch.testing.assert_close(trace.output, logits, rtol=0.0, atol=1e-10 * scale)
    assert len(trace.gates) == len(gates)
    for ours, theirs in zip(trace.gates, gates, strict=True):
        assert torch.equal(ours != 0, theirs.reshape(ours.shape))
