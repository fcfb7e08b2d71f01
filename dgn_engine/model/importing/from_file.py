"""Make a network of a checkpoint: recognise its architecture and put its weights in place.

The one reader of every command and of the window: what one of them opens, all of them open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from dgn_engine.config import OF_FILE, NetConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Dense, is_gated, weight_shape
from dgn_engine.model.importing.adapted_network import (
    AdaptedNetwork,
    as_listing,
    is_adapted,
    read_adapted,
)
from dgn_engine.model.importing.fold_batchnorm import EPSILON, FOLDED, fold_normalisation
from dgn_engine.model.importing.foreign_keys import (
    OWN_CODE,
    Door,
    UnknownGates,
    UnnamedNetwork,
    check_keys,
    foreign_keys,
)
from dgn_engine.model.importing.from_sequential import check_kinds, stack_of_layers
from dgn_engine.model.importing.from_tensors import (
    dense_architecture,
    guesses_of_order,
    import_notes,
    imported_gates,
    imported_stack,
    in_order,
    named_architecture,
)
from dgn_engine.model.importing.infer_sequential import infer
from dgn_engine.model.importing.match_layers import LayerMatching, Part, match_layers, matching_of
from dgn_engine.model.importing.numbered_keys import numbered_sequence
from dgn_engine.model.importing.saved_network import is_ours, our_network, state_of
from dgn_engine.model.importing.torchvision_nets import (
    known_network,
    recognise,
    understood_as,
)
from dgn_engine.model.importing.ways_out import own_class, sequential_line, way_out
from dgn_engine.model.nets import build_architecture
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.stack import Stack
from dgn_engine.regimes import Regime, only_regime
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.text.printable import plain

OF_FOLDED = "Its tangent kernel is that of the folded weights."


@dataclass(frozen=True)
class ImportedNetwork:
    """A network from a file, the regime that it is shown in and the step that it belongs to.

    `title`: what it is, as the end of 'It is …'; `remarks`: what was folded or had to be assumed;
    `assuming`: the activation that the file does not state ('ReLU'), or '' where it states it;
    `taken_for`: the network that it was taken for because the file says of none (`otherwise`).
    """

    network: GatedNetwork
    regime: Regime
    step: int = 0
    title: str = ""
    remarks: tuple[str, ...] = ()
    assuming: str = ""
    taken_for: NetConfig | None = None

    @property
    def assumption(self) -> str:
        """What is taken for granted of the activations, one sentence; '' where the file says it."""
        if not self.assuming:
            return ""
        return (
            f"A state dict does not say its activations: {self.assuming} is assumed, and gates, Λ, "
            "NPK and ν with it; a network trained with tanh or GELU, or with a skip, is another."
        )


@dataclass(frozen=True)
class _Found:
    """The weights in their architecture; fields as in `ImportedNetwork`."""

    stack: Stack
    remarks: tuple[str, ...] = ()
    title: str = ""
    assuming: str = "ReLU"
    taken_for: NetConfig | None = None


def network_of(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig | None,
    dtype: torch.dtype | None = None,
    epsilon: float = EPSILON,
    *,
    otherwise: NetConfig | None = None,
    door: Door = "command",
) -> ImportedNetwork:
    """The network that a file holds, for inputs of this shape (C, H, W) or (d,).

    A file of ours knows what it is, and so does a saved `nn.Sequential`; then the network `net`
    that the user named; ResNets, VGGs and AlexNet are known by their names; others are the sequence
    that their numbers tell, a chain of dense layers, or else the network `otherwise` if they fit
    it. All but ours are taken for ReLU networks that make their own gates, which a state dict does
    not say (`assuming`). `epsilon`: of BatchNorm, where the file does not say it. `door`: for whom
    refusals are worded. Raises `UserError` where the file is none of these, or takes other inputs.
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if is_ours(listing):
        _check_unnamed(listing, net)
        state, title = state_of(listing), understood_as(listing)
        network = our_network(listing, input_shape, dtype, architecture_for)
        return ImportedNetwork(network, state.regime, state.step, title, state.remarks)
    if is_adapted(listing):
        _check_unnamed(listing, net)
        return _adapted(listing, input_shape, dtype)
    try:
        found = _found_in(listing, input_shape, net, dtype, epsilon, otherwise, door)
    except UnknownGates as verdict:
        raise UserError(f"{verdict} {OWN_CODE[door]}".rstrip()) from None
    title, remarks = found.title or taken_as(found.stack.architecture), found.remarks
    if listing.others:
        remarks = (beside_in_words(listing), *remarks)
    if listing.layout:
        remarks = (listing.layout, *remarks)
    if any(FOLDED in remark for remark in remarks):
        remarks = (*remarks, OF_FOLDED)
    return ImportedNetwork(
        _relu_network(found.stack), only_regime("standard"), 0, title, remarks, found.assuming,
        found.taken_for,
    )  # fmt: skip


