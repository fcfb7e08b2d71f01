"""Make text from outside (names, notes, values in files) safe to print.

Names may come from strangers' folders, archives and checkpoints. On a terminal, an ESC could change
colours, a line break could forge a table row, and a direction override could show 'gpj.exe' as
'exe.jpg'. All commands print through `print_line`, `print_json` and `make_console`; every
`UserError` and every notice in the window consists of `printable` text.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_SPACES = " \u00a0\u202f"  # the last separates thousands in the window: 12 480
_LONGEST = 300  # characters, by default
_MARKS = 4  # accents on one letter; more would cover the lines above and below
# characters drawn as nothing, or as a space
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
# Blocks without marks and invisible characters: most labels need no check of each character.
_VISIBLE = re.compile(r"[\x20-\u02ff\u0370-\u03ff\u2000-\u20cf\u2100-\u27ff]*")
_GAP = re.compile(rf"(?<=[{_SPACES}])[{_SPACES}]")
_FORMULA = ("=", "+", "-", "@")  # a spreadsheet evaluates text that starts with these
_NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?")
_UNSAID = re.compile(r"[^\x20-\x7e]")


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape every character that has no visible glyph: '\x1b', '\n', '\u202e', '\udc80'.

    `lines` keeps line breaks and tabs, for tracebacks and notes in a field of their own.
    """
    if text.isprintable() and (text.isascii() or _VISIBLE.fullmatch(text)):
        return text
    allowed = "\n\t" if lines else ""
    escaped: list[str] = []
    marks = 0
    for letter in text:
        marks = marks + 1 if unicodedata.combining(letter) else 0
        visible = letter in _SPACES or (letter.isprintable() and letter not in _INVISIBLE)
        shown = (visible and marks <= _MARKS) or letter in allowed
        escaped.append(letter if shown else _escape_letter(letter))
    return "".join(escaped)


def printable_name(name: str, longest: int = 255) -> str:
    """Return a name for a table cell: `printable`, cut to `longest`, and without double spaces,
    which could pass for the gap between two columns."""
    if "  " not in name and len(name) <= longest and name.isascii() and name.isprintable():
        return name  # the usual case: a list may have ten thousand names
    shown = _GAP.sub(r"\\x20", printable(name[: longest + 1]))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def plain_text(text: str, longest: int = _LONGEST) -> str:
    """Return `printable` text, cut to `longest`."""
    shown = printable(text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def printable_tree(value: Any, kept: frozenset[str] = frozenset()) -> Any:
    """Make every string in plain data, or in frozen dataclasses of it, `printable`.

    Fields named in `kept` are unchanged; fields named 'trouble' keep their line breaks.
    """
    match value:
        case str():
            return printable(value)
        case tuple() | list() if value and not isinstance(value[0], (int, float)):
            return type(value)(printable_tree(item, kept) for item in value)
        case Mapping():
            return {printable_tree(name): printable_tree(item) for name, item in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(value, **_printable_fields(value, kept))
    return value


def csv_cell(value: Any) -> Any:
    """Return a value for a CSV cell: `printable`, and never a spreadsheet formula."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def is_utf8(text: str) -> bool:
    """Return whether text can be encoded; a file name of invalid UTF-8 bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def print_line(line: str = "", *, stream: TextIO | None = None) -> None:
    """Print one line, by default on stdout; line breaks within it are escaped."""
    _print_text(printable(line), stream)


def print_lines(text: str, *, stream: TextIO | None = None) -> None:
    """Print several lines; their line breaks come from our own code."""
    _print_text(printable(text, lines=True), stream)


def print_error(line: str) -> None:
    """Print one line on stderr."""
    _print_text(printable(line), sys.stderr)


def print_json(tree: object, *, indent: int | None = None, stream: TextIO | None = None) -> None:
    """Print plain data as JSON that reads back unchanged; it must not contain NaN."""
    _print_text(printable_json(tree, indent=indent), stream)


def printable_json(tree: object, *, indent: int | None = None) -> str:
    r"""Return plain data as JSON without invisible characters: strings contain '\u202e' instead.

    Raises `ValueError` for NaN and infinity.
    """
    text = json.dumps(tree, ensure_ascii=False, indent=indent, allow_nan=False)
    return _UNSAID.sub(_json_letter, text)


def make_console(stream: TextIO, **options: Any) -> Console:
    """Return a rich console that makes all strings `printable`, including those in cells.

    Markup, emoji codes and highlighting are always off. rich is imported here because that takes a
    tenth of a second.
    """
    from rich.console import Console

    class PrintableConsole(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text), **how)

    return PrintableConsole(file=stream, markup=False, emoji=False, highlight=False, **options)


def style_text(text: str, style: str) -> Text:
    """Return text for a cell in a rich style such as 'red'."""
    from rich.text import Text

    return Text(printable(text), style)


def _print_text(text: str, stream: TextIO | None) -> None:
    out = sys.stdout if stream is None else stream
    try:
        print(text, file=out)
    except UnicodeEncodeError:  # a terminal that cannot encode Greek letters
        coding = out.encoding or "ascii"
        print(text.encode(coding, "backslashreplace").decode(coding), file=out)


def _printable_fields(value: Any, kept: frozenset[str]) -> dict[str, Any]:
    fields = {}
    for item in dataclasses.fields(value):
        before = getattr(value, item.name)
        if item.name in kept:
            continue
        lines = item.name == "trouble" and isinstance(before, str)
        after = printable(before, lines=True) if lines else printable_tree(before, kept)
        if after != before:
            fields[item.name] = after
    return fields


def _escape_letter(letter: str) -> str:
    if "\x7f" < letter < "\u0100":
        return f"\\u{ord(letter):04x}"  # TOML has no '\\x9b'
    return letter.encode("unicode_escape", "surrogatepass").decode()


def _json_letter(match: re.Match[str]) -> str:
    letter = match[0]
    if letter == "\n" or printable(letter) == letter:
        return letter
    return json.dumps(letter)[1:-1]
