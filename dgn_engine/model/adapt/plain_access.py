"""Access to a user's objects without running their code.

No property, no `__getattr__` and no overridden method is called.
"""

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

# Methods that `copy.deepcopy` calls, or uses to look these up.
_PROTOCOL = (
    *("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    *("__getnewargs__", "__getnewargs_ex__", "__new__"),
    *("__getattr__", "__getattribute__", "__setattr__"),
    *("append", "extend", "__setitem__", "items", "__iter__"),
)
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "dgn_engine"}
_OF_CLASSES = vars(type)  # cannot be overridden by a metaclass


def copy_module(module: nn.Module, memo: dict[int, object] | None = None) -> nn.Module:
    """Deep-copy a module without running its own copying code if possible.

    A `__deepcopy__` or `__getstate__` of a layer may draw random numbers (it often creates a new
    module and loads the weights into it) or return the layer itself. So layers are copied attribute
    by attribute; their methods are called only if that fails, and for objects that are not layers.

    Args:
        module: The module.
        memo: Replacements by `id`, as for `copy.deepcopy`.

    Returns:
        The copy.
    """
    given = {} if memo is None else memo
    custom_parts = [part for _, part in named_parts(module) if copies_itself(type(part))]
    custom_parts = [part for part in custom_parts if id(part) not in given]
    if not custom_parts:
        return deepcopy(module, given)
    plain: dict[int, Any] = dict(given)
    try:
        for part in custom_parts:
            plain[id(part)] = object.__new__(type(part))
        for part in custom_parts:
            _copy_attributes(plain[id(part)], part, plain)
        return deepcopy(module, plain)
    except Exception:
        return deepcopy(module, given)


def copies_itself(kind: type) -> bool:
    """Check whether a user's class defines methods that control how it is copied.

    Args:
        kind: The class.

    Returns:
        Whether it does; methods of torch and Python do not count.
    """
    return any(
        name in class_attributes(base)
        for base in mro(kind)
        if not is_library(class_module(base))
        for name in _PROTOCOL
    )


def _copy_attributes(copy: nn.Module, part: nn.Module, memo: dict[int, Any]) -> None:
    """Copy the attributes and slots of a layer into an empty instance."""
    copied = instance_attributes(copy)
    copied |= {name: deepcopy(value, memo) for name, value in instance_attributes(part).items()}
    for _, slot in slot_descriptors(part):
        try:
            value = slot.__get__(part)
        except AttributeError:  # an empty slot
            continue
        slot.__set__(copy, deepcopy(value, memo))
    for kind in mro(type(part)):  # lets torch's layers rebuild references to their weights
        if is_library(class_module(kind)) and "__setstate__" in class_attributes(kind):
            class_attributes(kind)["__setstate__"](copy, dict(copied))
            return


def mro(kind: type) -> tuple[type, ...]:
    """Return the method resolution order of a class.

    Args:
        kind: The class.

    Returns:
        The classes in order.
    """
    classes: tuple[type, ...] = _OF_CLASSES["__mro__"].__get__(kind)
    return classes


def class_attributes(kind: type) -> MappingProxyType[str, Any]:
    """Return the attributes that a class itself defines.

    Args:
        kind: The class.

    Returns:
        Its dictionary, read-only.
    """
    entries: MappingProxyType[str, Any] = _OF_CLASSES["__dict__"].__get__(kind)
    return entries


def class_name(kind: type) -> str:
    """Return the name of a class.

    Args:
        kind: The class.

    Returns:
        The name.
    """
    return str(_OF_CLASSES["__name__"].__get__(kind))


def class_module(kind: type) -> str:
    """Return the name of the module that defines a class.

    Args:
        kind: The class.

    Returns:
        The name, or '' if it is not a string.
    """
    module_name = class_attributes(kind).get("__module__", "builtins")
    return module_name if isinstance(module_name, str) else ""