def _adapted(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype
) -> ImportedNetwork:
    found = read_adapted(listing, input_shape, dtype)
    remarks = (f"{FOLDED}.", OF_FOLDED) if found.folded else ()
    network = _relu_network(found.stack)
    return ImportedNetwork(
        network, only_regime("standard"), 0, found.title, remarks, found.assuming
    )


def self_contained(
    listing: CheckpointContents, input_shape: tuple[int, ...], otherwise: NetConfig | None = None
) -> CheckpointContents:
    """Return the network of a file as a file of its own holds it, which says what its layers are.

    Arguments and `UserError` as of `network_of`.
    """
    if is_ours(listing) or is_adapted(listing):
        return listing
    found = network_of(listing, input_shape, None, otherwise=otherwise)
    folded = any(FOLDED in remark for remark in found.remarks)
    network = AdaptedNetwork(found.network.value, found.title, folded, found.assuming)
    return as_listing(network, listing.file_name)


def _found_in(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig | None,
    dtype: torch.dtype,
    epsilon: float,
    otherwise: NetConfig | None,
    door: Door,
) -> _Found:
    if listing.layers:
        _check_unnamed(listing, net)
        check_keys(listing.file_name, listing.arrays, door)
        stack, remarks = stack_of_layers(listing, listing.layers, input_shape, dtype)
        return _Found(stack, remarks, understood_as(listing), assuming="")
    check_keys(listing.file_name, listing.arrays, door)
    if net is not None:
        return _named(listing, input_shape, net, dtype, epsilon)
    return _unnamed(listing, input_shape, otherwise, dtype, epsilon, door)


def beside_in_words(listing: CheckpointContents) -> str:
    """Which weights of a file with averaged ones were taken, one sentence."""
    others = ", ".join(f"'{name}'" for name in listing.others)
    return f"Its weights are those under '{listing.part}', not those under {others}."


@dataclass(frozen=True)
class FileVerdict:
    """What a file is, and whether a network is made of it.

    Attributes:
        title: what it is; of what is taken for a network, that it is so.
        reason: why no network is made of it as it is, and what to do, sentences; '' where one is.
        code: the line of code that saves it as a file which says what it is, or ''.
    """

    title: str
    reason: str = ""
    code: str = ""


def verdict_on(listing: CheckpointContents) -> FileVerdict:
    """Return what a file is before there are inputs: the reader itself is asked, with such as fit
    the first layer."""
    title, reason = understood_as(listing), ""
    if is_ours(listing) or is_adapted(listing):
        return FileVerdict(title)
    try:
        if unsaid := _unsaid_geometry(listing):
            said = f"{unsaid} {way_out(listing, 'command')}"
            return FileVerdict(title, said, sequential_line(listing))
        if listing.layers and any(layer.kind == "Conv2d" for layer in listing.layers):
            check_keys(listing.file_name, listing.arrays)
            check_kinds(listing.file_name, listing.layers)
            return FileVerdict(title)
    except UnknownGates as verdict:
        return FileVerdict(title, f"{verdict} {OWN_CODE['command']}")
    except UserError as refusal:
        return FileVerdict(title, str(refusal))
    for shape in _shapes_that_fit(listing):
        try:
            found = network_of(listing, shape, None)
        except UserError as refusal:
            reason = reason or str(refusal)
        else:
            said = f"{found.title}, which the file does not say"
            return FileVerdict(said if found.title.startswith("taken as") else title)
    return FileVerdict(title, reason, "" if listing.layers else sequential_line(listing))


def _shapes_that_fit(listing: CheckpointContents) -> list[tuple[int, ...]]:
    """Shapes of inputs for the first layer of a file; images of several sizes."""
    first = next((a.shape for a in listing.arrays.values() if a.ndim in (2, 4)), (1, 1))
    if len(first) == 2:
        return [(first[1],)]
    return [(first[1], side, side) for side in (224, 32, 64)]


