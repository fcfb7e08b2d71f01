"""What the public functions of this package are given, checked once a call, before any work.

Shapes, types and devices of tensors, and in one pass that their numbers are finite; of indices,
masks and single numbers the range as well. No sentence prints a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain
from numbers import Real
from types import NoneType
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dgn_engine.errors import ArgumentError
from dgn_engine.model.architecture import Architecture, GlobalMaxPool, MaxPool
from dgn_engine.model.network import GatedNetwork, NetworkTrace

Array = NDArray[Any]
FLOATS = (torch.float32, torch.float64)
LONGEST = 60  # characters of a wrong value that a sentence repeats
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_tensor(
    name: str, value: object, axes: int = 2, like: Tensor | None = None, finite: bool = True
) -> None:
    """A float32 or float64 tensor of finite numbers (unless `finite` is False) with at least so
    many axes, none of them empty, on the device of `like`. Integers are refused because products
    of uint8 overflow, bool and half precision because they count no further than one or 2,048."""
    value = _strided(name, value)
    if value.dtype not in FLOATS:
        raise ArgumentError(
            f"{name} has dtype {value.dtype}; torch.float32 or torch.float64 is needed, because "
            f"sums of products overflow or round in others ({name}.double() converts it).",
            kind="wrong-type",
        )
    if value.dim() < axes or not value.numel():
        wanted = ", ".join(["n", "…"][: max(axes, 1)])
        raise ArgumentError(
            f"{name} has shape {tuple(value.shape)}; ({wanted}) with at least one example and no "
            "empty axis is needed.",
            kind="wrong-shape",
        )
    if like is not None and value.device != like.device:
        raise ArgumentError(
            f"{name} lies on {value.device}, what it is computed with on {like.device}; move one "
            "of them.",
            kind="other-device",
        )
    if finite:
        check_finite(name, value)


def check_finite(name: str, value: Tensor) -> None:
    """No NaN and no infinity in examples (n, ...): a gate of NaN is closed like any other, so that
    kernels of gates would hide it. One sum, which is finite only where every number is; it may
    overflow by itself, so that only then each number is looked at."""
    value = value.detach()
    if bool(torch.isfinite(value.sum())):
        return
    bad = ~torch.isfinite(value)
    if bool(bad.any()):
        example = (
            int(bad.flatten(1).any(1).nonzero()[0]) if bad.dim() > 1 else int(bad.nonzero()[0])
        )
        raise ArgumentError(
            f"{name} holds values that are not finite (NaN or infinity), first in example "
            f"{example}, counted from 0; leave such examples out, or mend them.",
            kind="not-finite",
        )


def check_whole(name: str, value: object, axes: int = 1) -> None:
    """A tensor of whole numbers with just so many axes, none of them empty."""
    value = _strided(name, value)
    if value.dtype not in WHOLE:
        raise ArgumentError(
            f"{name} has dtype {value.dtype}; whole numbers (torch.int64) are needed"
            + (", not a mask: mask.nonzero()[:, 0]." if value.dtype == torch.bool else "."),
            kind="wrong-type",
        )
    if value.dim() != axes or not value.numel():
        raise ArgumentError(
            f"{name} has shape {tuple(value.shape)}; {axes} axis without being empty is needed.",
            kind="wrong-shape",
        )


def _strided(name: str, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        remedy = " (torch.from_numpy makes one)" if hasattr(value, "__array_interface__") else ""
        raise ArgumentError(
            f"{name} is of type {type(value).__name__}; a torch.Tensor is needed{remedy}.",
            kind="wrong-type",
        )
    if value.is_meta or value.layout != torch.strided:
        raise ArgumentError(
            f"{name} is a meta or sparse tensor; a dense one is needed.", kind="other-device"
        )
    return value


def check_inputs(
    name: str, x: object, shape: tuple[int, ...], n: int = 0, like: Tensor | None = None
) -> None:
    """Inputs (n, *shape), of n examples where n is given."""
    check_tensor(name, x, 1, like)
    assert isinstance(x, Tensor)
    if tuple(x.shape[1:]) != shape or (n and len(x) != n):
        wanted = ", ".join(map(str, (n or "n", *shape)))
        raise ArgumentError(
            f"{name} has shape {tuple(x.shape)}; ({wanted}) is needed.", kind="wrong-shape"
        )


def check_layers(
    architecture: Architecture, layers: object, name: str, n: int = 0, like: Tensor | None = None
) -> None:
    """One tensor (n, *gated_shape) for each gate layer; refused by the number of the layer."""
    wanted = architecture.gated_shapes
    found = check_tensors(name, layers, len(wanted), "the network has {} gate layers")
    for place, (layer, shape) in enumerate(zip(found, wanted, strict=True)):
        check_inputs(f"Layer {place} of {name}", layer, shape, n, like)
        n, like = len(layer), layer


def check_paths(
    architecture: object,
    gates: object,
    x_value: object,
    sensitivities: object = None,
    masks: object = (),
) -> None:
    """What a path kernel is computed of; `x_value` and `sensitivities` may be None."""
    check_architecture(architecture)
    assert isinstance(architecture, Architecture)
    if not architecture.gated_shapes:
        raise ArgumentError(
            "The architecture has no gate layer, so it has no path kernel.", kind="no-gates"
        )
    check_layers(architecture, gates, "gates")
    first: Tensor = gates[0]  # type: ignore[index]  # a sequence of tensors, as was checked
    n = len(first)
    if x_value is not None:
        check_inputs("x_value", x_value, architecture.input_shape, n, first)
    if sensitivities is not None:
        check_layers(architecture, sensitivities, "sensitivities", n, first)
    check_masks(architecture, masks, n)


def check_tensors(
    name: str, value: object, count: int | None = None, why: str = ""
) -> Sequence[Any]:
    """A list or tuple, of so many members where `count` is given; `why` has room for that."""
    number = isinstance(value, Tensor) and not value.dim()
    if isinstance(value, (str, bytes)) or number or not hasattr(value, "__len__"):
        raise ArgumentError(
            f"{name} is of type {type(value).__name__}; a list or tuple is needed.",
            kind="wrong-type",
        )
    assert isinstance(value, Sequence) or hasattr(value, "__getitem__")
    if count is not None and len(value) != count:
        raise ArgumentError(
            f"{len(value)} {name} were given; {why.format(count)}.", kind="wrong-length"
        )
    return value  # type: ignore[return-value]  # a length and members are all that is used


def check_masks(architecture: Architecture, masks: object, n: int) -> None:
    """The arg-max positions (n, C, H, W) of each max pooling."""
    pools = [
        (before, after)
        for node, before, after in architecture.steps()
        if isinstance(node, (MaxPool, GlobalMaxPool))
    ]
    found = check_tensors("masks", masks, len(pools), "the network has {} max poolings")
    for place, (mask, (before, after)) in enumerate(zip(found, pools, strict=True)):
        name = f"Mask {place} of masks"
        shape = (*after, 1, 1) if len(after) == 1 else after
        check_whole(name, mask, 4)
        if tuple(mask.shape) != (n, *shape):
            raise ArgumentError(
                f"{name} has shape {tuple(mask.shape)}; {(n, *shape)} is needed.",
                kind="wrong-shape",
            )
        positions = before[1] * before[2]
        if not 0 <= int(mask.min()) <= int(mask.max()) < positions:
            raise ArgumentError(
                f"{name} names positions outside 0…{positions - 1}.", kind="out-of-bounds"
            )


def check_architecture(architecture: object) -> None:
    if not isinstance(architecture, Architecture):
        raise ArgumentError(
            f"architecture is of type {type(architecture).__name__}; an Architecture is needed "
            "(that of an adapted module is network.architecture).",
            kind="wrong-type",
        )


def check_network(network: object) -> None:
    """A network whose wiring, routes and given gates fit its layers."""
    if not isinstance(network, GatedNetwork):
        raise ArgumentError(
            f"network is of type {type(network).__name__}; a GatedNetwork is needed "
            "(kernels.adapt(module, input_shape) makes one).",
            kind="wrong-type",
        )
    weight = network.value.weights[0]
    if weight.dtype not in FLOATS:
        raise ArgumentError(
            f"The weights of the network have dtype {weight.dtype}; torch.float32 or torch.float64 "
            "is needed (network.double()).",
            kind="wrong-type",
        )
    layers = len(network.architecture.gated_shapes)
    for name, found in (("wiring", network.wiring), ("routes", network.routes)):
        if len(found) != layers:
            raise ArgumentError(
                f"network.{name} has {len(found)} entries; the network has {layers} gate layers.",
                kind="wrong-length",
            )
    sources = len(network.feature.architecture.gated_shapes)
    if not all(isinstance(place, int) and 0 <= place < sources for place in network.wiring):
        raise ArgumentError(
            f"network.wiring is {tuple(network.wiring)}; gate layers are numbered 0…{sources - 1}.",
            kind="out-of-bounds",
        )


def check_finite_network(network: GatedNetwork) -> None:
    """No NaN and no infinity in the weights and biases of what is passed, normalisation folded in:
    gates of NaN are closed, so that kernels would hide it. As `check_finite`, one sum."""
    parts = {"value": network.value}
    if not network.own_gates and network.given_gates is None:
        parts["feature"] = network.feature
    with torch.no_grad():
        for name, stack in parts.items():
            layers = [
                [one for one in layer if one is not None]
                for layer in zip(*stack.tensors(), strict=True)
            ]
            if bool(torch.isfinite(torch.stack([one.sum() for one in chain(*layers)]).sum())):
                continue
            for place, layer in enumerate(layers):
                if not all(bool(torch.isfinite(one).all()) for one in layer):
                    raise ArgumentError(
                        f"The {name} network has weights, biases or statistics that are not finite "
                        f"(NaN or infinity), first in its weight layer {place}, counted from 0.",
                        kind="not-finite",
                        value=f"{name} {place}",
                    )


def check_network_inputs(network: object, x: object, name: str = "x") -> None:
    """A network of finite numbers, and inputs (n, *input_shape) of the dtype and on the device of
    its weights."""
    check_network(network)
    assert isinstance(network, GatedNetwork)
    norms = (network.value.normalisation, network.feature.normalisation)
    if any(norm is not None and norm.gathers for norm in norms):
        raise ArgumentError(
            "The network gathers statistics of its batches, so that what it makes of one example "
            "depends on the others; call gather(False) first.",
            kind="couples-examples",
        )
    check_finite_network(network)
    weight = network.value.weights[0]
    check_inputs(name, x, network.architecture.input_shape, like=weight)
    assert isinstance(x, Tensor)
    if x.dtype != weight.dtype:
        raise ArgumentError(
            f"{name} has dtype {x.dtype}, the weights of the network {weight.dtype}; convert one "
            "of them.",
            kind="wrong-type",
        )
    if not network.own_gates and network.given_gates is not None:
        check_layers(
            network.feature.architecture, network.given_gates, "network.given_gates", len(x)
        )


def check_trace(name: str, trace: object, n: int) -> None:
    """A forward pass of n examples."""
    if not isinstance(trace, NetworkTrace) or len(trace.value.output) != n:
        raise ArgumentError(
            f"{name} must be the network's own pass of the same {n} examples.", kind="wrong-length"
        )


def check_module(name: str, value: object) -> None:
    if not isinstance(value, nn.Module):
        raise ArgumentError(
            f"{name} is of type {type(value).__name__}; an nn.Module is needed.", kind="wrong-type"
        )


def check_count(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """A whole number within its bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(
            f"{name} is {_shown(value)}; a whole number is needed.", kind="wrong-type"
        )
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most:,}"
        raise ArgumentError(
            f"{name} is {_shown(value)}; it must be {bounds}.", kind="out-of-bounds"
        )


