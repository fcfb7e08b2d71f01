"""A grammar of random modules, and the slow twin that each of them is judged by.

Every module is written as users write them: layers used again, functions in the place of layers,
changes in place, skips, pooling, code of its own; some are spoilt with what `adapt` must refuse or
get right: frozen, tied and computed parameters, hooks, factors, detached branches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import dgn_engine.kernels as k
from dgn_engine.errors import ArgumentError, UserError

Shape = tuple[int, ...]
Verdict = Literal["refused", "equal"]
EXAMPLES, CLASSES = 3, 2
TOLERANCE = 1e-10


class Piece(nn.Module):
    """A part of a module. `moments`: of M[s, s'] = E[z zᵀ'] (n, n, D, D) under independent weights
    of variance one with the gates of z (n, *shape), what M is behind this part: path kernels by
    their definition, weights as symbols."""

    def moments(self, z: Tensor, M: Tensor) -> Tensor:
        return M


class Weighing(Piece):
    """A dense layer or a convolution, by itself or as a function, and perhaps a BatchNorm."""

    def __init__(self, layer: nn.Linear | nn.Conv2d, norm: nn.Module | None, by_function: bool):
        super().__init__()
        self.layer, self.norm, self.by_function = layer, norm, by_function

    def forward(self, z: Tensor) -> Tensor:
        layer = self.layer
        if self.by_function and isinstance(layer, nn.Linear):
            z = F.linear(z, layer.weight, layer.bias)
        elif self.by_function and isinstance(layer, nn.Conv2d) and layer.padding_mode == "zeros":
            sizes = (layer.stride, layer.padding)
            z = F.conv2d(z, layer.weight, layer.bias, *sizes)  # type: ignore[arg-type]
        else:
            z = layer(z)
        return z if self.norm is None else self.norm(z)  # type: ignore[no-any-return]

    def moments(self, z: Tensor, M: Tensor) -> Tensor:
        layer = self.layer
        if isinstance(layer, nn.Linear):
            traces = M.diagonal(dim1=2, dim2=3).sum(2)
            unit = torch.eye(layer.out_features, dtype=M.dtype)
            return traces[..., None, None] * unit
        n, (channels, *sides) = len(z), z.shape[1:]
        size = sides[0] * sides[1]
        places = torch.eye(size, dtype=M.dtype).reshape(size, 1, *sides)
        assert isinstance(layer.padding, tuple)
        margin = layer.padding[0]
        if layer.padding_mode == "circular":
            places = F.pad(places, (margin,) * 4, mode="circular")
            margin = 0
        kernel, stride = layer.kernel_size[0], layer.stride[0]
        taken = F.unfold(places, kernel, padding=margin, stride=stride)  # (size, kernel², P)
        maps = M.reshape(n, n, channels, size, channels, size)
        of_positions = torch.einsum("abcpcq->abpq", maps)
        moved = torch.einsum("pox,abpq,qoy->abxy", taken, of_positions, taken)
        unit = torch.eye(layer.out_channels, dtype=M.dtype)
        D = layer.out_channels * moved.shape[-1]
        return torch.einsum("ij,abxy->abixjy", unit, moved).reshape(n, n, D, D)


class Norm(Piece):
    """A BatchNorm of its own."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, z: Tensor) -> Tensor:
        return self.norm(z)  # type: ignore[no-any-return]


class Act(Piece):
    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.act = act

    def forward(self, z: Tensor) -> Tensor:
        return self.act(z)

    def moments(self, z: Tensor, M: Tensor) -> Tensor:
        q = z.detach().clone().requires_grad_()
        slopes = torch.autograd.grad(self.act(q * 1.0).sum(), q)[0].flatten(1)
        return M * slopes[:, None, :, None] * slopes[None, :, None, :]


class Pooling(Piece):
    """Paths are counted, so that averages are sums here; the largest is one more gate."""

    def __init__(self, pool: Callable[[Tensor], Tensor], largest: bool) -> None:
        super().__init__()
        self.pool, self.largest = pool, largest

    def forward(self, z: Tensor) -> Tensor:
        return self.pool(z)

    def moments(self, z: Tensor, M: Tensor) -> Tensor:
        taken = torch.stack(
            [torch.autograd.functional.jacobian(self.pool, one[None]).flatten() for one in z]
        )
        taken = taken.reshape(len(z), -1, z[0].numel())
        if not self.largest:
            taken = taken.sign()
        return torch.einsum("aip,abpq,bjq->abij", taken, M, taken)


