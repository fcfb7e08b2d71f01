"""Convert frozen dataclasses to plain JSON values and back, by their type hints.

This is the only converter, and the only way in for JSON that may be hostile. A class with its own
representation has `to_dict` and `from_dict` (a `RunConfig` leaves out None, because TOML has no
null). For a union of dataclasses, the one whose fields include every key is used.
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

DEPTH = 30  # nested lists and tables
NODES = 400_000  # values in one text
_NUMBER = 40  # characters of a number given as text


def to_plain(
    value: Any,
    nonfinite: Literal["keep", "null", "word"] = "keep",
    omit_none: bool = False,
) -> Any:
    """Convert nested dataclasses, mappings, sequences, paths and scalars to plain values.

    Args:
        value: The value.
        nonfinite: Write NaN and infinities as floats, as null, or as 'nan' and '-inf'.
        omit_none: Leave out dataclass fields that are None.

    Returns:
        Dictionaries, lists, strings, numbers, booleans and None.
    """
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        if nonfinite == "keep" or math.isfinite(value):
            return value
        return None if nonfinite == "null" else str(value)
    if isinstance(value, (tuple, list)):
        return [to_plain(entry, nonfinite, omit_none) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(entry, nonfinite, omit_none) for key, entry in value.items()}
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if dataclasses.is_dataclass(value):
        inner = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        return {
            name: to_plain(entry, nonfinite, omit_none)
            for name, entry in inner.items()
            if not (omit_none and entry is None)
        }
    return str(value) if isinstance(value, Path) else value


def parse_json(content: bytes) -> Any:
    """Parse JSON that may be hostile.

    Raises:
        ValueError: It is not JSON, is too large or too deep, repeats a key, or has words that
            cannot be written again.
    """
    if content.count(b",") + content.count(b"[") + content.count(b"{") > NODES:
        raise ValueError("it is too large")
    try:
        tree = json.loads(content, object_pairs_hook=_distinct_keys)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_tree(tree)
    return tree


def _check_tree(tree: Any) -> None:
    """Raise `ValueError` if parsed JSON is too deep, too large, or has half a character.

    It may be hostile, so there is no recursion.
    """
    level, seen = [tree], 0
    for _ in range(DEPTH):
        seen += len(level)
        if seen > NODES:
            raise ValueError("it is too large")
        inner: list[Any] = []
        for value in level:
            kind = type(value)  # most are numbers: four times as fast as `isinstance`
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
    raise ValueError("it is nested too deeply")


def from_plain(kind: Any, plain: Any) -> Any:
    """Convert plain values from `to_plain` back to `kind`.

    For a float, null is NaN, and 'nan' and 'inf' are allowed. Integers have at most 64 bits.

    Raises:
        TypeError, ValueError: `plain` is not of this kind.
        UserError: From a class that reads itself.
    """
    return _reader_of(kind)(plain)


@cache  # a log has a hundred thousand lines, and type hints are slow to inspect
def _reader_of(kind: Any) -> Callable[[Any], Any]:
    if kind is Any:
        return lambda plain: plain
    if kind is float:
        return _read_float
    if kind in (int, str, bool):
        return partial(_read_scalar, kind)
    if kind is Path:
        return lambda plain: Path(_read_scalar(str, plain))
    if hasattr(kind, "from_dict"):
        return partial(_read_own, kind)
    if dataclasses.is_dataclass(kind):
        return partial(_read_dataclass, kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return partial(_read_union, inner)
    if origin is Literal:
        return partial(_read_choice, inner)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_read_mapping, _reader_of(inner[1]))
    if inner[1:] == (...,):
        return partial(_read_sequence, _reader_of(inner[0]))
    if origin is tuple:
        return lambda plain: tuple(
            _read_items([_reader_of(item_kind) for item_kind in inner], plain)
        )
    return lambda plain: kind(*_read_items(_field_readers(kind).values(), plain))  # a NamedTuple


@cache
def _field_readers(kind: Any) -> dict[str, Callable[[Any], Any]]:
    return {name: _reader_of(hint) for name, hint in get_type_hints(kind).items()}


def _read_own(kind: Any, plain: Any) -> Any:
    """Read a class with its own `from_dict`; an instance is returned unchanged."""
    return plain if isinstance(plain, kind) else kind.from_dict(plain)


def _read_scalar(kind: Any, plain: Any) -> Any:
    if type(plain) is not kind:
        raise TypeError(f"{_short_repr(plain)} is not a {kind.__name__}")
    if kind is int and not -(1 << 63) <= plain < 1 << 64:
        raise ValueError(f"{_short_repr(plain)} is too large")
    return plain


def _read_float(plain: Any) -> float:
    if plain is None:
        return math.nan
    is_long = isinstance(plain, str) and len(plain) > _NUMBER
    if is_long or isinstance(plain, bool) or not isinstance(plain, (int, float, str)):
        raise TypeError(f"{_short_repr(plain)} is not a number")
    try:
        return float(plain)
    except ValueError:
        raise TypeError(f"{_short_repr(plain)} is not a number") from None
    except OverflowError:
        raise ValueError(f"{_short_repr(plain)} is too large") from None


def _read_choice(choices: tuple[Any, ...], plain: Any) -> Any:
    if plain not in choices:
        raise ValueError(f"{_short_repr(plain)} is not one of {', '.join(map(str, choices))}")
    return plain


def _read_dataclass(kind: Any, plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise TypeError(f"{_short_repr(plain)} is not a {kind.__name__}")
    readers = _field_readers(kind)
    unknown = plain.keys() - readers.keys()
    if unknown:
        raise ValueError(f"a {kind.__name__} has no '{min(unknown)}'")
    return kind(**{name: readers[name](value) for name, value in plain.items()})


def _read_union(kinds: tuple[Any, ...], plain: Any) -> Any:
    if plain is None and types.NoneType in kinds:
        return None
    real = [kind for kind in kinds if kind is not types.NoneType]
    if len(real) > 1 and isinstance(plain, dict):
        real = [kind for kind in real if plain.keys() <= _field_readers(kind).keys()]
    if not real:
        raise ValueError(
            f"{_short_repr(plain)} is not one of {', '.join(member.__name__ for member in kinds)}"
        )
    return from_plain(real[0], plain)


def _read_mapping(read: Callable[[Any], Any], plain: Any) -> Any:
    if not isinstance(plain, dict):
        raise TypeError(f"{_short_repr(plain)} is not a table")
    return {name: read(value) for name, value in plain.items()}


def _read_sequence(read: Callable[[Any], Any], plain: Any) -> Any:
    if not isinstance(plain, list):
        raise TypeError(f"{_short_repr(plain)} is not a list")
    if read is _reader_of(int) and set(map(type, plain)) == {
        int
    }:  # often thousands: check together
        read(min(plain))
        read(max(plain))
        return tuple(plain)
    return tuple(map(read, plain))


def _read_items(readers: Iterable[Callable[[Any], Any]], plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise TypeError(f"{_short_repr(plain)} is not a list")
    return [read(item) for read, item in zip(readers, plain, strict=True)]


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise ValueError("a key is repeated")
    return tree


def _short_repr(value: Any) -> str:
    """Shorten a value for messages, without recursion or huge numbers: it may be hostile."""
    if isinstance(value, (list, dict)) and value:
        return "a list" if isinstance(value, list) else "a table"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length():,} bits"
    return repr(value[:40] if isinstance(value, str) else value)[:40]
