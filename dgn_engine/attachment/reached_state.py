"""State outside of a module that its code reaches by name: compared after a pass, and put back.

A copy of a module still shares the globals of its functions, what they close over, their default
arguments and the attributes of its classes. A list of auxiliary losses in one of them would reach
the loss of the user's next step.
"""

from __future__ import annotations

import dis
import functools
import random
import sys
import threading
from argparse import Namespace
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST = 50_000  # objects that are compared
MOST_BYTES = 1 << 26  # of tensors and arrays that are copied; larger ones are compared by version
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "dgn_engine"}
_CONTAINERS = (list, dict, set, deque, bytearray)
_CALLED = (FunctionType, staticmethod, classmethod, property, functools.cached_property)
_HOLDERS = (SimpleNamespace, Namespace, UserDict, UserList, Queue, ChainMap, threading.local)
_RUN = ("forward", "backward", "setup_context")  # methods that torch calls
_ABSENT = object()
_PYTHON, _NUMPY = random._inst, np.random.mtrand._rand
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


class StateChangedError(Exception):
    """A pass of a copied module changed state outside of it, or could not but do so."""


@dataclass(frozen=True)
class _StatePart:
    """One piece of state: what it is called, whether it is as it was, and how it becomes so."""

    name: str
    is_same: Callable[[], bool]
    put_back: Callable[[], object]
    installed: bool  # it belongs to an installed package: a cache that is filled once, say