class Factor(Piece):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, z: Tensor) -> Tensor:
        return z * self.factor


class Row(Piece):
    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__()
        self.pieces = nn.ModuleList(pieces)

    def forward(self, z: Tensor) -> Tensor:
        for piece in self.pieces:
            z = piece(z)
        return z

    def moments(self, z: Tensor, M: Tensor) -> Tensor:
        before: nn.Module | None = None
        for piece in self.pieces:
            assert isinstance(piece, Piece)
            M = piece.moments(z, M)
            if isinstance(piece, Factor) and isinstance(before, (Residual, Factor)):
                M = piece.factor**2 * M  # of an addition; elsewhere it belongs to the weights
            before = piece
            with torch.no_grad():
                z = piece(z.clone())
        return M


class Residual(Piece):
    """a·block(z) + b·skip(z), written in one of several ways."""

    def __init__(self, block: Row, skip: Row, factors: tuple[float, float], way: str) -> None:
        super().__init__()
        self.block, self.skip = block, skip
        self.factors, self.way = factors, way

    def forward(self, z: Tensor) -> Tensor:
        a, b = self.factors
        other = self.skip(z) if b == 1.0 else b * self.skip(z)
        if self.way == "in place" and a == 1.0:
            found: Tensor = self.block(z)
            found += other
            return found
        if self.way == "alpha":
            return torch.add(other, self.block(z), alpha=a)
        if self.way == "minus":
            return other - (-a) * self.block(z)  # type: ignore[no-any-return]
        return other + a * self.block(z)  # type: ignore[no-any-return]

    def moments(self, z: Tensor, M: Tensor) -> Tensor:
        a, b = self.factors
        return a**2 * self.block.moments(z, M) + b**2 * self.skip.moments(z, M)


