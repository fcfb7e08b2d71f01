"""What tests of `dgn kernels --model` share: a folder's code, the command, kernels by autograd."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from dgn_engine.cli import main
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array
from tests.engine.cli.typed import read_arrays
from tests.refusals import refused_command

N = 6
NETS = """
import torch
from torch import nn
from torch.nn import functional as F


def make_net():
    print("a net is made")
    return nn.Sequential(
        nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, 3)
    )


class Residual(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.stem = nn.Linear(5, width)
        self.block = nn.Linear(width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        h = F.relu(self.stem(x))
        h = h + F.relu(self.block(h))
        return self.head(h)


class Smooth(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.b(F.gelu(self.norm(self.a(x))))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        return self.out(torch.relu(self.b(torch.relu(self.a(x)))))


class Turned(nn.Module):
    # matrices are inputs × outputs, and square
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(5, 5))
        self.last = nn.Parameter(torch.randn(5, 5))

    def forward(self, x):
        return torch.tanh(x @ self.kernel) @ self.last


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, words):
        return self.head(self.table(words).mean(1))


class Frozen(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 3))
        self[0].requires_grad_(False)


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(5, 3))


def one_logit():
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1), nn.Flatten(0))


def parallel():
    return nn.DataParallel(Residual())


class Compiled(nn.Module):
    # as torch.compile leaves a module
    def __init__(self):
        super().__init__()
        self._orig_mod = Residual()

    def forward(self, x):
        raise NotImplementedError("compiled for another machine")


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = Residual()

    def forward(self, x):
        return self.module(x)


instance = Residual()


class Zoo:
    smooth = Smooth
"""


def write_code(folder: Path, text: str, name: str = "user_other") -> str:
    (folder / f"{name}.py").write_text(text)
    return name


def command_words(model: str, *options: str) -> list[str]:
    return ["kernels", "--model", model, "--inputs", "x.npy", *options]


def compute_kernels(model: str, *options: str) -> tuple[dict[str, Array], dict[str, Any]]:
    assert main(command_words(model, *options, "--out", "k.npz")) == 0
    arrays = read_arrays("k.npz")
    return arrays, json.loads(str(arrays.pop("settings")))


def refused_kernels(*arguments: object) -> UserError:
    """The refusal of a command, which writes nothing."""
    refusal = refused_command(*arguments, "--out", "refused.npz")
    assert not Path("refused.npz").exists()
    return refusal


def make_user_module(name: str) -> nn.Module:
    """The very module that the command makes: torch's seed is 0 before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path.cwd())
        found = getattr(import_module("user_nets"), name)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module: nn.Module = found if isinstance(found, nn.Module) else found()
    return module.double().eval()


def jacobian(module: nn.Module, x: Tensor) -> Tensor:
    """∂ŷ_k(x_s)/∂θ over what trains (n, C, parameters)."""
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}

    def logits(parameters: dict[str, Tensor]) -> Tensor:
        output: Tensor = functional_call(module, parameters, (x,))
        return output.reshape(len(x), -1)

    rows = jacrev(logits)(trained)
    return torch.cat([row.flatten(2) for row in rows.values()], dim=2)


def mean_kernel(module: nn.Module, x: Tensor) -> Array:
    rows = jacobian(module, x).detach()
    return np.asarray(torch.einsum("scp,tcp->st", rows, rows) / rows.shape[1])


def inputs() -> Tensor:
    return torch.from_numpy(np.load("x.npy"))
