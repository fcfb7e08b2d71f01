"""Recognise several networks in one file by the names of their tensors.

Reinforcement learning has a network and its target network, or an actor and a critic; distillation
a teacher; adversarial training a discriminator. Only their names tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.array_layout import name_stem
from dgn_engine.storage.checkpoints.contents import Array

Relation = Literal["equal", "moved", "other"]
COPIES = (  # words for a network and for a copy of it
    *(("local", "target"), ("main", "target"), ("current", "target")),
    *(("eval", "target"), ("policy", "target"), ("model", "target")),
    *(("model", "ema"), ("online", "ema"), ("new", "old")),
)
ROLES = (  # words for two networks that do different things
    *(("actor", "critic"), ("policy", "value"), ("pi", "vf"), ("pi", "v"), ("pi", "q")),
    *(("generator", "discriminator"), ("netG", "netD"), ("G", "D"), ("net_g", "net_d")),
    *(("gen", "disc"), ("qf1", "qf2"), ("qf0", "qf1"), ("q1", "q2"), ("Q1", "Q2"), ("q_1", "q_2")),
    *(("critic1", "critic2"), ("critic_1", "critic_2"), ("student", "teacher")),
    ("online", "target"),
)
_OF_COPY = ("target", "targ", "tgt", "old", "ema", "momentum", "teacher")
_DEPTH = 6  # parts of a name that are searched for networks


@dataclass(frozen=True)
class NetworksBeside:
    """Two networks of a file, and whether there are others.

    Attributes:
        first: Prefix of one network's names, 'agent.q_net'.
        second: Prefix of the other's; of a network and its copy, the copy.
        relation: 'equal' if all numbers are, 'moved' for the same layers with other numbers, else
            'other'.
        parts: All networks, including these two, as for `read_tensors(part=…)`; empty if their
            layers have no prefix of their own.
        outside: A weight that belongs to none of them, or ''.
    """

    first: str
    second: str
    relation: Relation
    parts: tuple[str, ...] = ()
    outside: str = ""


def networks_beside(arrays: Mapping[str, Array]) -> NetworksBeside | None:
    """Return two networks that a file has by the names of its tensors; None if no names say so.

    A network and its copy ('q_net', 'q_net_target'; 'online', 'target') must have the same layers;
    for 'actor' and 'critic', 'policy' and 'value' and others the names are enough.
    """
    groups = _layers_by_start(arrays)
    pairs = [*_network_pairs(groups)]
    if not pairs:
        return None
    depth = min(first.count(".") for first, _ in pairs)
    pairs = [pair for pair in pairs if pair[0].count(".") == depth]
    first, second = next((p for p in pairs if groups[p[0]] == groups[p[1]]), pairs[0])
    starts = {start for pair in pairs for start in pair}
    outside = _first_outside(arrays, starts)
    whole = not outside and all(len(groups[start]) > 1 for start in starts)
    ordered = [start for start in groups if start in starts]
    return NetworksBeside(
        first,
        second,
        _compare_networks(arrays, first, second),
        tuple(ordered) if whole else (),
        outside,
    )


def numbered_copies(arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """Return the prefixes of identical networks that differ in a number, or nothing.

    They ('state_dict.0', 'state_dict.1') must contain every weight of the file. A list of blocks
    looks the same; the caller has to check whether the networks form one chain.
    """
    groups = _layers_by_start(arrays)
    weights = sum(array.ndim > 1 and array.dtype.kind == "f" for array in arrays.values())
    beside: dict[str, list[str]] = {}
    for start, layers in groups.items():
        before, _, last = start.rpartition(".")
        if name_stem(last) != last and len(layers) > 1:
            beside.setdefault(f"{before}.{name_stem(last)}", []).append(start)
    for starts in beside.values():
        first = groups[starts[0]]
        same = len(starts) > 1 and all(groups[start] == first for start in starts)
        if same and len(starts) * len(first) == weights:
            return tuple(starts)
    return ()


def _layers_by_start(arrays: Mapping[str, Array]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Group the weights of a file: prefix → rest of the name → shape."""
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, array in arrays.items():
        if array.ndim < 2 or array.dtype.kind != "f":
            continue
        parts = name[: 4 * limits.NAME].split(".")
        for end in range(1, min(len(parts), _DEPTH + 1)):
            groups.setdefault(".".join(parts[:end]), {})[".".join(parts[end:])] = array.shape
    return groups


