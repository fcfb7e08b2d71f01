"""The house style, as it stands in the resources: colours in light and dark."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

SERIES = ("value", "feature", "cross", "compared", "accent", "text")  # in the order of the curves
DASHES = ("solid", "dash", "dot", "dashdot")  # a colour that comes again has another dash


@cache
def tokens(theme: str) -> dict[str, str]:
    """Colours ('#RRGGBB') by their names, of 'light' or 'dark'."""
    text = (files("dgn_resources") / "tokens.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)[theme]
    return found


def series_of(index: int) -> tuple[str, str]:
    """Token and dash of a curve: no two of the first 24 look the same."""
    return SERIES[index % len(SERIES)], DASHES[index // len(SERIES) % len(DASHES)]
