"""What a pickle says, as a tree of inert things: names that nobody looks up, calls never made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class GlobalName:
    """A class or function by its name; it is not imported and cannot be called."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}".replace("__builtin__.", "builtins.")


@dataclass(eq=False, slots=True)
class InertDict:
    """A dictionary as pairs: hashing a hostile key can take for ever."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    name: str = "dict"

    def get(self, wanted: str) -> Any:
        """The last value under a text, or None."""
        for key, value in reversed(self.pairs):
            if type(key) is str and key == wanted:
                return value
        return None


@dataclass(eq=False, slots=True)
class InertObject:
    """A call that was asked for and not made: whose, with what, and what was to go into it."""

    maker: str
    arguments: Any
    state: Any = None
    items: list[Any] = field(default_factory=list)
    pairs: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class TensorStorage:
    """Where the numbers of tensors lie: a record of the file, or a file inside the pickle.

    `first`: the number at which a view on the record begins. `inner`: the numbers themselves, as
    plain pickles have them, in this `order`.
    """

    key: str
    dtype: str
    count: int
    where: str = "cpu"
    first: int = 0
    inner: memoryview | None = None
    order: str = "<"


@dataclass(frozen=True, eq=False, slots=True)
class StridedTensor:
    """A dense tensor as it was described; nothing of it is believed yet."""

    storage: TensorStorage
    offset: Any
    shape: Any
    strides: Any
    dtype: str


@dataclass(frozen=True, eq=False, slots=True)
class Unsupported:
    """A tensor that is not dense numbers, and why."""

    reason: str


_WORDS = {type(None): "None", memoryview: "bytes"}


def kind(node: Any) -> str:
    """What a thing is, in the words of Python; for a call, the name of what was to be called."""
    if isinstance(node, InertObject):
        return node.maker
    if isinstance(node, GlobalName):
        return str(node)
    if isinstance(node, InertDict):
        return node.name
    if isinstance(node, (TensorStorage, StridedTensor, Unsupported)):
        return "tensor" if not isinstance(node, TensorStorage) else "storage"
    return _WORDS.get(type(node), type(node).__name__)


def is_container(node: Any) -> bool:
    """Whether there can be tensors of the model inside; an optimiser only has them once more."""
    if isinstance(node, InertObject):
        return not node.maker.startswith("torch.optim.")
    return isinstance(node, (InertDict, list, tuple))


def members(node: Any) -> Iterator[tuple[str, Any]]:
    """The things in a container with their names; those of a saved module as its state dict has
    them.
    """
    if isinstance(node, InertDict):
        yield from ((key_text(k), v) for k, v in node.pairs)
    elif isinstance(node, InertObject):
        if is_container(node.arguments):
            yield from members(node.arguments)
        yield from ((str(i), v) for i, v in enumerate(node.items))
        yield from ((key_text(k), v) for k, v in node.pairs)
        for state in node.state if isinstance(node.state, tuple) else (node.state,):
            yield from _of_state(state)
    elif isinstance(node, (list, tuple)):
        yield from ((str(i), v) for i, v in enumerate(node))


_OF_MODULE = ("_parameters", "_buffers", "_modules")


def _of_state(state: Any) -> Iterator[tuple[str, Any]]:
    if not is_container(state):
        return
    module = isinstance(state, InertDict) and isinstance(state.get("_parameters"), InertDict)
    for name, value in members(state):
        if module and name in _OF_MODULE and isinstance(value, InertDict):
            yield from members(value)
        else:
            yield name, value


def key_text(key: Any) -> str:
    """The key of a dictionary as text."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return str(key)
    if isinstance(key, memoryview):
        return bytes(key[:1000]).decode("latin-1")
    return f"<{kind(key)}>"
