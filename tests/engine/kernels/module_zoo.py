"""Modules of all kinds, tiny and in float64, and their Jacobian by plain autograd."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from tests.refusals import assert_one_sentence

C = 3  # logits of every module but 'one output' and 'a vector'


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.inner = nn.Linear(5, 4), nn.Linear(4, 4)
        self.act, self.head = nn.Tanh(), nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:
        z = self.act(self.stem(x))
        z = z + self.act(self.inner(z))
        z = z + self.act(self.inner(z))  # the same weights again
        out: Tensor = self.head(z)
        return out


class TransformerBlock(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.norm, self.norm2 = nn.LayerNorm(4), nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.qkv = nn.Linear(4, 12)
        self.mlp = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
        self.head = nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:  # (n, 3, 4)
        z = self.norm(x)
        if self.fused:
            q, k, v = (t.unflatten(2, (2, 2)).transpose(1, 2) for t in self.qkv(z).chunk(3, 2))
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        else:
            mixed, _ = self.attention(z, z, z)
        x = x + mixed
        x = x + self.mlp(self.norm2(x))
        out: Tensor = self.head(x.mean(1))
        return out


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, C)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.relu(self.second(torch.relu(self.first(x)))))
        return out


class DependsOnData(nn.Module):
    """Control flow by a value, which vmap cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, C), nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:
        rows = [self.one(r) if float(r.sum()) > 0 else self.two(r).square() for r in x]
        return torch.stack(rows)


class Vector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x).squeeze(1)
        return out


def _mlp(*, act: type[nn.Module] = nn.ReLU, outputs: int = C) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), act(), nn.Linear(6, 5), act(), nn.Linear(5, outputs))


def _normed_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, C))


def _cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 2, 2, stride=2, bias=False),
        nn.SiLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(2, C),
    )


def _weight_norm() -> nn.Module:
    norm = nn.utils.parametrizations.weight_norm
    return nn.Sequential(norm(nn.Linear(4, 5)), nn.Tanh(), norm(nn.Linear(5, C)))


def _spectral_norm() -> nn.Module:
    norm = nn.utils.parametrizations.spectral_norm
    return nn.Sequential(norm(nn.Linear(4, 5)), nn.Tanh(), nn.Linear(5, C))


def _frozen() -> nn.Module:
    module = _mlp(act=nn.GELU)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in ("0.weight", "2.bias"))
    return module


def _unused() -> nn.Module:
    module = _mlp()
    module.register_parameter("spare", nn.Parameter(torch.ones(2)))
    return module


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (_mlp, (4,)),
    "CNN": (_cnn, (2, 4, 4)),
    "residual": (Residual, (5,)),
    "LayerNorm and GELU": (_normed_mlp, (4,)),
    "attention": (lambda: TransformerBlock(fused=False), (3, 4)),
    "fused attention": (lambda: TransformerBlock(fused=True), (3, 4)),
    "weight norm": (_weight_norm, (4,)),
    "spectral norm": (_spectral_norm, (4,)),
    "tied": (Tied, (4,)),
    "frozen": (_frozen, (4,)),
    "unused parameter": (_unused, (4,)),
    "one output": (lambda: _mlp(outputs=1), (4,)),
    "a vector": (Vector, (4,)),
    "depends on data": (DependsOnData, (4,)),
}


def make_module(name: str) -> nn.Module:
    torch.manual_seed(0)
    module = MODULES[name][0]().double().eval()
    for buffer_name, buffer in module.named_buffers():
        if buffer_name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.3, 1.5)
    return module


def examples(name: str, n: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((n, *MODULES[name][1]), generator=generator, dtype=torch.float64)


def refusal_of(module: nn.Module, shape: tuple[int, ...]) -> tuple[str, object]:
    """The kind of what is refused, and the call."""
    with pytest.raises(UserError) as caught:
        k.adapt(module, shape)
    assert_one_sentence(str(caught.value))
    return caught.value.kind, caught.value.value
