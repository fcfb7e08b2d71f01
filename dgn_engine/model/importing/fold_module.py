"""BatchNorm in evaluation mode folded into the layer before it."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from dgn_engine.errors import UserError

Norm = (nn.BatchNorm1d, nn.BatchNorm2d)
Layers = list[tuple[str, nn.Module]]


def folded(layers: Layers) -> Layers:
    """The layers, every BatchNorm gone; refused in training mode, where it couples examples."""
    kept: Layers = []
    for name, layer in layers:
        if not isinstance(layer, Norm):
            kept.append((name, layer))
            continue
        if layer.training or layer.running_mean is None or layer.running_var is None:
            raise UserError(f"Layer {name} (BatchNorm) couples the examples; call eval() first.")
        before, target = kept[-1] if kept else ("", None)
        if not isinstance(target, (nn.Linear, nn.Conv2d)):
            raise UserError(f"Layer {name} (BatchNorm) does not follow a Linear or Conv2d layer.")
        kept[-1] = (before, _fused(target, layer))
    return kept


@torch.no_grad()
def _fused(layer: nn.Linear | nn.Conv2d, norm: nn.BatchNorm1d | nn.BatchNorm2d) -> nn.Module:
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    scale: Tensor = torch.ones_like(mean) if norm.weight is None else norm.weight
    shift: Tensor = torch.zeros_like(mean) if norm.bias is None else norm.bias
    statistics = (mean, variance, norm.eps, scale, shift)
    fuse = fuse_linear_bn_weights if isinstance(layer, nn.Linear) else fuse_conv_bn_weights
    weight, bias = fuse(layer.weight, layer.bias, *statistics)
    fused = copy(layer)  # shares what is not replaced below
    fused._parameters = dict(layer._parameters)
    fused.weight, fused.bias = nn.Parameter(weight), nn.Parameter(bias)
    return fused
