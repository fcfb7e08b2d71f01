"""The nodes that a network is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dense:
    """A weight layer on vectors: weight (outputs, inputs)."""

    inputs: int
    outputs: int
    gated: bool = True


@dataclass(frozen=True)
class Conv:
    """A weight layer on maps: weight (outputs, inputs, kernel, kernel)."""

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    circular: bool = False  # padding wraps around instead of zeros
    gated: bool = True


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
    """Largest of each window, no padding, directly after a convolution: its arg-max is one more
    hard gate, which the feature network makes where there is one (THEORY §1)."""

    kernel: int = 2
    stride: int = 2


@dataclass(frozen=True)
class GlobalMaxPool:
    """Largest over all positions, directly after a convolution: (C, H, W) → (C,)."""


@dataclass(frozen=True)
class Fork:
    """A residual block begins: z is kept for the `Merge` that ends it."""


@dataclass(frozen=True)
class Merge:
    """A residual block ends: z ← post·(pre·block(z) + z), nothing but weight layers between."""

    pre: float = 1.0
    post: float = 1.0


@dataclass(frozen=True)
class Flatten:
    """(C, H, W) → (C·H·W,)."""


Weighted = Dense | Conv
Pooling = GlobalAveragePool | AveragePool | MaxPool | GlobalMaxPool | Flatten
Node = Weighted | Pooling | Fork | Merge


def weight_shape(layer: Weighted) -> tuple[int, ...]:
    """Shape of the weight tensor of a layer, as torch stores it."""
    if isinstance(layer, Dense):
        return (layer.outputs, layer.inputs)
    return (layer.outputs, layer.inputs, layer.kernel, layer.kernel)


def fan_in(layer: Weighted) -> int:
    """Inputs that one unit sums: a for dense, C·kernel² for convolutions."""
    if isinstance(layer, Dense):
        return layer.inputs
    return layer.inputs * layer.kernel**2
