"""The modules within a whole saved module of any class, as data: which exist, with their numbers.

They are listed in the order in which they were registered. That is not the order in which they
compute: a `forward` may call them in any order, more than once, or never, and what it calls as a
function (`F.relu`) is no module and not here. So they are evidence of what exists, of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import StatedLayer
from dgn_engine.storage.checkpoints.pickle_file import InertDict, InertObject, members
from dgn_engine.storage.checkpoints.stated_layers import (
    children_of,
    described,
    module_class,
)

CHILDREN = 5000  # of one file
_DEPTH = 50  # modules in each other
_ENTRIES = 5 * limits.NODES  # of the dictionaries that are searched


def saved_children(tree: Any) -> tuple[StatedLayer, ...]:
    """Return all modules within a saved module, or within those in a dictionary, by their dotted
    names, each followed by its own.

    A class that is not known here has its dotted name for a kind, and no numbers. A module under
    several names is listed under each; what is in it, under the first. Empty where the tree is no
    module, and where they are more, or deeper in each other, than is read: never a part of them.
    """
    found: list[StatedLayer] = []
    entered: set[int] = set()
    searched = 0
    open_ones = [iter(_roots(tree))]
    names = [""]
    while open_ones:
        name, child = next(open_ones[-1], ("", None))
        if child is None:
            open_ones.pop()
            names.pop()
            continue
        whole = f"{names[-1]}{name}"
        searched += _entries_of(child)
        deep = len(names) > _DEPTH or len(whole) > limits.NAME
        if deep or len(found) == CHILDREN or searched > _ENTRIES:
            return ()
        if whole:
            found.append(StatedLayer(whole, *described(child)))
        if id(child) not in entered:
            entered.add(id(child))
            open_ones.append(iter(children_of(child)))
            names.append(f"{whole}." if whole else "")
    return tuple(found)


def children_below(children: Iterable[StatedLayer], start: str) -> tuple[StatedLayer, ...]:
    """Return the modules whose names begin with `start`, without it: 'net.' makes 'net.0' '0'."""
    names = {child.name: child for child in children if child.name.startswith(start)}
    return tuple(replace(c, name=name.removeprefix(start)) for name, c in names.items())


def _roots(tree: Any) -> list[tuple[str, InertObject]]:
    """The module itself, without a name, or the modules in a dictionary by their keys."""
    if module_class(tree):
        return [("", tree)]
    if not isinstance(tree, InertDict) or len(tree.pairs) > CHILDREN:
        return []
    objects = [(name, value) for name, value in members(tree) if isinstance(value, InertObject)]
    if sum(_entries_of(value) for _, value in objects) > _ENTRIES:
        return []
    return [(name, value) for name, value in objects if module_class(value)]


def _entries_of(module: InertObject) -> int:
    """How many entries are searched for what a module has, and for its children."""
    if not isinstance(module.state, InertDict):
        return 1
    held = len(module.state.pairs)
    if held > limits.NODES:
        return _ENTRIES + 1
    inner = module.state.get("_modules")
    return held + (len(inner.pairs) if isinstance(inner, InertDict) else 0)
