"""Names in figures on paper: at the ends of their lines, or in a key below the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import TextToPath

from dgn_engine.experiments.report.mathematics import typeset

FAMILY, LABEL = "DejaVu Sans", 7.0  # type size in points, on paper too
GAP = LABEL + 2.0  # from one line of words to the next
HANDLE = 14.0  # length of a piece of line in the key
_BETWEEN = 10.0  # two entries of the key
_paths = TextToPath()


@dataclass(frozen=True)
class NamedLine:
    """A name with the artist that shows how its line looks, how high the line ends as a share of
    the axes (NaN where it has no end), and whether that is at their right end.
    """

    name: str
    colour: str
    handle: Line2D
    end: float = np.nan
    at_end: bool = False


@lru_cache(maxsize=4096)
def width_of(words: str) -> float:
    """Return points from the first letter to the last of words that are typeset."""
    if not words:
        return 0.0
    formula = words.replace(r"\$", "").count("$") > 0
    plain = words if formula else words.replace(r"\$", "$")
    font = FontProperties(family=FAMILY, size=LABEL)
    wide, _, _ = _paths.get_text_width_height_descent(plain, font, formula)
    return float(wide) * 1.02  # letters are fitted to pixels


@lru_cache(maxsize=4096)
def fitted(label: str, most: float) -> str:
    """Return a label typeset, cut in its middle where it is wider than this."""
    whole = typeset(label)
    if width_of(whole) <= most:
        return whole
    for kept in range(len(label) - 1, 1, -1):
        cut = typeset(f"{label[: (kept + 1) // 2]}…{label[len(label) - kept // 2 :]}")
        if width_of(cut) <= most:
            return cut
    return typeset(label[:1])


def key_rows(entries: Sequence[NamedLine], width: float) -> list[list[tuple[NamedLine, float]]]:
    """Return the entries of the key in rows, each with its left end in points.

    Where they need several rows, all columns are as wide as the widest entry.
    """
    if not entries:
        return []
    wide = [HANDLE + 4.0 + width_of(typeset(entry.name)) + _BETWEEN for entry in entries]
    if sum(wide) - _BETWEEN <= width:
        return [[(entry, sum(wide[:place])) for place, entry in enumerate(entries)]]
    widest = max(width_of(fitted(entry.name, width - HANDLE - 4.0)) for entry in entries)
    column = HANDLE + 4.0 + widest
    columns = max(1, min(len(entries), int((width + _BETWEEN) // (column + _BETWEEN))))
    rows = [entries[start : start + columns] for start in range(0, len(entries), columns)]
    return [
        [(entry, place * (column + _BETWEEN)) for place, entry in enumerate(row)] for row in rows
    ]


def apart(places: Sequence[float], gap: float, top: float) -> list[float]:
    """Return the places moved so that none is nearer than `gap` to another or, if it fits, above
    `top`.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    low = -np.inf
    for index in order:
        low = moved[index] = max(places[index], low + gap)
    high = top + gap
    for index in reversed(order):
        high = moved[index] = min(moved[index], high - gap)
    return moved


def broken(labels: Sequence[str], most: float) -> list[list[str]]:
    """Return the lines of labels that are broken at their spaces to be no wider than this, and
    before brackets where the word of any of them is wider.
    """
    cut = any(width_of(typeset(word)) > most for label in labels for word in label.split())
    return [_filled(_pieces(label, cut), most) for label in labels]


def _filled(pieces: Sequence[str], most: float) -> list[str]:
    lines: list[str] = []
    for piece in pieces:
        longer = f"{lines[-1]} {piece}" if lines else piece
        if lines and piece[0] != "(" and width_of(typeset(longer)) <= most:
            lines[-1] = longer
        else:
            lines.append(piece)
    return lines


def _pieces(label: str, cut: bool) -> list[str]:
    found: list[str] = []
    for word in label.split():
        head, bracket, tail = word.partition("(")
        found += [head, bracket + tail] if cut and head and bracket else [word]
    return found
