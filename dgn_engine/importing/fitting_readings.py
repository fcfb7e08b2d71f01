"""Find readings of a file that fit its inputs and outputs, and measure their accuracy.

The user may choose one; none is ever assumed. Any padding, stride, dilation and pooling may have
made the file, and shapes do not tell max pooling from average pooling.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

import torch
from torch import Tensor, nn

from dgn_engine.errors import UserError
from dgn_engine.importing.file_sequence import (
    FileLayer,
    FileSequence,
    arrays_to_read,
    sequence_in,
)
from dgn_engine.importing.fold_batchnorm import EPSILON
from dgn_engine.importing.from_file import module_in, network_of
from dgn_engine.importing.geometry_words import (
    ConvolutionNumbers,
    convolution_word,
    pooling_word,
)
from dgn_engine.importing.open_questions import (
    RESNET,
    TORCHVISION,
    children_of,
    named_activations,
    questions_of,
)
from dgn_engine.importing.sequence_reading import (
    fill_room,
    is_of_layer,
    stated_convolution,
    stated_sequence,
)
from dgn_engine.importing.torchvision_nets import resembling_family
from dgn_engine.protocol.file_reading import (
    BatchNormPlace,
    FileReading,
    FittingReading,
    Unsaid,
)
from dgn_engine.storage.checkpoints.contents import CheckpointContents, StatedLayer

MOST = 8  # readings returned, at most
_TRIED = 16  # geometries whose accuracy is computed
_NAMED = 3  # of these, at least, with what the file mentions
_LEFT_OVER = 50  # tensors ignored together, at most
_DEEPER = 2  # the best ones are tried with other activations
_EXAMPLES = (50, 500)  # minimum and maximum
_OPERATIONS = 5e9  # multiplications per reading
_COMMON = ("relu", "leaky_relu", "tanh", "gelu", "elu", "silu", "sigmoid", "softplus")
_POOLS = ("", "max2", "avg2", "max3s2", "max3s2p1")


def fitting_readings(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    x: Tensor | None = None,
    y: Tensor | None = None,
) -> tuple[FittingReading, ...]:
    """Return readings of a file that fit inputs of this shape, the best first, at most `MOST`.

    Args:
        listing: A file that leaves something open; options given for it already are kept.
        input_shape: (C, H, W) or (d,).
        x: Examples (n, *input_shape), with class numbers `y` (n,): each reading then has its
            accuracy on some of them.

    Returns:
        Some of the readings that fit; none if the options cannot describe the file.
    """
    try:
        topics = {question.about for question in questions_of(listing)}
        candidates = list(islice(_candidate_readings(listing, input_shape, topics), _TRIED))
    except UserError:
        return ()
    if x is None or y is None or not len(y) or not candidates:
        fitting = (
            reading for reading in candidates if _is_reading_valid(listing, reading, input_shape)
        )
        return tuple(FittingReading(reading) for reading in islice(fitting, MOST))
    count = min(_affordable_examples(listing, input_shape), len(y))
    rows = torch.arange(count) * len(y) // count  # spread out: they may be sorted by class
    x, y = x[rows], y[rows]
    scored = [_score_reading(listing, reading, input_shape, x, y) for reading in candidates]
    ranked = sorted(filter(None, scored), key=_by_accuracy)
    if "activation" in topics and not _is_family(ranked):
        others = [
            _score_reading(listing, replace(best.reading, activation=name), input_shape, x, y)
            for best in ranked[:_DEEPER]
            for name in _likely_activations(listing)[1:]
        ]
        ranked = sorted([*ranked, *filter(None, others)], key=_by_accuracy)
    named = named_activations(listing)
    first = [f for f in ranked if f.reading.activation in named]
    rest = [f for f in ranked if f not in first[:_NAMED]]
    shown = [*first[:_NAMED], *rest][:MOST]  # keep what the file itself mentions
    return tuple(sorted(shown, key=_by_accuracy))


def _likely_activations(listing: CheckpointContents) -> tuple[str, ...]:
    """Return activations to try, those that the file mentions first."""
    return tuple(dict.fromkeys((*named_activations(listing), *_COMMON)))


def _by_accuracy(fitting: FittingReading) -> float:
    return -(fitting.accuracy or 0.0)


def _is_family(found: Sequence[FittingReading]) -> bool:
    return bool(found) and found[0].reading.geometry.startswith((TORCHVISION, RESNET))


def _candidate_readings(
    listing: CheckpointContents, input_shape: tuple[int, ...], asked: set[Unsaid]
) -> Iterator[FileReading]:
    """Yield readings that specify everything that is open."""
    arrays = arrays_to_read(listing)
    family = resembling_family(arrays)
    if family and "geometry" in asked and len(input_shape) == 3:
        yield from _of_family(listing, input_shape, asked)
        if family == "resnet":
            return
    chosen = listing.reading
    base = replace(
        chosen,
        activation=chosen.activation or _likely_activations(listing)[0],
        norm_eps=EPSILON if "norm_eps" in asked else chosen.norm_eps,
    )
    if "ignored" in asked:
        sequence = sequence_in(listing)
        leftover = sequence.left_over
        if len(leftover) > _LEFT_OVER or any(is_of_layer(name) for name in leftover):
            return
        base = replace(base, ignored=(*chosen.ignored, *sequence.left_over))
        listing = replace(listing, reading=base)
    sequence = sequence_in(listing)
    if sequence.unplaced:
        return
    if "order" in asked:
        order = tuple(layer.tensors["weight"] for layer in sequence.weighted_layers)
        base = replace(base, order=order)
    norm_places: tuple[BatchNormPlace, ...] = (
        ("before", "after") if "batchnorm" in asked else (chosen.batchnorm,)
    )
    children = children_of(listing)
    words: Iterator[str] = iter([chosen.geometry])
    if "geometry" in asked and sequence.convolution_count and not chosen.geometry:
        words = _candidate_geometries(sequence, input_shape, children)
    for geometry, norm_place in product(words, norm_places):
        reading = replace(base, geometry=geometry, batchnorm=norm_place)
        try:
            reading = fill_room(listing.file_name, sequence, reading)
            stated_sequence(listing.file_name, sequence, reading, children)
        except UserError:
            continue
        yield reading


def _of_family(
    listing: CheckpointContents, input_shape: tuple[int, ...], asked: set[Unsaid]
) -> Iterator[FileReading]:
    arrays = arrays_to_read(listing)
    first = next((a for a in arrays.values() if a.ndim == 4), None)
    kernel = 3 if first is None else first.shape[2]
    chosen = listing.reading
    norm_eps = chosen.norm_eps or (EPSILON if "norm_eps" in asked else None)
    whole = FileReading(geometry=TORCHVISION, ignored=chosen.ignored)
    stems = (f"s1p{kernel // 2}", f"s2p{kernel // 2},max3s2p1", f"s2p{kernel // 2}")
    every = [
        replace(whole, geometry=f"{RESNET},{stem}", activation="relu", norm_eps=norm_eps)
        for stem in stems
    ]
    options = [whole, *every] if resembling_family(arrays) == "resnet" else [whole]
    for reading in options[1:] if kernel < 7 and len(options) > 1 else options:
        try:
            network_of(replace(listing, reading=reading), input_shape)
        except UserError:
            continue
        yield reading


def _candidate_geometries(
    sequence: FileSequence, input_shape: tuple[int, ...], children: Mapping[str, StatedLayer]
) -> Iterator[str]:
    """Yield --geometry words that lead from the inputs to the first dense layer."""
    if len(input_shape) != 3:
        return
    convolutions = [layer for layer in sequence.weighted_layers if layer.kind == "Conv2d"]
    dense = next((layer for layer in sequence.weighted_layers if layer.kind == "Linear"), None)
    stated = [stated_convolution(layer, children) for layer in convolutions]
    known = [geometry for geometry in stated if geometry is not None]
    conventions = [known] if len(known) == len(stated) else list(_stride_conventions(convolutions))
    named = [pooling_word(child) for child in children.values() if "Pool" in child.kind]
    kinds = ("", *dict.fromkeys(word for word in named if word in _POOLS)) if named else _POOLS
    arriving = [input_shape[0], *(layer.shape[0] for layer in convolutions)]
    groups = [came // layer.shape[1] for came, layer in zip(arriving, convolutions, strict=False)]
    seen: set[str] = set()
    for end in _final_poolings(convolutions[-1], dense):  # the first is empty
        for pools, numbers in product(_pooling_choices(len(convolutions), kinds), conventions):
            behind = [*pools[:-1], [*pools[-1], *end]]
            if not _leads_to_dense(convolutions, numbers, behind, input_shape[1:], dense):
                continue
            words: list[str] = []
            for geometry, group, pooling in zip(numbers, groups, behind, strict=True):
                words += [convolution_word(replace(geometry, groups=max(group, 1))), *pooling]
            text = ",".join(words)
            if text not in seen:
                seen.add(text)
                yield text


def _stride_conventions(layers: Sequence[FileLayer]) -> Iterator[list[ConvolutionNumbers]]:
    """Yield paddings and strides that follow one rule for all convolutions."""
    kernels = [layer.shape[2:] for layer in layers]

    def convolution_numbers(kernel: Sequence[int], padded: str, stride: int) -> ConvolutionNumbers:
        high, wide = kernel
        padding = {"none": (0, 0), "same": (high // 2, wide // 2)}.get(
            padded, ((high - 1) // 2, (wide - 1) // 2)
        )
        return ConvolutionNumbers((stride, stride), padding)

    for stride in (1, 2):
        for padded in ("same", "none", "half"):
            yield [convolution_numbers(kernel, padded, stride) for kernel in kernels]
    yield [
        convolution_numbers(k, "half", 1 if k[0] % 2 else 2) for k in kernels
    ]  # 4×4 with stride 2
    yield [convolution_numbers(k, "none", max(k)) for k in kernels]
    yield [
        convolution_numbers(k, "same", 2 if index == 0 else 1) for index, k in enumerate(kernels)
    ]
    yield [
        convolution_numbers(k, "same", 1 if index == 0 else 2) for index, k in enumerate(kernels)
    ]


def _pooling_choices(count: int, kinds: Sequence[str]) -> Iterator[list[list[str]]]:
    """Yield the pooling after each of `count` convolutions."""
    behind = {
        tuple(range(count)),
        tuple(range(count - 1)),
        (count - 1,),
        tuple(range(1, count, 2)),
        tuple(range(0, count, 2)),
    }
    for pool in kinds:
        for positions in sorted(behind, key=len, reverse=True) if pool else [()]:
            yield [[pool] if index in positions and pool else [] for index in range(count)]


def _final_poolings(last: FileLayer, dense: FileLayer | None) -> Iterator[list[str]]:
    yield []
    if dense is None:
        return
    side = math.isqrt(dense.shape[1] // last.shape[0])
    if side * side * last.shape[0] == dense.shape[1]:
        yield [f"adaptiveavg{side}"]
        yield [f"adaptivemax{side}"]


def _leads_to_dense(
    layers: Sequence[FileLayer],
    numbers: Sequence[ConvolutionNumbers],
    behind: Sequence[Sequence[str]],
    sides: Sequence[int],
    dense: FileLayer | None,
) -> bool:
    """Return whether maps of these sides end with as many numbers as the dense layer takes."""
    high, wide = sides
    for layer, conv_numbers, pools in zip(layers, numbers, behind, strict=True):
        if isinstance(conv_numbers.padding, tuple):  # 'same' changes nothing
            windows = [
                (side - 1) * d + 1
                for side, d in zip(layer.shape[2:], conv_numbers.dilation, strict=True)
            ]
            high = (high + 2 * conv_numbers.padding[0] - windows[0]) // conv_numbers.stride[0] + 1
            wide = (wide + 2 * conv_numbers.padding[1] - windows[1]) // conv_numbers.stride[1] + 1
        for pool in pools:
            if min(high, wide) < 1:
                return False
            if pool.startswith("adaptive"):
                side = int(pool.removeprefix("adaptive")[3:])
                if min(high, wide) <= side:
                    return False  # it would change nothing, or enlarge maps
                high = wide = side
            elif pool.endswith("3s2p1"):
                high, wide = (high - 1) // 2 + 1, (wide - 1) // 2 + 1
            elif pool.endswith("3s2"):
                high, wide = (high - 3) // 2 + 1, (wide - 3) // 2 + 1
            else:
                high, wide = high // 2, wide // 2
        if min(high, wide) < 1:
            return False
    return dense is None or layers[-1].shape[0] * high * wide == dense.shape[1]


def _affordable_examples(listing: CheckpointContents, input_shape: tuple[int, ...]) -> int:
    """Return the number of examples to try a reading on."""
    positions = math.prod(input_shape[1:]) / 4 if len(input_shape) == 3 else 1
    cost = sum(a.size * (positions if a.ndim == 4 else 1) for a in listing.arrays.values())
    fewest, most = _EXAMPLES
    return max(fewest, min(most, int(_OPERATIONS / max(cost, 1))))


def _is_reading_valid(
    listing: CheckpointContents, reading: FileReading, input_shape: tuple[int, ...]
) -> bool:
    completed = replace(listing, reading=reading)
    try:
        if reading.geometry.startswith((TORCHVISION, RESNET)):
            network_of(completed, input_shape)
        else:
            module_in(completed, input_shape)
    except UserError:
        return False
    return True


def _score_reading(
    listing: CheckpointContents,
    reading: FileReading,
    input_shape: tuple[int, ...],
    x: Tensor,
    y: Tensor,
) -> FittingReading | None:
    """Return the reading with its accuracy; None if it does not fit after all."""
    completed = replace(listing, reading=reading)
    network: nn.Module
    shape = input_shape
    try:
        if reading.geometry.startswith((TORCHVISION, RESNET)):
            network = network_of(completed, input_shape, torch.float32).network
        else:
            result = module_in(completed, input_shape)
            network, shape = result.module.float(), result.input_shape
        with torch.no_grad():
            shaped = x.float().reshape(len(x), *shape)
            parts = [network(shaped[start : start + 50]) for start in range(0, len(x), 50)]
    except (UserError, RuntimeError):
        return None
    logits = torch.cat(parts)
    if logits.ndim != 2 or logits.shape[1] < 2 or int(y.max()) >= logits.shape[1]:
        return FittingReading(reading)
    right = float((logits.argmax(1) == y).float().mean())
    return FittingReading(reading, right, len(x))