class ReachedState:
    """What the code of `module` reaches by name, as it is now.

    It follows functions of the user's and of installed packages, not those of torch, numpy and
    Python, and goes through containers, objects with attributes, modules, tensors, arrays and
    random generators. `draws_of_numpy`: whether it names numpy's global generator. Raises
    `StateChangedError` where it reaches an iterator, which cannot be put back.
    """

    def __init__(self, module: nn.Module) -> None:
        self._kept: list[_StatePart] = []
        self._seen: dict[int, object] = {}  # the objects live as long as their identities count
        self._bytes = 0
        self.draws_of_numpy = False
        self._named: set[str] = set()  # what functions name, of their module or of any object
        self._unnamed: dict[str, list[tuple[str, object, frozenset[str], bool]]] = {}
        self._installed = False  # of what is being visited
        self._waiting: list[tuple[str, object, frozenset[str], bool]] = []
        for part in module.modules():
            self._add_class(type(part))
            for name, value in list(vars(part).items()):
                for each in () if name.endswith("_hooks") else _functions(value):
                    self._add(f"{type(part).__name__}.{name}", each)
        for tensor in (*module.parameters(), *module.buffers()):
            self._add_class(type(tensor))
        self._walk()
        self._flags = _process_flags()

    def add_shared(self, module: nn.Module, copy: nn.Module) -> None:
        """Add what a copy shares with its module: objects that say that they are their own copy."""
        for part, own in zip(module.modules(), copy.modules(), strict=False):
            for name, value in list(vars(own).items()):
                if value is vars(part).get(name):
                    self._add(f"{type(part).__name__}.{name}", value)
        self._walk()

    def check(self) -> None:
        """Raise `StateChangedError` where something of the user's own changed; it is put back."""
        if changed := self.restore():
            named = ", ".join(changed[:3]) + (", …" if len(changed) > 3 else "")
            raise StateChangedError(
                f"when it is run, the module changes {named} outside of itself, which was put back"
            )

    def restore(self) -> list[str]:
        """Put back what changed; the names of what did, without that of installed packages."""
        changed = []
        for kept in self._kept:
            if not kept.is_same():
                kept.put_back()
                if not kept.installed:
                    changed.append(kept.name)
        for name, now in _process_flags().items():
            if now != self._flags[name]:
                _SETTERS[name](self._flags[name])
                changed.append(name)
        return list(dict.fromkeys(changed))

    # The walk

    def _walk(self) -> None:
        while self._waiting and len(self._seen) < MOST:
            name, value, names, self._installed = self._waiting.pop()
            self._visit(name, value, names)
        self._waiting.clear()

    def _add(self, name: str, value: object, names: frozenset[str] = frozenset()) -> None:
        if value is _NUMPY:
            self.draws_of_numpy = True
        if isinstance(value, _PLAIN) or value is _PYTHON or value is _NUMPY:
            return  # what draws from the generators of the process is refused in the pass
        if isinstance(value, ModuleType) or id(value) not in self._seen:
            if not isinstance(value, ModuleType):
                self._seen[id(value)] = value
            self._waiting.append((name, value, names, self._installed))

    def _add_class(self, kind: type) -> None:
        for each in kind.__mro__:
            if not _is_library(each.__module__):
                self._add(each.__name__, each)

    def _visit(self, name: str, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, FunctionType):
            self._visit_function(name, value)
        elif isinstance(value, type):
            self._visit_class(name, value)
        elif isinstance(value, ModuleType):
            self._visit_module(value, names)
        elif isinstance(value, MethodType):
            self._add(name, value.__func__)
            self._add(name, value.__self__)
        elif isinstance(value, (BuiltinMethodType, MethodWrapperType)):
            self._add(name, value.__self__)
        elif isinstance(value, functools.partial):
            for each in (value.func, *value.args, *value.keywords.values()):
                self._add(name, each)
        elif isinstance(value, (staticmethod, classmethod)):
            self._add(name, value.__func__)
        elif isinstance(value, (functools.cached_property, functools.partialmethod)):
            self._add(name, value.func)
        elif isinstance(value, property):
            for each in (value.fget, value.fset):
                self._add(name, each)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._add(name, value.__wrapped__)
        elif isinstance(value, (tuple, frozenset)):
            for each in value:
                self._add(name, each)
        elif isinstance(value, GeneratorType) or (
            type(value).__module__ in ("itertools", "builtins") and isinstance(value, Iterator)
        ):
            if not self._installed:
                raise StateChangedError(
                    f"the module reads {name}, an iterator that reading it would advance"
                )
        elif isinstance(value, Tensor):
            self._keep_tensor(name, value)
        elif isinstance(value, np.ndarray):
            self._keep_array(name, value)
        elif (stream := _stream(value)) is not None:
            self._keep(name, *stream)
        else:
            self._visit_object(name, value)

    def _visit_function(self, name: str, function: FunctionType) -> None:
        if _is_library(function.__module__ or ""):
            return
        self._installed = _is_installed(function.__code__.co_filename)
        names = _names(function.__code__)
        read = names if self._installed else _global_names(function.__code__)
        self._visit_names(function.__globals__, read, names)
        for imported in _imports(function.__code__):
            if isinstance(module := sys.modules.get(imported), ModuleType):
                self._add(imported, module, names)
        self._release(names)
        for each in (function.__defaults__ or (), function.__kwdefaults__ or {}):
            self._add(f"a default of {name}", each)
        self._keep_container(f"attributes of {name}", function.__dict__)
        for own, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                contents = cell.cell_contents
            except ValueError:  # it is empty yet
                continue
            self._keep_value(
                own,
                functools.partial(getattr, cell, "cell_contents", None),
                functools.partial(setattr, cell, "cell_contents", contents),
            )
            self._add(own, contents)

    def _release(self, names: frozenset[str]) -> None:
        """Visit the methods of these names: until then nothing was seen to call them."""
        for name in names - self._named:
            self._named.add(name)
            self._waiting += self._unnamed.pop(name, ())

    def _visit_names(
        self, held: dict[str, Any], wanted: frozenset[str], names: frozenset[str]
    ) -> None:
        for name in sorted(wanted):
            value = held.get(name, _ABSENT)
            self._keep_value(
                name,
                functools.partial(held.get, name, _ABSENT),
                functools.partial(held.pop, name, None)
                if value is _ABSENT
                else functools.partial(held.__setitem__, name, value),
            )
            if value is not _ABSENT:
                self._add(name, value, names)

    def _visit_module(self, module: ModuleType, names: frozenset[str]) -> None:
        if module.__name__.startswith("numpy.random") or (
            module.__name__ == "numpy" and "random" in names
        ):
            self.draws_of_numpy = True
        if not _is_library(module.__name__):
            self._installed = _is_installed(getattr(module, "__file__", None) or "")
            self._visit_names(vars(module), names, names)

    def _visit_class(self, name: str, kind: type) -> None:
        if _is_library(kind.__module__):
            return
        self._installed = _is_installed(getattr(sys.modules.get(kind.__module__), "__file__", ""))
        before = dict(vars(kind))

        def new() -> set[str]:
            return vars(kind).keys() - before.keys()

        def remove_new() -> None:
            for own in new():
                type.__delattr__(kind, own)

        self._keep(f"attributes of {name}", lambda: not new(), remove_new)
        for own, value in before.items():
            if own in ("__dict__", "__weakref__", "__doc__", "__module__"):
                continue
            label = f"{name}.{own}"
            self._keep_value(
                label,
                functools.partial(_attribute, kind, own),
                functools.partial(type.__setattr__, kind, own, value),
            )
            runs = (
                own in ("forward", "backward", "setup_context")
                or own.startswith("__")
                or own in self._named
            )
            if runs or not isinstance(value, _CALLED):
                self._add(label, value)
            else:
                self._unnamed.setdefault(own, []).append(
                    (label, value, frozenset(), self._installed)
                )
        for base in kind.__mro__[1:]:
            if not _is_library(base.__module__):
                self._add(base.__name__, base)

    def _visit_object(self, name: str, value: Any) -> None:
        if isinstance(value, _CONTAINERS):
            self._keep_container(name, value)
        if isinstance(value, _HOLDERS) or (
            isinstance(value, _CONTAINERS) and isinstance(getattr(value, "__dict__", None), dict)
        ):
            self._keep_container(name, value.__dict__)
        if isinstance(value, _CONTAINERS):
            return
        if _is_library(type(value).__module__) and not isinstance(value, nn.Module):
            return
        self._add_class(type(value))
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict):
            self._keep_container(name, held)
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            for own in (slots,) if isinstance(slots, str) else tuple(slots):
                if own in ("__dict__", "__weakref__") or not hasattr(value, own):
                    continue
                label, now = f"{name}.{own}", getattr(value, own)
                self._keep_value(
                    label,
                    functools.partial(getattr, value, own, None),
                    functools.partial(setattr, value, own, now),
                )
                self._add(label, now)

    # What is kept

    def _keep(self, name: str, is_same: Callable[[], bool], put_back: Callable[[], object]) -> None:
        self._kept.append(_StatePart(name, is_same, put_back, self._installed))

    def _keep_value(
        self, name: str, read: Callable[[], object], put_back: Callable[[], object]
    ) -> None:
        """Which object a name stands for; equal plain values are the same."""
        before = read()
        self._keep(name, lambda: _is_value(read(), before), put_back)

    def _keep_container(self, name: str, value: Any) -> None:
        kind: Any = next(each for each in _CONTAINERS if isinstance(value, each))
        before = kind.copy(value)
        self._keep(
            name,
            lambda: _same_items(value, before),
            lambda: _refill(value, before),
        )
        items = (*before.keys(), *before.values()) if isinstance(value, dict) else before
        if isinstance(value, bytearray):
            return
        for each in items:
            self._add(name, each)

    def _keep_tensor(self, name: str, tensor: Tensor) -> None:
        if tensor.is_inference() or tensor.layout != torch.strided:
            return
        version, size = tensor._version, tensor.numel() * tensor.element_size()
        self._keep_value(
            f"the gradient of {name}",
            lambda: tensor.grad if tensor.is_leaf else None,
            functools.partial(setattr, tensor, "grad", tensor.grad if tensor.is_leaf else None),
        )
        if not self._has_room(size):  # only seen, and only what torch counts as a change in place
            self._keep(name, lambda: tensor._version == version, lambda: None)
            return
        alias = tensor.detach()  # of the same memory, which may be exchanged for other
        copy = alias.clone()

        def put_back() -> None:
            with torch.no_grad():
                if not _is_alias(tensor, alias):
                    tensor.data = alias
                alias.copy_(copy)

        self._keep(
            name, lambda: _is_alias(tensor, alias) and _is_equal(tensor.detach(), copy), put_back
        )

    def _keep_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.hasobject or not self._has_room(array.nbytes):
            return
        before = array.copy()

        def put_back() -> None:
            if array.shape != before.shape:
                array.resize(before.shape, refcheck=False)
            np.copyto(array, before)

        self._keep(
            name,
            lambda: array.shape == before.shape and array.tobytes() == before.tobytes(),
            put_back,
        )

    def _has_room(self, size: int) -> bool:
        self._bytes += size
        return self._bytes <= MOST_BYTES


