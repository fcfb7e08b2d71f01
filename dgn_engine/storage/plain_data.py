"""Frozen dataclasses as plain JSON values, and back by their type hints: the one converter; and
the one door by which JSON that may be hostile comes in.

A class that spells itself otherwise has `to_dict` and `from_dict` (a `RunConfig` leaves out what
is None, because TOML has no null). Of a union of dataclasses that one is meant whose fields hold
every key.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

DEPTH = 30  # lists and tables in each other
NODES = 400_000  # values in one text
_NUMBER = 40  # characters of a number in words


def to_plain(
    value: Any,
    nonfinite: Literal["keep", "null", "word"] = "keep",
    omit_none: bool = False,
) -> Any:
    """`value` (dataclasses, mappings, sequences, paths and scalars in each other) as dictionaries,
    lists, strings, numbers, booleans and None.

    `nonfinite`: how NaN and infinities are written: as floats, as null, or as 'nan' and '-inf'.
    `omit_none`: leave out the fields of dataclasses that are None.
    """
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        if nonfinite == "keep" or math.isfinite(value):
            return value
        return None if nonfinite == "null" else str(value)
    if isinstance(value, (tuple, list)):
        return [to_plain(each, nonfinite, omit_none) for each in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(each, nonfinite, omit_none) for key, each in value.items()}
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        inner = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        return {
            name: to_plain(each, nonfinite, omit_none)
            for name, each in inner.items()
            if not (omit_none and each is None)
        }
    return str(value) if isinstance(value, Path) else value


def parse_json(content: bytes) -> Any:
    """The values of a JSON text that may be hostile.

    Raises `ValueError` where it is no JSON, is nested deeper or holds more than any of ours, gives
    a key twice, or has words that cannot be written again.
    """
    if content.count(b",") + content.count(b"[") + content.count(b"{") > NODES:
        raise ValueError("it holds too much")
    try:
        tree = json.loads(content, object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    _check_tree(tree)
    return tree


def _check_tree(tree: Any) -> None:
    """Raise `ValueError` where parsed JSON is nested deeper, or holds more, than any of ours, or
    has half a character in it. No recursion: it may be hostile."""
    level, seen = [tree], 0
    for _ in range(DEPTH):
        seen += len(level)
        if seen > NODES:
            raise ValueError("it holds too much")
        inner: list[Any] = []
        for value in level:
            kind = type(value)  # most are numbers: a quarter of the time that `isinstance` takes
            if kind is dict:
                inner += value
                inner += value.values()
            elif kind is list:
                inner += value
            elif kind is str and not value.isascii():
                value.encode()  # raises a ValueError
        if not inner:
            return
        level = inner
    raise ValueError("it is nested too deep")


def from_plain(kind: Any, plain: Any) -> Any:
    """The `kind` that `to_plain` wrote: null is NaN where a float is meant, 'nan' and 'inf' too.
    Whole numbers are those of 64 bits.

    Raises `TypeError` or `ValueError` where `plain` is nothing of the kind, and `UserError` from a
    class that reads itself.
    """
    return _reader(kind)(plain)


@cache  # because a log has a hundred thousand lines, and type hints are slow to look at
def _reader(kind: Any) -> Callable[[Any], Any]:
    if kind is Any:
        return lambda plain: plain
    if kind is float:
        return _float
    if kind in (int, str, bool):
        return partial(_scalar, kind)
    if kind is Path:
        return lambda plain: Path(_scalar(str, plain))
    if hasattr(kind, "from_dict"):
        return partial(_own, kind)
    if dataclasses.is_dataclass(kind):
        return partial(_dataclass, kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return partial(_member, inner)
    if origin is Literal:
        return partial(_choice, inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_mapping, _reader(inner[1]))
    if inner[1:] == (...,):
        return partial(_sequence, _reader(inner[0]))
    if origin is tuple:
        return lambda plain: tuple(_each([_reader(one) for one in inner], plain))
    return lambda plain: kind(*_each(_readers(kind).values(), plain))  # a NamedTuple


@cache
def _readers(kind: Any) -> dict[str, Callable[[Any], Any]]:
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}


def _own(kind: Any, plain: Any) -> Any:
    """Of a class that reads itself; what is one already stays."""
    return plain if isinstance(plain, kind) else kind.from_dict(plain)


def _scalar(kind: Any, plain: Any) -> Any:
    if type(plain) is not kind:
        raise TypeError(f"{_short(plain)} is no {kind.__name__}")
    if kind is int and not -(1 << 63) <= plain < 1 << 64:
        raise ValueError(f"{_short(plain)} is beyond all numbers")
    return plain


def _float(plain: Any) -> float:
    if plain is None:
        return math.nan
    is_long = isinstance(plain, str) and len(plain) > _NUMBER
    if is_long or isinstance(plain, bool) or not isinstance(plain, (int, float, str)):
        raise TypeError(f"{_short(plain)} is no number")
    try:
        return float(plain)
    except ValueError:
        raise TypeError(f"{_short(plain)} is no number") from None
    except OverflowError:
        raise ValueError(f"{_short(plain)} is beyond all numbers") from None


def _choice(choices: tuple[Any, ...], plain: Any) -> Any:
    if plain not in choices:
        raise ValueError(f"{_short(plain)} is none of {', '.join(map(str, choices))}")
    return plain


def _dataclass(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise TypeError(f"{_short(plain)} is no {kind.__name__}")
    readers = _readers(kind)
    unknown = plain.keys() - readers.keys()
    if unknown:
        raise ValueError(f"a {kind.__name__} has no '{min(unknown)}'")
    return kind(**{name: readers[name](each) for name, each in plain.items()})


def _member(kinds: tuple[Any, ...], plain: Any) -> Any:
    if plain is None and types.NoneType in kinds:
        return None
    real = [kind for kind in kinds if kind is not types.NoneType]
    if len(real) > 1 and isinstance(plain, dict):
        real = [kind for kind in real if plain.keys() <= _readers(kind).keys()]
    if not real:
        raise ValueError(f"{_short(plain)} is none of {', '.join(each.__name__ for each in kinds)}")
    return from_plain(real[0], plain)


def _mapping(read: Callable[[Any], Any], plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise TypeError(f"{_short(plain)} is no table")
    return {name: read(each) for name, each in plain.items()}


def _sequence(read: Callable[[Any], Any], plain: Any) -> Any:
    if not isinstance(plain, list):
        raise TypeError(f"{_short(plain)} is no list")
    if read is _reader(int) and set(map(type, plain)) == {int}:  # often thousands: at once
        read(min(plain))
        read(max(plain))
        return tuple(plain)
    return tuple(map(read, plain))


def _each(readers: Iterable[Callable[[Any], Any]], plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise TypeError(f"{_short(plain)} is no list")
    return [read(each) for read, each in zip(readers, plain, strict=True)]


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a key is given twice")
    return tree


def _short(value: Any) -> str:
    """Its beginning; no recursion and no number of a thousand digits: it may be hostile."""
    if isinstance(value, (list, dict)) and value:
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length():,} bits"
    return repr(value[:40] if isinstance(value, str) else value)[:40]
