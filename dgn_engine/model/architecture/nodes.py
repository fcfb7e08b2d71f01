"""The nodes that a network is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dense:
    """A weight layer on vectors: weight (outputs, inputs); `gated`: its gate follows at once."""

    inputs: int
    outputs: int
    gated: bool = True
    factor: float = 1.0  # a constant that multiplies weight and bias


@dataclass(frozen=True)
class Conv:
    """A weight layer on maps: weight (outputs, inputs, kernel, kernel).

    `normal`: batch normalisation before its gate, or γ per channel (batch_norm.py).
    """

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    circular: bool = False  # padding wraps around instead of zeros
    gated: bool = True
    normal: bool = False


@dataclass(frozen=True)
class ChannelScale:
    """Each channel times a weight of its own and shifted, z ← s⊙z + t: weight (channels,). What a
    BatchNorm in evaluation is that follows no weight layer. Paths pass it one to one and count
    without it."""

    channels: int

    @property
    def inputs(self) -> int:
        return self.channels

    @property
    def outputs(self) -> int:
        return self.channels


@dataclass(frozen=True)
class GlobalAveragePool:
    """Mean over all positions: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class AveragePool:
    """Mean over windows: (C, H, W) → (C, H', W'), no padding."""

    kernel: int = 2
    stride: int = 2


@dataclass(frozen=True)
class MaxPool:
    """Largest of each window: its arg-max is one more hard gate, which the feature network makes
    where there is one (THEORY §1). Padding is never the largest."""

    kernel: int = 2
    stride: int = 2
    padding: int = 0


@dataclass(frozen=True)
class GlobalMaxPool:
    """Largest over all positions: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class Fork:
    """A residual block begins: z is kept for its skip."""


@dataclass(frozen=True)
class Skip:
    """The block's branch ends here, its skip begins with the z of the `Fork`: what follows up to
    the `Merge` is the projection of the skip (one more weight layer in torchvision's ResNets).
    A block without a projection needs no `Skip`; the architecture puts it in."""


@dataclass(frozen=True)
class Merge:
    """A residual block ends: z ← post·(pre·block(z) + skip(z))."""

    pre: float = 1.0
    post: float = 1.0


@dataclass(frozen=True)
class Gating:
    """A gate layer of its own, z ← z ⊙ G: behind a `Merge` the gate after the addition."""


@dataclass(frozen=True)
class Flatten:
    """(C, H, W) → (C·H·W,)."""


Weighted = Dense | Conv | ChannelScale
Pooling = GlobalAveragePool | AveragePool | MaxPool | GlobalMaxPool | Flatten
Node = Weighted | Pooling | Fork | Skip | Merge | Gating


def weight_shape(layer: Weighted) -> tuple[int, ...]:
    match layer:
        case Dense():
            return (layer.outputs, layer.inputs)
        case ChannelScale():
            return (layer.channels,)
    return (layer.outputs, layer.inputs, layer.kernel, layer.kernel)


def fan_in(layer: Weighted) -> int:
    """Inputs that one unit sums: a for dense, C·kernel² for convolutions, 1 of a scaled channel."""
    match layer:
        case Dense():
            return layer.inputs
        case ChannelScale():
            return 1
    return layer.inputs * layer.kernel**2
