"""Reads the user's objects without running their code: no property, no `__getattr__`, no
method that a class overrides."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any

import torch
from torch import Tensor, nn

# Methods that `copy.deepcopy` calls, or by which it looks for those.
_PROTOCOL = (
    *("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    *("__getnewargs__", "__getnewargs_ex__", "__new__"),
    *("__getattr__", "__getattribute__", "__setattr__"),
    *("append", "extend", "__setitem__", "items", "__iter__"),
)
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "dgn_engine"}
_OF_CLASSES = vars(type)  # what a class of classes cannot override


def copy_module(module: nn.Module, memo: dict[int, object] | None = None) -> nn.Module:
    """Return a deep copy of a module.

    A `__deepcopy__` or `__getstate__` of a layer may draw random numbers (it often makes a new
    module, and loads the weights into that) or return the layer itself. So layers are copied by
    their attributes; the methods are called where that fails, and for objects that are no layers.

    Args:
        module: what is copied.
        memo: what stands for an object in the copy, by `id`, as for `copy.deepcopy`.
    """
    given = {} if memo is None else memo
    own = [part for _, part in named_parts(module) if copies_itself(type(part))]
    own = [part for part in own if id(part) not in given]
    if not own:
        return deepcopy(module, given)
    plain: dict[int, Any] = dict(given)
    try:
        for part in own:
            plain[id(part)] = object.__new__(type(part))
        for part in own:
            _fill(plain[id(part)], part, plain)
        return deepcopy(module, plain)
    except Exception:
        return deepcopy(module, given)


def copies_itself(kind: type) -> bool:
    """Return whether a class that is not torch's or Python's has methods by which it is copied."""
    return any(
        name in class_attributes(each)
        for each in mro(kind)
        if not is_library(class_module(each))
        for name in _PROTOCOL
    )


def _fill(copy: nn.Module, part: nn.Module, memo: dict[int, Any]) -> None:
    held = attributes(copy)
    held |= {name: deepcopy(value, memo) for name, value in attributes(part).items()}
    for _, slot in slots(part):
        try:
            value = slot.__get__(part)
        except AttributeError:  # it is empty
            continue
        slot.__set__(copy, deepcopy(value, memo))
    for kind in mro(type(part)):  # torch's layers renew what refers to their weights
        if is_library(class_module(kind)) and "__setstate__" in class_attributes(kind):
            class_attributes(kind)["__setstate__"](copy, dict(held))
            return


def mro(kind: type) -> tuple[type, ...]:
    """Return the classes in which an attribute of `kind` is looked up."""
    found: tuple[type, ...] = _OF_CLASSES["__mro__"].__get__(kind)
    return found


def class_attributes(kind: type) -> MappingProxyType[str, Any]:
    """Return what `kind` itself defines."""
    found: MappingProxyType[str, Any] = _OF_CLASSES["__dict__"].__get__(kind)
    return found


def class_name(kind: type) -> str:
    """Return the name of a class."""
    return str(_OF_CLASSES["__name__"].__get__(kind))


def class_module(kind: type) -> str:
    """Return the name of the module that defines a class."""
    found = class_attributes(kind).get("__module__", "builtins")
    return found if isinstance(found, str) else ""


def defined(kind: type, name: str) -> Any:
    """Return an attribute of a class as the class that defines it has it, or None."""
    return next((class_attributes(k)[name] for k in mro(kind) if name in class_attributes(k)), None)


def is_kind(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Return `isinstance(value, kinds)` by the true class of `value`, not its `__class__`."""
    own = mro(type(value))
    return any(kind in own for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def is_library(module: str) -> bool:
    """Return whether a module of this name belongs to Python, torch, numpy or this package."""
    return module.partition(".")[0] in _LIBRARIES


@functools.cache
def is_installed(path: str) -> bool:
    """Return whether a file belongs to an installed package."""
    return bool({"site-packages", "dist-packages"} & set(Path(path or "").parts))


def attributes(value: object) -> dict[str, Any]:
    """Return the `__dict__` of an object, or an empty one where it has none."""
    if is_kind(value, threading.local):  # one for each thread
        held: dict[str, Any] = threading.local.__getattribute__(value, "__dict__")  # type: ignore[arg-type]
        return held
    for kind in mro(type(value)):
        getter = class_attributes(kind).get("__dict__")
        if type(getter) is GetSetDescriptorType:
            own = getter.__get__(value)
            return own if type(own) is dict else {}
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def slots(value: object) -> Iterator[tuple[str, MemberDescriptorType]]:
    """Yield the names and descriptors of the `__slots__` of an object's own classes."""
    for kind in mro(type(value)):
        for name, each in class_attributes(kind).items():
            if type(each) is MemberDescriptorType and not is_library(class_module(kind)):
                yield name, each


def named_parts(
    module: nn.Module, remove_duplicate: bool = True
) -> Iterator[tuple[str, nn.Module]]:
    """Yield what `named_modules` of torch would."""
    seen: set[int] = set()

    def walk(part: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
        if remove_duplicate and id(part) in seen:
            return
        seen.add(id(part))
        yield name, part
        for own, child in registry(part, "_modules").items():
            if child is not None:
                yield from walk(child, f"{name}.{own}" if name else own)

    return walk(module, "")


def named_tensors(module: nn.Module, kind: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters or buffers by name, each once; `kind`: '_parameters' or '_buffers'."""
    seen: set[int] = set()
    for name, part in named_parts(module):
        for own, tensor in registry(part, kind).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{name}.{own}" if name else own, tensor


def registry(part: nn.Module, name: str) -> dict[str, Any]:
    """Return a copy of the parameters, buffers or children that a module itself has."""
    held = attributes(part).get(name)
    if held is None or is_kind(part, torch.jit.ScriptModule):  # those are not Python's
        held = getattr(part, name)
    return dict(held.items())
