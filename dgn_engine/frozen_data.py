"""`dataclass(frozen=True)` for packages of many classes, in a quarter of the time.

`dataclasses` writes six methods of every class as text and compiles them, half a millisecond a
class; for the messages, the configuration and the scenes that was a tenth of the time until the
window appears. Here only `__init__` is compiled. The other methods are functions over the fields.

Type checkers see `dataclasses`, and its decorator may be used for classes derived from these.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

_BY_FACTORY = type("_Factory", (), {"__repr__": lambda _: "<factory>"})()
_PARAMETERS = "__dataclass_params__"  # where `dataclasses` keeps what a class was made with
_FROZEN = vars(dataclasses.dataclass(frozen=True)(type("_Frozen", (), {})))[_PARAMETERS]


def frozen_dataclass(*, frozen: bool, kw_only: bool = False) -> Callable[[type[Any]], type[Any]]:
    """Return the decorator; like `dataclasses.dataclass`, without `InitVar` and ordering.

    Raises:
        ValueError: `frozen` is not True.
    """
    if not frozen:
        raise ValueError(f"frozen={frozen}: use dataclasses.dataclass for data that may change")

    def make(cls: type[Any]) -> type[Any]:
        own = dict(vars(cls))
        # Derived from a dataclass, which is frozen then: `dataclasses` refuses any other.
        derived = any(_PARAMETERS in vars(base) for base in cls.__mro__[1:])
        dataclasses.dataclass(
            cls, init=False, repr=False, eq=False, frozen=derived, kw_only=kw_only
        )
        fields = dataclasses.fields(cls)
        methods = _compare_methods(fields) | {
            "__init__": _compile_init(cls, fields),
            "__repr__": _repr_method(fields),
            "__setattr__": _refuse_assignment,
            "__delattr__": _refuse_deletion,
        }
        for name, method in methods.items():
            # Python itself puts None for the hash of a class with `__eq__`.
            if name not in own or (name == "__hash__" and own[name] is None):
                setattr(cls, name, method)
        setattr(cls, _PARAMETERS, _FROZEN)
        return cls

    return make


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = frozen_dataclass


def _compile_init(cls: type[Any], fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Return `__init__(self, a, b=…, *, c=…)` of the class."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_by_factory": _BY_FACTORY}
    by_position: list[str] = []
    by_name: list[str] = []
    body: list[str] = []
    for field in fields:
        name, value = field.name, field.name
        parameter = name
        if field.default is not MISSING:
            if not field.init:
                continue  # the class has it
            known[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        elif field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_by_factory"
            value = f"_make_{name}()"
            if field.init:
                value += f" if {name} is _by_factory else {name}"
        if field.init:
            (by_name if field.kw_only else by_position).append(parameter)
        body.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ["self", *by_position, *(["*", *by_name] if by_name else [])]
    lines = [
        f"def make({', '.join(known)}):",
        f" def __init__({', '.join(parameters)}):",
        *(f"  {line}" for line in body or ["pass"]),
        " return __init__",
    ]
    made: dict[str, Any] = {}
    # With the names of the class's module, among which `get_type_hints` looks up annotations.
    module = sys.modules.get(cls.__module__)
    exec("\n".join(lines), vars(module) if module else {}, made)
    init = made["make"](**known)
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    method: Callable[..., None] = init
    return method


def _compare_methods(fields: tuple[Field[Any], ...]) -> dict[str, Callable[..., Any]]:
    compared = _values_of([field.name for field in fields if field.compare])
    hashed = _values_of([f.name for f in fields if (f.compare if f.hash is None else f.hash)])

    def is_equal(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    return {"__eq__": is_equal, "__hash__": lambda self: hash(hashed(self))}


def _values_of(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function of an object that returns the tuple of these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda data: tuple(getattr(data, name) for name in names)


def _repr_method(fields: tuple[Field[Any], ...]) -> Callable[[object], str]:
    names = [field.name for field in fields if field.repr]

    @recursive_repr()
    def show_fields(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return show_fields


def _refuse_assignment(self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
