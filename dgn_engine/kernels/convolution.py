"""Convolutions inside tangent kernels: windows, and weight gradients example by example.

Legend: n examples, c logits, C_i and C_o channels, P output positions, r = kernel².
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.model.architecture import Conv

# Measured on one core: the grouped road wins until c·C_i·C_o exceeds this many P.
GROUPED_UP_TO = 32


def wrapped(layer: Conv, z: Tensor) -> tuple[Tensor, int]:
    """Maps (n, C, H, W) padded where the layer wraps around, and the zero padding still due."""
    if not layer.circular:
        return z, layer.padding
    if not layer.padding:
        return z, 0
    return F.pad(z, (layer.padding,) * 4, mode="circular"), 0


def windows(layer: Conv, z: Tensor) -> Tensor:
    """The window under every output position: (n, P, r·C_i), the window's place outermost."""
    z, margin = wrapped(layer, z)
    z = F.pad(z, (margin,) * 4).permute(0, 2, 3, 1).contiguous()
    view = z.unfold(1, layer.kernel, layer.stride).unfold(2, layer.kernel, layer.stride)
    n, height, width = view.shape[:3]
    return view.permute(0, 1, 2, 4, 5, 3).reshape(n, height * width, -1)


def weight_gradients(layer: Conv, z: Tensor, delta: Tensor, bias: bool) -> Tensor:
    """Per-example gradients (n, c, parameters) for inputs (n, C_i, H, W), deltas (n, c, C_o, ·, ·).

    The order of the parameters differs between the two roads and is the same for equal shapes.
    """
    flat = delta.flatten(3)
    n, c, _, positions = flat.shape
    if takes_groups(layer, c, positions) and z.device.type == "cpu":
        gradients = _grouped(layer, z, delta).reshape(n, c, -1)
    else:
        gradients = (flat.flatten(1, 2) @ windows(layer, z)).reshape(n, c, -1)
    return torch.cat([gradients, flat.sum(-1)], dim=2) if bias else gradients


def takes_groups(layer: Conv, logits: int, positions: int) -> bool:
    """Whether one grouped convolution is the faster road to the gradients on a CPU."""
    return logits * layer.inputs * layer.outputs <= GROUPED_UP_TO * positions


def _grouped(layer: Conv, z: Tensor, delta: Tensor) -> Tensor:
    """All examples' weight gradients as one convolution with a group per example."""
    z, margin = wrapped(layer, z)
    n, c, outputs = delta.shape[:3]
    shape = (n * c * outputs, layer.inputs, layer.kernel, layer.kernel)
    gradients: Tensor = torch.ops.aten.convolution_backward(
        delta.reshape(1, -1, *delta.shape[3:]),
        z.reshape(1, -1, *z.shape[2:]),
        z.new_empty(shape),
        None,
        [layer.stride] * 2,
        [margin] * 2,
        [1, 1],
        False,
        [0, 0],
        n,
        [False, True, False],
    )[1]
    return gradients
