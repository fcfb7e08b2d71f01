"""Build a network from an `nn.Sequential` whose layers a file or a user states."""

from __future__ import annotations

import contextlib
import copy
import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from dgn_engine.errors import UserError
from dgn_engine.importing.fold_batchnorm import FOLDED
from dgn_engine.importing.foreign_keys import UngatedLayers, UnknownGates
from dgn_engine.model.adapt.from_module import adapted_stack
from dgn_engine.model.stack import Stack
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents, StatedLayer
from dgn_engine.storage.checkpoints.stated_layers import ACTIVATION_KINDS, KINDS

_ENDS = ("Softmax", "LogSoftmax")
_SILENT = ("Identity", "Dropout", "Dropout2d")


@dataclass(frozen=True)
class SequentialModule:
    """The module of stated layers in evaluation mode and float64, for inputs of `input_shape`.

    `remarks`: sentences on what was left out or folded in.
    """

    module: nn.Sequential
    input_shape: tuple[int, ...]
    remarks: tuple[str, ...]


def module_of_layers(
    listing: CheckpointContents, layers: Sequence[StatedLayer], input_shape: tuple[int, ...]
) -> SequentialModule:
    """Return the module of these layers with the weights of a file.

    Nothing from the file is called: the layers are torch's own, built from kinds and numbers.

    Raises:
        UserError: A tensor does not match its stated layer.
        UnknownGates: A layer is of an unsupported kind.
    """
    remarks: list[str] = []
    shown = [layer for layer in layers if layer.kind not in _SILENT]
    if shown and shown[-1].kind in _ENDS:
        remarks.append(f"The {shown.pop().kind} at its end is left out: logits are shown.")
    _check_known(listing.file_name, shown)
    shape = _first_input_shape(listing.file_name, shown, input_shape)
    if shown and shown[0].kind == "Flatten" and len(shape) == 1:
        del shown[0]
    with _errors_of(listing.file_name):
        module = nn.Sequential()
        for layer in shown:
            module.add_module(f"'{layer.name.replace('.', '/')}'", _build_layer(layer, listing))
        module.eval()
        _check_shapes(module, shape)
    return SequentialModule(module, shape, tuple(remarks))


def stack_of_layers(
    listing: CheckpointContents,
    layers: Sequence[StatedLayer],
    input_shape: tuple[int, ...],
    dtype: torch.dtype,
) -> tuple[Stack, tuple[str, ...]]:
    """Return the stack of a file's layers, and sentences on what was left out.

    BatchNorm is folded in as in evaluation mode, in float64.

    Raises:
        UserError: A tensor does not match its stated layer.
        UnknownGates: A layer is of an unsupported kind.
        UngatedLayers: A layer has no supported gates.
    """
    sequential = module_of_layers(listing, layers, input_shape)
    check_kinds(listing.file_name, layers)
    norms = any(layer.kind.startswith("BatchNorm") for layer in layers)
    remarks = [*sequential.remarks, *([f"{FOLDED}."] if norms else [])]
    with _errors_of(listing.file_name):
        folded = _folded_forward(sequential.module, remarks)
        resolved = _resolve_adaptive_pools(folded, sequential.input_shape)
    try:
        stack = adapted_stack(resolved, sequential.input_shape)
    except UserError as refusal:
        raise UngatedLayers(
            f"{listing.file_name}: {refusal}", kind=refusal.kind, value=refusal.value
        ) from None
    return stack.to(dtype), tuple(remarks)


def fold_norms(module: nn.Sequential) -> tuple[nn.Sequential, tuple[str, ...]]:
    """Fold each BatchNorm into the layer before it, or else after it; return remarks, too.

    The tangent kernel is then that of the folded weights.
    """
    remarks: list[str] = []
    folded = _folded_back(_folded_forward(module, remarks))
    norms = sum(isinstance(layer, _BatchNorm) for layer in module)
    return folded, (*([f"{FOLDED}."] if norms else []), *remarks)


