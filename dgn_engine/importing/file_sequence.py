"""The parameter layers of a state dict in order, and the gaps in their numbering.

In an `nn.Sequential` the number of a layer is its index, so a skipped number is a layer without
parameters. The keys do not say which one.
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
from dgn_engine.storage.checkpoints.array_layout import is_kernel, name_stem
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents, natural_key
from dgn_engine.text.printable import plain_text

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
_BLOCKS = 6  # try all orders of up to this many blocks


@dataclass(frozen=True)
class FileLayer:
    """A layer with parameters.

    Attributes:
        shape: Shape of its weight, or of a BatchNorm's mean.
        tensors: torch's name of each tensor → its name in the file.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    tensors: Mapping[str, str]


@dataclass(frozen=True)
class FileSequence:
    """The layers of a file in order.

    Attributes:
        layers: Dense layers, convolutions and BatchNorms.
        gaps: For each pair of neighbours, how many layers without parameters the numbering leaves
            room for; None where it does not tell.
        front: The same before the first layer, at least.
        left_over: Tensors that belong to none of the layers.
        guessed_order: Whether another order of the layers would fit as well.
        unplaced: Whether names and order fail to tell, or disagree on, which layers the BatchNorms
            follow; `layers` then has no BatchNorm.
    """

    layers: tuple[FileLayer, ...]
    gaps: tuple[int | None, ...]
    front: int
    left_over: tuple[str, ...]
    guessed_order: bool = False
    unplaced: bool = False

    @property
    def weighted_layers(self) -> list[FileLayer]:
        return [layer for layer in self.layers if layer.kind != "BatchNorm"]

    @property
    def convolution_count(self) -> int:
        return sum(layer.kind == "Conv2d" for layer in self.layers)

    def torch_named_arrays(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the tensors of the layers by the names torch would give them."""
        return {
            f"{layer.name}.{word}": arrays[name]
            for layer in self.layers
            for word, name in layer.tensors.items()
        }


def sequence_in(listing: CheckpointContents) -> FileSequence:
    """Return the layers of a file in order.

    Raises:
        UnnamedNetwork: The layers do not chain, or their names say they are not a chain.
    """
    arrays = arrays_to_read(listing)
    layers, used = _find_layers(arrays, listing.reading.order)
    own = (name for name in arrays if name not in used and not name.endswith(_COUNTER))
    left = (*own, *unread_tensors(listing))
    _check_names(listing, layers, arrays)
    numbered = (
        _order_by_number(layers, [*arrays])
        if not listing.reading.order and not listing.picked
        else None
    )
    first = min((_split_number_path(layer.name)[1] for layer in layers), default=())
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
    _check_chain(listing, sequence.weighted_layers)
    return sequence


def unread_tensors(listing: CheckpointContents) -> tuple[str, ...]:
    """Return the names of the file's tensors outside the network that was read."""
    return tuple(n for n in _unread_tensors(listing) if n not in listing.reading.ignored)


def _unread_tensors(listing: CheckpointContents) -> tuple[str, ...]:
    mark = " (tensor)"
    return tuple(text.removesuffix(mark) for text in listing.ignored if text.endswith(mark))


def arrays_to_read(listing: CheckpointContents) -> dict[str, Array]:
    """Return the tensors of a file that the user does not ignore."""
    ignored = listing.reading.ignored
    known = {start for key in listing.arrays for start in _name_prefixes(key)} if ignored else set()
    for name in ignored:
        if name not in known and name not in _unread_tensors(listing):
            raise UserError(
                f"{listing.file_name} has no tensor '{plain_text(name, 80)}' to ignore.",
                kind="missing",
            )
    left_out = set(ignored)
    return {
        key: array
        for key, array in listing.arrays.items()
        if not left_out or not left_out.intersection(_name_prefixes(key))
    }


def _name_prefixes(key: str) -> list[str]:
    """Return a dotted name and all its prefixes."""
    parts = key.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _find_layers(
    arrays: Mapping[str, Array], order: Sequence[str]
) -> tuple[list[FileLayer], set[str]]:
    """Return the parameter layers in file order, and the tensors they use."""
    parameter_layers: list[FileLayer] = []
    used: set[str] = set()
    means = (n.removesuffix(".running_mean") for n in arrays if n.endswith(".running_mean"))
    norms = {head for head in means if _is_norm(head, arrays)}
    weights = [n for n, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    for name in order:
        if name not in weights:
            gone = f"The file has no weight '{plain_text(name, 80)}'; "
            raise UserError(gone + Where("--order") + " lists weights.", kind="unknown-name")
    if len(set(order)) < len(order):
        raise UserError(Where("--order") + " lists a weight twice.", kind="named-twice")
    chosen = set(order or weights)
    taken_names: set[str] = set()
    for name, array in arrays.items():
        head, _, word = name.rpartition(".")
        if word == "running_mean" and head in norms:
            tensors = {w: f"{head}.{w}" for w in _NORM if f"{head}.{w}" in arrays}
            parameter_layers.append(FileLayer(head, "BatchNorm", array.shape, tensors))
        elif name in chosen and 0 not in array.shape and head not in norms:
            kind: Kind = "Linear" if array.ndim == 2 else "Conv2d"
            bias = bias_of(name, array.shape[0], arrays)
            tensors = {"weight": name} | ({"bias": bias} if bias else {})
            called = head if word == "weight" and head and head not in taken_names else name
            taken_names.add(called)
            parameter_layers.append(FileLayer(called, kind, array.shape, tensors))
    for layer in parameter_layers:
        used.update(layer.tensors.values())
    return parameter_layers, used


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
            f"{file} has '{plain_text(other, 80)}', which belongs to neither a dense layer "
            "nor a 2D "
            "convolution.",
            kind="not-supported",
        )
    if len(weights) < 2:
        raise UnnamedNetwork(
            f"{file} has {len(weights)} weight matri{'x' if len(weights) == 1 else 'ces'}; a "
            "network with gates needs at least two.",
            kind="not-supported",
        )
    names = [layer.tensors["weight"] for layer in weights]
    if shortcut := shortcut_in(names):
        raise UnnamedNetwork(
            f"{file} has '{plain_text(shortcut, 80)}', which is named like part of a skip "
            "connection: "
            "the layers are not a chain.",
            kind="not-supported",
        )
    if two := two_networks_in(names):
        raise UnnamedNetwork(
            f"{file} has {two}: its layers are not a single chain.", kind="not-supported"
        )
    says = any(name.endswith("weight") or is_kernel(name) for name in names)
    shapes = [layer.shape for layer in weights]
    if not says and all(len(s) == 2 and s[0] == s[1] for s in shapes):
        raise UnnamedNetwork(
            f"The matrices of {file} are all square, and their names do not say whether rows are "
            "outputs (as in torch: name them '0.weight', '1.weight' …) or inputs.",
            kind="not-supported",
        )


def _order_by_number(
    layers: Sequence[FileLayer], names: list[str]
) -> tuple[tuple[FileLayer, ...], tuple[int | None, ...]] | None:
    """Return the layers by number with the gaps between them; None if the numbers have no gap.

    Numbers without gaps are a list whose program adds the parameter-free layers.
    """
    paths = {layer.name: _split_number_path(layer.name) for layer in layers}
    blocks: dict[str, list[FileLayer]] = {}
    for layer in layers:
        blocks.setdefault(paths[layer.name][0], []).append(layer)
    for block in blocks.values():
        block.sort(key=lambda layer: paths[layer.name][1])
    ordered: list[FileLayer] = []
    gaps: list[int | None] = []
    for block in _in_order(list(blocks.values()), names):
        between = [_gap_between(paths[a.name][1], paths[b.name][1]) for a, b in pairwise(block)]
        skips = any(gap is not None and gap > 0 for gap in between)
        gaps += [None] * bool(ordered) + (between if skips else [None] * len(between))
        ordered += block
    if not any(gap is not None for gap in gaps):
        return None
    return tuple(ordered), tuple(gaps)


def _in_order(blocks: list[list[FileLayer]], names: list[str]) -> list[list[FileLayer]]:
    """Return the sequences in the order of the file, of their names, or the only one that chains.

    The last is used where the file's order carries no information ('classifier' before 'features')
    and numbers do not contradict it.
    """
    by_name = sorted(blocks, key=lambda block: natural_key(block[0].name))
    for order in (blocks, by_name):
        if _do_layers_chain(_weight_layers(order)):
            return order
    if len(blocks) <= _BLOCKS and _sorted_by_name(names):
        fitting = [
            order
            for order in permutations(blocks)
            if _do_layers_chain(_weight_layers(order))
            and _counts_up([block[0].name for block in order])
        ]
        if fitting:  # with several, the user is asked for the order
            return list(fitting[0])
    return blocks


def _counts_up(names: Sequence[str]) -> bool:
    """Return whether names that differ in a number come in the order of their numbers."""
    last: dict[str, str] = {}
    for name in names:
        before = last.setdefault(name_stem(name), name)
        if natural_key(before) > natural_key(name):
            return False
        last[name_stem(name)] = name
    return True


def _weight_layers(blocks: Iterable[list[FileLayer]]) -> list[FileLayer]:
    return [layer for block in blocks for layer in block if layer.kind != "BatchNorm"]


def _split_number_path(name: str) -> tuple[str, tuple[int, ...]]:
    """Split a layer's name into the part before its numbers and the numbers, outermost first."""
    parts = name.split(".")
    start = len(parts)
    while start and parts[start - 1].isascii() and parts[start - 1].isdecimal():
        start -= 1
    if any(len(part) > 4 for part in parts[start:]):
        return name, ()
    return ".".join(parts[:start]), tuple(int(part) for part in parts[start:])


def _gap_between(before: Sequence[int], after: Sequence[int]) -> int | None:
    """Return the number of layers between two numbers of one sequence.

    None if one of them is in a nested sequence, whose length the keys do not show.
    """
    if len(before) != len(after) or tuple(before[:-1]) != tuple(after[:-1]) or not before:
        return None
    return after[-1] - before[-1] - 1


def _ordered_weights(
    layers: Sequence[FileLayer], listing: CheckpointContents, names: list[str]
) -> tuple[FileLayer, ...]:
    """Return the weights in the given order, the file's, or by name if only that one chains."""
    order = listing.reading.order
    weights = [layer for layer in layers if layer.kind != "BatchNorm"]
    if order:
        return tuple(sorted(weights, key=lambda layer: order.index(layer.tensors["weight"])))
    blocks = _in_order([[weight] for weight in weights], names)
    return tuple(layer for block in blocks for layer in block)


def _with_norms(
    weights: Sequence[FileLayer],
    layers: Sequence[FileLayer],
    arrays: Mapping[str, Array],
    listing: CheckpointContents,
) -> tuple[FileLayer, ...] | None:
    """Insert each BatchNorm after a layer, or return None if its place is unclear.

    --geometry decides; otherwise names and file order, which must not disagree.
    """
    norms = [layer for layer in layers if layer.kind == "BatchNorm"]
    if not norms:
        return tuple(weights)
    if listing.reading.geometry:
        geometry = parse_geometry(listing.reading.geometry)
        if geometry.places:
            if _sorted_by_name(list(arrays)):
                norms.sort(key=lambda norm: natural_key(norm.name))
            elif not _counts_up([norm.name for norm in norms]):
                raise UnnamedNetwork(
                    f"The BatchNorms of {listing.file_name} are numbered in a different order than "
                    "they are stored, so bn in " + Where("--geometry") + " is ambiguous.",
                    kind="not-supported",
                )
            return _ordered_by_geometry(weights, norms, geometry, listing.file_name)
    silent = _sorted_by_name(list(arrays))
    norm_after: dict[str, FileLayer] = {}
    known = {layer.name for layer in weights}
    for norm in norms:
        fitting = [layer.name for layer in weights if layer.shape[0] == norm.shape[0]]
        there = [name for name in names_before(norm.name) if name in known]
        named = [name for name in there if name in fitting]
        before = "" if silent else _layer_before_norm(norm, layers)
        ahead = not silent and any(_comes_before(norm, name, layers) for name in named)
        if ahead:
            return None
        if before not in fitting or (there and before not in there):
            alike = sorted(
                (item.name for item in norms if item.shape == norm.shape), key=natural_key
            )
            if len(alike) != len(fitting):
                return None
            before = fitting[alike.index(norm.name)]
            if named != [before]:
                return None
        if before in norm_after:
            return None
        norm_after[before] = norm
    return tuple(
        item
        for layer in weights
        for item in (layer, *([norm_after[layer.name]] if layer.name in norm_after else []))
    )


def _comes_before(norm: FileLayer, name: str, layers: Sequence[FileLayer]) -> bool:
    """Return whether a BatchNorm is stored before the layer of its name, as for the inputs."""
    names = [layer.name for layer in layers]
    return names.index(norm.name) < names.index(name)


def _sorted_by_name(names: list[str]) -> bool:
    """Return whether a file is sorted by name, so that its order carries no information."""
    return names in (sorted(names), sorted(names, key=natural_key))


def _ordered_by_geometry(
    weights: Sequence[FileLayer], norms: Sequence[FileLayer], geometry: Geometry, file: str
) -> tuple[FileLayer, ...]:
    words = [geometry.front, *(layer.behind for layer in geometry.layers)]
    norm_count = sum(token == "bn" for behind in words for token in behind)
    if norm_count != len(norms) or len(geometry.layers) != len(weights):
        raise UserError(
            Where("--geometry")
            + f" has {norm_count} bn and {len(geometry.layers)} layers, but {file} has "
            f"{len(norms)} BatchNorms and {len(weights)} layers; with act, bn or dense, every "
            "layer needs its word.",
            kind="bad-words",
        )
    remaining_norms = iter(norms)
    ordered: list[FileLayer] = [next(remaining_norms) for token in geometry.front if token == "bn"]
    for layer, behind in zip(weights, geometry.layers, strict=True):
        ordered += [layer, *(next(remaining_norms) for token in behind.behind if token == "bn")]
    return tuple(ordered)


def _layer_before_norm(norm: FileLayer, layers: Sequence[FileLayer]) -> str:
    """Return the weighted layer right before a BatchNorm in the file; or ''."""
    index = [layer.name for layer in layers].index(norm.name)
    before = layers[index - 1] if index else None
    return "" if before is None or before.kind == "BatchNorm" else before.name


def _other_orders(weights: Sequence[FileLayer]) -> bool:
    """Return whether square layers could be swapped, or numbers contradict the file's order."""
    stems: dict[tuple[int, ...], set[str]] = {}
    for layer in weights:
        if layer.shape[0] == layer.shape[1]:
            stems.setdefault(layer.shape, set()).add(name_stem(layer.tensors["weight"]))
    names = [layer.tensors["weight"] for layer in weights]
    swapped = any(len(names_) > 1 for names_ in stems.values())
    biased = {"bias" in layer.tensors for layer in weights[:-1]}
    odd = len(biased) > 1 and len({name_stem(name) for name in names}) > 1  # a matrix of no layer?
    return swapped or odd or not _counts_up(names)


def _do_layers_chain(weights: Sequence[FileLayer]) -> bool:
    return all(_can_follow(a.shape, b.shape) for a, b in pairwise(weights))


def _can_follow(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Return whether a layer can take the output of the one before it.

    A convolution may be grouped; a dense layer may take all positions of a map.
    """
    if len(before) == 4 and len(after) == 2:
        return after[1] % before[0] == 0
    if len(after) == 4:
        return len(before) == 4 and before[0] % after[1] == 0
    return after[1] == before[0]


def _check_chain(listing: CheckpointContents, weighted: Sequence[FileLayer]) -> None:
    for before, after in pairwise(weighted):
        if not _can_follow(before.shape, after.shape):
            raise UnnamedNetwork(
                f"The layers of {listing.file_name} do not chain: "
                f"'{plain_text(after.tensors['weight'], 80)}' takes {after.shape[1]} inputs, but "
                f"'{plain_text(before.tensors['weight'], 80)}' has {before.shape[0]} outputs.",
                kind="other-inputs",
            )


def has_doubtful_order(listing: CheckpointContents) -> bool:
    """Return whether several orders of the weights would chain and the user has not chosen one."""
    ours = ("value.", "feature.")
    if listing.reading.order or listing.picked or any(n.startswith(ours) for n in listing.arrays):
        return False
    arrays = arrays_to_read(listing)
    layers, _ = _find_layers(arrays, ())
    if not layers or _order_by_number(layers, [*arrays]) is not None:
        return False
    weights = [layer for layer in layers if layer.kind != "BatchNorm"]
    return _other_orders(weights)


def in_stated_order(listing: CheckpointContents) -> dict[str, Array]:
    """Return the tensors that the user does not ignore, weights in the user's order with biases."""
    arrays = arrays_to_read(listing)
    if not listing.reading.order:
        return arrays
    layers, _ = _find_layers(arrays, listing.reading.order)
    ordered = _ordered_weights(layers, listing, [*arrays])
    first = [name for layer in ordered for name in layer.tensors.values()]
    return {name: arrays[name] for name in dict.fromkeys((*first, *arrays))}


def norms_follow_layers(listing: CheckpointContents) -> bool:
    """Return whether, by number, each BatchNorm comes right after a layer with weights."""
    arrays = arrays_to_read(listing)
    layers, _ = _find_layers(arrays, ())
    numbered = _order_by_number(layers, [*arrays])
    if numbered is None:
        return False
    ordered, gaps = numbered
    return all(
        gaps[index - 1] == 0 if index else False
        for index, layer in enumerate(ordered)
        if layer.kind == "BatchNorm"
    )


def bias_by_name(name: str, arrays: Mapping[str, Array]) -> str:
    """Return the bias whose name corresponds to this weight's; or ''."""
    for weight_word, bias_word in _WORDS:
        head, separator, tail = name.rpartition(weight_word)
        sibling = f"{head}{bias_word}{tail}"
        if separator and sibling in arrays and arrays[sibling].ndim == 1:
            return sibling
    return ""


def bias_of(name: str, outputs: int, arrays: Mapping[str, Array]) -> str:
    """Return the bias of a weight, or ''.

    It is found by name, or right after the weight if the two names differ only in a number.
    """
    named = bias_by_name(name, arrays)
    if named or any(word in name.lower() for word in ("weight", "kernel")):
        return named
    names = list(arrays)
    behind = names[names.index(name) + 1 : names.index(name) + 2]
    numbered = bool(behind) and name_stem(behind[0]) == name_stem(name)  # arr_0 and arr_1
    return behind[0] if numbered and arrays[behind[0]].shape == (outputs,) else ""
