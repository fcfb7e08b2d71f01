"""VGG-16 and ResNet-110: as DNN those of torch's own layers, as DLGN two of them, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dgn_engine.config import NetConfig
from dgn_engine.experiments.dlgn_rows import NETWORKS, shuffle_layers
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.model.architecture import Merge
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.regime_entry import configure_for
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import check_wiring
from dgn_engine.regimes import find_regime

SHAPE, CLASSES, BETA, PRE = (3, 16, 16), 5, 10.0, 0.4
NETS = {
    "vgg16": NetConfig("vgg16", (("width", 2),)),
    "resnet110": NetConfig("resnet110", (("blocks", 2), ("pre", PRE), ("width", 2))),
}
both = pytest.mark.parametrize("name", NETS)


class Layers(nn.Module):
    """Convolutions and BatchNorms of torch, in the order of a pass, and the output layer."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        weights = list(stack.weights)
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        biases = list(stack.biases) or [None] * len(weights)
        normal = stack.normalisation
        assert normal is not None
        for place, (weight, bias) in enumerate(zip(weights[:-1], biases[:-1], strict=True)):
            outputs, inputs, kernel, _ = weight.shape
            conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=bias is not None)
            conv.weight.data.copy_(weight)
            if bias is not None:
                conv.bias.data.copy_(bias)  # type: ignore[union-attr]
            norm = nn.BatchNorm2d(outputs)
            norm.weight.data.copy_(normal.scales[place])
            norm.bias.data.copy_(normal.shifts[place])
            norm.running_mean.copy_(normal.get_buffer(f"mean_{place}"))  # type: ignore[union-attr]
            norm.running_var.copy_(normal.get_buffer(f"variance_{place}"))  # type: ignore[union-attr]
            self.convs.append(conv)
            self.norms.append(norm)
        self.head_weight, self.head_bias = weights[-1], biases[-1]

    def apply_layer(self, place: int, z: Tensor, stride: int, normal: bool) -> Tensor:
        """A convolution, and its BatchNorm or, in a value network, only its γ."""
        conv, norm = self.convs[place], self.norms[place]
        q = F.conv2d(z, conv.weight, conv.bias, stride, conv.padding)
        out: Tensor = norm(q) if normal else q * norm.weight[:, None, None]
        return out

    def head(self, z: Tensor) -> Tensor:
        return F.linear(z.mean(dim=(2, 3)), self.head_weight, self.head_bias)


class Twin:
    """A pass of one network: gates are its own or given, `pre` what they are made from."""

    def __init__(self, layers: Layers, normal: bool, gates: list[Tensor] | None, linear: bool):
        self.layers, self.normal, self.gates, self.linear = layers, normal, gates, linear
        self.pre: list[Tensor] = []

    def gate(self, q: Tensor) -> Tensor:
        self.pre.append(q)
        if self.gates is not None:
            return q * self.gates[len(self.pre) - 1]
        return q if self.linear else F.relu(q)

    def layer(self, place: int, z: Tensor, stride: int = 1) -> Tensor:
        return self.layers.apply_layer(place, z, stride, self.normal)

    def vgg16(self, z: Tensor) -> Tensor:
        for place in range(13):
            if place in (2, 4, 7, 10):
                z = F.avg_pool2d(z, 2)
            z = self.gate(self.layer(place, z))
        return self.layers.head(z)

    def resnet110(self, z: Tensor) -> Tensor:
        z = self.gate(self.layer(0, z))
        place = 1
        for stage in range(3):
            for block in range(2):
                stride = 2 if stage and not block else 1
                branch = self.gate(self.layer(place, z, stride))
                branch = self.layer(place + 1, branch)
                place += 2
                skip = z
                if stride == 2:
                    skip, place = self.layer(place, z, 2), place + 1
                z = self.gate(PRE * branch + skip)
        return self.layers.head(z)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def drawn_network(name: str) -> tuple[GatedNetwork, Tensor]:
    """A network whose normalisations and biases have learnt something, and six images."""
    generator = torch.Generator().manual_seed(0)
    architecture = build_architecture(NETS[name], SHAPE, CLASSES)
    network = GatedNetwork(architecture, feature_bias=True)
    for stack in (network.value, network.feature):
        stack.init_weights("kaiming", generator)
        assert stack.normalisation is not None
        for tensor in (*stack.normalisation.state_dict().values(), *stack.biases):
            tensor.data.add_(0.3 * torch.rand(tensor.shape, generator=generator))
    return network, torch.rand(6, *SHAPE, generator=generator)


