"""Words of figures before they are drawn: how wide they become, where a line ends.

Called inside `print_style`, whose fonts these are.
"""

from __future__ import annotations

import re
from functools import lru_cache

from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.textpath import TextToPath

from dgn_engine.errors import UserError
from dgn_engine.text.printable import printable

FAMILY = "DejaVu Sans"
LINE = 1.3  # distance of two base lines as a share of the size
_ROOM = 1.02  # letters are fitted to pixels: a line may become a little wider
_paths = TextToPath()


@lru_cache(maxsize=4096)
def width_of(words: str, size: float, bold: bool = False) -> float:
    """Points from the first letter to the last."""
    if not words:
        return 0.0
    prop = FontProperties(family=FAMILY, size=size, weight="bold" if bold else "normal")
    text = settable(words)
    formula = _dollars(text) and "TeX"
    wide, _, _ = _paths.get_text_width_height_descent(text, prop, bool(formula))
    return float(wide) * _ROOM


@lru_cache(maxsize=4096)
def settable(words: str) -> str:
    """The words, their dollars as plain letters where what is between them is no formula."""
    words = printable(words, lines=True)
    if not _dollars(words):
        return words
    return words.replace("$", r"\$") if why_not_set(words) else words


def why_not_set(words: str) -> str:
    """Why mathtext cannot set the words, in a few of its own; '' where it can."""
    if not _dollars(words):
        return ""
    try:
        MathTextParser("path").parse(words)
    except ValueError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1] if lines else "it is not understood"
    return ""


def check_legend(legend: tuple[tuple[str, str], ...]) -> None:
    """Raise `UserError` where a name cannot be set."""
    for name, text in legend:
        if why := why_not_set(text):
            words = f"The name {text!r} for the curve {name} cannot be set: {why}."
            raise UserError(words, kind="no-formula", value=text)


def _dollars(words: str) -> bool:
    found = len(re.findall(r"(?<!\\)\$", words))
    return found > 0 and found % 2 == 0


def wrapped(words: str, size: float, width: float, bold: bool = False) -> list[str]:
    """Lines of at most this width in points, broken at spaces outside formulas.

    A word that is wider alone is cut in its middle.
    """
    lines: list[str] = []
    for word in _words(words):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(fitting(word, size, width, bold))
    return lines


def fitting(words: str, size: float, width: float, bold: bool = False) -> str:
    """The words, cut in their middle where they are wider than this; formulas stay whole."""
    if width_of(words, size, bold) <= width or _dollars(words):
        return words
    for kept in range(len(words) - 1, 1, -1):
        cut = f"{words[: (kept + 1) // 2]}…{words[len(words) - kept // 2 :]}"
        if width_of(cut, size, bold) <= width:
            return cut
    return words[:1]


def _words(text: str) -> list[str]:
    found: list[str] = []
    open_formula = False
    for piece in text.split(" "):
        if open_formula:
            found[-1] += f" {piece}"
        elif piece:
            found.append(piece)
        if piece.count("$") % 2:
            open_formula = not open_formula
    return found
