"""Make a network of the tensors of a file: ours, a chain of dense layers, or a named network."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from dgn_engine.config import NetConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.model.importing.match_layers import LayerMatching, match_layers, regime_of
from dgn_engine.model.nets import build_architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.regime_entry import configure_for
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import check_wiring
from dgn_engine.regimes import Regime, find_regime
from dgn_engine.storage.checkpoints.contents import CheckpointContents, natural


def is_ours(listing: CheckpointContents) -> bool:
    """Whether `dgn train` or the viewer wrote the file: both networks and how they were used."""
    return "value.weights.0" in listing.arrays and "config" in listing.metadata


def our_regime(listing: CheckpointContents) -> Regime:
    """The regime of a file of ours when it was saved; raises `UserError` where it is unknown."""
    config = RunConfig.from_toml(listing.metadata["config"])
    return regime_of(listing) or find_regime(config.gating.regime)


def our_network(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype
) -> GatedNetwork:
    """The network as it was trained: both stacks, regime, wiring, β and value input."""
    config = RunConfig.from_toml(listing.metadata["config"])
    value, feature = _part(listing, "value."), _part(listing, "feature.")
    architecture = named_architecture(value, config.net, input_shape)
    network = GatedNetwork(architecture).to(dtype)
    for part, listed in (("value", value), ("feature", feature)):
        stack = imported_stack(_unnormalised(listed), architecture, dtype)
        setattr(network, part, stack)
        _normalise(stack, listed)
    network.set_gate(beta=config.gating.beta, epsilon=config.gating.epsilon)
    configure_for(network, our_regime(listing))
    network.value_input = config.gating.value_input
    order = listing.metadata.get("wiring", "")
    if order:
        try:
            network.wiring = tuple(int(part) for part in order.split(","))
        except ValueError:
            raise UserError(f"The wiring '{order}' in {listing.file_name} is no order.") from None
        check_wiring(architecture, network.wiring)
    if "random_input" in listing.arrays:
        fixed = torch.from_numpy(np.array(listing.arrays["random_input"]))
        if tuple(fixed.shape) == architecture.input_shape:
            network.get_buffer("random_input").copy_(fixed)
    return network


def _part(listing: CheckpointContents, prefix: str) -> CheckpointContents:
    arrays = {
        name.removeprefix(prefix): array
        for name, array in listing.arrays.items()
        if name.startswith(prefix)
    }
    return replace(listing, arrays=arrays, metadata={})


_NORMALISATION = "normalisation."


def _unnormalised(listing: CheckpointContents) -> CheckpointContents:
    arrays = {n: a for n, a in listing.arrays.items() if not n.startswith(_NORMALISATION)}
    return replace(listing, arrays=arrays)


def _normalise(stack: Stack, listing: CheckpointContents) -> None:
    """What the file says of the normalisation of one of our networks."""
    if stack.normalisation is None:
        return
    tensors = {
        name.removeprefix(_NORMALISATION): torch.from_numpy(np.array(array))
        for name, array in listing.arrays.items()
        if name.startswith(_NORMALISATION)
    }
    try:
        stack.normalisation.take(tensors)
    except (KeyError, RuntimeError):
        raise UserError(
            f"{listing.file_name} does not hold the normalisation of its network whole."
        ) from None


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

    Raises `UserError` where there are none, where others stand between, or where they do not chain.
    """
    arrays = listing.arrays.items()
    matrices = [(name, a.shape) for name, a in arrays if a.ndim == 2 and a.dtype.kind == "f"]
    other = next((name for name, a in listing.arrays.items() if a.ndim > 2), "")
    if other:
        raise UserError(
            f"{listing.file_name} holds '{other}', which is no dense layer; "
            "name the network with --net."
        )
    if len(matrices) < 2:
        raise UserError(
            f"{listing.file_name} holds {len(matrices)} weight matrices; "
            "a network with gates needs two or more."
        )
    for (before, first), (after, second) in pairwise(matrices):
        if second[1] != first[0]:
            raise UserError(
                f"The layers of {listing.file_name} do not chain: '{after}' takes {second[1]} "
                f"inputs, but '{before}' gives {first[0]}."
            )
    last = len(matrices) - 1
    nodes = [Dense(s[1], s[0], gated=place < last) for place, (_, s) in enumerate(matrices)]
    return Architecture((nodes[0].inputs,), tuple(nodes))


def named_architecture(
    listing: CheckpointContents, net: NetConfig, input_shape: tuple[int, ...]
) -> Architecture:
    """The architecture of a network plug-in, with as many logits as the file's last weight."""
    weights = [a for a in listing.arrays.values() if a.ndim in (2, 4)]
    if not weights:
        raise UserError(f"{listing.file_name} holds no weight matrices or kernels.")
    return build_architecture(net, input_shape, weights[-1].shape[0])


def imported_stack(
    listing: CheckpointContents, architecture: Architecture, dtype: torch.dtype
) -> Stack:
    """All weights of the file as a network, biases where there are any; the head must fit too."""
    match = match_layers(listing, architecture)
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
    return _filled(match, architecture, dtype)


def imported_gates(
    listing: CheckpointContents, architecture: Architecture, dtype: torch.dtype
) -> Stack:
    """The weights that make the gates; an output layer that does not fit stays zero."""
    match = match_layers(listing, architecture)
    if not match.fits:
        raise UserError(_plain_verdict(match))
    return _filled(match, architecture, dtype)


def import_notes(listing: CheckpointContents, architecture: Architecture, gates: bool) -> list[str]:
    """What a user should know of weights that were taken: what was folded, what biases mean."""
    match = match_layers(listing, architecture)
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