def _unsaid_geometry(listing: CheckpointContents) -> str:
    """What the keys of a numbered sequence with convolutions leave open, a sentence; or ''."""
    if listing.layers or listing.picked or own_class(listing):
        return ""
    shapes = {name: array.shape for name, array in listing.arrays.items()}
    if known_network(shapes) or foreign_keys(shapes):
        return ""
    chain = numbered_sequence(listing.arrays, listing.file_name)
    if chain is None or not chain.convolutions:
        return ""
    return (
        f"{listing.file_name} is a numbered sequence and does not say padding, stride and pooling: "
        "with --data they are taken where just one usual choice leads from the images to the "
        f"{chain.weighted[chain.convolutions].shape[1]:,} inputs of layer "
        f"{chain.weighted[chain.convolutions].name}."
    )


def taken_as(architecture: Architecture) -> str:
    """What was made of a file that does not say it: 'taken as 64-8-8-3 with ReLU between'."""
    weighted = architecture.weighted
    dense = [layer for layer in weighted if isinstance(layer, Dense)]
    if len(dense) == len(weighted):
        what = "-".join(str(size) for size in (dense[0].inputs, *(d.outputs for d in dense)))
    else:
        convolutions = len(weighted) - len(dense)
        plural = ("s" * (convolutions > 1), "s" * (len(dense) > 1))
        what = f"{convolutions} convolution{plural[0]} and {len(dense)} dense layer{plural[1]}"
    bare = [str(n) for n, layer in enumerate(weighted[:-1], start=1) if not is_gated(layer)]
    but = f" but not behind layer {', '.join(bare)}" if bare and not architecture.residual else ""
    return f"taken as {what} with ReLU between{but}"


def architecture_for(net: NetConfig, input_shape: tuple[int, ...], classes: int) -> Architecture:
    """The architecture of a configuration, also of 'file:PATH': that of a checkpoint's network.

    Raises `UserError` where there is no such network, or the file's has other outputs.
    """
    if not net.of_file:
        return build_architecture(net, input_shape, classes)
    path = Path(net.name.removeprefix(OF_FILE))
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    architecture = _architecture_of_file(path, changed, input_shape)
    if architecture.classes != classes:
        raise UserError(
            f"{path.name} has {architecture.classes} outputs; these data need {classes}."
        )
    return architecture


@lru_cache(maxsize=8)
def _architecture_of_file(path: Path, _changed: int, input_shape: tuple[int, ...]) -> Architecture:
    found = network_of(read_tensors(path), input_shape, None, door="window")  # no flag is of use
    return found.network.architecture


def matched(
    listing: CheckpointContents, architecture: Architecture, part: Part = "gates"
) -> LayerMatching:
    """The weights of a file for a network of this architecture: as the reader has them where it
    finds that very network in the file, else layer by layer in the order of the file.

    The reader knows what the order does not: which tensors a ResNet's shortcuts are, and the ε of
    a saved module's BatchNorm.
    """
    if not is_ours(listing):
        try:
            found = network_of(listing, architecture.input_shape, None).network
        except UserError:
            return match_layers(listing, architecture, part)
        if found.architecture.nodes[:-1] == architecture.nodes[:-1]:
            return matching_of(found.value, architecture, listing.file_name)
    return match_layers(listing, architecture, part)


def gates_for(
    listing: CheckpointContents,
    architecture: Architecture,
    dtype: torch.dtype,
    epsilon: float = EPSILON,
) -> tuple[Stack, tuple[str, ...]]:
    """The network of another file that makes the gates of this architecture, and notes on it."""
    if listing.layers or is_adapted(listing):
        found = network_of(listing, architecture.input_shape, None, dtype, epsilon)
        listing = _as_listing(found.network.value, listing)
    ordered = in_order(listing)
    check_keys(listing.file_name, listing.arrays)
    stack = imported_gates(ordered, architecture, dtype, epsilon)
    notes = import_notes(ordered, architecture, gates=True, epsilon=epsilon)
    return stack, tuple(note for note in notes if note)


def _as_listing(stack: Stack, listing: CheckpointContents) -> CheckpointContents:
    """The weights and biases of a network in the order of its layers, as if a file held them."""
    arrays = {}
    for place, (weight, bias) in enumerate(zip(*stack.tensors(), strict=True)):
        arrays[f"{place}.weight"] = np.asarray(weight.detach().numpy())
        if bias is not None:
            arrays[f"{place}.bias"] = np.asarray(bias.detach().numpy())
    dtypes = {name: array.dtype.name for name, array in arrays.items()}
    return replace(listing, arrays=arrays, dtypes=dtypes, metadata={}, layers=())


def _check_unnamed(listing: CheckpointContents, net: NetConfig | None) -> None:
    if net is not None:
        raise UserError(
            f"{listing.file_name} says itself what its network is; leave out --net {net.name}."
        )