@contextmanager
def kept_state(module: nn.Module) -> Iterator[ReachedState]:
    """Put back what passes in it change of the state that the code of `module` reaches.

    Raises `StateChangedError`, with the names, where they changed something of the user's own.
    """
    state = ReachedState(module)
    try:
        yield state
    except BaseException:
        state.restore()
        raise
    state.check()


def _functions(value: object) -> Iterator[object]:
    """Functions that an attribute holds: a copy of a module shares them."""
    held = list(value.values()) if isinstance(value, dict) else value
    for each in held if isinstance(held, (list, tuple)) else (held,):
        while isinstance(each, functools.partial):
            each = each.func
        if isinstance(each, (FunctionType, functools._lru_cache_wrapper)):
            yield each
        elif isinstance(each, MethodType):  # a copy has its own object, and the same function
            yield each.__func__


def _names(code: CodeType) -> frozenset[str]:
    """What a function names, functions in it included."""
    names = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            names |= _names(each)
    return frozenset(names)


def _global_names(code: CodeType) -> frozenset[str]:
    """What a function reads or writes of its module."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in _GLOBAL}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            names |= _global_names(each)
    return frozenset(names)


def _imports(code: CodeType) -> set[str]:
    """Modules that a function imports in its body, by absolute names."""
    names = {e.argval for e in dis.get_instructions(code) if e.opname == "IMPORT_NAME"}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            names |= _imports(each)
    return names


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


@functools.cache
def _is_installed(path: str) -> bool:
    return bool({"site-packages", "dist-packages"} & set(Path(path or "").parts))


def _attribute(kind: type, name: str) -> object:
    return vars(kind).get(name)


def _is_value(now: object, before: object) -> bool:
    if now is before:
        return True
    plain = isinstance(before, _PLAIN) and type(now) is type(before)
    return plain and (now == before or now != now)  # NaN


def _is_alias(tensor: Tensor, alias: Tensor) -> bool:
    return (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) == (
        alias.data_ptr(),
        alias.shape,
        alias.stride(),
        alias.dtype,
    )


def _is_equal(now: Tensor, before: Tensor) -> bool:
    return torch.equal(now, before) or torch.equal(now.nan_to_num(), before.nan_to_num())


def _same_items(now: Any, before: Any) -> bool:
    if len(now) != len(before):
        return False
    if isinstance(before, dict):
        return list(now) == list(before) and all(map(_is_value, now.values(), before.values()))
    if isinstance(before, (set, bytearray)):
        return bool(now == before)
    return all(map(_is_value, now, before))


def _refill(container: Any, before: Any) -> None:
    """In place: others hold it too."""
    if isinstance(container, (list, bytearray)):
        container[:] = before
        return
    container.clear()
    (container.extend if isinstance(container, deque) else container.update)(before)


def _stream(value: object) -> tuple[Callable[[], bool], Callable[[], object]] | None:
    """How the state of a random generator of the user's is compared and put back."""
    if isinstance(value, torch.Generator):
        state = value.get_state()
        own: torch.Generator = value
        return (
            lambda: torch.equal(own.get_state(), state),
            lambda: own.set_state(state),
        )
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        bits: Any = getattr(value, "bit_generator", None) or value._bit_generator  # type: ignore[union-attr]
        drawn = bits.state
        return lambda: str(bits.state) == str(drawn), lambda: setattr(bits, "state", drawn)
    if isinstance(value, random.Random):
        python = value.getstate()
        stream: random.Random = value
        return lambda: stream.getstate() == python, lambda: stream.setstate(python)
    return None


def _process_flags() -> dict[str, Any]:
    return {
        "torch's default dtype": torch.get_default_dtype(),
        "torch's number of threads": torch.get_num_threads(),
        "torch's deterministic algorithms": torch.get_deterministic_debug_mode(),
    }


_SETTERS: dict[str, Callable[[Any], object]] = {
    "torch's default dtype": torch.set_default_dtype,
    "torch's number of threads": torch.set_num_threads,
    "torch's deterministic algorithms": torch.set_deterministic_debug_mode,
}
