"""The file format of an imported network: weights, and nodes as JSON.

It contains none of the module's code, so other processes can compute the network without it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.stack import Stack
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from dgn_engine.storage.plain_data import parse_json
from dgn_engine.text.printable import plain_text

KEY = "dgn_network"  # the only metadata: several would be written in no fixed order
FORMAT = "dgn-viewer network 1"
_NODES = 5000
_LONGEST = 100_000  # letters of metadata that the reader keeps
_LARGEST = 1 << 24  # of a side, a number of channels, a kernel
_WIDEST = 1 << 26  # numbers per example after a layer: padding could make any
_FACTORS = (float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max))
_TITLE = 200
_KINDS: Mapping[str, type[arch.Node]] = {
    kind.__name__: kind for kind in get_args(arch.Node) if kind is not arch.FromInput
}  # a network that makes its own gates has no parallel layers


@dataclass(frozen=True)
class AdaptedNetwork:
    """A network imported from a module or another file.

    Attributes:
        stack: Its weights, with BatchNorm and constants folded in.
        title: Its module and weights: 'Net of nets.py, with the weights of a.pt'.
        folded: Whether BatchNorm was folded in.
        assuming: The activation that the original file does not state ('ReLU'), or ''.
    """

    stack: Stack
    title: str
    folded: bool
    assuming: str = ""


def is_adapted(listing: CheckpointContents) -> bool:
    return KEY in listing.metadata


def adapted_title(listing: CheckpointContents) -> str:
    """Return the module that the file comes from; raises `UserError` if it does not say."""
    return _read_description(listing).title


def as_listing(network: AdaptedNetwork, name: str) -> CheckpointContents:
    """Return the contents of a file of this network, named `name`.

    Raises:
        UserError: It has more nodes, or other values, than such a file can describe.
    """
    arrays: dict[str, Array] = {}
    for index, (weight, bias) in enumerate(zip(*network.stack.folded_tensors(), strict=True)):
        arrays[f"weights.{index}"] = weight.detach().numpy()
        if bias is not None:
            arrays[f"biases.{index}"] = bias.detach().numpy()
    architecture = network.stack.architecture
    text = json.dumps(
        {
            "format": FORMAT,
            "module": plain_text(network.title, _TITLE),
            "folded": network.folded,
            **({"assuming": network.assuming} if network.assuming else {}),
            "input_shape": list(architecture.input_shape),
            "nodes": [_to_plain(_without_folded(node)) for node in architecture.nodes],
        },
        separators=(",", ":"),
    )
    if len(architecture.nodes) > _NODES or len(text) > _LONGEST:
        raise UserError(
            f"{network.title} has {len(architecture.nodes):,} layers, pools and additions, too "
            "many for a file to describe.",
            kind="too-large",
        )
    dtypes = {key: array.dtype.name for key, array in arrays.items()}
    listing = CheckpointContents(name, arrays, dtypes, metadata={KEY: text}, kind="adapted module")
    _read_description(listing)  # check that what is written can be read
    return listing


def read_adapted(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype
) -> AdaptedNetwork:
    """Return the network of such a file for inputs of shape (C, H, W) or (d,).

    Raises:
        UserError: It takes other inputs, or is not the network it describes.
    """
    file = listing.file_name
    described = _read_description(listing)
    architecture = described.architecture
    own_shape = architecture.input_shape
    if own_shape != input_shape and own_shape != (math.prod(input_shape),):
        raise UserError(
            f"{file} takes inputs of shape {_format_shape(own_shape)}, but these examples have "
            f"{_format_shape(input_shape)}.",
            kind="other-inputs",
        )
    layers = architecture.weight_layers
    biased = [f"biases.{index}" in listing.arrays for index in range(len(layers))]
    expected = {f"weights.{index}": arch.weight_shape(layer) for index, layer in enumerate(layers)}
    expected |= {f"biases.{p}": (layer.outputs,) for p, layer in enumerate(layers) if biased[p]}
    for name in sorted(set(expected) ^ set(listing.arrays)):
        which = "lacks" if name in expected else "has the unexpected tensor"
        raise UserError(
            f"{file} {which} '{plain_text(name, 60)}': it is not the network it describes.",
            kind="other-network",
        )
    for name, shape in expected.items():
        array = listing.arrays[name]
        if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise UserError(
                f"'{name}' of {file} must contain {_format_shape(shape)} finite numbers for "
                "its network.",
                kind="not-finite",
            )
    with torch.device("meta"):
        stack = Stack(architecture, biased)
    for index in range(len(layers)):
        stack.weights[index] = _as_parameter(listing.arrays[f"weights.{index}"], dtype)
        if biased[index]:
            stack.biases[index] = _as_parameter(listing.arrays[f"biases.{index}"], dtype)
    return AdaptedNetwork(stack, described.title, described.folded, described.assuming)


def _as_parameter(array: Array, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.array(array)).to(dtype))


@dataclass(frozen=True)
class _Description:
    """Fields as in `AdaptedNetwork`."""

    architecture: arch.Architecture
    title: str
    folded: bool
    assuming: str


def _read_description(listing: CheckpointContents) -> _Description:
    """Return the checked description that the file holds."""
    file = listing.file_name
    try:
        tree = parse_json(listing.metadata[KEY].encode())
        if tree["format"] != FORMAT:
            raise UserError(f"{file} was written by another version of dgn-viewer.", kind="damaged")
        title, folded, nodes = tree["module"], tree["folded"], tree["nodes"]
        assuming = tree.get("assuming", "")
        if type(title) is not str or type(folded) is not bool or len(nodes) > _NODES:
            raise ValueError("its description")
        if assuming not in ("", "ReLU"):
            raise ValueError("assuming")
        shape = tuple(_check_integer(side, 1) for side in tree["input_shape"])
        architecture = arch.Architecture(shape, tuple(_from_plain(node) for node in nodes))
        if architecture.has_batch_norm:
            raise ValueError("a BatchNorm")
        if max(math.prod(after) for _, after in architecture.shapes()) > _WIDEST:
            raise ValueError(f"more than {_WIDEST:,} numbers per example")
        _check_blocks(architecture)
    except UserError as refusal:
        raise UserError(
            f"{file} describes an impossible network: {refusal}", kind="damaged"
        ) from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UserError(
            f"{file} has an invalid description of its network ({plain_text(str(error), 80)}).",
            kind="damaged",
        ) from None
    return _Description(architecture, plain_text(title, _TITLE), folded, assuming)


def _check_blocks(architecture: arch.Architecture) -> None:
    """Refuse a residual block without a weight layer.

    No module has one, and paths that share all their weights are counted separately: their number
    doubles with each such block.
    """
    weighted = set(map(id, architecture.weight_layers))
    layers = [0]  # of each open block
    for node in architecture.nodes:
        if isinstance(node, arch.Fork):
            layers.append(0)
        elif isinstance(node, arch.Merge):
            inside = layers.pop()
            if not inside:
                raise ValueError("a residual block without a weight layer")
            layers[-1] += inside
        layers[-1] += id(node) in weighted


def _without_folded(node: arch.Node) -> arch.Node:
    """Remove what the weights of `Stack.folded_tensors` already include."""
    if isinstance(node, arch.Conv):
        return replace(node, normal=False)
    return replace(node, factor=1.0) if isinstance(node, arch.Dense) else node


def _to_plain(node: arch.Node) -> list[Any]:
    """Return a node as its kind and its non-default values."""
    options = {
        item.name: getattr(node, item.name)
        for item in fields(node)
        if item.default is MISSING or getattr(node, item.name) != item.default
    }
    return [type(node).__name__, options]


def _from_plain(entry: Any) -> arch.Node:
    name, options = entry
    kind = _KINDS[name]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {
        key: _check_value(key, hints[key], value) for key, value in options.items()
    }
    return kind(**values)


def _check_value(name: str, kind: type, value: Any) -> bool | int | float:
    if kind is int:
        return _check_integer(value, 0 if name == "padding" else 1)
    if kind is bool:
        if type(value) is not bool:
            raise ValueError(name)
        return value
    least, most = _FACTORS  # compared first: an int may be too large for a float
    if type(value) not in (int, float) or not least <= abs(value) <= most:
        raise ValueError(name)
    return float(value)


def _check_integer(value: Any, least: int) -> int:
    if type(value) is not int or not least <= value <= _LARGEST:
        raise ValueError("a number")
    return value


def _format_shape(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)
