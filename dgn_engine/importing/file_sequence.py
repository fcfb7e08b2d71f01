"""The layers with parameters of a state dict, in their order, and what its numbers leave between.

In an `nn.Sequential` the number of a layer is its place, and a number that is skipped is a layer
without parameters. Which one, the keys do not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Literal

from dgn_engine.errors import UserError, Where
from dgn_engine.importing.fold_batchnorm import names_before
from dgn_engine.importing.foreign_keys import (
    UnknownGates,
    UnnamedNetwork,
    shortcut_in,
    two_networks_in,
)
from dgn_engine.importing.geometry_words import Geometry, parse_geometry
from dgn_engine.storage.checkpoints.array_layout import is_kernel, stem
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents, natural
from dgn_engine.text.printable import plain

Kind = Literal["Linear", "Conv2d", "BatchNorm"]
_NORM = ("running_mean", "running_var", "weight", "bias")
_COUNTER = "num_batches_tracked"
_WORDS = (  # a weight and its bias: 'net.0.weight' and 'net.0.bias', 'W1' and 'b1'
    (".weight", ".bias"),
    ("weights", "biases"),
    ("weight", "bias"),
    ("kernel", "bias"),
    ("coefs", "intercepts"),
    ("W", "b"),
    ("w", "b"),
)
_BLOCKS = 6  # whose orders are all tried


@dataclass(frozen=True)
class FileLayer:
    """A layer with parameters; `shape` of its weight, or of the mean of a BatchNorm; `tensors`:
    the word that torch has for each of its tensors → its name in the file."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    tensors: Mapping[str, str]


