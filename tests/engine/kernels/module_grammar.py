"""A grammar of random modules, and the slow twin that each of them is judged by.

Every module is written as users write them: layers used again, functions in the place of layers,
changes in place, skips, pooling, code of its own; some are spoilt with what `adapt` must refuse or
get right: frozen, tied and computed parameters, hooks, factors, detached branches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dgn_engine.kernels as k
from dgn_engine.errors import ArgumentError, UserError
from tests.engine.kernels.jacobians import contract_jacobians
from tests.engine.kernels.module_pieces import (
    Drawing,
    Dropping,
    Factor,
    Piece,
    Residual,
    Row,
    Shape,
    Weighing,
)
from tests.engine.kernels.module_spoils import SPOILS
from tests.engine.kernels.unusual_modules import real_jacobian

Verdict = Literal["refused", "equal"]
EXAMPLES, CLASSES = 3, 2
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Drawn:
    """A module, the pieces that it is made of, and its input shape. `apart`: the pieces do not
    say how paths count, because a branch may change in place what its skip holds, or code of its
    own multiplies a branch."""

    module: nn.Module
    row: Row
    shape: Shape
    apart: bool


def draw_module(seed: int) -> Drawn:
    coin = random.Random(seed)
    draw = Drawing(coin, slopes=coin.random() < 0.3)
    torch.manual_seed(seed)
    shape: Shape = (3,) if coin.random() < 0.45 else (2, 5, 5)
    pieces: list[Piece] = []
    inputs = shape
    for _ in range(coin.choice((1, 1, 2, 2, 3))):
        outputs = coin.choice((2, 3))
        layer = draw.weighing(shape, outputs, same_size=draw.chance(0.6))
        pieces.append(layer)
        with torch.no_grad():
            shape = tuple(layer.eval()(torch.zeros((2, *shape))).shape[1:])
        pieces += [draw.act()] if draw.chance(0.9) else []
        if len(shape) == 3 and min(shape[1:]) > 3 and draw.chance(0.4):
            pool = draw.pool()
            pieces.insert(len(pieces) - draw.chance(0.2), pool)  # sometimes before the ReLU
            shape = tuple(pool(torch.zeros((2, *shape))).shape[1:])
        if draw.chance(0.5):
            pieces += [draw.residual(shape, 1), *([draw.act()] if draw.chance(0.7) else [])]
        pieces += [Dropping()] if draw.chance(0.1) else []
    if len(shape) == 3:
        end = draw.end_of_maps()
        for piece in end:
            shape = tuple(piece(torch.zeros((2, *shape))).shape[1:])
        pieces += end
    if draw.chance(0.3):
        pieces += [draw.weighing(shape, 3), draw.act()]
        shape = (3,)
    pieces.append(Weighing(nn.Linear(shape[0], CLASSES, bias=draw.chance(0.5)), None, False))
    if draw.chance(0.08):
        pieces.insert(coin.randrange(len(pieces)), Factor(coin.choice((0.5, 2.0))))
    row = Row(pieces).double().eval()
    randomise_values(row, seed)
    spoil = coin.choice(list(SPOILS)) if draw.chance(0.45) else ""
    spoilt = SPOILS[spoil](row, draw) if spoil else row
    module: nn.Module = spoilt if draw.chance(0.7) else nn.Sequential(*spoilt.pieces)
    blocks = any(isinstance(part, Residual) for part in spoilt.modules())
    apart = "in place" in draw.marks or (blocks and spoil in ("hooked", "own code"))
    return Drawn(module, spoilt, inputs, apart)


def randomise_values(row: Row, seed: int) -> None:
    """Values that no two parameters share; statistics that are not those of a fresh BatchNorm."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in (*row.named_parameters(), *row.named_buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            if name.endswith("running_var"):
                tensor.square_().add_(0.5)


def tangent_kernel(module: nn.Module, x: Tensor) -> Tensor:
    """Σ_k ⟨∇ŷ_k(s), ∇ŷ_k(s')⟩ / C over the parameters that train."""
    J = real_jacobian(module, x)
    return contract_jacobians(J, J, "mean")


def path_kernel(row: Row, x: Tensor) -> Tensor:
    flat = x.flatten(1)
    M = flat[:, None, :, None] * flat[None, :, None, :]
    return row.moments(x, M)[:, :, 0, 0]


def judge_module(seed: int) -> tuple[Verdict, str]:
    """Adapt module number `seed`: refused with this sentence, or equal in outputs, tangent and
    path kernel to 1e-10 of its largest entry; raises `AssertionError` where it is neither."""
    found = draw_module(seed)
    generator = torch.Generator().manual_seed(seed)
    try:
        network = k.adapt(found.module, found.shape)
    except UserError as refusal:
        said = str(refusal)
        assert said.endswith("."), said
        assert "\n" not in said, said
        return "refused", said
    x = torch.randn((EXAMPLES, *found.shape), generator=generator, dtype=torch.float64)
    assert_same(seed, "outputs", network(x), found.module(x.clone()))
    if any(p.requires_grad for p in found.module.parameters()):
        whole = k.tangent_kernels(network, x).total_kernel
        assert_same(seed, "K", whole, tangent_kernel(found.module, x))
        unheld = k.tangent_operator(network, x) @ np.eye(EXAMPLES)
        assert_same(seed, "K that is never held", torch.from_numpy(unheld), whole)
    else:
        with pytest.raises(ArgumentError, match="frozen"):
            k.tangent_kernels(network, x)
    if not found.apart:
        assert_same(seed, "H", k.SharedKernels(network, x).npk(), path_kernel(found.row, x))
    return "equal", ""


def assert_same(seed: int, what: str, ours: Tensor, theirs: Tensor) -> None:
    difference = float((ours - theirs).detach().abs().max())
    scale = max(float(theirs.detach().abs().max()), 1e-12)
    assert difference <= TOLERANCE * scale, f"module {seed}: {what} differs by {difference:.3g}"
