"""Copies a module by its attributes, without the methods by which its classes copy themselves."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from torch import nn

from dgn_engine.model.importing.plain_access import (
    attributes,
    class_attributes,
    class_module,
    is_library,
    mro,
    named_parts,
    slots,
)

# Methods that `copy.deepcopy` calls, or by which it looks for those.
_PROTOCOL = (
    *("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    *("__getnewargs__", "__getnewargs_ex__", "__new__"),
    *("__getattr__", "__getattribute__", "__setattr__"),
    *("append", "extend", "__setitem__", "items", "__iter__"),
)


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
