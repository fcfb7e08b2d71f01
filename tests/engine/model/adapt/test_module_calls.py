"""Each call that a module may make, by position and by keyword: followed as it is, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dgn_engine.kernels as k
from dgn_engine.model.architecture import (
    Architecture,
    AveragePool,
    Conv,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
)
from tests.engine.kernels.module_grammar import tangent_kernel
from tests.engine.kernels.module_zoo import refusal_of
from tests.snapshots import Recorded

Step = Callable[["Calling", Tensor], Tensor]


class Calling(nn.Module):
    """A layer, `step` and ReLU (with maps ReLU and `step`), and a head on what is left."""

    def __init__(self, step: Step, maps: bool, features: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first: nn.Module = nn.Conv2d(2, 3, 3, padding=1) if maps else nn.Linear(4, 3)
        self.conv, self.dense = nn.Conv2d(3, 4, 3), nn.Linear(3, 4)
        self.square, self.wide = nn.Linear(3, 3), nn.Linear(6, 3)
        self.norm: nn.Module = nn.BatchNorm2d(3) if maps else nn.BatchNorm1d(3)
        self.second = nn.BatchNorm1d(3, affine=False)
        self.dense3 = nn.Linear(3, 3)
        self.grouped = nn.Conv2d(3, 3, 3, groups=3)
        self.slope = nn.Parameter(torch.tensor([0.3]))
        self.head = nn.Linear(features, 2)
        self.step = step
        with torch.no_grad():
            for tensor in (self.norm.weight, self.norm.bias, self.norm.running_mean):
                tensor.uniform_(0.5, 1.5)  # type: ignore[operator]
            self.norm.running_var.uniform_(0.5, 1.5)  # type: ignore[operator]
            self.second.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x)
        z = self.step(self, torch.relu(z)) if z.dim() == 4 else torch.relu(self.step(self, z))
        return self.head(z.flatten(1))  # type: ignore[no-any-return]


def shape_of(maps: bool) -> tuple[int, ...]:
    return (2, 6, 6) if maps else (4,)


def calling(step: Step, maps: bool) -> Calling:
    probe = Calling(step, maps, 1).double().eval()
    x = torch.randn((2, *shape_of(maps)), dtype=torch.float64)
    try:
        features = probe.step(probe, probe.first(x)).flatten(1).shape[1]
    except (AttributeError, IndexError):  # a pair, or one number
        features = 1
    return Calling(step, maps, features).double().eval()


def followed(step: Step, maps: bool) -> Architecture:
    """What a module with this step is; its outputs and its tangent kernel are the module's."""
    module = calling(step, maps)
    x = torch.randn((3, *shape_of(maps)), dtype=torch.float64)
    network = k.adapt(module, shape_of(maps))
    torch.testing.assert_close(network(x), module(x), rtol=1e-11, atol=1e-11)
    expected = tangent_kernel(module, x)
    torch.testing.assert_close(
        k.tangent_kernels(network, x).total_kernel, expected, rtol=1e-9, atol=1e-9
    )
    return network.architecture


def norm_of(m: Calling) -> tuple[Any, Any]:
    return m.norm.running_mean, m.norm.running_var