def are_beside(name: str, other: str) -> bool:
    """Return whether two names are those of a network and its copy: 'net' and 'target_net'."""
    return other in _copies_of(name) or name in _copies_of(other)


def same_numbers_beside(arrays: Mapping[str, Array], name: str, other: str) -> tuple[str, str]:
    """Return the prefixes of two equal tensors if everything below them is equal, too.

    At least two layers must be equal; otherwise two empty strings are returned.
    """
    ends, parts, others = 0, name.split("."), other.split(".")
    while ends < min(len(parts), len(others)) and parts[-1 - ends] == others[-1 - ends]:
        ends += 1
    first, second = ".".join(parts[: len(parts) - ends]), ".".join(others[: len(others) - ends])
    if not first or not second:
        return "", ""
    own = _arrays_below(arrays, first)
    layers = sum(array.ndim > 1 for array in own.values())
    same = layers > 1 and _compare_networks(arrays, first, second) == "equal"
    return (first, second) if same else ("", "")


def _network_pairs(
    groups: Mapping[str, Mapping[str, tuple[int, ...]]],
) -> Iterator[tuple[str, str]]:
    there = {start.rpartition(".")[2] for start in groups}
    copies = {name: _copies_of(name) & there for name in there}
    others = {name: _swap_words(name, ROLES) & there for name in there}
    for start, layers in groups.items():
        before, dot, last = start.rpartition(".")
        for other in sorted(copies[last]):
            if groups.get(f"{before}{dot}{other}") == layers:
                yield start, f"{before}{dot}{other}"
        for other in sorted(others[last]):
            if f"{before}{dot}{other}" in groups:
                yield start, f"{before}{dot}{other}"


def _copies_of(name: str) -> set[str]:
    """Return possible names of a copy of the network of this name."""
    if len(name) > limits.NAME:
        return set()
    named = {f"{name}_{word}" for word in _OF_COPY} | {f"{word}_{name}" for word in _OF_COPY}
    camel = {f"{name}Target", f"target{name[:1].upper()}{name[1:]}"}
    return named | camel | _swap_words(name, COPIES)


def _swap_words(name: str, pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Replace the first word of a pair by the second: 'actor_fc' gives 'critic_fc'."""
    names: set[str] = set()
    for word, other in pairs:
        if name == word:
            names.add(other)
        elif word in name and len(word) > 1:
            tokens = name.split("_")
            if word in tokens:
                names.add("_".join(other if token == word else token for token in tokens))
    return names


def _arrays_below(arrays: Mapping[str, Array], start: str) -> dict[str, Array]:
    """Return the tensors of real numbers below a prefix, without it."""
    long = f"{start}."
    return {
        name.removeprefix(long): array
        for name, array in arrays.items()
        if name.startswith(long) and array.dtype.kind == "f"
    }


def _compare_networks(arrays: Mapping[str, Array], first: str, second: str) -> Relation:
    own, other = _arrays_below(arrays, first), _arrays_below(arrays, second)
    if {n: a.shape for n, a in own.items()} != {n: a.shape for n, a in other.items()}:
        return "other"
    equal = all(np.array_equal(array, other[name], equal_nan=True) for name, array in own.items())
    return "equal" if equal else "moved"


def _first_outside(arrays: Mapping[str, Array], starts: set[str]) -> str:
    """Return the first weight whose name has none of these prefixes."""
    depth = next(iter(starts)).count(".") + 1
    for name, array in arrays.items():
        if array.ndim < 2 or array.dtype.kind != "f":
            continue
        parts = name[: 4 * limits.NAME].split(".")
        if len(parts) <= depth or ".".join(parts[:depth]) not in starts:
            return name
    return ""