@dataclass(frozen=True)
class FileSequence:
    """The layers of a file in their order.

    Attributes:
        layers: dense layers, convolutions and BatchNorms.
        gaps: how many layers without parameters the numbers leave room for between each two; None
            where they do not say.
        front: the same in front of the first layer, at least.
        left_over: tensors that are of none of them.
        guessed_order: whether another order of the layers would fit as well.
        unplaced: whether neither names nor order, or each otherwise, say behind which layers its
            BatchNorms stand; then `layers` has none.
    """

    layers: tuple[FileLayer, ...]
    gaps: tuple[int | None, ...]
    front: int
    left_over: tuple[str, ...]
    guessed_order: bool = False
    unplaced: bool = False

    @property
    def weighted(self) -> list[FileLayer]:
        return [layer for layer in self.layers if layer.kind != "BatchNorm"]

    @property
    def convolutions(self) -> int:
        return sum(layer.kind == "Conv2d" for layer in self.layers)

    def arrays(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the tensors of the layers by the names that torch would give them."""
        return {
            f"{layer.name}.{word}": arrays[name]
            for layer in self.layers
            for word, name in layer.tensors.items()
        }


def sequence_in(listing: CheckpointContents) -> FileSequence:
    """Return the layers of a file as they follow each other.

    Raises `UnnamedNetwork` where they are no chain, or their names say that they are none.
    """
    arrays = considered(listing)
    layers, used = _layers(arrays, listing.reading.order)
    own = (name for name in arrays if name not in used and not name.endswith(_COUNTER))
    left = (*own, *unread_tensors(listing))
    _check_names(listing, layers, arrays)
    numbered = (
        _numbered(layers, [*arrays]) if not listing.reading.order and not listing.picked else None
    )
    first = min((_path(layer.name)[1] for layer in layers), default=())
    front = sum(first)
    if numbered is not None:
        sequence = FileSequence(*numbered, front, left)
    else:
        weights = _ordered_weights(layers, listing, [*arrays])
        placed = _with_norms(weights, layers, arrays, listing)
        unsure = not listing.reading.order and not listing.picked and _other_orders(weights)
        chained = weights if placed is None else placed
        gaps = (None,) * (len(chained) - 1)
        sequence = FileSequence(chained, gaps, front, left, unsure, unplaced=placed is None)
    _check_chain(listing, sequence.weighted)
    return sequence


def unread_tensors(listing: CheckpointContents) -> tuple[str, ...]:
    """Return the names of tensors beside the network that was taken of a file."""
    return tuple(n for n in _beside(listing) if n not in listing.reading.ignored)


def _beside(listing: CheckpointContents) -> tuple[str, ...]:
    mark = " (tensor)"
    return tuple(text.removesuffix(mark) for text in listing.ignored if text.endswith(mark))


def considered(listing: CheckpointContents) -> dict[str, Array]:
    """Return the tensors of a file that the user does not leave out."""
    ignored = listing.reading.ignored
    known = {start for key in listing.arrays for start in _starts(key)} if ignored else set()
    for name in ignored:
        if name not in known and name not in _beside(listing):
            raise UserError(
                f"{listing.file_name} holds no tensor '{plain(name, 80)}' to ignore.",
                kind="missing",
            )
    left_out = set(ignored)
    return {
        key: array
        for key, array in listing.arrays.items()
        if not left_out or not left_out.intersection(_starts(key))
    }


def _starts(key: str) -> list[str]:
    """A dotted name and all that it begins with."""
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _layers(arrays: Mapping[str, Array], order: Sequence[str]) -> tuple[list[FileLayer], set[str]]:
    """Every layer with parameters, in the order of the file, and the tensors that they use."""
    found: list[FileLayer] = []
    used: set[str] = set()
    means = (n.removesuffix(".running_mean") for n in arrays if n.endswith(".running_mean"))
    norms = {head for head in means if _is_norm(head, arrays)}
    weights = [n for n, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    for name in order:
        if name not in weights:
            gone = f"The file holds no weight '{plain(name, 80)}'; "
            raise UserError(gone + Where("--order") + " names weights.", kind="unknown-name")
    if len(set(order)) < len(order):
        raise UserError(Where("--order") + " names a weight twice.", kind="named-twice")
    chosen = set(order or weights)
    called_so: set[str] = set()
    for name, array in arrays.items():
        head, _, word = name.rpartition(".")
        if word == "running_mean" and head in norms:
            tensors = {w: f"{head}.{w}" for w in _NORM if f"{head}.{w}" in arrays}
            found.append(FileLayer(head, "BatchNorm", array.shape, tensors))
        elif name in chosen and 0 not in array.shape and head not in norms:
            kind: Kind = "Linear" if array.ndim == 2 else "Conv2d"
            bias = bias_of(name, array.shape[0], arrays)
            tensors = {"weight": name} | ({"bias": bias} if bias else {})
            called = head if word == "weight" and head and head not in called_so else name
            called_so.add(called)
            found.append(FileLayer(called, kind, array.shape, tensors))
    for layer in found:
        used.update(layer.tensors.values())
    return found, used


def _is_norm(head: str, arrays: Mapping[str, Array]) -> bool:
    vectors = [arrays.get(f"{head}.{word}") for word in _NORM]
    mean, variance = vectors[:2]
    return (
        mean is not None
        and variance is not None
        and mean.ndim == 1
        and all(a is None or (a.shape == mean.shape and a.dtype.kind == "f") for a in vectors)
    )


def _check_names(
    listing: CheckpointContents, layers: Sequence[FileLayer], arrays: Mapping[str, Array]
) -> None:
    file, weights = listing.file_name, [la for la in layers if la.kind != "BatchNorm"]
    other = next((n for n, a in arrays.items() if a.ndim in (3, 5) and a.dtype.kind == "f"), "")
    if other:
        raise UnknownGates(
            f"{file} holds '{plain(other, 80)}', which is of no dense layer and no convolution "
            "over images.",
            kind="not-supported",
        )
    if len(weights) < 2:
        raise UnnamedNetwork(
            f"{file} holds {len(weights)} weight matri{'x' if len(weights) == 1 else 'ces'}; a "
            "network with gates needs two or more.",
            kind="not-supported",
        )
    names = [layer.tensors["weight"] for layer in weights]
    if shortcut := shortcut_in(names):
        raise UnnamedNetwork(
            f"{file} holds '{plain(shortcut, 80)}', by its name of a block or layer with a way "
            "past others: the layers are no chain.",
            kind="not-supported",
        )
    if two := two_networks_in(names):
        raise UnnamedNetwork(
            f"{file} holds {two}: its layers are no one chain.", kind="not-supported"
        )
    says = any(name.endswith("weight") or is_kernel(name) for name in names)
    shapes = [layer.shape for layer in weights]
    if not says and all(len(s) == 2 and s[0] == s[1] for s in shapes):
        raise UnnamedNetwork(
            f"The matrices of {file} are all square, and their names do not say whether their rows "
            "are outputs (as torch has it: call them '0.weight', '1.weight' …) or inputs.",
            kind="not-supported",
        )


def _numbered(
    layers: Sequence[FileLayer], names: list[str]
) -> tuple[tuple[FileLayer, ...], tuple[int | None, ...]] | None:
    """The layers by their numbers, with the gaps that these leave; None where no numbers have room
    for a layer without parameters: a list whose program adds what lies between has none."""
    paths = {layer.name: _path(layer.name) for layer in layers}
    blocks: dict[str, list[FileLayer]] = {}
    for layer in layers:
        blocks.setdefault(paths[layer.name][0], []).append(layer)
    for block in blocks.values():
        block.sort(key=lambda layer: paths[layer.name][1])
    ordered: list[FileLayer] = []
    gaps: list[int | None] = []
    for block in _in_order(list(blocks.values()), names):
        between = [_gap(paths[a.name][1], paths[b.name][1]) for a, b in pairwise(block)]
        skips = any(gap is not None and gap > 0 for gap in between)
        gaps += [None] * bool(ordered) + (between if skips else [None] * len(between))
        ordered += block
    if not any(gap is not None for gap in gaps):
        return None
    return tuple(ordered), tuple(gaps)


def _in_order(blocks: list[list[FileLayer]], names: list[str]) -> list[list[FileLayer]]:
    """Sequences as they follow each other: in the order of the file, that of their names, or the
    only one in which they chain where the order of the file says nothing ('classifier' before
    'features') and numbers do not say another."""
    by_name = sorted(blocks, key=lambda block: natural(block[0].name))
    for order in (blocks, by_name):
        if _chains(_weights(order)):
            return order
    if len(blocks) <= _BLOCKS and _sorted_by_name(names):
        fitting = [
            order
            for order in permutations(blocks)
            if _chains(_weights(order)) and _counts_up([block[0].name for block in order])
        ]
        if fitting:  # of several the order is asked
            return list(fitting[0])
    return blocks


def _counts_up(names: Sequence[str]) -> bool:
    """Whether names that are numbered alike follow each other by their numbers."""
    last: dict[str, str] = {}
    for name in names:
        before = last.setdefault(stem(name), name)
        if natural(before) > natural(name):
            return False
        last[stem(name)] = name
    return True


def _weights(blocks: Iterable[list[FileLayer]]) -> list[FileLayer]:
    return [layer for block in blocks for layer in block if layer.kind != "BatchNorm"]


def _path(name: str) -> tuple[str, tuple[int, ...]]:
    """What stands before the numbers of a layer, and these, outermost first."""
    parts = name.split(".")
    start = len(parts)
    while start and parts[start - 1].isascii() and parts[start - 1].isdecimal():
        start -= 1
    if any(len(part) > 4 for part in parts[start:]):
        return name, ()
    return ".".join(parts[:start]), tuple(int(part) for part in parts[start:])


def _gap(before: Sequence[int], after: Sequence[int]) -> int | None:
    """How many layers lie between two numbers of one sequence; None where one of them lies in a
    sequence of its own, whose end the keys do not show."""
    if len(before) != len(after) or tuple(before[:-1]) != tuple(after[:-1]) or not before:
        return None
    return after[-1] - before[-1] - 1


def _ordered_weights(
    layers: Sequence[FileLayer], listing: CheckpointContents, names: list[str]
) -> tuple[FileLayer, ...]:
    """Weights in the order that was said, that of the file, or that of their names where only then
    they chain."""
    order = listing.reading.order
    weights = [layer for layer in layers if layer.kind != "BatchNorm"]
    if order:
        return tuple(sorted(weights, key=lambda layer: order.index(layer.tensors["weight"])))
    blocks = _in_order([[each] for each in weights], names)
    return tuple(layer for block in blocks for layer in block)


def _with_norms(
    weights: Sequence[FileLayer],
    layers: Sequence[FileLayer],
    arrays: Mapping[str, Array],
    listing: CheckpointContents,
) -> tuple[FileLayer, ...] | None:
    """Each BatchNorm behind a layer: as the words of --geometry have them, else by names and by the
    order of the file, which may not disagree; None where they do, or say nothing."""
    norms = [layer for layer in layers if layer.kind == "BatchNorm"]
    if not norms:
        return tuple(weights)
    if listing.reading.geometry:
        geometry = parse_geometry(listing.reading.geometry)
        if geometry.places:
            if _sorted_by_name(list(arrays)):
                norms.sort(key=lambda norm: natural(norm.name))
            elif not _counts_up([norm.name for norm in norms]):
                raise UnnamedNetwork(
                    f"The BatchNorms of {listing.file_name} are numbered in another order than it "
                    "has them, and bn in " + Where("--geometry") + " could be either.",
                    kind="not-supported",
                )
            return _as_worded(weights, norms, geometry, listing.file_name)
    silent = _sorted_by_name(list(arrays))
    placed: dict[str, FileLayer] = {}
    known = {layer.name for layer in weights}
    for norm in norms:
        fitting = [layer.name for layer in weights if layer.shape[0] == norm.shape[0]]
        there = [name for name in names_before(norm.name) if name in known]
        named = [name for name in there if name in fitting]
        before = "" if silent else _right_before(norm, layers)
        ahead = not silent and any(_stands_ahead(norm, name, layers) for name in named)
        if ahead:
            return None
        if before not in fitting or (there and before not in there):
            alike = sorted((each.name for each in norms if each.shape == norm.shape), key=natural)
            if len(alike) != len(fitting):
                return None
            before = fitting[alike.index(norm.name)]
            if named != [before]:
                return None
        if before in placed:
            return None
        placed[before] = norm
    return tuple(
        each
        for layer in weights
        for each in (layer, *([placed[layer.name]] if layer.name in placed else []))
    )


def _stands_ahead(norm: FileLayer, name: str, layers: Sequence[FileLayer]) -> bool:
    """Whether the file has a BatchNorm ahead of the layer of its name: that of the inputs, say."""
    names = [layer.name for layer in layers]
    return names.index(norm.name) < names.index(name)


def _sorted_by_name(names: list[str]) -> bool:
    """Whether the order of a file says nothing, because it is that of its names."""
    return names in (sorted(names), sorted(names, key=natural))


def _as_worded(
    weights: Sequence[FileLayer], norms: Sequence[FileLayer], geometry: Geometry, file: str
) -> tuple[FileLayer, ...]:
    words = [geometry.front, *(layer.behind for layer in geometry.layers)]
    said = sum(each == "bn" for behind in words for each in behind)
    if said != len(norms) or len(geometry.layers) != len(weights):
        raise UserError(
            Where("--geometry")
            + f" has {said} bn and {len(geometry.layers)} layers; {file} has {len(norms)} "
            f"BatchNorms and {len(weights)} layers, and where act, bn or dense is said each has "
            "its word.",
            kind="bad-words",
        )
    left = iter(norms)
    ordered: list[FileLayer] = [next(left) for each in geometry.front if each == "bn"]
    for layer, behind in zip(weights, geometry.layers, strict=True):
        ordered += [layer, *(next(left) for each in behind.behind if each == "bn")]
    return tuple(ordered)


def _right_before(norm: FileLayer, layers: Sequence[FileLayer]) -> str:
    """The layer with weights that the file has right before a BatchNorm; or ''."""
    place = [layer.name for layer in layers].index(norm.name)
    before = layers[place - 1] if place else None
    return "" if before is None or before.kind == "BatchNorm" else before.name


def _other_orders(weights: Sequence[FileLayer]) -> bool:
    """Whether layers of one square shape, whose names are not numbered alike, could be swapped, or
    numbers say another order than the file."""
    stems: dict[tuple[int, ...], set[str]] = {}
    for layer in weights:
        if layer.shape[0] == layer.shape[1]:
            stems.setdefault(layer.shape, set()).add(stem(layer.tensors["weight"]))
    names = [layer.tensors["weight"] for layer in weights]
    swapped = any(len(found) > 1 for found in stems.values())
    biased = {"bias" in layer.tensors for layer in weights[:-1]}
    odd = len(biased) > 1 and len({stem(name) for name in names}) > 1  # a matrix of no layer?
    return swapped or odd or not _counts_up(names)


def _chains(weights: Sequence[FileLayer]) -> bool:
    return all(_link(a.shape, b.shape) for a, b in pairwise(weights))


def _link(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a layer can take what the one before it gives: a convolution also in groups, a dense
    layer all positions of a map."""
    if len(before) == 4 and len(after) == 2:
        return after[1] % before[0] == 0
    if len(after) == 4:
        return len(before) == 4 and before[0] % after[1] == 0
    return after[1] == before[0]


def _check_chain(listing: CheckpointContents, weighted: Sequence[FileLayer]) -> None:
    for before, after in pairwise(weighted):
        if not _link(before.shape, after.shape):
            raise UnnamedNetwork(
                f"The layers of {listing.file_name} do not chain: "
                f"'{plain(after.tensors['weight'], 80)}' takes {after.shape[1]} inputs, but "
                f"'{plain(before.tensors['weight'], 80)}' gives {before.shape[0]}.",
                kind="other-inputs",
            )


def has_doubtful_order(listing: CheckpointContents) -> bool:
    """Whether several orders of the weights of a file would chain, and nobody said which."""
    ours = ("value.", "feature.")
    if listing.reading.order or listing.picked or any(n.startswith(ours) for n in listing.arrays):
        return False
    arrays = considered(listing)
    layers, _ = _layers(arrays, ())
    if not layers or _numbered(layers, [*arrays]) is not None:
        return False
    weights = [layer for layer in layers if layer.kind != "BatchNorm"]
    return _other_orders(weights)


def in_said_order(listing: CheckpointContents) -> dict[str, Array]:
    """Return the tensors that the user does not leave out, the weights in the order that he says,
    each with its bias."""
    arrays = considered(listing)
    if not listing.reading.order:
        return arrays
    layers, _ = _layers(arrays, listing.reading.order)
    ordered = _ordered_weights(layers, listing, [*arrays])
    first = [name for layer in ordered for name in layer.tensors.values()]
    return {name: arrays[name] for name in dict.fromkeys((*first, *arrays))}


def stands_right_behind(listing: CheckpointContents) -> bool:
    """Whether by the numbers of its layers each BatchNorm stands right behind one with weights."""
    arrays = considered(listing)
    layers, _ = _layers(arrays, ())
    numbered = _numbered(layers, [*arrays])
    if numbered is None:
        return False
    ordered, gaps = numbered
    return all(
        gaps[place - 1] == 0 if place else False
        for place, layer in enumerate(ordered)
        if layer.kind == "BatchNorm"
    )


def bias_by_name(name: str, arrays: Mapping[str, Array]) -> str:
    """The bias that is called as this weight is; or ''."""
    for weight_word, bias_word in _WORDS:
        head, found, tail = name.rpartition(weight_word)
        sibling = f"{head}{bias_word}{tail}"
        if found and sibling in arrays and arrays[sibling].ndim == 1:
            return sibling
    return ""


def bias_of(name: str, outputs: int, arrays: Mapping[str, Array]) -> str:
    """Return the bias that belongs to a weight: by name, or right behind it where the two names
    differ by a number only; or ''."""
    named = bias_by_name(name, arrays)
    if named or any(word in name.lower() for word in ("weight", "kernel")):
        return named
    names = list(arrays)
    behind = names[names.index(name) + 1 : names.index(name) + 2]
    numbered = bool(behind) and stem(behind[0]) == stem(name)  # arr_0 and arr_1
    return behind[0] if numbered and arrays[behind[0]].shape == (outputs,) else ""