@both
def test_the_dnn_is_the_network_of_torch_s_layers(name: str, double: None) -> None:
    network, x = drawn_network(name)
    configure_for(network, find_regime("ReLU"))
    layers = Layers(network.value)
    network.gather_statistics(True)
    twin = Twin(layers, True, None, linear=False)
    assert torch.allclose(network(x), getattr(twin, name)(x), atol=1e-12)
    network.gather_statistics(False)
    layers.eval()
    twin = Twin(layers, True, None, linear=False)
    assert torch.allclose(network(x), getattr(twin, name)(x), atol=1e-12)
    assert len(twin.pre) == len(network.architecture.gated_nodes)


@both
@pytest.mark.parametrize("regime", ["DL", "DL-linear"])
def test_a_pair_sees_ones_under_the_shuffled_gates_of_a_normalised_network(
    name: str, regime: str, double: None
) -> None:
    network, x = drawn_network(name)
    configure_for(network, find_regime(regime))
    network.gate = replace(network.gate, beta=BETA)
    network.value_input = "ones"
    network.wiring = shuffle_layers(NETS[name], 1)
    feature, value = Layers(network.feature), Layers(network.value)
    network.gather_statistics(True)
    makes = Twin(feature, True, None, linear=regime == "DL-linear")
    getattr(makes, name)(x)
    gates = [torch.sigmoid(BETA * makes.pre[source]) for source in network.wiring]
    logits = getattr(Twin(value, False, gates, linear=False), name)(torch.ones_like(x))
    assert torch.allclose(network(x), logits, atol=1e-12)
    assert logits.std() > 1e-3


@both
def test_the_gates_of_a_dlgn_are_affine_in_the_image_and_its_output_homogeneous(
    name: str, double: None
) -> None:
    network, x = drawn_network(name)
    configure_for(network, find_regime("DL-linear"))
    pre = [network.trace(image).gate_pre for image in (x[:1], x[1:2], (x[:1] + x[1:2]) / 2)]
    for one, other, middle in zip(*pre, strict=True):
        assert torch.allclose(middle, (one + other) / 2, atol=1e-12)
    used = network.trace(x).value
    twice = network.value.run(2 * x, lambda layer, _: used.gates[layer])
    assert torch.allclose(twice.output, 2 * used.output, atol=1e-12)  # no biases


def test_the_published_sizes() -> None:
    vgg = build_architecture(NetConfig("vgg16"), (3, 32, 32), 10)
    assert [layer.outputs for layer in vgg.weight_layers][:-1] == [
        *(64, 64, 128, 128, 256, 256, 256), *[512] * 6,
    ]  # fmt: skip
    assert vgg.gated_shapes[-1] == (512, 2, 2)
    residual = build_architecture(NetConfig("resnet110"), (3, 32, 32), 10)
    assert sum(isinstance(node, Merge) for node in residual.nodes) == 54
    assert len(residual.weight_layers) == 110 + 2  # two projections
    assert len(residual.gated_nodes) == 109
    assert sum(p.numel() for p in Stack(residual).weights) == 1_719_856 + 2_560


@pytest.mark.parametrize("row", [network.row for network in NETWORKS])
def test_shuffled_gates_fit_for_every_seed_and_size_of_images_and_are_moved(row: str) -> None:
    (network,) = (one for one in NETWORKS if one.row == row)
    for options in (network.quick, network.full):
        net = NetConfig(network.net, tuple(options.items()))
        for shape in ((1, 8, 8), (3, 20, 24), (3, 32, 32)):
            architecture = build_architecture(net, shape, 10)
            orders = [shuffle_layers(net, seed) for seed in range(5)]
            for order in orders:
                check_wiring(architecture, order)
                assert order != tuple(range(len(order)))
            assert any(a != b for a, b in pairwise(orders))
