"""What `dgn kernels` reads: inputs, labels, and the network with its gates."""

from __future__ import annotations

import argparse
import math
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from dgn_engine.cli._options import value_of
from dgn_engine.errors import UserError

if TYPE_CHECKING:
    import torch

    from dgn_engine.model.network import GatedNetwork
    from dgn_engine.protocol.frames import Array


def check_options(arguments: argparse.Namespace) -> None:
    beta, eps, memory = arguments.beta, arguments.eps, arguments.memory
    if beta is not None and not (math.isfinite(beta) and beta > 0):
        raise UserError(f"--beta is {beta:g}; it must be greater than 0 and finite.")
    if not (math.isfinite(eps) and eps >= 0):
        raise UserError(f"--eps is {eps:g}; it must be at least 0 and finite.")
    if not (math.isfinite(memory) and memory > 0):
        raise UserError(f"--memory is {memory:g}; it must be greater than 0 and finite.")
    if eps > 0 and beta is None:
        raise UserError("--eps needs --beta: hard gates have no ε.")
    if arguments.option and not arguments.net:
        raise UserError("--option needs --net: dense layers say their sizes themselves.")


def read_inputs(path: Path, labels: Path | None) -> tuple[Array, Array | None]:
    """X (n, ...) as floats and Y (n,) as whole numbers; raises `UserError`."""
    import numpy as np

    x = _array(path, "x", "X", "inputs")
    if x.ndim < 2 or x.shape[0] < 1 or x.dtype.kind not in "fiu":
        raise UserError(f"{path.name} has shape {x.shape}; inputs must be numbers of shape (n, …).")
    x = x.astype(np.float64) if x.dtype.kind != "f" else x
    if not np.isfinite(x).all():
        raise UserError(f"{path.name} holds values that are not finite.")
    if labels is None:
        return x, None
    y = _array(labels, "y", "Y", "labels")
    if y.shape != (len(x),):
        raise UserError(
            f"{labels.name} has shape {y.shape}; labels must be {len(x)} whole numbers, "
            "one for each input."
        )
    if y.dtype.kind not in "fiu" or not np.isfinite(y).all() or (y != np.round(y)).any():
        raise UserError(f"{labels.name} holds labels that are not whole numbers.")
    return x, y.astype(np.int64)


def check_labels(labels: Array | None, classes: int) -> None:
    """Refuse labels outside the classes; a network with one logit has two."""
    if labels is None:
        return
    most = max(classes, 2) - 1
    if int(labels.min()) < 0 or int(labels.max()) > most:
        logits = f"{classes} logit" + ("s" if classes > 1 else "")
        raise UserError(
            f"The labels go from {labels.min()} to {labels.max()}; "
            f"the network has {logits}, so they must lie in 0…{most}."
        )


def read_network(
    arguments: argparse.Namespace, shape: tuple[int, ...]
) -> tuple[GatedNetwork, list[str]]:
    """The network for inputs of this shape (n, ...), and notes on what the files gave."""
    import torch

    from dgn_engine.config import NetConfig
    from dgn_engine.model.gates import Gate
    from dgn_engine.model.importing import from_tensors, saved_network
    from dgn_engine.model.network import GatedNetwork
    from dgn_engine.model.wiring import check_wiring
    from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors

    listing = read_tensors(arguments.network)
    dtype: torch.dtype = getattr(torch, arguments.dtype)
    if saved_network.is_ours(listing):
        _only_with_plain_weights(arguments)
        network = saved_network.our_network(listing, shape[1:], dtype)
        _check_inputs(shape, network.architecture.input_shape, arguments)
        return network, []
    listing = from_tensors.in_order(listing)
    if arguments.net:
        options = tuple(value_of(text) for text in arguments.option)
        net = NetConfig(name=arguments.net, options=options)
        architecture = from_tensors.named_architecture(listing, net, shape[1:])
    else:
        architecture = from_tensors.dense_architecture(listing)
    _check_inputs(shape, architecture.input_shape, arguments)
    network = GatedNetwork(architecture).to(dtype)
    network.value = from_tensors.imported_stack(listing, architecture, dtype)
    notes = from_tensors.import_notes(listing, architecture, gates=False)
    network.own_gates = arguments.gates is None
    if arguments.gates is None:
        _only_with_gates(arguments)
    else:
        other = from_tensors.in_order(read_tensors(arguments.gates))
        network.feature = from_tensors.imported_gates(other, architecture, dtype)
        notes += from_tensors.import_notes(other, architecture, gates=True)
    soft = arguments.beta is not None
    network.gate = Gate(soft, arguments.beta if soft else 1.0, arguments.eps)
    network.value_input = arguments.value_input
    network.feature_activation = arguments.feature_activation
    if arguments.permute is not None:
        check_wiring(architecture, arguments.permute)
        network.wiring = arguments.permute
    return network, [note for note in notes if note]


def _only_with_plain_weights(arguments: argparse.Namespace) -> None:
    """Refuse options that a file of this program decides."""
    for option, is_given in (
        ("--gates", arguments.gates is not None),
        ("--beta", arguments.beta is not None),
        ("--permute", arguments.permute is not None),
        ("--net", arguments.net is not None),
        ("--value-input ones", arguments.value_input == "ones"),
        ("--feature-activation linear", arguments.feature_activation == "linear"),
    ):
        if is_given:
            raise UserError(
                f"{arguments.network.name} holds a network of ours with its gates in it; "
                f"leave out {option}."
            )


def _only_with_gates(arguments: argparse.Namespace) -> None:
    """Refuse options without effect where the network makes its own gates."""
    for option, is_given in (
        ("--permute", arguments.permute is not None),
        ("--value-input ones", arguments.value_input == "ones"),
        ("--feature-activation linear", arguments.feature_activation == "linear"),
    ):
        if is_given:
            raise UserError(f"{option} needs --gates: without it the network makes its own gates.")


def _array(path: Path, *names: str) -> Array:
    """The only array of a file, or the one with one of these names."""
    from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors

    arrays = read_tensors(path).arrays
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    for name in names:
        if name in arrays:
            return arrays[name]
    raise UserError(
        f"{path.name} holds {len(arrays)} arrays; it must hold one, or one named {names[0]}."
    )


def _check_inputs(
    shape: tuple[int, ...], wanted: tuple[int, ...], arguments: argparse.Namespace
) -> None:
    if prod(shape[1:]) != prod(wanted):
        raise UserError(
            f"{arguments.inputs.name} has inputs of shape {shape[1:]}; "
            f"{arguments.network.name} takes {wanted}."
        )
