"""Names above the marks of a time axis: close marks share one name, none overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

GAP = 4.0
MOST = 4  # names in one; older ones of a crowd become an ellipsis


@dataclass(frozen=True)
class MarkName:
    """A text and where it begins."""

    left: float
    text: str


def mark_names(
    marks: Sequence[tuple[float, str]], width_of: Callable[[str], float], room: float
) -> list[MarkName]:
    """Place the labels of (position, label) within 0…room; lengths in the drawer's own unit.

    Where two would overlap they are joined, oldest first: 'FR-II, π'.
    """
    placed: list[MarkName] = []
    names: list[str] = []
    anchor, end = 0.0, room
    for position, label in sorted(marks, key=lambda mark: mark[0], reverse=True):
        left = _left(position, width_of(label), end, room)
        if names and left + width_of(label) + GAP > placed[-1].left:
            names = [label, *names] if label != names[0] else names
            text = ", ".join(names if len(names) <= MOST else ["…", *names[-MOST:]])
            placed[-1] = MarkName(_left(anchor, width_of(text), end, room), text)
            continue
        if names:
            end = placed[-1].left - GAP
        names, anchor = [label], position
        placed.append(MarkName(_left(position, width_of(label), end, room), label))
    return placed


def _left(position: float, wide: float, end: float, room: float) -> float:
    """Centred on its mark, but within the frame and left of the name that is there already."""
    return max(min(position - wide / 2, room - wide, end - wide), 0.0)
