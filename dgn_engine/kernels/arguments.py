"""Argument checks of the kernel functions, run once per call before any work.

They check shapes, dtypes and devices, and in one pass over the data that all values are finite.
Messages never print a tensor.
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
LONGEST = 60  # characters of an invalid value that a message quotes
WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_tensor(
    name: str, value: object, axes: int = 2, like: Tensor | None = None, finite: bool = True
) -> None:
    """Check that an argument is a real, finite, non-empty tensor.

    Integers are refused because products of uint8 overflow, bool and half precision because they
    cannot count beyond 1 and 2,048.

    Args:
        name: Name of the argument in messages.
        value: The argument.
        axes: Minimum number of axes.
        like: Tensor whose device `value` must be on.
        finite: Whether NaN and infinity are refused.

    Raises:
        ArgumentError: `value` is not a float32 or float64 tensor with these properties.
    """
    value = _require_dense_tensor(name, value)
    if value.dtype not in FLOATS:
        raise ArgumentError(
            f"{name} has dtype {value.dtype}; expected torch.float32 or torch.float64, because "
            f"sums of products overflow or round in other dtypes ({name}.double() converts it).",
            kind="wrong-type",
        )
    if value.dim() < axes or not value.numel():
        wanted = ", ".join(["n", "…"][: max(axes, 1)])
        raise ArgumentError(
            f"{name} has shape {tuple(value.shape)}; expected ({wanted}) with at least one example "
            "and no empty axis.",
            kind="wrong-shape",
        )
    if like is not None and value.device != like.device:
        raise ArgumentError(
            f"{name} is on {value.device}, but the tensors it is combined with are on "
            f"{like.device}; move one of them.",
            kind="other-device",
        )
    if finite:
        check_finite(name, value)


def check_finite(name: str, value: Tensor) -> None:
    """Check that a tensor contains no NaN and no infinity.

    A NaN gate is closed like any other, so kernels of gates would hide it. The check costs one sum,
    which is finite only if every entry is; entries are inspected one by one only if the sum is not
    finite, because it may also overflow.

    Args:
        name: Name of the argument in messages.
        value: Examples, `(n, ...)`.

    Raises:
        ArgumentError: An entry is NaN or infinite; the message gives its example.
    """
    value = value.detach()
    if bool(torch.isfinite(value.sum())):
        return
    bad = ~torch.isfinite(value)
    if bool(bad.any()):
        example = (
            int(bad.flatten(1).any(1).nonzero()[0]) if bad.dim() > 1 else int(bad.nonzero()[0])
        )
        raise ArgumentError(
            f"{name} contains NaN or infinity, first in example {example} (counted from 0); "
            "remove or fix such examples.",
            kind="not-finite",
        )


def check_integer_tensor(name: str, value: object, axes: int = 1) -> None:
    """Check that an argument is an integer tensor.

    Args:
        name: Name of the argument in messages.
        value: The argument.
        axes: Exact number of axes, none of them empty.

    Raises:
        ArgumentError: `value` is something else.
    """
    value = _require_dense_tensor(name, value)
    if value.dtype not in WHOLE:
        raise ArgumentError(
            f"{name} has dtype {value.dtype}; expected integers (torch.int64)"
            + (
                ", not a mask (mask.nonzero()[:, 0] converts it)."
                if value.dtype == torch.bool
                else "."
            ),
            kind="wrong-type",
        )
    if value.dim() != axes or not value.numel():
        needed = "1 axis, not empty" if axes == 1 else f"{axes} axes, none of them empty"
        raise ArgumentError(
            f"{name} has shape {tuple(value.shape)}; expected {needed}.",
            kind="wrong-shape",
        )


def _require_dense_tensor(name: str, value: object) -> Tensor:
    """Return `value` if it is a dense tensor; raise `ArgumentError` otherwise."""
    if not isinstance(value, Tensor):
        remedy = " (torch.from_numpy converts)" if hasattr(value, "__array_interface__") else ""
        raise ArgumentError(
            f"{name} is of type {type(value).__name__}; expected a torch.Tensor{remedy}.",
            kind="wrong-type",
        )
    if value.is_meta or value.layout != torch.strided:
        raise ArgumentError(
            f"{name} is a meta or sparse tensor; expected a dense one.", kind="other-device"
        )
    return value


def check_inputs(
    name: str, x: object, shape: tuple[int, ...], n: int = 0, like: Tensor | None = None
) -> None:
    """Check inputs of a network.

    Args:
        name: Name of the argument in messages.
        x: Inputs, `(n, *shape)`.
        shape: Shape of one example.
        n: Required number of examples; 0 allows any.
        like: Tensor whose device `x` must be on.

    Raises:
        ArgumentError: `x` has another shape, dtype or device, or is not finite.
    """
    check_tensor(name, x, 1, like)
    assert isinstance(x, Tensor)
    if tuple(x.shape[1:]) != shape or (n and len(x) != n):
        wanted = ", ".join(map(str, (n or "n", *shape)))
        raise ArgumentError(
            f"{name} has shape {tuple(x.shape)}; expected ({wanted}).", kind="wrong-shape"
        )


def check_layers(
    architecture: Architecture, layers: object, name: str, n: int = 0, like: Tensor | None = None
) -> None:
    """Check tensors of all gate layers.

    Args:
        architecture: The network's architecture.
        layers: One tensor `(n, *gated_shapes[l])` per gate layer.
        name: Name of the argument in messages.
        n: Required number of examples; 0 allows any.
        like: Tensor whose device they must be on.

    Raises:
        ArgumentError: Their number or a shape is wrong; the message gives the layer.
    """
    wanted = architecture.gated_shapes
    tensors = check_tensors(name, layers, len(wanted), "the network has {} gate layers")
    for index, (layer, shape) in enumerate(zip(tensors, wanted, strict=True)):
        check_inputs(f"Layer {index} of {name}", layer, shape, n, like)
        n, like = len(layer), layer


def check_paths(
    architecture: object,
    gates: object,
    x_value: object,
    sensitivities: object = None,
    masks: object = (),
) -> None:
    """Check the inputs of a path kernel.

    Args:
        architecture: The network's architecture, with at least one gate layer.
        gates: One tensor `(n, *gated_shapes[l])` per gate layer.
        x_value: Value input x^v, `(n, *input_shape)`, or `None` (for Λ).
        sensitivities: One tensor per gate layer, or `None`.
        masks: Arg-max positions of each max pooling.

    Raises:
        ArgumentError: One of them does not fit the architecture.
    """
    check_architecture(architecture)
    assert isinstance(architecture, Architecture)
    if not architecture.gated_shapes:
        raise ArgumentError(
            "The architecture has no gate layers, so it has no path kernel.", kind="no-gates"
        )
    check_layers(architecture, gates, "gates")
    first: Tensor = gates[0]  # type: ignore[index]  # checked above: a sequence of tensors
    n = len(first)
    if x_value is not None:
        check_inputs("x_value", x_value, architecture.input_shape, n, first)
    if sensitivities is not None:
        check_layers(architecture, sensitivities, "sensitivities", n, first)
    check_masks(architecture, masks, n)


def check_tensors(
    name: str, value: object, count: int | None = None, why: str = ""
) -> Sequence[Any]:
    """Check that an argument is a list or tuple.

    Args:
        name: Name of the argument in messages.
        value: The argument.
        count: Required length, or `None` for any.
        why: Reason for `count`, with `{}` in its place.

    Returns:
        `value`, unchanged.

    Raises:
        ArgumentError: `value` is not a sequence or has another length.
    """
    number = isinstance(value, Tensor) and not value.dim()
    if isinstance(value, (str, bytes)) or number or not hasattr(value, "__len__"):
        raise ArgumentError(
            f"{name} is of type {type(value).__name__}; expected a list or tuple.",
            kind="wrong-type",
        )
    assert isinstance(value, Sequence) or hasattr(value, "__getitem__")
    if count is not None and len(value) != count:
        raise ArgumentError(f"Got {len(value)} {name}; {why.format(count)}.", kind="wrong-length")
    return value  # type: ignore[return-value]  # only its length and items are used


def check_masks(architecture: Architecture, masks: object, n: int) -> None:
    """Check the arg-max positions of all max poolings.

    Args:
        architecture: The network's architecture.
        masks: One int64 tensor `(n, C, H', W')` of flat positions per max pooling.
        n: Number of examples.

    Raises:
        ArgumentError: Their number, a shape or a position is wrong.
    """
    pools = [
        (before, after)
        for node, before, after in architecture.shape_steps()
        if isinstance(node, (MaxPool, GlobalMaxPool))
    ]
    tensors = check_tensors("masks", masks, len(pools), "the network has {} max poolings")
    for index, (mask, (before, after)) in enumerate(zip(tensors, pools, strict=True)):
        name = f"Mask {index} of masks"
        shape = (*after, 1, 1) if len(after) == 1 else after
        check_integer_tensor(name, mask, 4)
        if tuple(mask.shape) != (n, *shape):
            raise ArgumentError(
                f"{name} has shape {tuple(mask.shape)}; expected {(n, *shape)}.",
                kind="wrong-shape",
            )
        positions = before[1] * before[2]
        if not 0 <= int(mask.min()) <= int(mask.max()) < positions:
            raise ArgumentError(
                f"{name} contains positions outside 0…{positions - 1}.", kind="out-of-bounds"
            )


def check_architecture(architecture: object) -> None:
    """Check that an argument is the `Architecture` of a value network.

    Args:
        architecture: The argument.

    Raises:
        ArgumentError: It is something else, or has parallel layers, whose paths do not reach the
          output.
    """
    if not isinstance(architecture, Architecture):
        raise ArgumentError(
            f"architecture is of type {type(architecture).__name__}; expected an Architecture "
            "(for an adapted module: network.architecture).",
            kind="wrong-type",
        )
    if architecture.is_parallel:
        raise ArgumentError(
            "architecture has parallel layers, so it is a feature network; pass that of the value "
            "network (network.architecture).",
            kind="not-supported",
        )


def check_network(network: object) -> None:
    """Check a network's type, dtype, wiring and routes.

    Args:
        network: The argument.

    Raises:
        ArgumentError: It is not a `GatedNetwork`, or its wiring does not fit its gate layers.
    """
    if not isinstance(network, GatedNetwork):
        raise ArgumentError(
            f"network is of type {type(network).__name__}; expected a GatedNetwork "
            "(kernels.adapt(module, input_shape) converts a module).",
            kind="wrong-type",
        )
    weight = network.value.weights[0]
    if weight.dtype not in FLOATS:
        raise ArgumentError(
            f"The weights of the network have dtype {weight.dtype}; expected torch.float32 or "
            "torch.float64 (network.double() converts them).",
            kind="wrong-type",
        )
    layers = len(network.architecture.gated_shapes)
    for name, entries in (("wiring", network.wiring), ("routes", network.routes)):
        if len(entries) != layers:
            raise ArgumentError(
                f"network.{name} has {len(entries)} entries; expected one for each of the {layers} "
                "gate layers.",
                kind="wrong-length",
            )
    sources = len(network.feature.architecture.gated_shapes)
    if not all(isinstance(source, int) and 0 <= source < sources for source in network.wiring):
        raise ArgumentError(
            f"network.wiring is {tuple(network.wiring)}; expected gate layers 0…{sources - 1}.",
            kind="out-of-bounds",
        )


def check_finite_network(network: GatedNetwork) -> None:
    """Check that all weights and biases of a network are finite, with normalisation folded in.

    NaN gates are closed, so kernels would hide them. As in `check_finite`, one sum is enough unless
    it is not finite.

    Args:
        network: The network.

    Raises:
        ArgumentError: A weight, bias or statistic is NaN or infinite; the message gives its layer.
    """
    parts = {"value": network.value}
    if not network.own_gates and network.given_gates is None:
        parts["feature"] = network.feature
    with torch.no_grad():
        for name, stack in parts.items():
            layers = [
                [tensor for tensor in layer if tensor is not None]
                for layer in zip(*stack.folded_tensors(), strict=True)
            ]
            if bool(torch.isfinite(torch.stack([tensor.sum() for tensor in chain(*layers)]).sum())):
                continue
            for index, layer in enumerate(layers):
                if not all(bool(torch.isfinite(tensor).all()) for tensor in layer):
                    raise ArgumentError(
                        f"The {name} network has NaN or infinite weights, biases or statistics, "
                        f"first in weight layer {index} (counted from 0).",
                        kind="not-finite",
                        value=f"{name} {index}",
                    )


def check_network_inputs(network: object, x: object, name: str = "x") -> None:
    """Check a network together with its inputs.

    Args:
        network: A network with finite weights that does not normalise by batch statistics.
        x: Inputs, `(n, *input_shape)`, with the dtype and device of the weights.
        name: Name of `x` in messages.

    Raises:
        ArgumentError: The network or its inputs cannot be used.
    """
    check_network(network)
    assert isinstance(network, GatedNetwork)
    norms = (network.value.normalisation, network.feature.normalisation)
    if any(norm is not None and norm.gathers for norm in norms):
        raise ArgumentError(
            "The network normalises by batch statistics, so its output for one example depends on "
            "the others; call gather_statistics(False) first.",
            kind="couples-examples",
        )
    check_finite_network(network)
    weight = network.value.weights[0]
    check_inputs(name, x, network.architecture.input_shape, like=weight)
    assert isinstance(x, Tensor)
    if x.dtype != weight.dtype:
        raise ArgumentError(
            f"{name} has dtype {x.dtype}, but the weights of the network have {weight.dtype}; "
            "convert one of them.",
            kind="wrong-type",
        )
    if not network.own_gates and network.given_gates is not None:
        check_layers(
            network.feature.architecture, network.given_gates, "network.given_gates", len(x)
        )


def check_trace(name: str, trace: object, n: int) -> None:
    """Check that an argument is the forward pass of `n` examples.

    Args:
        name: Name of the argument in messages.
        trace: The argument.
        n: Number of examples.

    Raises:
        ArgumentError: It is not a `NetworkTrace` of `n` examples.
    """
    if not isinstance(trace, NetworkTrace) or len(trace.value.output) != n:
        raise ArgumentError(
            f"{name} must be a trace of this network for the same {n} examples.",
            kind="wrong-length",
        )


def check_module(name: str, value: object) -> None:
    """Check that an argument is an `nn.Module`.

    Args:
        name: Name of the argument in messages.
        value: The argument.

    Raises:
        ArgumentError: It is something else.
    """
    if not isinstance(value, nn.Module):
        raise ArgumentError(
            f"{name} is of type {type(value).__name__}; expected an nn.Module.", kind="wrong-type"
        )


def check_count(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Check that an argument is an integer within bounds.

    Args:
        name: Name of the argument in messages.
        value: The argument.
        least: Smallest allowed value.
        most: Largest allowed value, or `None`.

    Raises:
        ArgumentError: `value` is not an integer or is out of bounds.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(
            f"{name} is {_describe_value(value)}; expected an integer.", kind="wrong-type"
        )
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most:,}"
        raise ArgumentError(
            f"{name} is {_describe_value(value)}; it must be {bounds}.", kind="out-of-bounds"
        )


def check_sequence(name: str, value: object) -> None:
    """Check that an argument is a non-empty list, tuple or range.

    Args:
        name: Name of the argument in messages.
        value: The argument.

    Raises:
        ArgumentError: It is something else.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not len(value):
        raise ArgumentError(
            f"{name} is {_describe_value(value)}; expected a non-empty list of numbers.",
            kind="wrong-length",
        )