class Detached(Piece):
    """Numbers as in `row`, gradients cut."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, z: Tensor) -> Tensor:
        if self.way == "data":
            return z.data
        if self.way == "no_grad":
            with torch.no_grad():
                return z * 1.5
        return z.detach()


@dataclass
class Drawing:
    """The coin of one module, and what of it may be used again."""

    coin: random.Random
    relu: nn.ReLU = field(default_factory=nn.ReLU)
    marks: set[str] = field(default_factory=set)
    slopes: bool = False

    def chance(self, p: float) -> bool:
        return self.coin.random() < p

    def act(self) -> Piece:
        ways: list[Callable[[Tensor], Tensor]] = [
            self.relu, nn.ReLU(), nn.ReLU(inplace=True), F.relu, torch.relu,
            lambda z: z.relu(), lambda z: z.clamp(min=0), torch.relu_,
        ]  # fmt: skip
        if self.slopes and self.chance(0.5):
            ways = [
                nn.LeakyReLU(self.coin.choice((0.1, 0.5))), torch.abs, nn.PReLU(init=0.3),
                lambda z: F.leaky_relu(z, 0.2), lambda z: abs(z), nn.LeakyReLU(0.3, inplace=True),
            ]  # fmt: skip
        return Act(self.coin.choice(ways))

    def norm(self, shape: Shape) -> nn.Module:
        affine = self.chance(0.8)
        kind = nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d
        return kind(shape[0], affine=affine)

    def weighing(self, shape: Shape, outputs: int, same_size: bool = True) -> Weighing:
        bias = self.chance(0.5)
        norm = self.chance(0.35)
        if len(shape) == 1:
            layer: nn.Linear | nn.Conv2d = nn.Linear(shape[0], outputs, bias=bias)
        else:
            kernel = self.coin.choice((1, 3)) if same_size else self.coin.choice((2, 3))
            kernel = min(kernel, *shape[1:])
            stride = 1 if same_size else self.coin.choice((1, 2))
            padding = kernel // 2 if same_size else self.coin.choice((0, 1))
            if same_size and kernel == 2:
                kernel, padding = 1, 0
            mode = "circular" if self.chance(0.2) else "zeros"
            sizes = (shape[0], outputs, kernel, stride, padding)
            layer = nn.Conv2d(*sizes, bias=bias, padding_mode=mode)
        made = self.norm((outputs, *shape[1:])) if norm else None
        return Weighing(layer, made, self.chance(0.3))

    def residual(self, shape: Shape, depth: int) -> Piece:
        inner: list[Piece] = []
        if self.chance(0.3):  # pre-activation
            inner += [Norm(self.norm(shape))] if self.chance(0.5) else []
            inner.append(self.act())
            self.marks.add("in place")
        for _ in range(self.coin.choice((1, 1, 2))):
            inner += [self.weighing(shape, shape[0]), self.act()]
        if depth and self.chance(0.2):
            inner.append(self.residual(shape, depth - 1))
        if self.chance(0.7):
            inner.append(self.weighing(shape, shape[0]))
        skip = Row([self.weighing(shape, shape[0])] if self.chance(0.3) else [])
        factors = (1.0, 1.0)
        if self.chance(0.25):
            factors = (self.coin.choice((1.0, 0.5, -2.0)), self.coin.choice((1.0, 0.25)))
        ways = ("plus", "in place", "alpha", "minus")
        return Residual(Row(inner), skip, factors, self.coin.choice(ways))

    def pool(self) -> Piece:
        ways: list[tuple[Callable[[Tensor], Tensor], bool]] = [
            (nn.MaxPool2d(2), True), (nn.MaxPool2d(3, 2, 1), True), (nn.AvgPool2d(2), False),
            (lambda z: F.max_pool2d(z, 2, 1), True), (lambda z: F.avg_pool2d(z, 2, 1), False),
            (nn.AdaptiveAvgPool2d((2, 2)), False),
        ]  # fmt: skip
        return Pooling(*self.coin.choice(ways))

    def end_of_maps(self) -> list[Piece]:
        flat: list[Callable[[Tensor], Tensor]] = [
            nn.Flatten(), lambda z: z.view(z.size(0), -1), lambda z: torch.flatten(z, 1),
            lambda z: z.reshape(z.shape[0], -1),
        ]  # fmt: skip
        flatten = Pooling(self.coin.choice(flat), largest=True)
        ways: list[list[Piece]] = [
            [flatten],
            [Pooling(nn.AdaptiveAvgPool2d(1), largest=False), flatten],
            [Pooling(lambda z: z.mean((2, 3)), largest=False)],
            [Pooling(lambda z: z.mean((-1, -2), keepdim=True), largest=False), flatten],
            [Pooling(nn.AdaptiveMaxPool2d(1), largest=True), flatten],
            [Pooling(lambda z: z.amax((2, 3)), largest=True)],
        ]
        return self.coin.choice(ways)


@dataclass(frozen=True)
class Drawn:
    """A module, the pieces that it is made of, and its input shape. `apart`: the pieces do not
    say how paths count, because a branch may change in place what its skip holds, or code of its
    own multiplies a branch."""

    module: nn.Module
    row: Row
    shape: Shape
    apart: bool


def drawn(seed: int) -> Drawn:
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
    settle(row, seed)
    spoil = coin.choice(list(SPOILS)) if draw.chance(0.45) else ""
    spoilt = SPOILS[spoil](row, draw) if spoil else row
    module: nn.Module = spoilt if draw.chance(0.7) else nn.Sequential(*spoilt.pieces)
    blocks = any(isinstance(part, Residual) for part in spoilt.modules())
    apart = "in place" in draw.marks or (blocks and spoil in ("hooked", "own code"))
    return Drawn(module, spoilt, inputs, apart)


class Dropping(Piece):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.3)

    def forward(self, z: Tensor) -> Tensor:
        return self.dropout(z)  # type: ignore[no-any-return]


def settle(row: Row, seed: int) -> None:
    """Values that no two parameters share; statistics that are not those of a fresh BatchNorm."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in (*row.named_parameters(), *row.named_buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            if name.endswith("running_var"):
                tensor.square_().add_(0.5)


def layers_of(row: Row) -> list[Weighing]:
    return [part for part in row.modules() if isinstance(part, Weighing)]


def frozen(row: Row, draw: Drawing) -> Row:
    for parameter in row.parameters():
        parameter.requires_grad_(draw.chance(0.5))
    return row


def frozen_whole(row: Row, draw: Drawing) -> Row:
    return row.requires_grad_(False)


def masked(row: Row, draw: Drawing) -> Row:
    draw.coin.choice(list(row.parameters())).register_hook(lambda gradient: 0 * gradient)
    return row


def tied(row: Row, draw: Drawing) -> Row:
    layers = layers_of(row)
    draw.coin.shuffle(layers)
    for one in layers:
        for other in layers:
            if one is not other and one.layer.weight.shape == other.layer.weight.shape:
                other.layer.weight = one.layer.weight
                return row
    return row


