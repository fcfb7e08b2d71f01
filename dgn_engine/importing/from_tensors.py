"""Build a network from the tensors of a file: a chain of dense layers, or a named network."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.match_layers import LayerMatching, left_over, match_layers
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.stack import Stack
from dgn_engine.storage.checkpoints.contents import CheckpointContents, natural_key
from dgn_engine.text.printable import plain_text


def in_order(listing: CheckpointContents) -> CheckpointContents:
    """Return the listing in file order, or sorted by name if only then the matrices chain."""
    if _do_shapes_chain(listing):
        return listing
    named = {name: listing.arrays[name] for name in sorted(listing.arrays, key=natural_key)}
    sorted_by_name = replace(listing, arrays=named)
    return sorted_by_name if _do_shapes_chain(sorted_by_name) else listing


def _do_shapes_chain(listing: CheckpointContents) -> bool:
    """Return whether each matrix or kernel takes the output of the one before it.

    A dense layer may take flattened maps.
    """
    shapes = [a.shape for a in listing.arrays.values() if a.ndim in (2, 4)]
    return all(
        after[1] == before[0] or (len(before) == 4 and len(after) == 2 and not after[1] % before[0])
        for before, after in pairwise(shapes)
    )


def named_architecture(
    listing: CheckpointContents, net: NetConfig, input_shape: tuple[int, ...]
) -> Architecture:
    """Return a network plug-in's architecture, with the logits of the file's last weight."""
    weights = [a for a in listing.arrays.values() if a.ndim in (2, 4)]
    if not weights:
        raise UserError(f"{listing.file_name} has no weight matrices or kernels.", kind="empty")
    return build_architecture(net, input_shape, weights[-1].shape[0])


def imported_stack(
    listing: CheckpointContents, architecture: Architecture, dtype: torch.dtype
) -> tuple[Stack, tuple[str, ...]]:
    """Return all weights of the file as a network, with biases if any; the head must fit too.

    Also returns remarks for the user: what was folded, what biases mean.
    """
    match = match_layers(listing, architecture)
    if not match.fits:
        raise UserError(
            _plain_verdict(match).replace("Gates of", "The weights of", 1), kind="no-fit"
        )
    weight_count = sum(a.ndim in (2, 4) and a.dtype.kind == "f" for a in listing.arrays.values())
    if weight_count > len(architecture.weight_layers):
        raise UserError(
            f"{listing.file_name} has {weight_count} weight layers, but the chosen network has "
            f"{len(architecture.weight_layers)}.",
            kind="wrong-length",
        )
    if len(match.weights) < len(architecture.weight_layers):
        raise UserError(
            f"The output layer of {listing.file_name} does not fit: {match.rows[-1].remark}.",
            kind="no-fit",
        )
    if rest := left_over(listing, architecture):
        raise UserError(
            f"{listing.file_name} has '{plain_text(rest, 80)}', which is as long as a layer "
            "is wide, but not named like its bias; dropping it would change the network.",
            kind="no-fit",
        )
    notes = match.verdict.partition(". ")[2]
    return _build_stack(match, architecture, dtype), (notes,) if notes else ()


def imported_gates(
    listing: CheckpointContents, architecture: Architecture, dtype: torch.dtype
) -> tuple[Stack, tuple[str, ...]]:
    """Return the weights that make the gates, and remarks; a misfit output layer stays zero."""
    match = match_layers(listing, architecture)
    if not match.fits:
        raise UserError(_plain_verdict(match), kind="no-fit")
    return _build_stack(match, architecture, dtype), (match.verdict,)


def _build_stack(match: LayerMatching, architecture: Architecture, dtype: torch.dtype) -> Stack:
    missing = len(architecture.weight_layers) - len(match.biases)  # an output layer that stays zero
    stack = Stack(architecture, [b is not None for b in match.biases] + [False] * missing).to(dtype)
    for index, (weight, bias) in enumerate(zip(match.weights, match.biases, strict=True)):
        stack.weights[index].data.copy_(torch.from_numpy(np.array(weight)))
        if bias is not None:
            stack.biases[index].data.copy_(torch.from_numpy(np.array(bias)))
    return stack


def _plain_verdict(match: LayerMatching) -> str:
    return match.verdict.removesuffix(" Nothing was changed.")
