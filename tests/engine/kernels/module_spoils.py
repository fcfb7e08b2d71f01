"""How a random module is spoilt, with what `adapt` must refuse or get right."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from tests.engine.kernels.module_pieces import Detached, Drawing, Piece, Row, Weighing, layers_of


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
        torch.tanh,
        F.gelu,
        F.relu6,
        F.softplus,
        F.elu,
        torch.sin,
        lambda z: torch.cat([z[:, :1], z[:, 1:]], 1),
        lambda z: z * z,
        lambda z: z.flip(1),
        lambda z: z - z.mean(1, keepdim=True),
        lambda z: z.transpose(0, 1).transpose(0, 1),
        lambda z: F.dropout(z, 0.5),
        lambda z: z.masked_fill(z < 0, 0.0),
        lambda z: z / 2,
        lambda z: torch.where(z > 0, z, 0 * z),
        lambda z: torch.maximum(z, 0 * z),
        lambda z: -z,
        lambda z: z * (z > 0),
        lambda z: z if float(z.detach().sum()) > 0 else -z,
    ]
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
