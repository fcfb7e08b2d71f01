"""Fold BatchNorm in evaluation mode into the layer before it, so that its gates can be read.

y = γ (Wx + b - μ) / √(σ² + ε) + β is a layer again: rows of W times γ / √(σ² + ε), and a bias
(Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dgn_engine.storage.checkpoints.contents import Array, natural_key

FOLDED = "BatchNorm is folded in as in evaluation"  # wording of the remark
EPSILON = 1e-5  # default of torch.nn.BatchNorm; not stored in a state dict
_MEAN = ".running_mean"
_OF_NORM = re.compile(r"(?<![a-z])(batch_?norm|bn|norm)(?=s?\d|s?$|s?\.|_)")
_OF_LAYER = ("conv", "fc", "linear", "lin", "dense", "layer")


@dataclass(frozen=True)
class FoldedBatchNorm:
    """`arrays` without the folded BatchNorms; `into`: weight → its BatchNorm."""

    arrays: dict[str, Array]
    into: dict[str, str]


def fold_normalisation(arrays: Mapping[str, Array], epsilon: float = EPSILON) -> FoldedBatchNorm:
    """Fold each BatchNorm with running statistics into the layer before it.

    The layer is found by name (bn2: conv2; features.1: features.0), otherwise by file order. A
    BatchNorm without such a layer keeps all its tensors; so does one that precedes the layer of
    its name in a file stored in layer order (pre-activation). Folded weights are float64: rounding
    them would move gates.
    Source: Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 2.
    """
    folded = dict(arrays)
    into: dict[str, str] = {}
    for norm in [name.removesuffix(_MEAN) for name in arrays if name.endswith(_MEAN)]:
        weight = _layer_of(norm, arrays)
        if not weight or weight in into:
            continue
        into[weight] = norm
        bias = weight.removesuffix("weight") + "bias"
        scaled, shift = _fold_statistics(norm, arrays[weight], arrays.get(bias), arrays, epsilon)
        for name in [name for name in folded if _is_of_norm(name, norm)]:
            del folded[name]
        folded[weight], folded[bias] = scaled, shift
    return FoldedBatchNorm(folded, into)


def has_unplaced(arrays: Mapping[str, Array]) -> bool:
    """Return whether `fold_normalisation` would leave a BatchNorm unfolded; folds nothing."""
    norms = [name.removesuffix(_MEAN) for name in arrays if name.endswith(_MEAN)]
    layers = [_layer_of(norm, arrays) for norm in norms]
    return "" in layers or len(set(layers)) < len(layers)


def fold_ours(arrays: Mapping[str, Array], part: str, makes_gates: bool) -> dict[str, Array]:
    """Fold the batch normalisation of one network in our own files.

    Args:
        part: 'value.' or 'feature.'.
        makes_gates: Fold all of it; otherwise only γ (`BatchNorms`).
    """
    prefix = f"{part}normalisation."
    plain = {name: array for name, array in arrays.items() if not name.startswith(prefix)}
    means = [name for name in arrays if name.startswith(f"{prefix}mean_")]
    for number, index in enumerate(sorted(int(name.rpartition("_")[2]) for name in means)):
        weight, bias = f"{part}weights.{index}", f"{part}biases.{index}"
        scale = arrays[f"{prefix}scales.{number}"].astype(np.float64)
        offset = arrays[bias].astype(np.float64) if bias in arrays else np.zeros_like(scale)
        if makes_gates:
            variance = arrays[f"{prefix}variance_{index}"].astype(np.float64)
            scale /= _safe_root(variance + EPSILON)
            offset = (offset - arrays[f"{prefix}mean_{index}"]) * scale
            plain[bias] = offset + arrays[f"{prefix}shifts.{number}"]
        elif bias in arrays:
            plain[bias] = offset * scale
        plain[weight] = arrays[weight] * scale[:, None, None, None]
    return plain


def _is_of_norm(name: str, norm: str) -> bool:
    own = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    return name.rpartition(".")[0] == norm and name.rpartition(".")[2] in own


def _layer_of(norm: str, arrays: Mapping[str, Array]) -> str:
    """Return the weight that a BatchNorm follows, by name or else by file order; or ''.

    The weight must have as many outputs (bn2: conv2; features.1: features.0).
    """
    mean, variance = arrays[norm + _MEAN], arrays.get(f"{norm}.running_var")
    own = [arrays.get(f"{norm}.{name}") for name in ("weight", "bias")]
    vectors = [mean, variance, *(a for a in own if a is not None)]
    if any(a is None or a.shape != mean.shape or a.dtype.kind != "f" for a in vectors):
        return ""
    for name in (
        *(f"{layer}.weight" for layer in names_before(norm)),
        _weight_before(norm, arrays),
    ):
        array = arrays.get(name)
        if array is not None and array.ndim in (2, 4) and array.shape[:1] == mean.shape:
            return (
                name
                if array.dtype.kind == "f" and not _norm_comes_first(norm, name, arrays)
                else ""
            )
    return ""


def _norm_comes_first(norm: str, layer: str, arrays: Mapping[str, Array]) -> bool:
    """Return whether the BatchNorm comes before the layer; False in a file sorted by name."""
    names = list(arrays)
    by_alphabet = names in (sorted(names), sorted(names, key=natural_key))
    return not by_alphabet and names.index(norm + _MEAN) < names.index(layer)


def names_before(norm: str) -> Iterator[str]:
    """Yield candidates for the layer before a BatchNorm, by name.

    bn2 follows conv2 or fc2; number 1 of a sequence follows number 0.
    """
    for word in _OF_LAYER:
        other = _OF_NORM.sub(word, norm)
        if other != norm:
            yield other
    head, _, last = norm.rpartition(".")
    if last.isdecimal() and len(last) < 6:
        yield f"{head}.{int(last) - 1}".lstrip(".")


def _weight_before(norm: str, arrays: Mapping[str, Array]) -> str:
    """Return the weight right before it in the file, with at most its bias between; or ''."""
    names = [name for name in arrays if not _is_of_norm(name, norm) or name.endswith(_MEAN)]
    earlier = names[: names.index(norm + _MEAN)]
    if earlier and earlier[-1].endswith(".bias"):
        earlier.pop()
    weight = earlier[-1] if earlier and earlier[-1].endswith(".weight") else ""
    return "" if weight and _are_layers_apart(norm, weight.removesuffix(".weight")) else weight


def _are_layers_apart(norm: str, layer: str) -> bool:
    """Return whether, by number, a layer without parameters is between the two.

    After a ReLU a BatchNorm does not change what enters the gates, so it folds into no layer.
    """
    (head, _, last), (other, _, number) = norm.rpartition("."), layer.rpartition(".")
    numbered = all(text.isdecimal() and len(text) < 6 for text in (last, number))
    return numbered and head == other and int(last) - int(number) > 1


def _fold_statistics(
    norm: str, weight: Array, bias: Array | None, arrays: Mapping[str, Array], epsilon: float
) -> tuple[Array, Array]:
    gamma, beta = arrays.get(f"{norm}.weight"), arrays.get(f"{norm}.bias")
    mean = arrays[norm + _MEAN].astype(np.float64)
    with np.errstate(all="ignore"):  # the caller refuses non-finite weights
        scale = 1.0 / _safe_root(arrays[f"{norm}.running_var"].astype(np.float64) + epsilon)
        scale = scale if gamma is None else scale * gamma
        shift = (0.0 if bias is None else bias) - mean
        shift = shift * scale + (0.0 if beta is None else beta)
        scaled = weight.astype(np.float64) * scale.reshape(-1, *(1,) * (weight.ndim - 1))
        return scaled, shift


def _safe_root(variance: Array) -> Array:
    """Return √variance, but NaN if it is infinite: dividing by ∞ would give finite weights."""
    return np.where(np.isinf(variance), np.nan, np.sqrt(variance))
