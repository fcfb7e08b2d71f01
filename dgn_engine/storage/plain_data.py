"""Plain JSON values as the frozen dataclass that they were written from."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def typed(kind: Any, value: Any) -> Any:
    """`value` as a `kind`: dataclasses, tuples of one kind, options, literals and scalars.

    null is NaN where a float is meant. Raises `TypeError` or `ValueError` for anything else.
    """
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value)
    origin = get_origin(kind)
    if origin is tuple:
        if not isinstance(value, list):
            raise TypeError(f"{_short(value)} is no list")
        return tuple(typed(get_args(kind)[0], each) for each in value)
    if origin in (Union, types.UnionType):
        inner = next(each for each in get_args(kind) if each is not type(None))
        return None if value is None else typed(inner, value)
    if origin is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{_short(value)} is none of {', '.join(map(str, get_args(kind)))}")
        return value
    if kind is float:
        return _float(value)
    wanted = Mapping if isinstance(origin, type) and issubclass(origin, Mapping) else kind
    if wanted is not Any and not isinstance(value, wanted):
        raise TypeError(f"{_short(value)} is not what stands there")
    return value


def _dataclass(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{_short(value)} is no {kind.__name__}")
    hints = get_type_hints(kind)
    unknown = set(value) - set(hints)
    if unknown:
        raise ValueError(f"a {kind.__name__} has no '{min(unknown)}'")
    return kind(**{name: typed(hints[name], each) for name, each in value.items()})


def _float(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{_short(value)} is no number")
    return float(value)


def _short(value: Any) -> str:
    return repr(value)[:40]
