"""Make a network of the tensors of a file: a chain of dense layers, or a named network."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.importing.fold_batchnorm import EPSILON
from dgn_engine.model.importing.foreign_keys import UnnamedNetwork, shortcut_in, two_networks_in
from dgn_engine.model.importing.match_layers import LayerMatching, left_over, match_layers
from dgn_engine.model.nets import build_architecture
from dgn_engine.model.stack import Stack
from dgn_engine.storage.checkpoints.array_layout import is_kernel, matrices_of, stem
from dgn_engine.storage.checkpoints.contents import CheckpointContents, natural
from dgn_engine.text.printable import plain


def in_order(listing: CheckpointContents) -> CheckpointContents:
    """The listing with its layers as they follow each other: the file's order, or that of the
    names, numbers counted, where only then do the matrices chain."""
    if _chains(listing):
        return listing
    named = {name: listing.arrays[name] for name in sorted(listing.arrays, key=natural)}
    sorted_by_name = replace(listing, arrays=named)
    return sorted_by_name if _chains(sorted_by_name) else listing


def _chains(listing: CheckpointContents) -> bool:
    """Whether each matrix or kernel takes what the one before it gives, up to flattened maps."""
    shapes = [a.shape for a in listing.arrays.values() if a.ndim in (2, 4)]
    return all(
        after[1] == before[0] or (len(before) == 4 and len(after) == 2 and not after[1] % before[0])
        for before, after in pairwise(shapes)
    )


def dense_architecture(listing: CheckpointContents) -> Architecture:
    """The fully connected network that the file's matrices make in their order.

    Raises `UnnamedNetwork` where there are none, where others stand between, where one goes past
    others, or where they do not chain.
    """
    arrays = listing.arrays.items()
    matrices = [(name, a.shape) for name, a in arrays if a.ndim == 2 and a.dtype.kind == "f"]
    other = next((name for name, a in listing.arrays.items() if a.ndim > 2), "")
    if other:
        if listing.arrays[other].ndim == 4:
            raise UnnamedNetwork(
                f"{listing.file_name} holds convolutions ('{plain(other, 80)}') and does not say "
                "what lies between its layers: activations, strides, padding and pooling are in no "
                "state dict."
            )
        raise UnnamedNetwork(
            f"{listing.file_name} holds '{plain(other, 80)}', which is no dense layer."
        )
    if len(matrices) < 2:
        raise UnnamedNetwork(
            f"{listing.file_name} holds {len(matrices)} weight matrices; "
            "a network with gates needs two or more."
        )
    if shortcut := shortcut_in(name for name, _ in matrices):
        raise UnnamedNetwork(
            f"{listing.file_name} holds '{shortcut}', a layer that goes past others by its name: "
            "the layers are no chain."
        )
    if two := two_networks_in(name for name, _ in matrices):
        raise UnnamedNetwork(f"{listing.file_name} holds {two}: its layers are no one chain.")
    for (before, first), (after, second) in pairwise(matrices):
        if second[1] != first[0]:
            raise UnnamedNetwork(
                f"The layers of {listing.file_name} do not chain: '{after}' takes {second[1]} "
                f"inputs, but '{before}' gives {first[0]}."
            )
    last = len(matrices) - 1
    nodes = [Dense(s[1], s[0], gated=place < last) for place, (_, s) in enumerate(matrices)]
    return Architecture((nodes[0].inputs,), tuple(nodes))


def guesses_of_order(listing: CheckpointContents) -> tuple[str, ...]:
    """What shapes that chain leave open: the order of layers, and which side is the input."""
    matrices = matrices_of(listing.arrays)
    found = []
    square = {name: a.shape for name, a in matrices.items() if a.shape[0] == a.shape[1]}
    stems: dict[tuple[int, ...], set[str]] = {}
    for name, shape in square.items():
        stems.setdefault(shape, set()).add(stem(name))
    if any(len(names) > 1 for names in stems.values()) and not listing.picked:
        names = ", ".join(plain(name, 40) for name in list(matrices)[:6])
        found.append(
            "Several orders of its layers would chain; that of the file is taken: "
            f"{names}{', …' if len(matrices) > 6 else ''}."
        )
    says = any("weight" in name or is_kernel(name) for name in matrices)
    if not says and len(square) == len(matrices):
        found.append(
            "Its matrices are square: that they are outputs × inputs, as in torch, is assumed."
        )
    return tuple(found)


def named_architecture(
    listing: CheckpointContents, net: NetConfig, input_shape: tuple[int, ...]
) -> Architecture:
    """The architecture of a network plug-in, with as many logits as the file's last weight."""
    weights = [a for a in listing.arrays.values() if a.ndim in (2, 4)]
    if not weights:
        raise UserError(f"{listing.file_name} holds no weight matrices or kernels.")
    return build_architecture(net, input_shape, weights[-1].shape[0])


def imported_stack(
    listing: CheckpointContents,
    architecture: Architecture,
    dtype: torch.dtype,
    epsilon: float = EPSILON,
) -> Stack:
    """All weights of the file as a network, biases where there are any; the head must fit too."""
    match = match_layers(listing, architecture, epsilon=epsilon)
    if not match.fits:
        raise UserError(_plain_verdict(match).replace("Gates of", "The weights of", 1))
    given = sum(a.ndim in (2, 4) and a.dtype.kind == "f" for a in listing.arrays.values())
    if given > len(architecture.weighted):
        raise UserError(
            f"{listing.file_name} holds {given} weight layers; the network that was named has "
            f"{len(architecture.weighted)}."
        )
    if len(match.weights) < len(architecture.weighted):
        raise UserError(
            f"The output layer of {listing.file_name} does not fit: {match.rows[-1].remark}."
        )
    if rest := left_over(listing, architecture):
        raise UserError(
            f"{listing.file_name} holds '{plain(rest, 80)}', which is as long as a layer is wide "
            "but by its name no layer's bias; without it the network would be another."
        )
    return _filled(match, architecture, dtype)


def imported_gates(
    listing: CheckpointContents,
    architecture: Architecture,
    dtype: torch.dtype,
    epsilon: float = EPSILON,
) -> Stack:
    """The weights that make the gates; an output layer that does not fit stays zero."""
    match = match_layers(listing, architecture, epsilon=epsilon)
    if not match.fits:
        raise UserError(_plain_verdict(match))
    return _filled(match, architecture, dtype)


def import_notes(
    listing: CheckpointContents,
    architecture: Architecture,
    gates: bool,
    epsilon: float = EPSILON,
) -> list[str]:
    """What a user should know of weights that were taken: what was folded, what biases mean."""
    match = match_layers(listing, architecture, epsilon=epsilon)
    verdict = _plain_verdict(match)
    return [verdict if gates else verdict.partition(". ")[2]]


def _filled(match: LayerMatching, architecture: Architecture, dtype: torch.dtype) -> Stack:
    missing = len(architecture.weighted) - len(match.biases)  # an output layer that stays zero
    stack = Stack(architecture, [b is not None for b in match.biases] + [False] * missing).to(dtype)
    for place, (weight, bias) in enumerate(zip(match.weights, match.biases, strict=True)):
        stack.weights[place].data.copy_(torch.from_numpy(np.array(weight)))
        if bias is not None:
            stack.biases[place].data.copy_(torch.from_numpy(np.array(bias)))
    return stack


def _plain_verdict(match: LayerMatching) -> str:
    return match.verdict.removesuffix(" Nothing was changed.")
