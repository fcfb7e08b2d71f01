"""Any user's `nn.Sequential` as a network whose kernels can be computed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.gates import HARD, Gate
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack

Pair = int | tuple[int, ...]
Layers = list[tuple[str, nn.Module]]


def adapt(
    module: nn.Sequential,
    input_shape: tuple[int, ...],
    gates_from: nn.Sequential | None = None,
    gate: Gate = HARD,
) -> GatedNetwork:
    """A network of Linear, Conv2d, ReLU, pooling and Flatten layers, ready for every kernel.

    `input_shape` is without the batch axis. The weights are the module's own parameters, not
    copies, so the kernels follow its training. A BatchNorm in evaluation mode is folded into the
    layer before it: the gates and the outputs stay, but a tangent kernel is then that of the
    folded weights. With `gates_from`, a module of the same architecture, the result is a deep
    gated network whose gates that module makes. Raises `UserError` naming what is not supported.
    """
    architecture, weights, biases = _read(module, tuple(input_shape))
    network = GatedNetwork(architecture).to(weights[0])
    network.gate = gate
    network.value = _stack(architecture, weights, biases)
    if gates_from is not None:
        other, weights, biases = _read(gates_from, tuple(input_shape))
        if other != architecture:
            raise UserError("The network that makes the gates has another architecture.")
        network.own_gates = False
        network.feature = _stack(architecture, weights, biases)
    return network


def adapted_stack(module: nn.Sequential, input_shape: tuple[int, ...]) -> Stack:
    """Just the weights of `adapt`, with their architecture; raises `UserError` as it does."""
    return _stack(*_read(module, tuple(input_shape)))


def _stack(
    architecture: arch.Architecture, weights: list[Tensor], biases: list[Tensor | None]
) -> Stack:
    stack = Stack(architecture, bias=[bias is not None for bias in biases]).to(weights[0])
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        stack.weights[place] = _parameter(weight)
        if bias is not None:
            stack.biases[place] = _parameter(bias)
    return stack


def _parameter(tensor: Tensor) -> nn.Parameter:
    return tensor if isinstance(tensor, nn.Parameter) else nn.Parameter(tensor)


def _read(
    module: nn.Sequential, input_shape: tuple[int, ...]
) -> tuple[arch.Architecture, list[Tensor], list[Tensor | None]]:
    layers = _rectified_first(_folded(list(_leaves(module, ""))))
    nodes: list[arch.Node] = []
    weights: list[Tensor] = []
    biases: list[Tensor | None] = []
    for place, (name, layer) in enumerate(layers):
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            gated = place + 1 < len(layers) and isinstance(layers[place + 1][1], nn.ReLU)
            nodes.append(_weighted(name, layer, gated))
            weights.append(layer.weight)
            biases.append(layer.bias)
        elif isinstance(layer, nn.ReLU):
            if not place or not isinstance(layers[place - 1][1], (nn.Linear, nn.Conv2d)):
                raise UserError(f"Layer {name} (ReLU) does not follow a Linear or Conv2d layer.")
        elif not _pooled_already(nodes, layer):
            nodes.append(_pooling(name, layer))
    return arch.Architecture(input_shape, tuple(nodes)), weights, biases


def _leaves(module: nn.Sequential, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    """Layers in order with their names; nested Sequentials opened, what does nothing left out."""
    for name, child in module.named_children():
        if isinstance(child, nn.Sequential):
            yield from _leaves(child, f"{prefix}{name}.")
        elif isinstance(child, (nn.Dropout, nn.Dropout2d)) and child.training and child.p > 0:
            raise UserError(f"Layer {prefix}{name} (Dropout) is random in training; call eval().")
        elif not isinstance(child, (nn.Identity, nn.Dropout, nn.Dropout2d)):
            yield f"{prefix}{name}", child


def _folded(layers: Layers) -> Layers:
    """The layers, every BatchNorm gone; refused in training mode, where it couples examples."""
    kept: Layers = []
    for name, layer in layers:
        if not isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
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
    fused = copy(layer)  # shares everything but the two parameters replaced below
    fused._parameters = dict(layer._parameters)
    fused.weight, fused.bias = nn.Parameter(weight), nn.Parameter(bias)
    return fused


def _rectified_first(layers: Layers) -> Layers:
    """Max pooling and then ReLU is ReLU and then max pooling: the order that gates expect."""
    ordered = list(layers)
    for place in range(len(ordered) - 1):
        here, following = ordered[place][1], ordered[place + 1][1]
        if isinstance(here, (nn.MaxPool2d, nn.AdaptiveMaxPool2d)) and isinstance(
            following, nn.ReLU
        ):
            ordered[place], ordered[place + 1] = ordered[place + 1], ordered[place]
    return ordered


def _pooled_already(nodes: list[arch.Node], layer: nn.Module) -> bool:
    """Global pooling leaves a vector here; the Flatten that users write after it does nothing."""
    pooled = bool(nodes) and isinstance(nodes[-1], (arch.GlobalAveragePool, arch.GlobalMaxPool))
    return pooled and isinstance(layer, nn.Flatten)


def _weighted(name: str, layer: nn.Linear | nn.Conv2d, gated: bool) -> arch.Weighted:
    if isinstance(layer, nn.Linear):
        return arch.Dense(layer.in_features, layer.out_features, gated)
    kernel = _one(name, layer.kernel_size, "kernel")
    match layer.padding:
        case "valid":
            padding = 0
        case "same" if kernel % 2:
            padding = kernel // 2
        case str():
            raise UserError(f"Layer {name}: padding 'same' needs an odd kernel here.")
        case numbers:
            padding = _one(name, numbers, "padding")
    if layer.groups != 1 or set(layer.dilation) != {1}:
        raise UserError(f"Layer {name} (Conv2d) has groups or dilation, which are not supported.")
    if layer.padding_mode not in ("zeros", "circular"):
        raise UserError(f"Layer {name}: padding mode '{layer.padding_mode}' is not supported.")
    return arch.Conv(
        layer.in_channels,
        layer.out_channels,
        kernel=kernel,
        stride=_one(name, layer.stride, "stride"),
        padding=padding,
        circular=layer.padding_mode == "circular",
        gated=gated,
    )


def _pooling(name: str, layer: nn.Module) -> arch.Node:
    match layer:
        case nn.Flatten() if layer.start_dim == 1 and layer.end_dim == -1:
            return arch.Flatten()
        case nn.AdaptiveAvgPool2d() if _is_one(layer.output_size):
            return arch.GlobalAveragePool()
        case nn.AdaptiveMaxPool2d() if _is_one(layer.output_size):
            return arch.GlobalMaxPool()
        case nn.AvgPool2d() | nn.MaxPool2d():
            padding = _one(name, layer.padding, "padding")
            average = isinstance(layer, nn.AvgPool2d)
            plain = not layer.ceil_mode and getattr(layer, "dilation", 1) in (1, (1, 1))
            if not plain or getattr(layer, "divisor_override", None) or (average and padding):
                raise UserError(
                    f"Layer {name}: ceiling, dilation, or padding of an average is not supported."
                )
            kernel, stride = (
                _one(name, value, what)
                for value, what in ((layer.kernel_size, "kernel"), (layer.stride, "stride"))
            )
            if average:
                return arch.AveragePool(kernel, stride)
            return arch.MaxPool(kernel, stride, padding)
        case nn.modules.batchnorm._BatchNorm():
            raise UserError(f"Layer {name} (BatchNorm) does not follow a Linear or Conv2d layer.")
    raise UserError(
        f"Layer {name} ({type(layer).__name__}) is not supported; Linear, Conv2d, ReLU, pooling "
        "and Flatten are."
    )


def _is_one(size: object) -> bool:
    return size in (1, (1, 1), [1, 1])


def _one(name: str, value: Pair, what: str) -> int:
    """The one number of a square kernel, stride or padding."""
    if isinstance(value, int):
        return value
    if len(set(value)) != 1:
        raise UserError(
            f"Layer {name} has the {what} {tuple(value)}; only square ones are supported."
        )
    return int(value[0])
