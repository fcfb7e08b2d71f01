"""Parse TOML within bounds, and write it.

Python's parser has no limits: a key of 20,000 parts takes it a minute, a float of a million digits
seconds, and deeply nested lists exhaust the stack. No configuration needs any of these.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

MOST = 512 << 10  # bytes of a file: enough to list some 8,000 runs of a sweep one by one
DEEPEST = 16  # levels of nested lists and tables
PARTS = 16  # of a dotted key
LONGEST = 128  # characters of a number or a bare key
LARGEST = 2**63  # TOML integers have 64 bits
# strings and comments, including unterminated ones; then words, blanks and single characters
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
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), 127) if chr(code) != "\t"} | {
    ord(sign): escape
    for sign, escape in zip('\b\n\f\r"\\', (r"\b", r"\n", r"\f", r"\r", r"\"", r"\\"), strict=True)
}


class TomlError(ValueError):
    """Raised if text is refused; the message is the end of a sentence that begins with its name.

    Args:
        sentence: The message.
        kind: What is wrong, as in `UserError`.
    """

    def __init__(self, sentence: str, kind: str) -> None:
        super().__init__(sentence)
        self.kind = kind


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML of bounded size, depth, keys and numbers; raises `TomlError`."""
    if len(text) > MOST:
        raise TomlError(f"is larger than {MOST >> 10} KiB", "too-large")
    _check_tokens(text)
    try:
        tree = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise TomlError(f"is not valid TOML: {error}", "wrong-form") from None
    _check_integers(tree)
    return tree


def _check_tokens(text: str) -> None:
    """Check depth, dotted keys and numbers in one pass; invalid TOML is left to the parser."""
    depth, dots = 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        first = token[0]
        if first in _OPENING:
            depth, dots = depth + 1, 0
            if depth > DEEPEST:
                raise TomlError(
                    f"is nested deeper than {DEEPEST} levels {_line_of(match)}", "too-deep"
                )
        elif first in _CLOSING:
            depth, dots = max(0, depth - 1), 0
        elif first == ".":
            dots += 1
            if dots >= PARTS:
                raise TomlError(
                    f"has a key of more than {PARTS} parts {_line_of(match)}", "too-many"
                )
        elif first.isalnum() or first in "_+-":
            if len(token) > LONGEST:
                what = "a number or a bare key"
                raise TomlError(
                    f"has {what} of more than {LONGEST} characters {_line_of(match)}", "too-long"
                )
        elif first not in " \t\"'":
            dots = 0


def _line_of(match: re.Match[str]) -> str:
    return f"in line {match.string.count(chr(10), 0, match.start()) + 1}"


def _check_integers(tree: dict[str, Any]) -> None:
    pending: list[Any] = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif type(value) is int and not -LARGEST <= value < LARGEST:
            raise TomlError("has an integer of more than 64 bits", "out-of-bounds")


def format_toml(tree: Mapping[str, Any]) -> str:
    """Return nested mappings, lists, strings, numbers and booleans as TOML text.

    Raises:
        TypeError: A value has another type; TOML has no null.
    """
    return "\n".join(_format_tables(tree, ""))


def _format_tables(tree: Mapping[str, Any], name: str) -> list[str]:
    """Return the tables of a tree with their headings, its own values first."""
    tables = {key: value for key, value in tree.items() if isinstance(value, Mapping)}
    lines = [
        f"{_format_key(key)} = {_format_value(value)}\n"
        for key, value in tree.items()
        if key not in tables
    ]
    if name and (lines or not tables):  # the headings of its tables imply a table of tables
        lines.insert(0, f"[{name}]\n")
    written = ["".join(lines)] if lines else []
    for key, value in tables.items():
        written += _format_tables(value, ".".join(filter(None, (name, _format_key(key)))))
    return written


def _format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _format_string(key)


def _format_value(value: object, indent: str = "") -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return _format_string(value)
        case list() | tuple():
            inner = indent + "    "
            items = "".join(f"{inner}{_format_value(item, inner)},\n" for item in value)
            return f"[\n{items}{indent}]" if value else "[]"
        case Mapping():
            pairs = (
                f"{_format_key(key)} = {_format_value(item_value)}"
                for key, item_value in value.items()
            )
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            raise TypeError(f"{type(value).__qualname__} cannot be written as TOML")


def _format_string(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
