"""Shorten text to fit, without cutting a number."""

from __future__ import annotations

import re
from collections.abc import Callable

_NUMBER = re.compile(r"\d[\d.,×|]*(?:e[+-]?\d+)?(?: %)?|.", re.DOTALL)


def fit_text(text: str, room: int, width_of: Callable[[str], int]) -> str:
    """Return the text, with letters left out in its middle if it is wider than `room`.

    A number is kept whole or left out whole: a part of it would be another number.
    """
    if width_of(text) <= room:
        return text
    parts = _NUMBER.findall(text)
    head, tail, shown = 0, len(parts), ""
    while head < tail:
        one_more = [(head + 1, tail), (head, tail - 1)]  # at the beginning, at the end
        if head > len(parts) - tail:
            one_more.reverse()
        for first, last in one_more:
            longer = f"{''.join(parts[:first])}…{''.join(parts[last:])}"
            if width_of(longer) <= room:
                head, tail, shown = first, last, longer
                break
        else:
            break
    return shown


def join_fitting(parts: tuple[str, ...], room: int, width_of: Callable[[str], int]) -> str:
    """Join the first parts that fit; the very first is shortened if it does not fit itself."""
    shown = ""
    for part in parts:
        longer = f"{shown} · {part}" if shown else part
        if width_of(longer) > room:
            return shown or fit_text(part, room, width_of)
        shown = longer
    return shown
