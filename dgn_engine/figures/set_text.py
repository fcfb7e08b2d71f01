"""Text of figures before it is drawn: its width and line breaks.

Call these inside `print_style`, which sets the fonts.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache

from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from matplotlib.textpath import TextToPath

from dgn_engine.errors import UserError
from dgn_engine.text.printable import printable

matplotlib_lock = threading.RLock()  # its settings and its mathtext parser are global
FAMILY = "DejaVu Sans"
LINE = 1.3  # distance of base lines as a multiple of the size
_ROOM = 1.02  # letters are aligned to pixels, which may widen a line a little
_paths = TextToPath()


@lru_cache(maxsize=4096)
def width_of(words: str, size: float, bold: bool = False) -> float:
    """Return the width in points from the first letter to the last."""
    if not words:
        return 0.0
    prop = FontProperties(family=FAMILY, size=size, weight="bold" if bold else "normal")
    text = escape_dollars(words)
    formula = _has_math(text) and "TeX"
    wide, _, _ = _paths.get_text_width_height_descent(text, prop, bool(formula))
    return float(wide) * _ROOM


@lru_cache(maxsize=4096)
def escape_dollars(words: str) -> str:
    """Escape the dollars in a text if what is between them is not a formula."""
    words = printable(words, lines=True)
    if not _has_math(words):
        return words
    return words.replace("$", r"\$") if math_error(words) else words


def math_error(words: str) -> str:
    """Return why mathtext cannot set the text, in its own words; '' if it can."""
    if not _has_math(words):
        return ""
    try:
        with matplotlib_lock:
            MathTextParser("path").parse(words)
    except ValueError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1] if lines else "it cannot be parsed"
    return ""


def check_legend(legend: tuple[tuple[str, str], ...]) -> None:
    """Raise `UserError` if a name cannot be set."""
    for name, text in legend:
        if why := math_error(text):
            message = f"The name {text!r} for the curve {name} cannot be typeset: {why}."
            raise UserError(message, kind="no-formula", value=text)


def _has_math(words: str) -> bool:
    count = len(re.findall(r"(?<!\\)\$", words))
    return count > 0 and count % 2 == 0


def wrap_text(words: str, size: float, width: float, bold: bool = False) -> list[str]:
    """Return lines of at most this width in points, broken at spaces outside formulas.

    A wider single word is cut in the middle.
    """
    lines: list[str] = []
    for word in _split_words(words):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size, bold) <= width:
            lines[-1] = longer
        else:
            lines.append(shorten_text(word, size, width, bold))
    return lines


def shorten_text(words: str, size: float, width: float, bold: bool = False) -> str:
    """Cut a text in the middle if it is wider than this; formulas stay whole."""
    if width_of(words, size, bold) <= width or _has_math(words):
        return words
    for length in range(len(words) - 1, 1, -1):
        cut = f"{words[: (length + 1) // 2]}…{words[len(words) - length // 2 :]}"
        if width_of(cut, size, bold) <= width:
            return cut
    return words[:1]


def _split_words(text: str) -> list[str]:
    pieces: list[str] = []
    open_formula = False
    for piece in text.split(" "):
        if open_formula:
            pieces[-1] += f" {piece}"
        elif piece:
            pieces.append(piece)
        if piece.count("$") % 2:
            open_formula = not open_formula
    return pieces
