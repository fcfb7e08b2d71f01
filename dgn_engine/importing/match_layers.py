"""Match the tensors of a file with the layers of the feature or value network.

Edit this module to change which tensor goes into which layer, or the reason given if none does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.file_sequence import bias_of, in_stated_order
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
from dgn_engine.text.printable import plain_text

Part = Literal["gates", "values"]
Weights = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerMatching:
    """The verdict on a file, with the matched weights.

    `weights` and `biases` (float64 if the file has it, else float32): one per matched layer, that
    is every gated layer and, if it fits too, the output layer; empty if the file does not fit.
    """

    rows: tuple[LayerMatch, ...]
    fits: bool
    verdict: str
    weights: tuple[Weights, ...] = ()
    biases: tuple[Weights | None, ...] = ()


@dataclass(frozen=True)
class _Pair:
    """A layer with its matched tensors; `reason`: why they do not fit."""

    row: LayerMatch
    weight: Weights | None = None
    bias: Weights | None = None
    reason: str = ""


def match_layers(
    listing: CheckpointContents,
    architecture: Architecture,
    part: Part = "gates",
) -> LayerMatching:
    """Match weight tensors with layers by order, and check their shapes.

    Every gated layer must fit. No gate depends on the output layer, so that one is left out if it
    does not fit. Of the two networks in our own files, the one that made the gates is matched, or
    with `part` 'values' the value network. BatchNorm is folded in if the file or the user
    (`listing.reading`) gives its place and ε.

    Raises:
        UserError: The file names an unknown regime.
    """
    epsilon = listing.reading.norm_eps or EPSILON
    folding = fold_normalisation(_arrays_of_part(listing, part), epsilon)
    arrays = folding.arrays
    names = [name for name, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    layers = architecture.weight_layers
    pairs = [
        _match_layer(
            index, layer, names[index] if index < len(names) else "", folding, architecture
        )
        for index, layer in enumerate(layers)
    ]
    file = listing.file_name
    obstacle = "" if listing.picked else reason_other_layout(listing, part, architecture)
    if obstacle := obstacle or _reason_not_matched(listing, part, arrays, names, pairs):
        verdict = f"Gates of {file} {obstacle} Nothing was changed."
        return LayerMatching(tuple(pair.row for pair in pairs), False, verdict)
    norms = [pair.row.tensor for pair in pairs if not pair.reason]
    folded = any(tensor in folding.into for tensor in norms)
    over = len(names) - len(layers)
    return _successful_match(pairs, architecture, file, over, epsilon if folded else None)


def _reason_not_matched(
    listing: CheckpointContents,
    part: Part,
    arrays: dict[str, Array],
    names: list[str],
    pairs: list[_Pair],
) -> str:
    """Return why a file does not match, to complete 'Gates of FILE …'; or ''."""
    regime = regime_of(listing)
    if part == "gates" and regime is not None and regime.drawn_gates:
        return (
            f"cannot be used: in {regime.name} they are drawn for each training example, not made "
            "by a network."
        )
    if unsaid := unsaid_of_weights(listing):
        return f"cannot be used: {unsaid}"
    if normalised := _first_norm_tensor(arrays):
        return (
            f"cannot be used: the file does not say what '{plain_text(normalised, 80)}' "
            f"({left_over_in_words(normalised, arrays)}) does to "
            f"them.{_describe_known_file(listing)}"
        )
    if foreign := foreign_keys(names):
        holds = f"the file has '{plain_text(foreign.name, 80)}', which is part of {foreign.what}."
        return f"cannot be used: {holds} {foreign.remedy}".rstrip()
    for number, pair in enumerate(pairs[:-1], start=1):
        if pair.reason:
            return f"do not fit layer {number}: {pair.reason}.{_describe_known_file(listing)}"
    return ""


def reason_other_layout(listing: CheckpointContents, part: Part, architecture: Architecture) -> str:
    """Return why gates of a chain do not fit parallel layers, or the reverse; or ''.

    Their shapes may be equal, if layers are as wide as the input. The listing must be that of the
    whole file: picked tensors do not say where they are from.
    """
    if part == "values" or len(architecture.gated_nodes) < 2:
        return ""
    if has_parallel_features(listing) == architecture.is_parallel:
        return ""
    if architecture.is_parallel:
        return (
            "cannot be used: they are made by a chain of layers, but the feature layers here are "
            "parallel, each from the input."
        )
    return (
        "cannot be used: its feature layers are parallel, each from the input, but those here are "
        "a chain."
    )


def has_parallel_features(listing: CheckpointContents) -> bool:
    """Return whether the gates of one of our files are made by parallel feature layers.

    Raises:
        UserError: The file names an unknown regime, or its configuration is damaged.
    """
    regime = regime_of(listing)
    if regime is None or regime.own_gates or "config" not in listing.metadata:
        return False
    gating = RunConfig.from_toml(listing.metadata["config"]).gating
    return gating.feature_layers == "parallel"


def _successful_match(
    pairs: list[_Pair],
    architecture: Architecture,
    file: str,
    over: int = 0,
    epsilon: float | None = None,
) -> LayerMatching:
    """Return the match if all gated layers fit; an output layer that does not is left out."""
    matched = pairs if not pairs[-1].reason else pairs[:-1]
    biases = tuple(pair.bias for pair in matched)
    return LayerMatching(
        rows=tuple(pair.row for pair in pairs),
        fits=True,
        verdict=_describe_match(file, len(architecture.gated_nodes), over, biases, epsilon),
        weights=tuple(pair.weight for pair in matched if pair.weight is not None),
        biases=biases,
    )


def matching_of(stack: Stack, architecture: Architecture, file: str) -> LayerMatching:
    """Match a network read from a file with an architecture of the same nodes.

    Only the number of logits may differ.
    """
    unfolded = FoldedBatchNorm(arrays_of(stack), {})
    pairs = [
        _match_layer(index, layer, f"{index}.weight", unfolded, architecture)
        for index, layer in enumerate(architecture.weight_layers)
    ]
    return _successful_match(pairs, architecture, file)


def arrays_of(stack: Stack) -> dict[str, Array]:
    """Return the weights and biases in layer order, as if read from a file."""
    arrays: dict[str, Array] = {}
    for index, (weight, bias) in enumerate(zip(*stack.folded_tensors(), strict=True)):
        arrays[f"{index}.weight"] = weight.detach().numpy()
        if bias is not None:
            arrays[f"{index}.bias"] = bias.detach().numpy()
    return arrays


def left_over(listing: CheckpointContents, architecture: Architecture) -> str:
    """Return the first tensor as long as a layer is wide that is no layer's bias; or ''."""
    arrays = fold_normalisation(listing.arrays).arrays
    names = [name for name, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    pairs = zip(names, architecture.weight_layers, strict=False)
    used = {bias_of(name, layer.outputs, arrays) for name, layer in pairs}
    widths = {layer.outputs for layer in architecture.weight_layers}
    return next(
        (
            name
            for name, a in arrays.items()
            if a.ndim == 1 and a.dtype.kind == "f" and len(a) in widths and name not in used
        ),
        "",
    )


def regime_of(listing: CheckpointContents) -> Regime | None:
    """Return the regime that one of our files was saved in; None if it names none.

    Raises:
        UserError: The regime is unknown.
    """
    name = listing.metadata.get("regime", "")
    try:
        return find_regime(name) if name else None
    except UserError:
        raise UserError(
            f"{listing.file_name} has the regime '{plain_text(name, 20)}', which is unknown.",
            kind="unknown-name",
        ) from None


def _arrays_of_part(listing: CheckpointContents, part: Part) -> dict[str, Array]:
    """Return the tensors of the network that makes the gates; our own files have two networks."""
    if not any(name.startswith(("value.weights.", "feature.weights.")) for name in listing.arrays):
        return in_stated_order(listing)
    regime = regime_of(listing)
    own_gates = regime is None or regime.own_gates
    chosen = "value." if own_gates or part == "values" else "feature."
    if not any(name.startswith(f"{chosen}weights.") for name in listing.arrays):
        return listing.arrays
    ours = {name: a for name, a in listing.arrays.items() if name.startswith(chosen)}
    return fold_ours(ours, chosen, makes_gates=own_gates or chosen == "feature.")


def _match_layer(
    place: int, layer: Weighted, name: str, folding: FoldedBatchNorm, architecture: Architecture
) -> _Pair:
    last = place + 1 == len(architecture.weight_layers)
    title = f"{'conv' if isinstance(layer, Conv) else 'dense'} {place + 1}"
    title = "output" if last else title
    needed = weight_shape(layer)
    if not name:
        available = sum(a.ndim in (2, 4) and a.dtype.kind == "f" for a in folding.arrays.values())
        reason = f"the file has only {available} weight layers"
        row = LayerMatch(title, needed, "", None, False, _as_remark(last, reason))
        return _Pair(row, reason=reason)
    arrays = folding.arrays
    array = arrays[name]
    reason = _describe_misfit(layer, array.shape)
    bias_name = "" if reason else bias_of(name, layer.outputs, arrays)
    weight = _as_real(array)
    bias = _as_real(arrays[bias_name]) if bias_name else None
    if not reason and bias is not None and bias.shape != (layer.outputs,):
        reason = f"its bias {bias_name} has the shape {bias.shape}, ({layer.outputs},) needed"
    if not reason and not all(_is_finite(a) for a in (weight, bias) if a is not None):
        reason = f"{name} has values that are not finite"
    remark = _as_remark(last, reason)
    if not reason and name in folding.into:
        remark = f"{folding.into[name]} folded in"
    elif not reason:
        remark = "with bias" if bias is not None else ""
    row = LayerMatch(title, needed, name, array.shape, not reason, remark)
    return _Pair(row, weight, bias, reason)


def _as_remark(last: bool, reason: str) -> str:
    """Return the reason as a remark: only the last layer may be left out."""
    return f"left unchanged: {reason}" if last else reason


def _describe_misfit(layer: Weighted, found: tuple[int, ...]) -> str:
    """Describe how a weight's shape differs from the layer's; '' if it does not."""
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


def _first_norm_tensor(arrays: dict[str, Array]) -> str:
    """Return the first tensor that only a normalisation layer has; or ''."""
    for name, array in arrays.items():
        if name.endswith("running_mean") or (array.ndim == 1 and name.endswith(".weight")):
            return name
    return ""


def _as_real(array: Array) -> Weights:
    """Keep float64: kernels may be requested in the file's own precision."""
    return array if array.dtype == np.float64 else array.astype(np.float32)


def _is_finite(array: Weights) -> bool:
    """Check finiteness in float32, too, the precision networks run in."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(array.astype(np.float32)).all())


def _describe_known_file(listing: CheckpointContents) -> str:
    """Return ' It is …' for a known network that does not fit; or ''."""
    shapes = {name: array.shape for name, array in listing.arrays.items()}
    network = known_network(shapes)
    if has_skips(shapes):
        return f" It is {network}, whose skip connections are not a chain of layers."
    return f" It is {network}." if network else ""


def _describe_match(
    file: str,
    gated: int,
    over: int,
    biases: tuple[Weights | None, ...],
    epsilon: float | None,
) -> str:
    verdict = f"Gates of {file} match all {gated} gate layers."
    if over > 0:
        more = (
            "1 more weight layer in it is" if over == 1 else f"{over} more weight layers in it are"
        )
        verdict += f" {more} unused."
    if epsilon is not None:
        verdict += f" {FOLDED}, each into the layer before it, with an ε of {epsilon:g}."
    if any(bias is not None for bias in biases):
        verdict += " Its biases shift the gates; path kernels use weights only."
    return verdict