def _folded_back(module: nn.Sequential) -> nn.Sequential:
    """Fold each BatchNorm right after a weighted layer into that layer."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for name, layer in module.named_children():
        before = next(reversed(layers.values())) if layers else None
        if isinstance(layer, _BatchNorm) and _is_of(layer, before):
            assert isinstance(before, (nn.Linear, nn.Conv2d))
            layers[next(reversed(layers))] = _scale_layer(before, layer)
        else:
            layers[name] = layer
    return nn.Sequential(layers).eval()


def _is_of(norm: _BatchNorm, layer: nn.Module | None) -> bool:
    """Return whether a BatchNorm scales the outputs of the layer before it."""
    if isinstance(norm, nn.BatchNorm1d):
        return isinstance(layer, nn.Linear)
    return isinstance(layer, nn.Conv2d)


def _scale_layer(layer: nn.Linear | nn.Conv2d, norm: _BatchNorm) -> nn.Module:
    """Return the layer γ (W x + b − μ) / √(σ² + ε) + β."""
    scale, shift = _scale_and_shift(norm)
    weight = layer.weight.detach() * scale.reshape(-1, *(1,) * (layer.weight.ndim - 1))
    bias = shift if layer.bias is None else shift + layer.bias.detach() * scale
    return _with_tensors(layer, weight, bias)


def _folded_forward(module: nn.Sequential, remarks: list[str]) -> nn.Sequential:
    """Fold each BatchNorm that follows no weighted layer into the next one.

    W (s x + t) + b = (W s) x + (W t + b), where s = γ / √(σ² + ε) and t = β − μ s. A convolution
    with zero padding would see t at the border, too, so there the BatchNorm stays.
    """
    layers = OrderedDict(module.named_children())
    names = list(layers)
    for index, name in enumerate(names):
        norm = layers[name]
        earlier = [layers[n] for n in names[:index] if not isinstance(layers[n], _BatchNorm)]
        before = earlier[-1] if earlier else None
        if not isinstance(norm, _BatchNorm) or _is_of(norm, before):
            continue
        after = next((n for n in names[index + 1 :] if not _commutes_with_norm(layers[n])), "")
        between = [layers[n] for n in names[index + 1 : names.index(after)]] if after else []
        if after and _takes_shift(layers[after]) and _share_channels(norm, layers[after], between):
            layers[after] = _absorb_norm(norm, layers[after])
            layers[name] = nn.Identity()
        else:
            layers[name] = _as_scale(norm)
            remarks.append(
                f"The BatchNorm {name} follows no layer, so it stays a separate scale and shift "
                "whose parameters also count in K."
            )
    real_layers = (
        (name, layer) for name, layer in layers.items() if not isinstance(layer, nn.Identity)
    )
    return nn.Sequential(OrderedDict(real_layers)).eval()


def _as_scale(norm: _BatchNorm) -> nn.Module:
    """Return a BatchNorm whose parameters are its scale and shift; its statistics do nothing."""
    plain = _with_tensors(norm, *_scale_and_shift(norm))
    assert isinstance(plain, _BatchNorm)
    plain.eps = 0.0
    still = {"running_mean": torch.zeros_like(plain.weight.detach())}
    still["running_var"] = torch.ones_like(still["running_mean"])
    plain._buffers = {**norm._buffers, **still}
    return plain


def _commutes_with_norm(layer: nn.Module) -> bool:
    """Return whether the layer commutes with scaling and shifting each channel."""
    if isinstance(layer, (nn.Flatten, nn.Identity, nn.AdaptiveAvgPool2d)):
        return True
    return isinstance(layer, nn.AvgPool2d) and layer.padding in (0, (0, 0)) and not layer.ceil_mode


def _share_channels(norm: nn.Module, layer: nn.Module, between: Sequence[nn.Module]) -> bool:
    """Return whether the channels of a BatchNorm are the inputs of a layer.

    A dense layer without Flatten acts along the rows of maps instead.
    """
    if not isinstance(layer, nn.Linear) or isinstance(norm, nn.BatchNorm1d):
        return True
    return any(
        isinstance(other, nn.Flatten) and other.start_dim == 1 and other.end_dim in (-1, 3)
        for other in between
    )


def _takes_shift(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.padding in (0, (0, 0), "valid") or layer.padding_mode != "zeros"
    return isinstance(layer, nn.Linear)


def _absorb_norm(norm: _BatchNorm, layer: nn.Module) -> nn.Module:
    assert isinstance(layer, (nn.Linear, nn.Conv2d))
    scale, shift = _scale_and_shift(norm)
    weight = layer.weight.detach()
    inputs = weight.shape[1]
    if isinstance(layer, nn.Linear):  # of flattened maps, or of a vector
        scale, shift = (
            vector.repeat_interleave(inputs // len(vector)) for vector in (scale, shift)
        )
        scaled, moved = weight * scale, weight @ shift
    else:
        groups = len(scale) // inputs  # output o takes the channels of its group
        rows = torch.arange(len(weight)) * groups // len(weight)
        own, by = scale.reshape(groups, inputs)[rows], shift.reshape(groups, inputs)[rows]
        scaled = weight * own[:, :, None, None]
        moved = torch.einsum("oihw,oi->o", weight, by)
    bias = moved if layer.bias is None else moved + layer.bias.detach()
    return _with_tensors(layer, scaled, bias)


def _scale_and_shift(norm: _BatchNorm) -> tuple[torch.Tensor, torch.Tensor]:
    """Return s and t of a BatchNorm in evaluation mode, x → s x + t."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gamma = torch.ones_like(norm.running_var) if norm.weight is None else norm.weight.detach()
    scale = gamma / torch.sqrt(norm.running_var + norm.eps)
    shift = -norm.running_mean * scale
    return scale, shift if norm.bias is None else shift + norm.bias.detach()