DENSE: dict[str, Step] = {
    "linear, by position": lambda m, z: F.linear(z, m.dense.weight, m.dense.bias),
    "linear, by keyword": lambda m, z: F.linear(z, weight=m.dense.weight, bias=m.dense.bias),
    "linear without bias": lambda m, z: F.linear(z, m.dense.weight),
    "batch_norm": lambda m, z: F.batch_norm(z, *norm_of(m), m.norm.weight, m.norm.bias),  # type: ignore[arg-type]
    "batch_norm with γ alone": lambda m, z: F.batch_norm(z, *norm_of(m), weight=m.norm.weight),  # type: ignore[arg-type]
    "batch_norm with β alone": lambda m, z: F.batch_norm(z, *norm_of(m), bias=m.norm.bias),  # type: ignore[arg-type]
    "batch_norm with an ε": lambda m, z: F.batch_norm(z, *norm_of(m), eps=0.5),
    "clamp from 0": lambda m, z: z.clamp(0),
    "clamp by keyword": lambda m, z: torch.clamp(z, min=0),
    "clamp_min": lambda m, z: torch.clamp_min(z, 0),
    "clamp in place": lambda m, z: (z * 1.0).clamp_(min=0),
    "leaky_relu": lambda m, z: F.leaky_relu(z),
    "leaky_relu with a slope": lambda m, z: F.leaky_relu(z, 0.4),
    "leaky_relu of torch": lambda m, z: torch._C._nn.leaky_relu(z, 0.2),
    "prelu": lambda m, z: F.prelu(z, m.slope),
    "prelu by keyword": lambda m, z: torch.prelu(z, weight=m.slope),
    "abs": lambda m, z: abs(z),
    "absolute": lambda m, z: torch.absolute(z),
    "dropout in evaluation": lambda m, z: F.dropout(z, 0.5, training=False),
    "dropout of torch in evaluation": lambda m, z: torch.dropout(z, 0.5, False),
    "dropout of nothing": lambda m, z: F.dropout(z, 0.0, training=True),
    "to the same": lambda m, z: z.contiguous().clone().double().to(z.dtype).type_as(z),
    "times a number": lambda m, z: z * 3.0,
    "a number times": lambda m, z: 0.5 * z,
    "multiply": lambda m, z: torch.multiply(z, -2),
    "divided by a number": lambda m, z: z / 4,
    "true_divide": lambda m, z: torch.true_divide(z, 0.5),
    "a factor before a BatchNorm": lambda m, z: m.norm(0.5 * z),
    "a factor behind a BatchNorm": lambda m, z: 3.0 * m.norm(z),
    "factors around a BatchNorm": lambda m, z: -(m.norm(2.0 * (0.5 * z)) / 4),
    "two BatchNorms": lambda m, z: m.second(2.0 * m.norm(0.5 * z)),
    "minus": lambda m, z: -z,
    "negative": lambda m, z: torch.negative(z),
    "view": lambda m, z: z.view(-1, 3),
    "view_as": lambda m, z: z.view_as(z).reshape_as(z),
    "unsqueezed and back": lambda m, z: z.unsqueeze(2).squeeze(2),
    "all of it": lambda m, z: z[:],
}
MAPS: dict[str, Step] = {
    "conv2d": lambda m, z: F.conv2d(z, m.conv.weight, m.conv.bias),
    "conv2d, all by position": lambda m, z: F.conv2d(
        z, m.conv.weight, m.conv.bias, (2, 2), (1, 1), (1, 1), 1
    ),
    "conv2d, all by keyword": lambda m, z: torch.conv2d(
        z, weight=m.conv.weight, bias=m.conv.bias, stride=2, padding=1, dilation=1, groups=1
    ),
    "conv2d of the same size": lambda m, z: F.conv2d(z, m.conv.weight, padding="same"),
    "conv2d without padding": lambda m, z: F.conv2d(z, m.conv.weight, padding="valid"),
    "batch_norm": lambda m, z: F.batch_norm(z, *norm_of(m), m.norm.weight, m.norm.bias),  # type: ignore[arg-type]
    "max_pool2d": lambda m, z: F.max_pool2d(z, 2),
    "max_pool2d, by position": lambda m, z: torch.max_pool2d(z, 3, 2, 1),
    "max_pool2d, by keyword": lambda m, z: F.max_pool2d(z, kernel_size=3, stride=1, padding=1),
    "avg_pool2d": lambda m, z: F.avg_pool2d(z, 3),
    "avg_pool2d with a stride": lambda m, z: F.avg_pool2d(z, 3, 1),
    "avg_pool2d, by keyword": lambda m, z: F.avg_pool2d(z, kernel_size=(2, 2), stride=(1, 1)),
    "avg_pool2d over all": lambda m, z: F.avg_pool2d(z, (6, 6)),
    "adaptive average": lambda m, z: F.adaptive_avg_pool2d(z, 1),
    "adaptive average, windows of two": lambda m, z: F.adaptive_avg_pool2d(z, (3, 3)),
    "adaptive average, windows of three": lambda m, z: F.adaptive_avg_pool2d(z, 2),
    "adaptive average, as it is": lambda m, z: F.adaptive_avg_pool2d(z, (None, 6)),  # type: ignore[arg-type]
    "adaptive average, twice": lambda m, z: F.adaptive_avg_pool2d(F.adaptive_avg_pool2d(z, 1), 1),
    "adaptive maximum": lambda m, z: F.adaptive_max_pool2d(z, (1, 1)),
    "adaptive maximum, windows of two": lambda m, z: F.adaptive_max_pool2d(z, (3, 3)),
    "mean": lambda m, z: z.mean((2, 3)),
    "mean, by keyword": lambda m, z: torch.mean(z, dim=(-1, -2), keepdim=True),
    "mean, twice": lambda m, z: z.mean((2, 3), keepdim=True).mean(dim=(2, 3)),
    "amax": lambda m, z: torch.amax(z, dim=(2, 3)),
    "pad": lambda m, z: F.conv2d(F.pad(z, (1, 1, 1, 1)), m.conv.weight),
    "pad with zeros": lambda m, z: F.conv2d(F.pad(z, (2,) * 4, value=0.0), m.conv.weight),
    "pad around": lambda m, z: F.conv2d(F.pad(z, (1,) * 4, "circular"), m.conv.weight),
    "no pad": lambda m, z: F.conv2d(F.pad(z, [0, 0, 0, 0]), m.conv.weight),
}


