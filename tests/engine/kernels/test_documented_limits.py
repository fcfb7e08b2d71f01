"""The section 'Limits' of docs/kernels.md: what it names is refused in a clear sentence, what it
does not name any more works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dgn_engine.kernels as k
from dgn_engine.model.architecture import (
    Architecture,
    AveragePool,
    Conv,
    Dense,
    Flatten,
    Fork,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
    Merge,
    Node,
)
from tests.engine.kernels.jacobians import MODES
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network
from tests.refusals import refused

DOCUMENT = Path(__file__).parents[3] / "docs" / "kernels.md"
LIMITS = re.sub(r"\s+", " ", DOCUMENT.read_text("utf-8").split("\n## Limits\n")[1])
MAPS = (2, 6, 6)


class Block(nn.Module):
    """A convolution, then two branches that meet in an addition, or otherwise."""

    def __init__(
        self,
        branch: nn.Module,
        skip: nn.Module,
        tail: nn.Module,
        meet: Callable[[Tensor, Tensor], Tensor] = torch.add,
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 3, 3, padding=1)
        self.branch, self.skip, self.tail, self.meet = branch, skip, tail, meet

    def forward(self, x: Tensor) -> Tensor:
        z = F.relu(self.first(x))
        found: Tensor = self.tail(self.meet(self.branch(z), self.skip(z)))
        return found


def chain(*layers: nn.Module) -> nn.Module:
    """Layers behind a convolution with ReLU, and a head for whatever size comes out."""
    return headed(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), *layers)


def headed(*layers: nn.Module) -> nn.Module:
    body = nn.Sequential(*layers, nn.Flatten()).eval()
    with torch.no_grad():
        size = body(torch.zeros((1, *MAPS))).shape[1]
    return nn.Sequential(*body, nn.Linear(size, 2))


def ending(size: int) -> nn.Module:
    return nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(size, 2))


def smaller(pool: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(), pool)


HALVED = nn.Conv2d(3, 3, 1, stride=2)
SAME = nn.Conv2d(3, 3, 1)

# What the section says, and a module that does it.
REFUSED: list[tuple[str, Callable[[], nn.Module]]] = [
    ("Convolutions are square", lambda: headed(nn.Conv2d(2, 3, (3, 1)))),
    ("same stride both ways", lambda: headed(nn.Conv2d(2, 3, 3, (1, 2)))),
    ("without groups", lambda: headed(nn.Conv2d(2, 2, 3, groups=2))),
    ("or dilation", lambda: headed(nn.Conv2d(2, 2, 3, dilation=2))),
    ("pooling is without dilation", lambda: chain(nn.MaxPool2d(2, dilation=2))),
    ("rounds down", lambda: chain(nn.MaxPool2d(4, ceil_mode=True))),
    ("average pooling without padding", lambda: chain(nn.AvgPool2d(2, padding=1))),
    (
        "Average pooling, global pooling and flattening are not allowed inside a residual block",
        lambda: Block(smaller(nn.AvgPool2d(2)), HALVED, ending(27)),
    ),
    (
        "weights come before the first activation, BatchNorm or max pooling",
        lambda: headed(nn.ReLU(), nn.Conv2d(2, 3, 3)),
    ),
    (
        "first activation, BatchNorm or",
        lambda: headed(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3)),
    ),
    (
        "BatchNorm or max pooling",
        lambda: headed(nn.MaxPool2d(2), nn.Conv2d(2, 2, 1), nn.ReLU()),
    ),
    (
        "neither concatenation",
        lambda: Block(SAME, SAME, ending(216), lambda a, b: torch.cat([a, b], 1)),
    ),
    ("nor a product of branches", lambda: Block(SAME, SAME, ending(108), torch.mul)),
    (
        "branches must meet again in an addition",
        lambda: Block(nn.ReLU(), SAME, ending(108), lambda a, b: b + a.detach()),
    ),
]


@pytest.mark.parametrize(("said", "make"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_limit_that_is_named_is_a_refusal(said: str, make: Callable[[], nn.Module]) -> None:
    assert said in LIMITS
    with refused("not-supported"):
        k.adapt(make().double().eval(), MAPS)


WORKS: dict[str, Callable[[], nn.Module]] = {
    "max pooling with padding": lambda: chain(nn.MaxPool2d(3, 2, padding=1)),
    "max pooling behind a ReLU and another pooling": lambda: chain(
        nn.AvgPool2d(2, 1), nn.MaxPool2d(2), nn.MaxPool2d(2)
    ),
    "max pooling behind an addition": lambda: Block(
        smaller(nn.Identity()), nn.Identity(), nn.Sequential(nn.MaxPool2d(2), ending(27))
    ),
    "max pooling inside a block": lambda: Block(smaller(nn.MaxPool2d(2)), HALVED, ending(27)),
}


@pytest.mark.parametrize("name", list(WORKS))
def test_what_was_called_a_limit_has_the_kernel_of_autograd(name: str) -> None:
    torch.manual_seed(0)
    module = WORKS[name]().double().eval()
    network, x = k.adapt(module, MAPS), torch.randn((3, *MAPS), dtype=torch.float64)
    torch.testing.assert_close(
        k.tangent_kernels(network, x).total_kernel, k.empirical_ntk(module, x)
    )
    assert bool((k.SharedKernels(network, x).npk().diagonal() > 0).all())


@pytest.mark.parametrize("node", [AveragePool(), GlobalAveragePool(), GlobalMaxPool(), Flatten()])
def test_an_architecture_refuses_what_may_not_stand_inside_a_block(node: Node) -> None:
    head = (Merge(), Flatten(), Dense(16, 1, gated=False))
    with refused("not-supported"):
        Architecture((1, 4, 4), (Conv(1, 1), Fork(), node, *head))
    Architecture((1, 4, 4), (Conv(1, 1), Fork(), Conv(1, 1), MaxPool(3, 1, 1), *head))


@pytest.mark.parametrize("mode", MODES)
def test_value_and_feature_kernels_are_gram_matrices_and_the_cross_term_is_none(
    mode: k.Logits,
) -> None:
    network = make_network(ARCHITECTURES["fc-deep"], soft=True, epsilon=0.0)
    parts = k.tangent_kernels(network, draw_images(network.architecture, 12), mode)
    assert parts.value is not None
    assert parts.feature is not None
    assert parts.cross is not None
    for kernel in (parts.value, parts.feature, parts.total_kernel):
        smallest, largest = extremes(kernel)
        assert smallest > -1e-12 * largest
    smallest, largest = extremes(parts.cross)
    assert smallest < -1e-3 * largest
    one = [k.tangent_kernels(network, x[None]).cross for x in draw_images(network.architecture, 12)]
    signs = {float(cross) > 0 for cross in one if cross is not None}
    assert signs == {False, True}, "of single examples it may have either sign"


def extremes(kernel: Tensor) -> tuple[float, float]:
    """Smallest and largest eigenvalue of a kernel in any mode."""
    if kernel.dim() == 4:
        kernel = kernel.flatten(2).flatten(0, 1)
    values = torch.linalg.eigvalsh(kernel)
    return float(values.min()), float(values.max())