def _named(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    net: NetConfig,
    dtype: torch.dtype,
    epsilon: float,
) -> _Found:
    """The network that the user named; raises `UserError` with the shapes that it wants."""
    ordered = in_order(listing)
    architecture = named_architecture(ordered, net, input_shape)
    try:
        stack = imported_stack(ordered, architecture, dtype, epsilon)
    except UserError as refusal:
        came = [a.shape for a in listing.arrays.values() if a.ndim in (2, 4)]
        wanted = [weight_shape(layer) for layer in architecture.weighted]
        raise UserError(
            f"{refusal} {net.name} on these examples wants {_shapes(wanted)}; "
            f"the file has {_shapes(came)}."
        ) from None
    notes = import_notes(ordered, architecture, gates=False, epsilon=epsilon)
    return _Found(stack, tuple(note for note in notes if note))


def _unnamed(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    otherwise: NetConfig | None,
    dtype: torch.dtype,
    epsilon: float,
    door: Door,
) -> _Found:
    """What names, numbers or shapes tell; else the network `otherwise`, where it fits."""
    try:
        if known := recognise(listing, input_shape, epsilon):
            stack = imported_stack(known.listing, known.architecture, dtype, epsilon)
            return _Found(stack, known.remarks, known.title)
        _check_not_own(listing)
        return _by_numbers(listing, input_shape, dtype, epsilon) or _chain(
            listing, input_shape, dtype, epsilon
        )
    except UnnamedNetwork as doubt:
        if otherwise is not None:
            try:
                taken = _named(listing, input_shape, otherwise, dtype, epsilon)
                return replace(taken, taken_for=otherwise)
            except UserError:
                pass
        raise UserError(f"{doubt} {way_out(listing, door)}") from None


def _check_not_own(listing: CheckpointContents) -> None:
    """Raise `UnnamedNetwork` for a whole module whose code, which is not here, says what it is."""
    if own := own_class(listing):
        raise UnnamedNetwork(
            f"{listing.file_name} is a whole saved module of the class {plain(own, 80)}: what it "
            "computes is in the code of that class, and nothing of the file is run."
        )


def _by_numbers(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype, epsilon: float
) -> _Found | None:
    """The network of numbered keys and what was assumed; None where the keys are not numbered."""
    if listing.picked:
        return None
    chain = numbered_sequence(listing.arrays, listing.file_name)
    if chain is None or (not chain.convolutions and any(gap.least > 2 for gap in chain.gaps)):
        return None
    found = infer(chain, input_shape, listing.file_name, epsilon)
    stack, remarks = stack_of_layers(listing, found.layers, input_shape, dtype)
    return _Found(stack, (*found.remarks, *remarks))


def _chain(
    listing: CheckpointContents, input_shape: tuple[int, ...], dtype: torch.dtype, epsilon: float
) -> _Found:
    """Dense layers as they follow each other."""
    ordered = in_order(listing)
    architecture = dense_architecture(ordered)
    inputs = math.prod(architecture.input_shape)
    if inputs != math.prod(input_shape):
        raise UserError(
            f"{listing.file_name} takes {inputs} inputs, but these examples have "
            f"{math.prod(input_shape)}."
        )
    unfolded = fold_normalisation(ordered.arrays, epsilon).arrays
    if norm := next((name for name in unfolded if name.endswith(".running_mean")), ""):
        raise UnnamedNetwork(
            f"{listing.file_name} holds the BatchNorm '{plain(norm.rpartition('.')[0], 80)}', and "
            "neither names nor order say behind which layer it stands."
        )
    stack = imported_stack(ordered, architecture, dtype, epsilon)
    notes = import_notes(ordered, architecture, gates=False, epsilon=epsilon)
    return _Found(stack, (*guesses_of_order(ordered), *(note for note in notes if note)))


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    """'16×8, 16×16 …', the first ten of them."""
    words = ["×".join(str(side) for side in shape) for shape in shapes]
    return ", ".join(words[:10]) + (", …" if len(words) > 10 else "") if words else "none"


def _relu_network(stack: Stack) -> GatedNetwork:
    """A standard network of these weights. `feature` and `value` are the same stack: a feature
    network of its own would only take memory."""
    with torch.device("meta"):
        network = GatedNetwork(stack.architecture)
    network.value = network.feature = stack
    like = stack.tensors()[0][0]
    network.random_input = torch.zeros(stack.architecture.input_shape, dtype=like.dtype)
    return network