@pytest.mark.parametrize("name", DENSE)
def test_a_call_on_vectors_is_followed_as_it_is(name: str) -> None:
    followed(DENSE[name], maps=False)


@pytest.mark.parametrize("name", MAPS)
def test_a_call_on_maps_is_followed_as_it_is(name: str) -> None:
    followed(MAPS[name], maps=True)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("conv2d", Conv(3, 4, 3, 1, 0, gated=False)),
        ("conv2d, all by position", Conv(3, 4, 3, 2, 1, gated=False)),
        ("conv2d of the same size", Conv(3, 4, 3, 1, 1, gated=False)),
        ("pad around", Conv(3, 4, 3, 1, 1, circular=True, gated=False)),
        ("pad with zeros", Conv(3, 4, 3, 1, 2, gated=False)),
        ("max_pool2d, by position", MaxPool(3, 2, 1)),
        ("max_pool2d", MaxPool(2, 2)),
        ("avg_pool2d", AveragePool(3, 3)),
        ("avg_pool2d over all", GlobalAveragePool()),
        ("adaptive average, windows of two", AveragePool(2, 2)),
        ("adaptive average, windows of three", AveragePool(3, 3)),
        ("adaptive maximum, windows of two", MaxPool(2, 2)),
        ("adaptive maximum", GlobalMaxPool()),
        ("mean, twice", GlobalAveragePool()),
        ("amax", GlobalMaxPool()),
    ],
)
def test_a_call_becomes_the_node_that_it_is(name: str, node: object) -> None:
    assert node in followed(MAPS[name], maps=True).nodes


def block(m: Calling, z: Tensor) -> Tensor:
    return m.square(torch.relu(z))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("step", "merge"),
    [
        (lambda m, z: z + block(m, z), Merge(1.0, 1.0)),
        (lambda m, z: block(m, z) + z, Merge(1.0, 1.0)),
        (lambda m, z: z + 0.5 * block(m, z), Merge(0.5, 1.0)),
        (lambda m, z: torch.add(z, block(m, z), alpha=2), Merge(2.0, 1.0)),
        (lambda m, z: torch.add(block(m, z), z, alpha=2), Merge(0.5, 2.0)),
        (lambda m, z: torch.sub(z, block(m, z)), Merge(-1.0, 1.0)),
        (lambda m, z: block(m, z).subtract(z), Merge(-1.0, -1.0)),
        (lambda m, z: torch.sub(block(m, z), z, alpha=4), Merge(-0.25, -4.0)),
        (lambda m, z: 4 * z + block(m, z), Merge(0.25, 4.0)),
        (lambda m, z: 0.5 * (3 * z) + block(m, m.dense3(z)), Merge(1 / 1.5, 1.5)),
        (lambda m, z: 2 * (z + block(m, z)), Merge(1.0, 2.0)),
        (lambda m, z: (z + block(m, z)) / 4 * 2, Merge(1.0, 0.5)),
    ],
)
def test_an_addition_has_the_factors_of_both_branches(step: Step, merge: Merge) -> None:
    assert merge in followed(step, maps=False).nodes