def check_sequence(name: str, value: object) -> None:
    """Some numbers in a row: a list, tuple or range, not empty."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not len(value):
        raise ArgumentError(
            f"{name} is {_shown(value)}; a list of at least one number is needed.",
            kind="wrong-length",
        )


def check_number(name: str, value: object, above: float | None = None) -> None:
    """A finite number of at least 0, or greater than `above`."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ArgumentError(f"{name} is {_shown(value)}; a number is needed.", kind="wrong-type")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not (number > above if above is not None else number >= 0) or number == float("inf"):
        bound = "0 or greater" if above is None else f"greater than {above:g}"
        raise ArgumentError(
            f"{name} is {_shown(value)}; it must be {bound}, and finite.", kind="out-of-bounds"
        )


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ArgumentError(
            f"{name} is {_shown(value)}; True or False is needed.", kind="wrong-type"
        )


def check_trains(value: object) -> None:
    """Which of the two networks trains, or None."""
    if value is None:
        return
    words = isinstance(value, (tuple, list)) and all(isinstance(word, str) for word in value)
    if not words or not value or not set(value) <= {"value", "feature"}:  # type: ignore[call-overload]
        raise ArgumentError(
            f"trains is {_shown(value)}; a tuple of 'value', 'feature' or both is needed.",
            kind="out-of-bounds",
        )


