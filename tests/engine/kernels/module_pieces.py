"""The pieces of random modules, each with how paths count in it, and how they are drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Shape = tuple[int, ...]


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
            self.relu,
            nn.ReLU(),
            nn.ReLU(inplace=True),
            F.relu,
            torch.relu,
            lambda z: z.relu(),
            lambda z: z.clamp(min=0),
            torch.relu_,
        ]
        if self.slopes and self.chance(0.5):
            ways = [
                nn.LeakyReLU(self.coin.choice((0.1, 0.5))),
                torch.abs,
                nn.PReLU(init=0.3),
                lambda z: F.leaky_relu(z, 0.2),
                lambda z: abs(z),
                nn.LeakyReLU(0.3, inplace=True),
            ]
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
            (nn.MaxPool2d(2), True),
            (nn.MaxPool2d(3, 2, 1), True),
            (nn.AvgPool2d(2), False),
            (lambda z: F.max_pool2d(z, 2, 1), True),
            (lambda z: F.avg_pool2d(z, 2, 1), False),
            (nn.AdaptiveAvgPool2d((2, 2)), False),
        ]
        return Pooling(*self.coin.choice(ways))

    def end_of_maps(self) -> list[Piece]:
        flat: list[Callable[[Tensor], Tensor]] = [
            nn.Flatten(),
            lambda z: z.view(z.size(0), -1),
            lambda z: torch.flatten(z, 1),
            lambda z: z.reshape(z.shape[0], -1),
        ]
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


class Dropping(Piece):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.3)

    def forward(self, z: Tensor) -> Tensor:
        return self.dropout(z)  # type: ignore[no-any-return]


def layers_of(row: Row) -> list[Weighing]:
    return [part for part in row.modules() if isinstance(part, Weighing)]
