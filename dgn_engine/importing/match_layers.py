"""Match the tensors of a file with the layers of the feature or the value network.

Open it to change which tensor goes into which layer, or the sentence that says why none does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dgn_engine.errors import UserError
from dgn_engine.importing.file_sequence import bias_of, in_said_order
from dgn_engine.importing.fold_batchnorm import (
    EPSILON,
    FOLDED,
    FoldedBatchNorm,
    fold_normalisation,
    fold_ours,
)
from dgn_engine.importing.foreign_keys import foreign_keys, left_over_in_words
from dgn_engine.importing.open_questions import unsaid_of_weights
from dgn_engine.importing.torchvision_nets import has_skips, known_network
from dgn_engine.model.architecture import Architecture, Conv, Dense, Weighted, weight_shape
from dgn_engine.model.stack import Stack
from dgn_engine.protocol.files import LayerMatch
from dgn_engine.regimes import Regime, find_regime
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from dgn_engine.text.printable import plain

Part = Literal["gates", "values"]
Weights = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerMatching:
    """The verdict on a file. `weights` and `biases` (float64 where the file has it, else
    float32): one for each layer that takes part, every gated layer and, where it fits too, the
    output layer; empty if it does not fit.
    """

    rows: tuple[LayerMatch, ...]
    fits: bool
    verdict: str
    weights: tuple[Weights, ...] = ()
    biases: tuple[Weights | None, ...] = ()


@dataclass(frozen=True)
class _Pair:
    """A layer with its matched tensors of the file; `reason`: why they do not fit."""

    row: LayerMatch
    weight: Weights | None = None
    bias: Weights | None = None
    reason: str = ""


def match_layers(
    listing: CheckpointContents,
    architecture: Architecture,
    part: Part = "gates",
) -> LayerMatching:
    """Match weight tensors with weight layers by their order, and check their shapes.

    Every gated layer must fit. No gate depends on the output layer: where it does not fit it is
    left out. Of the two networks in our own files the one that made the gates is matched, or with
    `part` 'values' the value network. BatchNorm is folded in where the file, or the user
    (`listing.reading`), says where it stands and its ε. Raises `UserError` where the file names an
    unknown regime.
    """
    epsilon = listing.reading.norm_eps or EPSILON
    folding = fold_normalisation(_part(listing, part), epsilon)
    arrays = folding.arrays
    names = [name for name, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    layers = architecture.weighted
    pairs = [
        _pair(place, layer, names[place] if place < len(names) else "", folding, architecture)
        for place, layer in enumerate(layers)
    ]
    file = listing.file_name
    if obstacle := _obstacle(listing, part, arrays, names, pairs):
        verdict = f"Gates of {file} {obstacle} Nothing was changed."
        return LayerMatching(tuple(pair.row for pair in pairs), False, verdict)
    norms = [pair.row.tensor for pair in pairs if not pair.reason]
    folded = any(tensor in folding.into for tensor in norms)
    over = len(names) - len(layers)
    return _taken(pairs, architecture, file, over, epsilon if folded else None)


def _obstacle(
    listing: CheckpointContents,
    part: Part,
    arrays: dict[str, Array],
    names: list[str],
    pairs: list[_Pair],
) -> str:
    """Why nothing is taken of a file, as the end of 'Gates of FILE …'; or ''."""
    regime = regime_of(listing)
    if part == "gates" and regime is not None and regime.drawn_gates:
        return (
            f"cannot be taken: in {regime.name} they are drawn for each training example and made "
            "by no network."
        )
    if unsaid := unsaid_of_weights(listing):
        return f"cannot be taken: {unsaid}"
    if normalised := _normalisation(arrays):
        return (
            f"cannot be taken: it does not say what '{plain(normalised, 80)}' "
            f"({left_over_in_words(normalised, arrays)}) does to them.{_known(listing)}"
        )
    if foreign := foreign_keys(names):
        holds = f"it holds '{plain(foreign.name, 80)}', which is of {foreign.what}."
        return f"cannot be taken: {holds} {foreign.remedy}".rstrip()
    for place, pair in enumerate(pairs[:-1], start=1):
        if pair.reason:
            return f"do not fit layer {place}: {pair.reason}.{_known(listing)}"
    return ""


def _taken(
    pairs: list[_Pair],
    architecture: Architecture,
    file: str,
    over: int = 0,
    epsilon: float | None = None,
) -> LayerMatching:
    """The verdict where every gated layer fits; an output layer that does not is left out."""
    taken = pairs if not pairs[-1].reason else pairs[:-1]
    biases = tuple(pair.bias for pair in taken)
    return LayerMatching(
        rows=tuple(pair.row for pair in pairs),
        fits=True,
        verdict=_praise(file, len(architecture.gated), over, biases, epsilon),
        weights=tuple(pair.weight for pair in taken if pair.weight is not None),
        biases=biases,
    )


def matching_of(stack: Stack, architecture: Architecture, file: str) -> LayerMatching:
    """Return the weights of a network that was read from a file as those of an architecture with
    the same nodes, of which only the number of logits may be another."""
    unfolded = FoldedBatchNorm(arrays_of(stack), {})
    pairs = [
        _pair(place, layer, f"{place}.weight", unfolded, architecture)
        for place, layer in enumerate(architecture.weighted)
    ]
    return _taken(pairs, architecture, file)


def arrays_of(stack: Stack) -> dict[str, Array]:
    """The weights and biases of a network in the order of its layers, as if a file held them."""
    arrays: dict[str, Array] = {}
    for place, (weight, bias) in enumerate(zip(*stack.tensors(), strict=True)):
        arrays[f"{place}.weight"] = weight.detach().numpy()
        if bias is not None:
            arrays[f"{place}.bias"] = bias.detach().numpy()
    return arrays


def left_over(listing: CheckpointContents, architecture: Architecture) -> str:
    """The first tensor as long as a layer is wide that no layer takes as its bias; or ''."""
    arrays = fold_normalisation(listing.arrays).arrays
    names = [name for name, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    pairs = zip(names, architecture.weighted, strict=False)
    taken = {bias_of(name, layer.outputs, arrays) for name, layer in pairs}
    widths = {layer.outputs for layer in architecture.weighted}
    return next(
        (
            name
            for name, a in arrays.items()
            if a.ndim == 1 and a.dtype.kind == "f" and len(a) in widths and name not in taken
        ),
        "",
    )


def regime_of(listing: CheckpointContents) -> Regime | None:
    """The regime that a file of ours was saved in; None where it names none.

    Raises `UserError` where it is none that is known here.
    """
    name = listing.metadata.get("regime", "")
    try:
        return find_regime(name) if name else None
    except UserError:
        raise UserError(
            f"{listing.file_name} is of the regime '{plain(name, 20)}', which is not known here.",
            kind="unknown-name",
        ) from None


def _part(listing: CheckpointContents, part: Part) -> dict[str, Array]:
    """The tensors of the network that makes the gates; in a file of ours there are two."""
    if not any(name.startswith(("value.weights.", "feature.weights.")) for name in listing.arrays):
        return in_said_order(listing)
    regime = regime_of(listing)
    own_gates = regime is None or regime.own_gates
    chosen = "value." if own_gates or part == "values" else "feature."
    if not any(name.startswith(f"{chosen}weights.") for name in listing.arrays):
        return listing.arrays
    ours = {name: a for name, a in listing.arrays.items() if name.startswith(chosen)}
    return fold_ours(ours, chosen, makes_gates=own_gates or chosen == "feature.")


def _pair(
    place: int, layer: Weighted, name: str, folding: FoldedBatchNorm, architecture: Architecture
) -> _Pair:
    last = place + 1 == len(architecture.weighted)
    title = f"{'conv' if isinstance(layer, Conv) else 'dense'} {place + 1}"
    title = "output" if last else title
    needed = weight_shape(layer)
    if not name:
        available = sum(a.ndim in (2, 4) and a.dtype.kind == "f" for a in folding.arrays.values())
        reason = f"the file has only {available} weight layers"
        row = LayerMatch(title, needed, "", None, False, _unless_needed(last, reason))
        return _Pair(row, reason=reason)
    arrays = folding.arrays
    found = arrays[name]
    reason = _difference(layer, found.shape)
    bias_name = "" if reason else bias_of(name, layer.outputs, arrays)
    weight = _real(found)
    bias = _real(arrays[bias_name]) if bias_name else None
    if not reason and bias is not None and bias.shape != (layer.outputs,):
        reason = f"its bias {bias_name} has the shape {bias.shape}, ({layer.outputs},) needed"
    if not reason and not all(_finite(a) for a in (weight, bias) if a is not None):
        reason = f"{name} holds values that are not finite"
    remark = _unless_needed(last, reason)
    if not reason and name in folding.into:
        remark = f"{folding.into[name]} folded in"
    elif not reason:
        remark = "with bias" if bias is not None else ""
    row = LayerMatch(title, needed, name, found.shape, not reason, remark)
    return _Pair(row, weight, bias, reason)


def _unless_needed(last: bool, reason: str) -> str:
    """The reason as a remark: only the last layer may be left out."""
    return f"left as it is: {reason}" if last else reason


def _difference(layer: Weighted, found: tuple[int, ...]) -> str:
    """In words what is wrong with a weight of this shape; empty if nothing is."""
    needed = weight_shape(layer)
    if found == needed:
        return ""
    if len(found) != len(needed):
        kinds = {2: "a dense layer", 4: "a convolution"}
        return f"{kinds[len(found)]}, {kinds[len(needed)]} needed"
    units, inputs = ("units", "inputs")
    if not isinstance(layer, Dense):
        units, inputs = ("channels", "input channels")
    if found[0] != needed[0]:
        return f"{found[0]} {units}, {needed[0]} needed"
    if found[1] != needed[1]:
        return f"{found[1]} {inputs}, {needed[1]} needed"
    return f"{found[2]}×{found[3]} windows, {needed[2]}×{needed[3]} needed"


def _normalisation(arrays: dict[str, Array]) -> str:
    """The first tensor that only a normalisation layer has; or ''."""
    for name, array in arrays.items():
        if name.endswith("running_mean") or (array.ndim == 1 and name.endswith(".weight")):
            return name
    return ""


def _real(array: Array) -> Weights:
    """float64 is kept: kernels of a file can be asked for in its own precision."""
    return array if array.dtype == np.float64 else array.astype(np.float32)


def _finite(array: Weights) -> bool:
    """Also as float32, in which networks run."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(array.astype(np.float32)).all())


def _known(listing: CheckpointContents) -> str:
    """What the file is, where it does not fit and its name is known."""
    shapes = {name: array.shape for name, array in listing.arrays.items()}
    network = known_network(shapes)
    if has_skips(shapes):
        return f" It is {network}; its skip connections make it no chain of layers."
    return f" It is {network}." if network else ""


def _praise(
    file: str,
    gated: int,
    over: int,
    biases: tuple[Weights | None, ...],
    epsilon: float | None,
) -> str:
    verdict = f"Gates of {file} fit all {gated} gate layers."
    if over > 0:
        more = (
            "1 more weight layer in it is" if over == 1 else f"{over} more weight layers in it are"
        )
        verdict += f" {more} not used."
    if epsilon is not None:
        verdict += f" {FOLDED}, each into the layer before it, with an ε of {epsilon:g}."
    if any(bias is not None for bias in biases):
        verdict += " Its biases move the gates; path kernels count weights only."
    return verdict