def used_again(row: Row, draw: Drawing) -> Row:
    """A piece with weights once more, where its outputs fit its inputs."""
    for place, piece in enumerate(row.pieces):
        layer = piece.layer if isinstance(piece, Weighing) else None
        if isinstance(layer, nn.Linear) and layer.in_features == layer.out_features:
            assert isinstance(piece, Weighing)
            again = [*row.pieces[: place + 1], draw.act(), piece, *row.pieces[place + 1 :]]
            return Row(again)  # type: ignore[arg-type]
    return row


def computed(row: Row, draw: Drawing) -> Row:
    layer = draw.coin.choice(layers_of(row)).layer
    made = draw.coin.choice((parametrizations.weight_norm, parametrizations.spectral_norm))
    made(layer)
    return row.double().eval()


def hooked(row: Row, draw: Drawing) -> Row:
    """Hooks that look, change numbers, change gradients, or leave autograd."""
    layer = draw.coin.choice(layers_of(row)).layer
    seen: list[Tensor] = []
    hooks: list[Callable[[nn.Module, object, Tensor], Tensor | None]] = [
        lambda _, x, y: seen.append(y.detach()),  # type: ignore[func-returns-value]
        lambda _, x, y: 2 * y,
        lambda _, x, y: y + 1,
        lambda _, x, y: y.tanh(),
        lambda _, x, y: y.detach(),
        lambda _, x, y: torch.from_numpy(y.detach().numpy() * 1.5),
        lambda _, x, y: y.mul_(0.5),
        lambda _, x, y: y + y.mean(0, keepdim=True),
    ]
    if draw.chance(0.2):
        layer.register_full_backward_hook(
            lambda _, gi, go: (2 * gi[0],) if gi[0] is not None else gi
        )
    elif draw.chance(0.2):
        layer.register_forward_pre_hook(lambda _, x: (x[0] * 0.5,))
    else:
        layer.register_forward_hook(draw.coin.choice(hooks))
    return row


def own_code(row: Row, draw: Drawing) -> Row:
    """A layer whose forward is another one than that of its class."""
    layer = draw.coin.choice(layers_of(row)).layer
    plain = type(layer).forward
    ways: list[Callable[[Tensor], Tensor]] = [
        lambda x: plain(layer, 2 * x),  # type: ignore[arg-type]
        lambda x: 3 * plain(layer, x),  # type: ignore[arg-type]
        lambda x: plain(layer, x.abs()),  # type: ignore[arg-type]
        lambda x: plain(layer, x) + 0.5,  # type: ignore[arg-type]
        lambda x: plain(layer, x) * (1 if x.shape[0] < 3 else 2),  # type: ignore[arg-type]
        lambda x: plain(layer, x) * layer.weight.mean(),  # type: ignore[arg-type]
        lambda x: plain(layer, x) - plain(layer, x.flip(0)),  # type: ignore[arg-type]
        lambda x: plain(layer, x).sort(1).values,  # type: ignore[arg-type]
        lambda x: StraightThrough.apply(plain(layer, x)),  # type: ignore[arg-type, no-any-return, no-untyped-call]
    ]
    layer.forward = draw.coin.choice(ways)  # type: ignore[method-assign]
    return row


class StraightThrough(torch.autograd.Function):
    """Signs whose gradient is one."""

    @staticmethod
    def forward(ctx: object, z: Tensor) -> Tensor:
        return z.sign()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


