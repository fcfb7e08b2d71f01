"""Text and numbers that a file has beside its tensors: settings, architecture name, optimiser
groups. They are read as data and shown shortened; they need not be true.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.pickle_file import (
    GlobalName,
    InertDict,
    InertObject,
    members_of,
)
from dgn_engine.storage.checkpoints.stated_layers import module_class
from dgn_engine.text.printable import plain_text

if TYPE_CHECKING:
    from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents

Entries = tuple[tuple[str, str], ...]
MOST = 60  # entries of one file
LONGEST = 120  # characters of a key, and of a value
_COLLECTED = 2000  # entries collected before choosing
_DEPTH = 5  # nested containers
_ITEMS = 16  # of a list that is shown
_GROUPS = 8  # of an optimiser
_OF_GROUP = ("lr", "weight_decay", "momentum", "betas")
_WORDS = frozenset(
    (
        *("activation", "activations", "act", "nonlinearity", "nonlin", "norm", "normalization"),
        *("normalisation", "bn", "batchnorm", "dropout", "drop", "padding", "pad", "stride"),
        *("strides", "kernel", "dilation", "pool", "pooling", "hidden", "arch", "model"),
        *("architecture", "network", "backbone", "layers", "widths", "residual", "bias"),
    )
)
_ELSEWHERE = frozenset(("path", "dir", "file", "folder", "ckpt", "checkpoint", "url", "version"))
_OF_MODULE = ("training", "dump_patches")  # values that every module has
_TOKEN = re.compile(r"[a-z]+")
_HINTS = 8  # listed entries
_COUNT, _MEAN, _VARIANCE = ".num_batches_tracked", ".running_mean", ".running_var"


def stated_entries(tree: Any) -> Entries:
    """Return the entries beside the tensors of a file, outermost first: dotted keys, short text.

    If there are too many, those relevant to how the network is read come first. An optimiser gives
    only the settings of its groups, with the number of parameters of each; a torch module only
    functions, because its numbers are in `saved_children`.
    """
    entries: dict[str, str] = {}
    entered = {id(tree)}
    queue = deque([("", tree, 0)])
    steps = 0
    while queue and len(entries) < _COLLECTED:
        path, node, depth = queue.popleft()
        if groups := _groups_of(node):
            entries |= _of_groups(f"{path}." if path else "", groups)
            continue
        shown = _shows_values(node)
        hidden = _OF_MODULE if module_class(node) else ()
        for name, value in members_of(node):
            steps += 1
            if steps > limits.NODES:
                return _choose_entries(entries)
            whole = f"{path}.{name}" if path else name
            text = _in_short(value)
            if text:
                named = name[:1] != "_" and not name.isdecimal() and name not in hidden
                function = isinstance(value, GlobalName)
                if (shown or function) and named and len(whole) <= LONGEST:
                    entries.setdefault(whole, text)
                continue
            container = isinstance(value, (InertDict, InertObject, list, tuple))
            if container and depth < _DEPTH and id(value) not in entered:
                entered.add(id(value))
                queue.append((whole, value, depth + 1))
    return _choose_entries(entries)


def received_entries(pairs: Any) -> Entries:
    """Check the entries of the child's answer again; raises `ValueError`."""
    if not isinstance(pairs, list) or len(pairs) > MOST:
        raise ValueError("the entries are invalid")
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(type(w) is str for w in pair):
            raise ValueError("an entry is invalid")
    return tuple((plain_text(key, LONGEST), plain_text(text, LONGEST)) for key, text in pairs)


def reading_hints(listing: CheckpointContents) -> tuple[str, ...]:
    """Return sentences on entries that are relevant to how the network is read.

    They quote the file: entries by name, and the batch counts of its BatchNorms.
    """
    ours = listing.metadata.get("format", "").startswith("dgn-viewer")
    notes = () if ours else listing.metadata.items()
    named = [(key, text) for key, text in (*listing.said, *notes) if bears_on_reading(key)]
    sentences = []
    if named:
        words = [
            f"{plain_text(key, LONGEST)} = {plain_text(text, LONGEST)}"
            for key, text in named[:_HINTS]
        ]
        more = f", and {len(named) - _HINTS} more" if len(named) > _HINTS else ""
        sentences.append(f"The file also states {', '.join(words)}{more}.")
    return (*sentences, *_of_counts(listing.arrays))


