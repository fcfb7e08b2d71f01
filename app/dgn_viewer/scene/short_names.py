"""Long names that differ in a few places, shortened to what tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

_LONG = 18  # characters that there is room for


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """'blocks.1.attention.weight' → '…1…' where all begin with 'blocks.' and end alike.

    Names that are short, or have nothing in common, stay as they are.
    """
    if len(names) < 2 or max(map(len, names)) <= _LONG:
        return tuple(names)
    parts = [name.split(".") for name in names]
    least = min(map(len, parts)) - 1  # something of each name stays
    head = _shared(parts, least)
    tail = _shared([part[::-1] for part in parts], least - head)
    return tuple(
        f"{'…' if head else ''}{'.'.join(part[head : len(part) - tail])}{'…' if tail else ''}"
        for part in parts
    )


def _shared(parts: Sequence[Sequence[str]], most: int) -> int:
    """How many segments all have in common, from the first on."""
    count = 0
    while count < most and len({part[count] for part in parts}) == 1:
        count += 1
    return count