class Crossing(Piece):
    """Two values that meet twice: no residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, z: Tensor) -> Tensor:
        u, v = self.one(z).relu(), self.two(z).relu()
        found: Tensor = (u + v + u).relu() + v
        return found


class Apart(Piece):
    """What is no gate, or goes by another way than an addition."""

    def __init__(self, way: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.way = way

    def forward(self, z: Tensor) -> Tensor:
        return self.way(z)


def foreign(row: Row, draw: Drawing) -> Row:
    """A call that no gated network has, anywhere."""
    ways: list[Callable[[Tensor], Tensor]] = [
        torch.tanh, F.gelu, F.relu6, F.softplus, F.elu, torch.sin,
        lambda z: torch.cat([z[:, :1], z[:, 1:]], 1), lambda z: z * z, lambda z: z.flip(1),
        lambda z: z - z.mean(1, keepdim=True), lambda z: z.transpose(0, 1).transpose(0, 1),
        lambda z: F.dropout(z, 0.5), lambda z: z.masked_fill(z < 0, 0.0), lambda z: z / 2,
        lambda z: torch.where(z > 0, z, 0 * z), lambda z: torch.maximum(z, 0 * z), lambda z: -z,
        lambda z: z * (z > 0), lambda z: z if float(z.detach().sum()) > 0 else -z,
    ]  # fmt: skip
    pieces: list[nn.Module] = list(row.pieces)
    piece = Detached(draw.coin.choice(("detach", "data", "no_grad")))
    added = piece if draw.chance(0.2) else Apart(draw.coin.choice(ways))
    pieces.insert(draw.coin.randrange(len(pieces) + 1), added)
    return Row(pieces).double().eval()  # type: ignore[arg-type]


def crossed(row: Row, draw: Drawing) -> Row:
    last = row.pieces[-1]
    assert isinstance(last, Weighing)
    assert isinstance(last.layer, nn.Linear)
    crossing = Crossing(last.layer.in_features)
    return Row([*row.pieces[:-1], crossing, last]).double().eval()  # type: ignore[list-item]


def in_training(row: Row, draw: Drawing) -> Row:
    row.train()
    return row


def with_strangers(row: Row, draw: Drawing) -> Row:
    """Parameters that nothing uses, a buffer as a weight."""
    row.unused = nn.Linear(2, 2).double()
    layer = draw.coin.choice(layers_of(row)).layer
    if draw.chance(0.5):
        weight = layer.weight.detach().clone()
        del layer.weight
        layer.register_buffer("weight", weight)
    return row


SPOILS: dict[str, Callable[[Row, Drawing], Row]] = {
    "frozen": frozen,
    "frozen whole": frozen_whole,
    "masked": masked,
    "tied": tied,
    "used again": used_again,
    "computed": computed,
    "hooked": hooked,
    "own code": own_code,
    "foreign": foreign,
    "crossed": crossed,
    "in training": in_training,
    "with strangers": with_strangers,
}


def tangent_kernel(module: nn.Module, x: Tensor) -> Tensor:
    """Σ_k ⟨∇ŷ_k(s), ∇ŷ_k(s')⟩ / C over the parameters that train, a backward pass for each."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    rows = []
    for one in x:
        logits = module(one[None].clone())[0]
        for logit in logits:
            found = torch.autograd.grad(logit, parameters, retain_graph=True, allow_unused=True)
            pairs = zip(found, parameters, strict=True)
            rows.append(
                torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])
            )
    J = torch.stack(rows).reshape(len(x), CLASSES, -1)
    return torch.einsum("ncp,mcp->nm", J, J) / CLASSES


def path_kernel(row: Row, x: Tensor) -> Tensor:
    flat = x.flatten(1)
    M = flat[:, None, :, None] * flat[None, :, None, :]
    return row.moments(x, M)[:, :, 0, 0]


def judged(seed: int) -> tuple[Verdict, str]:
    """Adapt module number `seed`: refused with this sentence, or equal in outputs, tangent and
    path kernel to 1e-10 of its largest entry; raises `AssertionError` where it is neither."""
    found = drawn(seed)
    generator = torch.Generator().manual_seed(seed)
    try:
        network = k.adapt(found.module, found.shape)
    except UserError as refusal:
        said = str(refusal)
        assert said.endswith("."), said
        assert "\n" not in said, said
        return "refused", said
    x = torch.randn((EXAMPLES, *found.shape), generator=generator, dtype=torch.float64)
    same(seed, "outputs", network(x), found.module(x.clone()))
    if any(p.requires_grad for p in found.module.parameters()):
        whole = k.tangent_kernels(network, x).whole
        same(seed, "K", whole, tangent_kernel(found.module, x))
        unheld = k.tangent_operator(network, x) @ np.eye(EXAMPLES)
        same(seed, "K that is never held", torch.from_numpy(unheld), whole)
    else:
        with pytest.raises(ArgumentError, match="frozen"):
            k.tangent_kernels(network, x)
    if not found.apart:
        same(seed, "H", k.SharedKernels(network, x).npk(), path_kernel(found.row, x))
    return "equal", ""


def same(seed: int, what: str, ours: Tensor, theirs: Tensor) -> None:
    difference = float((ours - theirs).detach().abs().max())
    scale = max(float(theirs.detach().abs().max()), 1e-12)
    assert difference <= TOLERANCE * scale, f"module {seed}: {what} differs by {difference:.3g}"
