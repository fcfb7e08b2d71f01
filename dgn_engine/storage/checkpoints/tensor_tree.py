"""Collect the tensors of a pickle's tree by dotted names, and describe everything else."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.averaged_weights import is_averaged
from dgn_engine.storage.checkpoints.contents import Array, ParsedFile, UnreadableFile, wire_dtype
from dgn_engine.storage.checkpoints.networks_beside import are_beside
from dgn_engine.storage.checkpoints.pickle_file import (
    InertDict,
    InertObject,
    is_container,
    key_mark,
    members_of,
    type_name,
)
from dgn_engine.storage.checkpoints.pickled_arrays import PickledArray
from dgn_engine.storage.checkpoints.pickled_tensors import (
    Leaf,
    Records,
    StridedTensor,
    Unsupported,
    read_leaf,
)
from dgn_engine.storage.checkpoints.stated_entries import stated_entries
from dgn_engine.storage.checkpoints.stated_layers import (
    module_at,
    module_class,
    saved_children,
    stated_layers,
)

_WRAPPINGS = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "weights",
    "params",
    "module",
)


def parsed_tree(
    tree: Any,
    records: Records,
    most: int,
    file_kind: str,
    part: str = "",
    *,
    whole: bool = False,
) -> ParsedFile:
    """Return all dense tensors by their dotted paths, at most `most` bytes; name the others.

    From a training loop's dictionary only the model's tensors are read, or those under the key
    `part` if it exists; with `whole`, all of them.

    Raises:
        UnreadableFile: It is refused, for example because the tree is too large or too nested.
    """
    walk = _TensorCollector()
    try:
        entries = stated_entries(tree)
        key, others = "", tuple[str, ...]()
        for _ in range(0 if whole else 4):
            name, inner = _model_in(tree, "" if key else part)
            if inner is None:
                break
            beside = _networks_beside(tree, name)
            if not key and (beside or name == part):
                key, others = name, beside
            walk.ignored += [_in_words(name, v) for name, v in members_of(tree) if v is not inner]
            tree = inner
        if part and not key and not whole and not stated_layers(tree):
            inner = module_at(tree, part)
            tree, key = (tree, "") if inner is None else (inner, part)
        walk.collect_from(tree)
    except RecursionError:  # objects nested a thousand deep in states or arguments
        raise UnreadableFile(_TOO_DEEP, kind="too-deep") from None
    arrays: dict[str, Array] = {}
    dtypes: dict[str, str] = {}
    unsupported: list[str] = []
    total = 0
    below = f"{part}." if part and not key else None
    chosen = [entry for entry in walk.tensors if below and entry[0].startswith(below)]
    for name, leaf in chosen or walk.tensors:  # the others are not even read
        tensor = read_leaf(leaf, records)
        if isinstance(tensor, Unsupported):
            unsupported.append(f"{name} ({tensor.reason})")
            continue
        array, dtype = tensor
        if name in arrays:
            raise UnreadableFile("has tensors with indistinguishable names", kind="named-twice")
        total += array.size * np.dtype(wire_dtype(dtype)).itemsize
        if len(arrays) >= limits.MEMBERS:
            raise UnreadableFile(f"has more than {limits.MEMBERS:,} tensors", kind="too-many")
        if total > most:
            raise UnreadableFile(
                "has more numbers than its size allows, and was refused", kind="too-large"
            )
        arrays[name], dtypes[name] = array, dtype
    return ParsedFile(
        "",
        arrays,
        dtypes,
        (*unsupported, *walk.ignored),
        kind=file_kind,
        layers=stated_layers(tree),
        module=module_class(tree),
        part=key,
        others=others,
        children=saved_children(tree),
        said=entries,
    )


_MOST_OTHERS, _MOST_LOOKED_AT = 10, 20
_TOO_DEEP = "nests too many objects, and was refused"


def _model_in(tree: Any, part: str) -> tuple[str, Any]:
    """Return the key and the state dict or module that a dictionary wraps, or '' and None.

    The key `part` comes before all others.
    """
    if not isinstance(tree, (InertDict, InertObject)):
        return "", None
    table = tree if isinstance(tree, InertDict) else InertDict(tree.pairs)
    for name in ((part,) if part else ()) + _WRAPPINGS:
        inner = table.get(name)
        if isinstance(inner, (InertDict, InertObject)) and _holds_tensors(inner):
            return name, inner
    return "", None


def _networks_beside(tree: InertDict | InertObject, taken: str) -> tuple[str, ...]:
    """Return the other keys of a dictionary with weights of the same network.

    These are averaged weights, a target network, or the raw weights beside those.
    """
    candidates = (
        (name, inner)
        for name, inner in members_of(tree)
        if name != taken
        and (
            is_averaged(name)
            or (is_averaged(taken) and name in _WRAPPINGS)
            or are_beside(taken, name)
        )
        and isinstance(inner, (InertDict, InertObject))
    )
    few = itertools.islice(candidates, _MOST_LOOKED_AT)
    return tuple(name for name, inner in few if _holds_tensors(inner))[:_MOST_OTHERS]


def _holds_tensors(tree: Any) -> bool:
    """Return whether there is a tensor anywhere below; visits every container once.

    Objects may share their arguments, which are scanned for each, so the steps are limited.
    """
    stack, seen, steps = [tree], {id(tree)}, 0
    while stack:
        node = stack.pop()
        if _is_leaf(node):
            return True
        for _, inner in members_of(node):
            steps += 1
            if steps > 5 * limits.NODES:
                raise UnreadableFile(_TOO_DEEP, kind="too-deep")
            if (is_container(inner) or _is_leaf(inner)) and id(inner) not in seen:
                seen.add(id(inner))
                stack.append(inner)
    return False


def _is_leaf(node: Any) -> bool:
    return isinstance(node, (StridedTensor, Unsupported, PickledArray))


def _may_set_again(node: Any) -> bool:
    """Return whether keys of a dictionary may be equal, which only their classes could tell.

    Tensors are equal to nothing.
    """
    return (
        isinstance(node, InertDict)
        and len(node.pairs) > 1
        and any(key_mark(key) == () and not _is_leaf(key) for key, _ in node.pairs)
    )


def _in_words(path: str, node: Any) -> str:
    return f"{path} ({type_name(node)})" if path else type_name(node)


@dataclass
class _Entered:
    """A container whose members are being walked, with the counts collected before it."""

    path: str
    node: Any
    quiet: bool
    tensors: int
    ignored: int


@dataclass
class _TensorCollector:
    """Collects tensors and arrays in file order, and descriptions of everything else."""

    tensors: list[tuple[str, Leaf]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    barren: set[int] = field(default_factory=set)  # ids of containers without a tensor
    entered: set[int] = field(default_factory=set)
    letters: int = 0  # in all names put together
    stack: list[tuple[str, Any, bool] | _Entered] = field(default_factory=list)

    def collect_from(self, tree: Any) -> None:
        """Walk depth-first without recursion; a container without tensors becomes one line."""
        self.stack.append(("", tree, False))
        for _ in range(limits.NODES):
            if not self.stack:
                return
            top = self.stack.pop()
            if isinstance(top, _Entered):
                self._leave_container(top)
            else:
                self._visit_node(*top)
        raise UnreadableFile(_TOO_DEEP, kind="too-deep")

    def _visit_node(self, path: str, node: Any, quiet: bool) -> None:
        if _is_leaf(node):
            self.tensors.append((path or "tensor", node))
        elif not is_container(node) or id(node) in self.barren:
            self._ignore_node(path, node, quiet)
        elif id(node) in self.entered:
            raise UnreadableFile(
                "has a container that contains itself, and was refused", kind="cycle"
            )
        else:
            self._enter_container(path, node, quiet)

    def _enter_container(self, path: str, node: Any, quiet: bool) -> None:
        self.entered.add(id(node))
        self.stack.append(_Entered(path, node, quiet, len(self.tensors), len(self.ignored)))
        # What an object has besides tensors is summed up by its class name.
        inner = [
            (f"{path}.{name}" if path else name, value, quiet or isinstance(node, InertObject))
            for name, value in members_of(node)
        ]
        self.letters += sum(len(name) for name, _, _ in inner)
        if self.letters > limits.PICKLE:
            raise UnreadableFile("has more text in its names than any checkpoint needs")
        deep = len(self.entered) > limits.DEPTH or len(path) > 4 * limits.NAME
        if deep or len(self.stack) + len(inner) > limits.NODES:
            raise UnreadableFile(_TOO_DEEP, kind="too-deep")
        self.stack.extend(reversed(inner))

    def _leave_container(self, left: _Entered) -> None:
        self.entered.discard(id(left.node))
        if len(self.tensors) > left.tensors and _may_set_again(left.node):
            raise UnreadableFile(
                "has tensors in a dictionary whose keys are objects and may be equal; save it "
                "with string keys"
            )
        if len(self.tensors) == left.tensors:
            self.barren.add(id(left.node))
            del self.ignored[left.ignored :]
            self._ignore_node(left.path, left.node, left.quiet)
        elif isinstance(left.node, InertObject):
            self._ignore_node(left.path, left.node, left.quiet)

    def _ignore_node(self, path: str, node: Any, quiet: bool) -> None:
        if not quiet:
            self.ignored.append(_in_words(path, node))