OTHER_DENSE: dict[str, Step] = {
    "clamp to 6": lambda m, z: z.clamp(0, 6),
    "clamp from -1": lambda m, z: z.clamp(min=-1),
    "clamp from above": lambda m, z: z.clamp(max=0),
    "dropout": lambda m, z: F.dropout(z, 0.5, training=True),
    "dropout of torch": lambda m, z: torch.dropout(z, 0.5, True),
    "batch_norm without statistics": lambda m, z: F.batch_norm(z, None, None, training=True),
    "batch_norm in training": lambda m, z: F.batch_norm(z, *norm_of(m), training=True),
    "batch_norm of torch": lambda m, z: torch.batch_norm(
        z, m.norm.weight, m.norm.bias, *norm_of(m), False, 0.1, 1e-5, False
    ),
    "plus one": lambda m, z: z + 1.0,
    "by nothing": lambda m, z: z / 0.0,
    "over itself": lambda m, z: 1.0 / (z + z),
    "one divided": lambda m, z: torch.div(1.0, z),
    "divided and rounded": lambda m, z: torch.div(z, 2.0, rounding_mode="floor"),
    "squared": lambda m, z: z * z,
    "times a parameter": lambda m, z: z * m.slope,
    "the mean of units": lambda m, z: z.mean(1, keepdim=True),
    "a computed weight": lambda m, z: F.linear(z, m.dense.weight * 1.0),
    "tanh": lambda m, z: torch.tanh(z),
    "some units": lambda m, z: torch.relu(z[:, :2]),
    "some examples": lambda m, z: z[:1],
    "a branch times nothing": lambda m, z: 0 * z + block(m, z),
}
OTHER_MAPS: dict[str, Step] = {
    "a constant weight": lambda m, z: F.linear(z, torch.eye(6).double()),
    "dense along rows": lambda m, z: m.wide(z),
    "dilation": lambda m, z: F.conv2d(z, m.conv.weight, dilation=2),
    "groups": lambda m, z: F.conv2d(z, m.grouped.weight, groups=3),
    "two strides": lambda m, z: F.conv2d(z, m.conv.weight, stride=(1, 2)),
    "two paddings": lambda m, z: F.conv2d(z, m.conv.weight, padding=(0, 1)),
    "max pooling rounded up": lambda m, z: F.max_pool2d(z, 2, ceil_mode=True),
    "max pooling with dilation": lambda m, z: F.max_pool2d(z, 2, dilation=2),
    "max pooling of a rectangle": lambda m, z: F.max_pool2d(z, (2, 3)),
    "max pooling with indices": lambda m, z: F.max_pool2d(z, 2, return_indices=True)[0],
    "average rounded up": lambda m, z: F.avg_pool2d(z, 2, ceil_mode=True),
    "average by another number": lambda m, z: F.avg_pool2d(z, 2, divisor_override=3),
    "average with padding": lambda m, z: F.avg_pool2d(z, 2, padding=1),
    "adaptive, unequal windows": lambda m, z: F.adaptive_avg_pool2d(z, 4),
    "adaptive, rectangles": lambda m, z: F.adaptive_avg_pool2d(z, (3, 2)),
    "adaptive with indices": lambda m, z: F.adaptive_max_pool2d(z, 3, return_indices=True)[0],
    "means of rows": lambda m, z: z.mean(3).mean(2),
    "the mean of all": lambda m, z: z.mean(),
    "pad one side": lambda m, z: F.conv2d(F.pad(z, (1, 1)), m.conv.weight),
    "pad rows": lambda m, z: F.conv2d(F.pad(z, (1, 1, 0, 0)), m.conv.weight),
    "pad with 2": lambda m, z: F.conv2d(F.pad(z, (1,) * 4, value=2.0), m.conv.weight),
    "pad to less": lambda m, z: F.conv2d(F.pad(z, (-1,) * 4), m.conv.weight),
    "pad by reflection": lambda m, z: F.conv2d(F.pad(z, (1,) * 4, "reflect"), m.conv.weight),
    "pad for nothing": lambda m, z: torch.relu(F.pad(z, (1,) * 4)),
    "pad twice": lambda m, z: F.conv2d(F.pad(z, (1,) * 4), m.conv.weight, padding=1),
    "permute": lambda m, z: z.permute(0, 2, 3, 1),
    "flatten of maps": lambda m, z: z.flatten(2),
}


@pytest.mark.parametrize("name", [*OTHER_DENSE, *OTHER_MAPS])
def test_a_call_that_no_gated_network_makes_is_refused_by_name(
    name: str, recorded: Recorded
) -> None:
    maps = name in OTHER_MAPS
    step = (OTHER_MAPS if maps else OTHER_DENSE)[name]
    recorded(refusal_of(calling(step, maps), shape_of(maps)))


def test_one_layer_alone_and_a_second_relu_are_followed() -> None:
    x = torch.randn((3, 4), dtype=torch.float64)
    alone = nn.Sequential(nn.Linear(4, 2)).double()
    twice = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.ReLU(), nn.Linear(3, 2)).double()
    for module, gates in ((alone, 0), (twice, 1)):
        network = k.adapt(module, (4,))
        torch.testing.assert_close(network(x), module(x))
        assert len(network.architecture.gated_shapes) == gates
