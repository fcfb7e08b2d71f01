"""The one way out for text: what others wrote (names, notes, values of files) is made printable.

Names come from folders, archives and checkpoints of strangers. On a terminal an ESC would colour
what follows, a line break would forge a row of a table, an override of the writing direction would
show 'gpj.exe' as 'exe.jpg'. Every command prints with `say`, `say_json` and `console`, every
`UserError` and every notice of the window is made of `printable` text.
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

_SPACES = " \u00a0\u202f"  # the last is in numbers of the window: 12 480
_LONGEST = 300  # characters of a word that is shown, where nothing else is said
_MARKS = 4  # accents on one letter; more of them cover the lines above and below
# letters and marks that are drawn as nothing, or as a space
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    + "".join(map(chr, range(0xFE00, 0xFE10)))
    + "".join(map(chr, range(0xE0100, 0xE01F0)))
)
# Blocks without marks and invisible letters: most labels need no look at each letter.
_VISIBLE = re.compile(r"[\x20-\u02ff\u0370-\u03ff\u2000-\u20cf\u2100-\u27ff]*")
_GAP = re.compile(rf"(?<=[{_SPACES}])[{_SPACES}]")
_FORMULA = ("=", "+", "-", "@")  # what a spreadsheet would calculate
_NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?")
_UNSAID = re.compile(r"[^\x20-\x7e]")


def printable(text: str, *, lines: bool = False) -> str:
    r"""The text, escaped where there is no visible letter: '\x1b', '\n', '\u202e', '\udc80'.

    `lines`: line breaks and tabs are kept, for a traceback or notes that stand in a field of
    their own.
    """
    if text.isprintable() and (text.isascii() or _VISIBLE.fullmatch(text)):
        return text
    kept = "\n\t" if lines else ""
    said: list[str] = []
    marks = 0
    for letter in text:
        marks = marks + 1 if unicodedata.combining(letter) else 0
        visible = letter in _SPACES or (letter.isprintable() and letter not in _INVISIBLE)
        shown = (visible and marks <= _MARKS) or letter in kept
        said.append(letter if shown else _escaped(letter))
    return "".join(said)


def printable_name(name: str, longest: int = 255) -> str:
    """A name for a cell of a table: `printable`, at most so long, and without a gap in it that
    could pass for the space between two columns.
    """
    if "  " not in name and len(name) <= longest and name.isascii() and name.isprintable():
        return name  # most are, and a list may hold ten thousand
    shown = _GAP.sub(r"\\x20", printable(name[: longest + 1]))
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def plain(text: str, longest: int = _LONGEST) -> str:
    """Text that can be shown: cut to `longest`, unprintable characters escaped.

    Line breaks and marks that change the direction of writing are escaped as well.
    """
    shown = printable(text[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def printable_tree(value: Any, kept: frozenset[str] = frozenset()) -> Any:
    """Plain data, or frozen dataclasses of it, with every string made `printable`.

    Fields named in `kept` stay as they are; several lines are kept in fields named 'trouble'.
    """
    match value:
        case str():
            return printable(value)
        case tuple() | list() if value and not isinstance(value[0], (int, float)):
            return type(value)(printable_tree(one, kept) for one in value)
        case Mapping():
            return {printable_tree(name): printable_tree(one) for name, one in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.replace(value, **_printable_fields(value, kept))
    return value


def csv_cell(value: Any) -> Any:
    """A value for a cell of a CSV file: `printable`, and never a formula of a spreadsheet."""
    if not isinstance(value, str):
        return value
    said = printable(value)
    return f"'{said}" if said.startswith(_FORMULA) and not _NUMBER.fullmatch(said) else said


def is_utf8(text: str) -> bool:
    """Whether a text can be written down; a name of bytes that are no UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def say(line: str = "", *, stream: TextIO | None = None) -> None:
    """Print one line on stdout, or on another stream; a line break inside it is escaped."""
    _write(printable(line), stream)


def say_lines(text: str, *, stream: TextIO | None = None) -> None:
    """Print text of several lines, of which our own code has put the line breaks."""
    _write(printable(text, lines=True), stream)


def complain(line: str) -> None:
    """Print one line on stderr."""
    _write(printable(line), sys.stderr)


def say_json(tree: object, *, indent: int | None = None, stream: TextIO | None = None) -> None:
    """Print plain data as JSON that reads back as it was; NaN must not be in it."""
    _write(printable_json(tree, indent=indent), stream)


def printable_json(tree: object, *, indent: int | None = None) -> str:
    r"""Plain data as JSON in which no letter is invisible: those in strings are '\u202e'.

    Raises `ValueError` for NaN and infinity.
    """
    text = json.dumps(tree, ensure_ascii=False, indent=indent, allow_nan=False)
    return _UNSAID.sub(_json_letter, text)


def console(stream: TextIO, **options: Any) -> Console:
    """A console of rich that prints strings, also those in cells, as `printable` text.

    Markup, emoji codes and highlighting are off, whatever `options` say of the rest. Made here
    because rich takes a tenth of a second to import.
    """
    from rich.console import Console

    class PrintableConsole(Console):
        def render_str(self, text: str, **how: Any) -> Text:
            return super().render_str(printable(text), **how)

    return PrintableConsole(file=stream, markup=False, emoji=False, highlight=False, **options)


def styled(text: str, style: str) -> Text:
    """Text for a cell in one of rich's styles ('red')."""
    from rich.text import Text

    return Text(printable(text), style)


def _write(text: str, stream: TextIO | None) -> None:
    out = sys.stdout if stream is None else stream
    try:
        print(text, file=out)
    except UnicodeEncodeError:  # a terminal without Greek
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


def _escaped(letter: str) -> str:
    if "\x7f" < letter < "\u0100":
        return f"\\u{ord(letter):04x}"  # not '\\x9b', which TOML does not know
    return letter.encode("unicode_escape", "surrogatepass").decode()


def _json_letter(found: re.Match[str]) -> str:
    letter = found[0]
    if letter == "\n" or printable(letter) == letter:
        return letter
    return json.dumps(letter)[1:-1]
