"""TOML of others held to bounds before it is parsed: a parser has none of its own.

A key of 20,000 parts takes tomllib a minute, a float of a million digits seconds, a list in lists
in lists its whole stack; a configuration needs none of them.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

MOST = 512 << 10  # bytes of a file: a sweep that lists some 8,000 runs one by one
DEEPEST = 16  # lists and tables in each other
PARTS = 16  # of a dotted key
LONGEST = 128  # letters of a number or a bare key
LARGEST = 2**63  # integers of TOML are of 64 bits
# strings and comments as they are, also those that never end; then words, blanks and single signs
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.|\\\Z)*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*"
    r"|[\w+-]+"
    r"|[ \t]+"
    r"|[\[\]{}.]"
    r"|[^\w+\-\[\]{}.\"'# \t]+",
    re.DOTALL,
)
_OPENING, _CLOSING = frozenset("[{"), frozenset("]}")


class TomlError(ValueError):
    """Why a text is not taken, as the end of a sentence that begins with its name."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML whose size, depth, keys and numbers are bounded; raises `TomlError`."""
    if len(text) > MOST:
        raise TomlError(f"is larger than {MOST >> 10} KiB")
    _check_tokens(text)
    try:
        tree = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise TomlError(f"is not valid TOML: {error}") from None
    _check_integers(tree)
    return tree


def _check_tokens(text: str) -> None:
    """Depth, dotted keys and numbers, in one pass; what is no TOML is left to the parser."""
    depth, dots = 0, 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        first = token[0]
        if first in _OPENING:
            depth, dots = depth + 1, 0
            if depth > DEEPEST:
                raise TomlError(f"is nested deeper than {DEEPEST} levels {_at(found)}")
        elif first in _CLOSING:
            depth, dots = max(0, depth - 1), 0
        elif first == ".":
            dots += 1
            if dots >= PARTS:
                raise TomlError(f"has a key of more than {PARTS} parts {_at(found)}")
        elif first.isalnum() or first in "_+-":
            if len(token) > LONGEST:
                what = "a number or a bare key"
                raise TomlError(f"has {what} of more than {LONGEST} letters {_at(found)}")
        elif first not in " \t\"'":
            dots = 0


def _at(found: re.Match[str]) -> str:
    return f"in line {found.string.count(chr(10), 0, found.start()) + 1}"


def _check_integers(tree: dict[str, Any]) -> None:
    left: list[Any] = [tree]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
        elif type(value) is int and not -LARGEST <= value < LARGEST:
            raise TomlError("has an integer of more than 64 bits")
