"""Make a network of an `nn.Sequential` whose layers a file states, or which were inferred."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.model.importing.fold_batchnorm import FOLDED
from dgn_engine.model.importing.foreign_keys import UnknownGates
from dgn_engine.model.importing.from_module import adapted_stack
from dgn_engine.model.stack import Stack
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from dgn_engine.storage.checkpoints.stated_layers import KINDS, StatedLayer

_ENDS = ("Softmax", "LogSoftmax")
_SILENT = ("Identity", "Dropout", "Dropout2d")


def stack_of_layers(
    listing: CheckpointContents,
    layers: Sequence[StatedLayer],
    input_shape: tuple[int, ...],
    dtype: torch.dtype,
) -> tuple[Stack, tuple[str, ...]]:
    """The weights of a file in the network that its layers make, for inputs of this shape.

    With it what was left out, in sentences. BatchNorm is folded in as in evaluation, in float64.
    Nothing of the file is called: the layers are torch's, made here by their kinds and numbers.
    Raises `UserError` where its tensors are not as a layer states, `UnknownGates` where a layer is
    of another kind.
    """
    remarks: list[str] = []
    shown = [layer for layer in layers if layer.kind not in _SILENT]
    if shown and shown[-1].kind in _ENDS:
        remarks.append(f"The {shown.pop().kind} at its end is left out: logits are shown.")
    if any(layer.kind.startswith("BatchNorm") for layer in shown):
        remarks.append(f"{FOLDED}.")
    check_kinds(listing.file_name, shown)
    shape = _arriving(listing.file_name, shown, input_shape)
    if shown and shown[0].kind == "Flatten" and len(shape) == 1:
        del shown[0]
    try:
        module = nn.Sequential()
        for layer in shown:
            module.add_module(f"'{layer.name.replace('.', '/')}'", _made(layer, listing))
        stack = adapted_stack(_resolved(module.eval(), shape), shape)
    except UserError as refusal:
        raise UserError(f"{listing.file_name}: {refusal}") from None
    except (ValueError, RuntimeError) as error:  # torch's own checks of sizes and groups
        raise UserError(f"{listing.file_name}: its layers do not fit each other: {error}") from None
    return stack.to(dtype), tuple(remarks)


def check_kinds(file: str, layers: Sequence[StatedLayer]) -> None:
    """Raise `UnknownGates` for the first layer that is of no supported kind."""
    last = len(layers) - 1
    for place, layer in enumerate(layers):
        ends = layer.kind in _ENDS and place < last
        if layer.kind not in KINDS or ends:
            raise UnknownGates(
                f"{file}: its layer {layer.name} ({layer.kind.rpartition('.')[2]}) is not "
                "supported; Linear, Conv2d, BatchNorm, ReLU, pooling, Dropout and Flatten are."
            )


def _arriving(
    file: str, layers: Sequence[StatedLayer], input_shape: tuple[int, ...]
) -> tuple[int, ...]:
    """What the first layer takes: images, or all their pixels at once."""
    inputs = math.prod(input_shape)
    weighted = next((each for each in layers if each.kind in ("Linear", "Conv2d")), None)
    if weighted is not None and weighted.kind == "Linear":
        if weighted.numbers["in_features"] != inputs:
            raise UserError(
                f"{file} takes {weighted.numbers['in_features']} inputs, but these examples have "
                f"{inputs}."
            )
        return (inputs,)
    if len(input_shape) != 3:
        raise UserError(f"{file} takes images, but these examples are vectors.")
    if weighted is not None and weighted.numbers["in_channels"] != input_shape[0]:
        raise UserError(
            f"{file} takes images with {weighted.numbers['in_channels']} channels, but these have "
            f"{input_shape[0]}."
        )
    return input_shape


def _made(layer: StatedLayer, listing: CheckpointContents) -> nn.Module:
    """A layer of torch with the numbers of the file, in float64."""
    n: Mapping[str, Any] = layer.numbers
    match layer.kind:
        case "Linear":
            shape = (n["out_features"], n["in_features"])
            tensors = _tensors(layer, listing, {"weight": shape, "bias": shape[:1]}, ("bias",))
            return _filled(nn.Linear(*shape[::-1], "bias" in tensors, device="meta"), tensors)
        case "Conv2d":
            inputs = n["in_channels"] // max(n["groups"], 1)
            _check_padding(layer)
            shape = (n["out_channels"], inputs, *n["kernel_size"])
            tensors = _tensors(layer, listing, {"weight": shape, "bias": shape[:1]}, ("bias",))
            return _filled(nn.Conv2d(**n, bias="bias" in tensors, device="meta"), tensors)
        case "BatchNorm1d" | "BatchNorm2d":
            names = ("running_mean", "running_var", "weight", "bias")
            shapes = dict.fromkeys(names, (n["num_features"],))
            tensors = _tensors(layer, listing, shapes, names[2:])
            made = getattr(nn, layer.kind)(**n, affine="weight" in tensors, device="meta")
            return _filled(made, tensors)
    module: nn.Module = getattr(nn, layer.kind)(**n)
    return module


def _check_padding(layer: StatedLayer) -> None:
    """More than the kernel is of no use, and could make maps of any size."""
    padding, kernel = layer.numbers["padding"], layer.numbers["kernel_size"]
    assert isinstance(kernel, tuple)
    if isinstance(padding, tuple) and any(p > k for p, k in zip(padding, kernel, strict=True)):
        raise UserError(f"Layer {layer.name} (Conv2d) states a padding larger than its kernel.")


def _tensors(
    layer: StatedLayer,
    listing: CheckpointContents,
    shapes: Mapping[str, tuple[int, ...]],
    optional: tuple[str, ...],
) -> dict[str, Array]:
    """Its tensors, each of the shape that the layer states."""
    found: dict[str, Array] = {}
    for word, shape in shapes.items():
        name = f"{layer.name}.{word}"
        array = listing.arrays.get(name)
        if array is None and word in optional:
            continue
        if array is None or array.shape != shape or array.dtype.kind != "f":
            raise UserError(f"Its tensor '{name}' is not what layer {layer.name} states.")
        if not np.isfinite(array).all():
            raise UserError(f"{name} holds values that are not finite.")
        found[word] = array
    return found


def _filled(module: nn.Module, tensors: Mapping[str, Array]) -> nn.Module:
    """With these tensors and no other parameter: a BatchNorm may have γ without β."""
    module._parameters.update(dict.fromkeys(module._parameters))
    for word, array in tensors.items():
        tensor = torch.from_numpy(np.array(array, dtype=np.float64))
        if word in module._buffers:
            module._buffers[word] = tensor
        else:
            module._parameters[word] = nn.Parameter(tensor)
    if "num_batches_tracked" in module._buffers:  # of no use here, and still without a value
        module._buffers["num_batches_tracked"] = torch.zeros((), dtype=torch.long)
    return module


def _resolved(module: nn.Sequential, shape: tuple[int, ...]) -> nn.Sequential:
    """Adaptive pooling to more than one position written as what it is for maps of this size:
    plain windows, or nothing."""
    with torch.device("meta"):
        probe = torch.empty((1, *shape), dtype=torch.float64)
    resolved = nn.Sequential()
    for name, layer in module.named_children():
        adaptive = isinstance(layer, (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d))
        plain = _windows(layer, probe.shape[2:]) if adaptive else None
        resolved.add_module(name, layer if plain is None else plain)
        probe = _passed(layer, probe)
    return resolved


def _passed(layer: nn.Module, probe: torch.Tensor) -> torch.Tensor:
    """The shape that leaves a layer, without a number being computed."""
    if isinstance(layer, (nn.ReLU, nn.modules.batchnorm._BatchNorm)):
        return probe
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        empty = torch.func.functional_call(
            layer, {name: p.detach().to("meta") for name, p in layer.named_parameters()}, (probe,)
        )
        assert isinstance(empty, torch.Tensor)
        return empty
    left: torch.Tensor = layer(probe)
    return left


def _windows(layer: nn.Module, sides: Sequence[int]) -> nn.Module | None:
    """None where it pools to one position, or the windows would overlap."""
    wanted = cast("tuple[int, ...]", layer.output_size)
    if wanted in (1, (1, 1)) or any(
        side % max(to, 1) for side, to in zip(sides, wanted, strict=True)
    ):
        return None
    kernel = (sides[0] // max(wanted[0], 1), sides[1] // max(wanted[1], 1))
    if set(kernel) == {1}:
        return nn.Identity()
    return nn.AvgPool2d(kernel) if isinstance(layer, nn.AdaptiveAvgPool2d) else nn.MaxPool2d(kernel)