def check_number(name: str, value: object, above: float | None = None) -> None:
    """Check that an argument is a finite, non-negative number.

    Args:
        name: Name of the argument in messages.
        value: The argument.
        above: If given, `value` must be greater than this instead of at least 0.

    Raises:
        ArgumentError: It is something else.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ArgumentError(
            f"{name} is {_describe_value(value)}; expected a number.", kind="wrong-type"
        )
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not (number > above if above is not None else number >= 0) or number == float("inf"):
        bound = "at least 0" if above is None else f"greater than {above:g}"
        raise ArgumentError(
            f"{name} is {_describe_value(value)}; it must be finite and {bound}.",
            kind="out-of-bounds",
        )


def check_flag(name: str, value: object) -> None:
    """Check that an argument is a bool.

    Args:
        name: Name of the argument in messages.
        value: The argument.

    Raises:
        ArgumentError: It is something else.
    """
    if not isinstance(value, bool):
        raise ArgumentError(
            f"{name} is {_describe_value(value)}; expected True or False.", kind="wrong-type"
        )


def check_trains(value: object) -> None:
    """Check the argument `trains`, which of the two networks are trained.

    Args:
        value: `None`, or a tuple of 'value', 'feature' or both.

    Raises:
        ArgumentError: It is something else.
    """
    if value is None:
        return
    are_names = isinstance(value, (tuple, list)) and all(isinstance(item, str) for item in value)
    if not are_names or not value or not set(value) <= {"value", "feature"}:  # type: ignore[call-overload]
        raise ArgumentError(
            f"trains is {_describe_value(value)}; expected a tuple of 'value', 'feature' or both.",
            kind="out-of-bounds",
        )


def check_choice(name: str, value: object, words: object) -> None:
    """Check that an argument is one of the values of a `Literal` type.

    Args:
        name: Name of the argument in messages.
        value: The argument.
        words: The `Literal` type.

    Raises:
        ArgumentError: `value` is none of them.
    """
    if not isinstance(value, str) or value not in get_args(words):
        known = ", ".join(get_args(words))
        raise ArgumentError(
            f"{name} is {_describe_value(value)}; it must be one of {known}.", kind="out-of-bounds"
        )


def _describe_value(value: object) -> str:
    """Describe an invalid argument: short plain values as they are, others by their type."""
    if isinstance(value, (str, int, float, Fraction, NoneType)):
        try:
            text = repr(value)
        except ValueError:  # an integer with more digits than Python prints
            return "an integer with thousands of digits"
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    if isinstance(value, (Tensor, np.ndarray)):
        return f"of type {type(value).__name__}, with shape {tuple(value.shape)}"
    if isinstance(value, (list, tuple)) and len(value) <= 4:
        members = ", ".join(_describe_value(item) for item in value) or "nothing"
        return f"of type {type(value).__name__}, containing {members[: 2 * LONGEST]}"
    return f"of type {type(value).__name__}"


def check_kernel(name: str, kernel: object) -> None:
    """Check that an argument is a square matrix.

    Args:
        name: Name of the argument in messages.
        kernel: The argument, `(n, n)`; its values may be anything.

    Raises:
        ArgumentError: It is something else.
    """
    check_tensor(name, kernel, finite=False)
    assert isinstance(kernel, Tensor)
    if kernel.dim() != 2 or kernel.shape[0] != kernel.shape[1]:
        raise ArgumentError(
            f"{name} has shape {tuple(kernel.shape)}; it must be square, (n, n).",
            kind="wrong-shape",
        )


def check_targets(targets: object, n: int) -> None:
    """Check training targets.

    Args:
        targets: ±1 for each class, `(n,)` or `(n, C)`, finite and not all zero.
        n: Number of examples.

    Raises:
        ArgumentError: They have another shape or dtype, or nothing can be fitted to them.
    """
    if isinstance(targets, Tensor) and targets.dtype in WHOLE:
        raise ArgumentError(
            f"targets has dtype {targets.dtype}; expected ±1 for each class as floats "
            "(class_targets(labels, classes) converts class numbers).",
            kind="wrong-type",
        )
    check_tensor("targets", targets, 1, finite=False)
    assert isinstance(targets, Tensor)
    if targets.dim() > 2 or len(targets) != n:
        raise ArgumentError(
            f"Got {len(targets)} targets of shape {tuple(targets.shape)} for a kernel of {n} "
            "examples; expected (n,) or (n, C).",
            kind="wrong-shape",
        )
    if not bool(torch.isfinite(targets).all()):
        raise ArgumentError("targets contains NaN or infinity.", kind="not-finite")
    energy = float(targets.detach().double().square().sum())
    if not 0 < energy * energy < float("inf"):
        size = "all zero" if energy < 1 else "too large to be squared"
        raise ArgumentError(
            f"targets are {size}, so there is nothing to fit; expected ±1 for each class "
            "(class_targets(labels, classes) creates them).",
            kind="singular",
        )


def check_indices(name: str, value: object, n: int) -> None:
    """Check indices of examples.

    Args:
        name: Name of the argument in messages.
        value: Distinct indices 0…n−1, `(m,)`. Negative ones are refused: −1 would be the last
          example, which may belong to another set.
        n: Number of examples.

    Raises:
        ArgumentError: An index is out of range or occurs twice.
    """
    check_integer_tensor(name, value)
    assert isinstance(value, Tensor)
    if not 0 <= int(value.min()) <= int(value.max()) < n:
        raise ArgumentError(f"{name} contains indices outside 0…{n - 1}.", kind="out-of-bounds")
    if int(value.to(torch.int64).bincount().max()) > 1:
        raise ArgumentError(f"{name} contains an index more than once.", kind="named-twice")


def check_generator(value: object) -> None:
    """Check that an argument is a random generator on the CPU.

    Args:
        value: The argument.

    Raises:
        ArgumentError: It is something else.
    """
    if not isinstance(value, torch.Generator) or value.device.type != "cpu":
        raise ArgumentError(
            f"generator is {_describe_value(value)}; expected a CPU torch.Generator, for example "
            "torch.Generator().manual_seed(0).",
            kind="wrong-type",
        )
