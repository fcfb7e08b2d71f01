"""From the tree of a pickle to its tensors by dotted names; what is no tensor, in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.inert_objects import (
    InertDict,
    InertObject,
    StridedTensor,
    Unsupported,
    is_container,
    kind,
    members,
)
from dgn_engine.storage.checkpoints.pickled_arrays import is_array
from dgn_engine.storage.checkpoints.stated_layers import StatedLayer, stated_layers

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

Leaf = StridedTensor | Unsupported | InertObject


@dataclass
class FlattenedObjects:
    """Tensors and arrays in the order of the file, and everything else as 'name (kind)'.
    `layers`: those of a saved `nn.Sequential`, as it states them."""

    tensors: list[tuple[str, Leaf]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    layers: tuple[StatedLayer, ...] = ()


def flattened(tree: Any) -> FlattenedObjects:
    """Every tensor under the path that leads to it, of a training loop's dictionary only the
    model's. Raises `UnreadableFile` where the tree is too large or folds back on itself too often.
    """
    leaves = FlattenedObjects()
    for _ in range(4):
        inner = _model_in(tree)
        if inner is None:
            break
        pairs = list(members(tree))
        leaves.ignored.extend(_said(name, value) for name, value in pairs if value is not inner)
        tree = inner
    _Walk(leaves).over(tree)
    leaves.layers = stated_layers(tree)
    return leaves


def _model_in(tree: Any) -> Any:
    """The state dict or module that a dictionary wraps; or None."""
    if not isinstance(tree, (InertDict, InertObject)):
        return None
    table = tree if isinstance(tree, InertDict) else InertDict(tree.pairs)
    found = (table.get(name) for name in _WRAPPINGS)
    return next(
        (f for f in found if isinstance(f, (InertDict, InertObject)) and _holds_tensors(f)), None
    )


def _holds_tensors(tree: Any) -> bool:
    """Looks at every container once."""
    stack, met = [tree], {id(tree)}
    while stack:
        node = stack.pop()
        if _is_leaf(node):
            return True
        for _, inner in members(node):
            if (is_container(inner) or _is_leaf(inner)) and id(inner) not in met:
                met.add(id(inner))
                stack.append(inner)
    return False


def _is_leaf(node: Any) -> bool:
    return isinstance(node, (StridedTensor, Unsupported)) or is_array(node)


def _said(path: str, node: Any) -> str:
    return f"{path} ({kind(node)})" if path else kind(node)


@dataclass
class _Entered:
    """A container whose members are being walked, and how much had been found before it."""

    path: str
    node: Any
    quiet: bool
    tensors: int
    ignored: int


@dataclass
class _Walk:
    leaves: FlattenedObjects
    barren: set[int] = field(default_factory=set)  # containers without a tensor, met before
    entered: set[int] = field(default_factory=set)
    stack: list[tuple[str, Any, bool] | _Entered] = field(default_factory=list)

    def over(self, tree: Any) -> None:
        """Depth first and without recursion; a container without tensors becomes one line."""
        self.stack.append(("", tree, False))
        for _ in range(limits.NODES):
            if not self.stack:
                return
            top = self.stack.pop()
            if isinstance(top, _Entered):
                self._left(top)
            else:
                self._met(*top)
        raise UnreadableFile("nests too many things in each other, and was refused")

    def _met(self, path: str, node: Any, quiet: bool) -> None:
        if _is_leaf(node):
            self.leaves.tensors.append((path or "tensor", node))
        elif not is_container(node) or id(node) in self.barren:
            self._ignore(path, node, quiet)
        elif id(node) in self.entered:
            raise UnreadableFile("holds a container that contains itself, and was refused")
        else:
            self._enter(path, node, quiet)

    def _enter(self, path: str, node: Any, quiet: bool) -> None:
        found = self.leaves
        self.entered.add(id(node))
        before = len(found.tensors), len(found.ignored)
        self.stack.append(_Entered(path, node, quiet, *before))
        # What an object says of itself is told by the name of its class.
        inner = [
            (f"{path}.{name}" if path else name, value, quiet or isinstance(node, InertObject))
            for name, value in members(node)
        ]
        deep = len(self.entered) > limits.DEPTH or len(path) > 4 * limits.NAME
        if deep or len(self.stack) + len(inner) > limits.NODES:
            raise UnreadableFile("nests too many things in each other, and was refused")
        self.stack.extend(reversed(inner))

    def _left(self, gone: _Entered) -> None:
        found = self.leaves
        self.entered.discard(id(gone.node))
        if len(found.tensors) == gone.tensors:
            self.barren.add(id(gone.node))
            del found.ignored[gone.ignored :]
            self._ignore(gone.path, gone.node, gone.quiet)
        elif isinstance(gone.node, InertObject):
            self._ignore(gone.path, gone.node, gone.quiet)

    def _ignore(self, path: str, node: Any, quiet: bool) -> None:
        if not quiet:
            self.leaves.ignored.append(_said(path, node))