def _with_tensors(layer: nn.Module, weight: torch.Tensor, bias: torch.Tensor) -> nn.Module:
    """Return a copy of a layer with other tensors."""
    other = copy.copy(layer)
    other._parameters = {"weight": nn.Parameter(weight), "bias": nn.Parameter(bias)}
    return other


@contextlib.contextmanager
def _errors_of(file: str) -> Iterator[None]:
    """Name this file in errors about layers that do not fit."""
    try:
        yield
    except UserError as refusal:
        raise UserError(f"{file}: {refusal}", kind=refusal.kind, value=refusal.value) from None
    except (ValueError, RuntimeError, IndexError) as error:  # torch's own checks of sizes
        raise UserError(
            f"{file}: its layers do not fit together: {error}", kind="wrong-shape"
        ) from None


def check_kinds(file: str, layers: Sequence[StatedLayer]) -> None:
    """Raise `UngatedLayers` for the first layer whose kind has no supported gates."""
    _check_known(file, [layer for layer in layers if layer.kind not in _SILENT])
    for layer in layers:
        if layer.kind in ACTIVATION_KINDS and layer.kind != "ReLU":
            raise UngatedLayers(
                f"{file}: gates of its layer {layer.name} ({layer.kind}) are not supported; only "
                "those of ReLU are.",
                kind="no-gates",
            )


def _check_known(file: str, layers: Sequence[StatedLayer]) -> None:
    last = len(layers) - 1
    for index, layer in enumerate(layers):
        ends = layer.kind in _ENDS and index < last
        if layer.kind not in KINDS or ends:
            raise UnknownGates(
                f"{file}: its layer {layer.name} ({layer.kind.rpartition('.')[2]}) is not "
                "supported. Supported: Linear, Conv2d, BatchNorm, ReLU, pooling, Dropout, Flatten.",
                kind="not-supported",
            )