def check_word(name: str, value: object, words: object) -> None:
    """One of the words of a Literal type."""
    if not isinstance(value, str) or value not in get_args(words):
        known = ", ".join(get_args(words))
        raise ArgumentError(
            f"{name} is {_shown(value)}; it must be one of {known}.", kind="out-of-bounds"
        )


def _shown(value: object) -> str:
    """A wrong argument in a few words: short plain values as they are, others by their type."""
    if isinstance(value, (str, int, float, Fraction, NoneType)):
        try:
            text = repr(value)
        except ValueError:  # a whole number with more digits than Python prints
            return "a number of thousands of digits"
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if isinstance(value, (Tensor, np.ndarray)):
        return f"of type {type(value).__name__}, with shape {tuple(value.shape)}"
    if isinstance(value, (list, tuple)) and len(value) <= 4:
        members = ", ".join(_shown(one) for one in value) or "nothing"
        return f"of type {type(value).__name__}, of {members[: 2 * LONGEST]}"
    return f"of type {type(value).__name__}"


def check_kernel(name: str, kernel: object) -> None:
    """A square matrix (n, n)."""
    check_tensor(name, kernel, finite=False)
    assert isinstance(kernel, Tensor)
    if kernel.dim() != 2 or kernel.shape[0] != kernel.shape[1]:
        raise ArgumentError(
            f"{name} has shape {tuple(kernel.shape)}; it must be square, (n, n).",
            kind="wrong-shape",
        )