def lookup_attribute(kind: type, name: str) -> Any:
    """Look up an attribute of a class without invoking descriptors.

    Args:
        kind: The class.
        name: The attribute.

    Returns:
        The attribute as its class defines it, or `None`.
    """
    return next((class_attributes(k)[name] for k in mro(kind) if name in class_attributes(k)), None)


def is_kind(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Evaluate `isinstance(value, kinds)` by the true class of `value`, not its `__class__`.

    Args:
        value: The object.
        kinds: One or more classes.

    Returns:
        Whether it is an instance.
    """
    bases = mro(type(value))
    return any(kind in bases for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def is_library(module: str) -> bool:
    """Check whether a module belongs to Python, torch, numpy or this package.

    Args:
        module: Name of the module.

    Returns:
        Whether it does.
    """
    return module.partition(".")[0] in _LIBRARIES


@functools.cache
def is_installed(path: str) -> bool:
    """Check whether a file belongs to an installed package.

    Args:
        path: Path of the file.

    Returns:
        Whether it does.
    """
    return bool({"site-packages", "dist-packages"} & set(Path(path or "").parts))


def instance_attributes(value: object) -> dict[str, Any]:
    """Return the `__dict__` of an object.

    Args:
        value: The object.

    Returns:
        The dictionary, or an empty one if it has none.
    """
    if is_kind(value, threading.local):  # one dictionary per thread
        thread_entries: dict[str, Any] = threading.local.__getattribute__(value, "__dict__")  # type: ignore[arg-type]
        return thread_entries
    for kind in mro(type(value)):
        getter = class_attributes(kind).get("__dict__")
        if type(getter) is GetSetDescriptorType:
            instance_entries = getter.__get__(value)
            return instance_entries if type(instance_entries) is dict else {}
    try:
        entries = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return entries if type(entries) is dict else {}


def slot_descriptors(value: object) -> Iterator[tuple[str, MemberDescriptorType]]:
    """Iterate over the `__slots__` of an object's own classes.

    Args:
        value: The object.

    Yields:
        Name and descriptor of each slot.
    """
    for kind in mro(type(value)):
        for name, attribute in class_attributes(kind).items():
            if type(attribute) is MemberDescriptorType and not is_library(class_module(kind)):
                yield name, attribute


def named_parts(
    module: nn.Module, remove_duplicate: bool = True
) -> Iterator[tuple[str, nn.Module]]:
    """Iterate over all submodules, as torch's `named_modules` does.

    Args:
        module: The module.
        remove_duplicate: Whether to yield each submodule only once.

    Returns:
        Iterator over names and submodules.
    """
    seen: set[int] = set()

    def walk(part: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
        if remove_duplicate and id(part) in seen:
            return
        seen.add(id(part))
        yield name, part
        for child_name, child in module_registry(part, "_modules").items():
            if child is not None:
                yield from walk(child, f"{name}.{child_name}" if name else child_name)

    return walk(module, "")


def named_tensors(module: nn.Module, kind: str) -> Iterator[tuple[str, Tensor]]:
    """Iterate over the parameters or buffers of a module, each once.

    Args:
        module: The module.
        kind: '_parameters' or '_buffers'.

    Yields:
        Name and tensor.
    """
    seen: set[int] = set()
    for name, part in named_parts(module):
        for tensor_name, tensor in module_registry(part, kind).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield f"{name}.{tensor_name}" if name else tensor_name, tensor


def module_registry(part: nn.Module, name: str) -> dict[str, Any]:
    """Return the parameters, buffers or children that a module itself has.

    Args:
        part: The module.
        name: '_parameters', '_buffers' or '_modules'.

    Returns:
        A copy of the dictionary.
    """
    entries = instance_attributes(part).get(name)
    if entries is None or is_kind(part, torch.jit.ScriptModule):  # not Python dictionaries
        entries = getattr(part, name)
    return dict(entries.items())