def _check_shapes(module: nn.Sequential, shape: tuple[int, ...]) -> None:
    """Propagate the shape of one example without computing; raises torch's errors."""
    probe = torch.empty((1, *shape), dtype=torch.float64, device="meta")
    for name, layer in module.named_children():
        if isinstance(layer, nn.Linear) and probe.shape[-1] != layer.in_features:
            arriving = "×".join(str(side) for side in probe.shape[1:])
            raise ValueError(f"{arriving} inputs reach {name}, which takes {layer.in_features:,}")
        if isinstance(layer, nn.Conv2d) and probe.ndim == 4:
            came, expected = probe.shape[1], layer.in_channels
            if came != expected:
                grouped = expected < came and came % expected == 0 and layer.groups == 1
                how = f"; use g{came // expected} in --geometry" if grouped else ""
                raise ValueError(f"{came:,} channels reach {name}, which takes {expected:,}{how}")
        probe = _propagate_shape(layer, probe)
    if probe.ndim != 2:
        raise ValueError(f"its outputs have shape {tuple(probe.shape[1:])}, so they are not logits")


def _first_input_shape(
    file: str, layers: Sequence[StatedLayer], input_shape: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the input shape of the first layer: images, or all their pixels flattened."""
    inputs = math.prod(input_shape)
    weighted = next((each for each in layers if each.kind in ("Linear", "Conv2d")), None)
    before = list(layers[: layers.index(weighted)]) if weighted is not None else []
    pools = any("Pool" in layer.kind for layer in before)
    if weighted is not None and weighted.kind == "Linear" and not pools:
        if weighted.numbers["in_features"] != inputs:
            raise UserError(
                f"{file} takes {weighted.numbers['in_features']} inputs, but these examples have "
                f"{inputs}.",
                kind="other-inputs",
            )
        return (inputs,)
    if len(input_shape) != 3:
        raise UserError(f"{file} takes images, but these examples are vectors.", kind="not-images")
    channels = None if weighted is None else weighted.numbers.get("in_channels")
    if weighted is not None and channels not in (None, input_shape[0]):
        raise UserError(
            f"{file} takes images with {weighted.numbers['in_channels']} channels, but these have "
            f"{input_shape[0]}.",
            kind="other-inputs",
        )
    return input_shape


def _build_layer(layer: StatedLayer, listing: CheckpointContents) -> nn.Module:
    """Build a torch layer with the weights of the file, in float64."""
    n: Mapping[str, Any] = layer.numbers
    match layer.kind:
        case "Linear":
            shape = (n["out_features"], n["in_features"])
            tensors = _layer_tensors(
                layer, listing, {"weight": shape, "bias": shape[:1]}, ("bias",)
            )
            return _set_tensors(nn.Linear(*shape[::-1], "bias" in tensors, device="meta"), tensors)
        case "Conv2d":
            inputs = n["in_channels"] // max(n["groups"], 1)
            _check_padding(layer)
            shape = (n["out_channels"], inputs, *n["kernel_size"])
            tensors = _layer_tensors(
                layer, listing, {"weight": shape, "bias": shape[:1]}, ("bias",)
            )
            return _set_tensors(nn.Conv2d(**n, bias="bias" in tensors, device="meta"), tensors)
        case "BatchNorm1d" | "BatchNorm2d":
            names = ("running_mean", "running_var", "weight", "bias")
            shapes = dict.fromkeys(names, (n["num_features"],))
            tensors = _layer_tensors(layer, listing, shapes, names[2:])
            norm = getattr(nn, layer.kind)(**n, affine="weight" in tensors, device="meta")
            return _set_tensors(norm, tensors)
    module: nn.Module = getattr(nn, layer.kind)(**n)
    return module


def _check_padding(layer: StatedLayer) -> None:
    """Refuse padding larger than the window: it is useless, and could make maps of any size."""
    padding, n = layer.numbers["padding"], layer.numbers
    kernel, dilation = n["kernel_size"], n["dilation"]
    assert isinstance(kernel, tuple)
    assert isinstance(dilation, tuple)
    sides = [k * d for k, d in zip(kernel, dilation, strict=True)]
    if isinstance(padding, tuple) and any(p > s for p, s in zip(padding, sides, strict=True)):
        raise UserError(
            f"Layer {layer.name} (Conv2d) states a padding larger than its kernel.",
            kind="not-supported",
        )


def _layer_tensors(
    layer: StatedLayer,
    listing: CheckpointContents,
    shapes: Mapping[str, tuple[int, ...]],
    optional: tuple[str, ...],
) -> dict[str, Array]:
    """Return the layer's tensors, checked against the shapes that it states."""
    tensors: dict[str, Array] = {}
    for word, shape in shapes.items():
        name = f"{layer.name}.{word}"
        array = listing.arrays.get(name)
        if array is None and word in optional:
            continue
        if array is None and word == "running_mean":
            raise UserError(
                f"Layer {layer.name} has no running statistics: it normalises over the batch, so "
                "the network is not a function of one example.",
                kind="missing",
            )
        if array is None or array.shape != shape or array.dtype.kind != "f":
            raise UserError(
                f"Its tensor '{name}' does not match layer {layer.name}.", kind="wrong-shape"
            )
        if not np.isfinite(array).all():
            raise UserError(
                f"{name} has values that are not finite.", value=name, kind="not-finite"
            )
        if (
            word == "running_var"
            and (array + float(cast("float", layer.numbers["eps"])) <= 0).any()
        ):
            raise UserError(f"{name} has variances below zero.", value=name, kind="not-finite")
        tensors[word] = array
    return tensors


def _set_tensors(module: nn.Module, tensors: Mapping[str, Array]) -> nn.Module:
    """Set these tensors and no other parameter: a BatchNorm may have γ without β."""
    module._parameters.update(dict.fromkeys(module._parameters))
    for word, array in tensors.items():
        tensor = torch.from_numpy(np.array(array, dtype=np.float64))
        if word in module._buffers:
            module._buffers[word] = tensor
        else:
            module._parameters[word] = nn.Parameter(tensor)
    if "num_batches_tracked" in module._buffers:  # unused here, and still without a value
        module._buffers["num_batches_tracked"] = torch.zeros((), dtype=torch.long)
    return module


def _resolve_adaptive_pools(module: nn.Sequential, shape: tuple[int, ...]) -> nn.Sequential:
    """Replace adaptive pooling to several positions by plain windows, or nothing, for this size."""
    with torch.device("meta"):
        probe = torch.empty((1, *shape), dtype=torch.float64)
    resolved = nn.Sequential()
    for name, layer in module.named_children():
        adaptive = isinstance(layer, (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d))
        plain = _plain_pooling(layer, probe.shape[2:]) if adaptive else None
        resolved.add_module(name, layer if plain is None else plain)
        probe = _propagate_shape(layer, probe)
    return resolved


def _propagate_shape(layer: nn.Module, probe: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the shape after a layer, without computing."""
    if isinstance(layer, _BatchNorm):
        if probe.ndim != (4 if isinstance(layer, nn.BatchNorm2d) else 2):
            raise ValueError(f"a {type(layer).__name__} does not take {probe.ndim - 1} dimensions")
        if probe.shape[1] != layer.num_features:
            raise ValueError(
                f"a BatchNorm of {layer.num_features:,} takes {probe.shape[1]:,} channels"
            )
        return probe
    if type(layer).__name__ in ACTIVATION_KINDS:
        return probe
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        empty = torch.func.functional_call(
            layer, {name: p.detach().to("meta") for name, p in layer.named_parameters()}, (probe,)
        )
        assert isinstance(empty, torch.Tensor)
        return empty
    left: torch.Tensor = layer(probe)
    return left


def _plain_pooling(layer: nn.Module, sides: Sequence[int]) -> nn.Module | None:
    """Return the equivalent plain pooling; None for one position, or if windows overlap."""
    wanted = cast("tuple[int, ...]", layer.output_size)
    if wanted in (1, (1, 1)) or any(
        side % max(to, 1) for side, to in zip(sides, wanted, strict=True)
    ):
        return None
    kernel = (sides[0] // max(wanted[0], 1), sides[1] // max(wanted[1], 1))
    if set(kernel) == {1}:
        return nn.Identity()
    return nn.AvgPool2d(kernel) if isinstance(layer, nn.AdaptiveAvgPool2d) else nn.MaxPool2d(kernel)
