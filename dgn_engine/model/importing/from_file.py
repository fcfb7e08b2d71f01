"""Make a network of a checkpoint: recognise its architecture and put its weights in place."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dgn_engine.config import NetConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.importing.fold_batchnorm import EPSILON
from dgn_engine.model.importing.from_sequential import stack_of_layers
from dgn_engine.model.importing.from_tensors import (
    dense_architecture,
    import_notes,
    imported_stack,
    in_order,
    named_architecture,
)
from dgn_engine.model.importing.infer_sequential import infer
from dgn_engine.model.importing.numbered_keys import numbered_sequence
from dgn_engine.model.importing.saved_network import is_ours, our_network, state_of
from dgn_engine.model.importing.torchvision_nets import recognise, understood_as
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.regimes import Regime, only_regime
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.stated_layers import KINDS


@dataclass(frozen=True)
class ImportedNetwork:
    """A network from a file, the regime that it is shown in and the step that it belongs to.

    `title`: what it is, as the end of 'It is …'; `remarks`: what was folded or had to be assumed.
    """

    network: GatedNetwork
    regime: Regime
    step: int = 0
    title: str = ""
    remarks: tuple[str, ...] = ()


def network_of(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig | None,
    dtype: torch.dtype | None = None,
    epsilon: float = EPSILON,
) -> ImportedNetwork:
    """The network that a file holds, for inputs of this shape (C, H, W) or (d,).

    A file of ours knows what it is, and so does a saved `nn.Sequential`; ResNets, VGGs and
    AlexNet are known by their names; others are the network `net` if they fit it, the sequence
    that their numbers tell, or a chain of dense layers. All but ours are ReLU networks that make
    their own gates. `epsilon`: of BatchNorm, where the file does not say it. Raises `UserError`
    where the file is none of these, or takes other inputs.
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    title = understood_as(listing)
    if is_ours(listing):
        state = state_of(listing)
        network = our_network(listing, input_shape, dtype)
        return ImportedNetwork(network, state.regime, state.step, title, state.remarks)
    if listing.layers and not _needs_named_net(net, listing, input_shape):
        stack, remarks = stack_of_layers(listing, listing.layers, input_shape, dtype)
    elif known := recognise(listing, input_shape, epsilon):
        stack = imported_stack(known.listing, known.architecture, dtype)
        title, remarks = known.title, known.remarks
    elif numbered := _by_numbers(listing, input_shape, net, dtype, epsilon):
        stack, remarks = numbered
    else:
        ordered = in_order(listing)
        architecture, stack = _chain(ordered, input_shape, net, dtype)
        notes = import_notes(ordered, architecture, gates=False)
        remarks = tuple(note for note in notes if note)
    return ImportedNetwork(_relu_network(stack), only_regime("standard"), 0, title, remarks)


def _by_numbers(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig | None,
    dtype: torch.dtype,
    epsilon: float,
) -> tuple[Stack, tuple[str, ...]] | None:
    """The network of numbered keys and what was assumed. None where the keys are not numbered, or
    where the named network says how its convolutions are padded and strided."""
    if listing.picked or listing.layers:
        return None
    chain = numbered_sequence(listing.arrays, listing.file_name)
    if chain is None or (not chain.convolutions and any(gap.least > 2 for gap in chain.gaps)):
        return None
    if chain.convolutions and net is not None and _fits(listing, input_shape, net):
        return None
    found = infer(chain, input_shape, listing.file_name, epsilon)
    stack, remarks = stack_of_layers(listing, found.layers, input_shape, dtype)
    return stack, (*found.remarks, *remarks)


def _needs_named_net(
    net: NetConfig | None, listing: CheckpointContents, input_shape: tuple[int, ...]
) -> bool:
    """Whether the file states unsupported layers while a network that fits its tensors is named."""
    strange = any(layer.kind not in KINDS for layer in listing.layers)
    return strange and net is not None and _fits(listing, input_shape, net)


def _fits(listing: CheckpointContents, input_shape: tuple[int, ...], net: NetConfig) -> bool:
    try:
        imported_stack(
            listing, named_architecture(listing, net, input_shape), torch.get_default_dtype()
        )
    except UserError:
        return False
    return True


def _chain(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig | None,
    dtype: torch.dtype,
) -> tuple[Architecture, Stack]:
    """Dense layers as they follow each other, else the network that was named."""
    try:
        architecture = dense_architecture(listing)
        inputs = math.prod(architecture.input_shape)
        if inputs != math.prod(input_shape):
            raise UserError(
                f"{listing.file_name} takes {inputs} inputs, but these examples have "
                f"{math.prod(input_shape)}."
            )
    except UserError as refusal:
        if net is None:
            raise
        try:
            architecture = named_architecture(listing, net, input_shape)
            return architecture, imported_stack(listing, architecture, dtype)
        except UserError:
            raise refusal from None
    return architecture, imported_stack(listing, architecture, dtype)


def _relu_network(stack: Stack) -> GatedNetwork:
    """A standard network of these weights. `feature` and `value` are the same stack: a feature
    network of its own would only take memory."""
    with torch.device("meta"):
        network = GatedNetwork(stack.architecture)
    network.value = network.feature = stack
    like = stack.tensors()[0][0]
    network.random_input = torch.zeros(stack.architecture.input_shape, dtype=like.dtype)
    return network