def check_targets(targets: object, n: int) -> None:
    """Targets (n,) or (n, C) of ±1, finite and not all zero."""
    if isinstance(targets, Tensor) and targets.dtype in WHOLE:
        raise ArgumentError(
            f"targets has dtype {targets.dtype}; targets are numbers of ±1 for each class "
            "(class_targets(labels, classes) makes them of class numbers).",
            kind="wrong-type",
        )
    check_tensor("targets", targets, 1, finite=False)
    assert isinstance(targets, Tensor)
    if targets.dim() > 2 or len(targets) != n:
        raise ArgumentError(
            f"{len(targets)} targets of shape {tuple(targets.shape)} were given for a kernel of "
            f"{n} examples; (n,) or (n, C) is needed.",
            kind="wrong-shape",
        )
    if not bool(torch.isfinite(targets).all()):
        raise ArgumentError("targets holds values that are not finite.", kind="not-finite")
    energy = float(targets.detach().double().square().sum())
    if not 0 < energy * energy < float("inf"):
        size = "zero" if energy < 1 else "too large to be squared"
        raise ArgumentError(
            f"targets are all {size}, so that nothing of them can be measured or fitted; targets "
            "are numbers of ±1 for each class (class_targets(labels, classes) makes them).",
            kind="singular",
        )


def check_indices(name: str, value: object, n: int) -> None:
    """Different indices 0…n−1: −1 would be the last example, which may be another's."""
    check_whole(name, value)
    assert isinstance(value, Tensor)
    if not 0 <= int(value.min()) <= int(value.max()) < n:
        raise ArgumentError(f"{name} names examples outside 0…{n - 1}.", kind="out-of-bounds")
    if int(value.to(torch.int64).bincount().max()) > 1:
        raise ArgumentError(f"{name} names an example more than once.", kind="named-twice")


def check_generator(value: object) -> None:
    if not isinstance(value, torch.Generator) or value.device.type != "cpu":
        raise ArgumentError(
            f"generator is {_shown(value)}; a torch.Generator on the CPU is needed "
            "(torch.Generator().manual_seed(0)).",
            kind="wrong-type",
        )