def bears_on_reading(key: str) -> bool:
    """Return whether an entry of this name may say how to read a network: 'args.act_fn'."""
    last = _TOKEN.findall(key.rpartition(".")[2].lower()[: limits.NAME])
    words = set(last) | {word.removesuffix("s") for word in last}
    return bool(words & _WORDS) and not words & _ELSEWHERE


def batches_counted(arrays: Mapping[str, Array]) -> dict[str, int]:
    """Return how many batches each BatchNorm of a file counted during training."""
    return {
        name.removesuffix(_COUNT): int(array.reshape(-1)[0])
        for name, array in arrays.items()
        if name.endswith(_COUNT) and array.size == 1 and array.dtype.kind in "iu"
    }


def _of_counts(arrays: Mapping[str, Array]) -> Iterator[str]:
    counts = batches_counted(arrays)
    fresh = [norm for norm, count in counts.items() if not count and _is_fresh(norm, arrays)]
    if fresh:
        others = f" and {len(fresh) - 1} more of its BatchNorms" if len(fresh) > 1 else ""
        yield (
            f"'{plain_text(fresh[0], 80)}'{others} never saw a batch: num_batches_tracked "
            "is 0, and the "
            "statistics are at their initial values."
        )
    different: dict[int, str] = {}
    for norm, count in counts.items():
        if norm not in fresh:
            different.setdefault(count, norm)
    if len(different) > 1:
        words = [
            f"'{plain_text(norm, 80)}' {count:,}" for count, norm in islice(different.items(), 4)
        ]
        yield (
            f"Its BatchNorms saw different numbers of batches: {', '.join(words)}"
            f"{', …' if len(different) > 4 else ''}."
        )


def _is_fresh(norm: str, arrays: Mapping[str, Array]) -> bool:
    mean, variance = arrays.get(norm + _MEAN), arrays.get(norm + _VARIANCE)
    if mean is None or variance is None:
        return False
    return not np.any(mean) and bool(np.all(variance == 1))


def _choose_entries(found: Mapping[str, str]) -> Entries:
    first = sorted(found, key=lambda key: not bears_on_reading(key))[:MOST]
    chosen = set(first)
    return tuple((plain_text(k, LONGEST), text) for k, text in found.items() if k in chosen)


def _shows_values(node: Any) -> bool:
    """Return whether a node's values are settings: not those of a torch module or a list."""
    if not isinstance(node, InertObject):
        return isinstance(node, InertDict)
    return not node.callee.startswith(("torch.", "numpy."))


def _groups_of(node: Any) -> list[Any]:
    """Return the groups of an optimiser or its state dict; otherwise none."""
    table = node.state if isinstance(node, InertObject) else node
    groups = table.get("param_groups") if isinstance(table, InertDict) else None
    return groups[:_GROUPS] if isinstance(groups, list) else []


def _of_groups(path: str, groups: list[Any]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for index, group in enumerate(groups):
        if not isinstance(group, InertDict):
            continue
        start = f"{path}param_groups.{index}."[: LONGEST - 20]
        for name in _OF_GROUP:
            if group.get(name) is not None and (text := _in_short(group.get(name))):
                settings[f"{start}{name}"] = text
        if isinstance(parameters := group.get("params"), list):
            settings[f"{start}parameters"] = str(len(parameters))
    return settings


def _in_short(value: Any) -> str:
    """Return a plain value as text, or ''."""
    if isinstance(value, (list, tuple)):
        words = [_scalar_text(item) for item in value] if len(value) <= _ITEMS else []
        return plain_text(f"[{', '.join(words)}]", LONGEST) if words and all(words) else ""
    return _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if type(value) is str:
        return plain_text(value.strip()[: 2 * LONGEST], LONGEST)
    if value is None or type(value) in (bool, int, float) or isinstance(value, GlobalName):
        return plain_text(str(value), LONGEST)
    return ""
