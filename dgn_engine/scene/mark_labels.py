"""The lane of events below a time axis: chips on screen, names on paper, without overlaps."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.elements import Mark

GAP = 4.0
LANE = 18.0  # height of the lane
_PAD = 4.0  # inside a chip, left and right of its text
_MOST_EPOCHS = 12  # on an axis: with more of them it has no ticks of epochs
LINE = 74  # characters of a sentence per line, including its indent
_SHORTEST = 20  # characters per line in the narrowest panel


@dataclass(frozen=True)
class MarkName:
    """A text and where it begins."""

    left: float
    text: str


@dataclass(frozen=True)
class Chip:
    """One event in the lane, or several whose chips would touch: then `text` counts them."""

    left: float
    width: float
    text: str
    marks: tuple[Mark, ...]

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def step_range(self) -> tuple[float, float]:
        """The first and last step of its events."""
        return self.marks[0].x, self.marks[-1].x


@dataclass(frozen=True)
class EpochTick:
    """The end of an epoch in the lane; `text` is '' if there is no room for it."""

    place: float
    text: str = ""


def mark_names(
    marks: Sequence[tuple[float, str]], width_of: Callable[[str], float], room: float
) -> list[MarkName]:
    """Place the labels of (position, label) within 0…room, in the drawer's own unit.

    Labels that would overlap are joined, oldest first: 'FR-II, π'. This is for paper, which cannot
    be pointed at: the oldest of a crowd become an ellipsis only if there is no room for all.
    """
    placed: list[MarkName] = []
    names: list[str] = []
    anchor, end = 0.0, room
    for position, label in sorted(marks, key=lambda mark: mark[0], reverse=True):
        left = _left_edge(position, width_of(label), end, room)
        if names and left + width_of(label) + GAP > placed[-1].left:
            names = [label, *names] if label != names[0] else names
            text = _join_names(names, width_of, end)
            placed[-1] = MarkName(_left_edge(anchor, width_of(text), end, room), text)
            continue
        if names:
            end = placed[-1].left - GAP
        names, anchor = [label], position
        placed.append(MarkName(_left_edge(position, width_of(label), end, room), label))
    return placed


def _join_names(names: Sequence[str], width_of: Callable[[str], float], room: float) -> str:
    """Join as many of the names as fit, always including the newest."""
    text = ", ".join(names)
    for dropped in range(1, len(names)):
        if width_of(text) <= room:
            break
        text = ", ".join(("…", *names[dropped:]))
    return text


def _left_edge(position: float, wide: float, end: float, room: float) -> float:
    """Centre a name on its mark, but within the frame and left of the name already there."""
    return max(min(position - wide / 2, room - wide, end - wide), 0.0)


def lane_chips(
    marks: Sequence[tuple[float, Mark]], width_of: Callable[[str], float], room: float
) -> list[Chip]:
    """Return a chip for each (position, mark) within 0…room, centred on it if possible.

    Chips that would touch become one that counts its events: '3'.
    """
    placed: list[tuple[Chip, float, float]] = []  # with the first and the last position
    for position, mark in sorted(marks, key=lambda chip_a: chip_a[0]):
        placed.append((_make_chip((mark,), position, width_of, room), position, position))
        while len(placed) > 1 and placed[-2][0].right + GAP > placed[-1][0].left:
            (chip_a, first, _), (chip_b, _, last) = placed[-2:]
            joined = _make_chip((*chip_a.marks, *chip_b.marks), (first + last) / 2, width_of, room)
            placed[-2:] = [(joined, first, last)]
    return [chip for chip, _, _ in placed]


def _make_chip(
    marks: tuple[Mark, ...], centre: float, width_of: Callable[[str], float], room: float
) -> Chip:
    text = marks[0].label if len(marks) == 1 else f"{len(marks):,}"
    wide = width_of(text) + 2 * _PAD
    return Chip(max(min(centre - wide / 2, room - wide), 0.0), wide, text, marks)


def epoch_ticks(
    epoch: int,
    seen: tuple[float, float],
    across: Callable[[float], float],
    chips: Sequence[Chip],
    width_of: Callable[[str], float],
    room: float,
) -> list[EpochTick]:
    """Return the ends of epochs within the visible steps; none if there are more than twelve.

    An epoch is named where no chip is in the way.

    Args:
        epoch: Steps per epoch.
        seen: First and last visible step.
        across: Maps a step to its position in 0…room.
        chips: Chips that are in the lane already.
        width_of: Measures a text.
        room: Width of the lane.
    """
    low, high = max(seen[0], 0.0), seen[1]
    if epoch <= 0 or high <= low:
        return []
    first, last = int(low // epoch) + 1, int(high // epoch)
    if last - first + 1 > _MOST_EPOCHS:
        return []
    positions = [
        (across(float(number * epoch)), f"epoch {number:,}") for number in range(first, last + 1)
    ]
    taken = [(chip.left, chip.right) for chip in chips]
    ticks: list[EpochTick] = []
    for place, text in positions:
        left, right = place + 3.0, place + 3.0 + width_of(text)
        free = all(right + GAP <= begin or left >= end + GAP for begin, end in taken)
        fits = free and right <= room
        ticks.append(EpochTick(place, text if fits else ""))
        if fits:
            taken.append((left, right))
    return ticks


def chip_lines(chip: Chip, letters: int = LINE) -> tuple[str, ...]:
    """Return the hover text of a chip: step, time and full sentence of each of its events.

    Args:
        chip: The chip pointed at.
        letters: Number of characters that fit in one line.
    """
    letters = max(min(letters, LINE), _SHORTEST)
    lines: list[str] = []
    for mark in chip.marks:
        when = f" · {mark.time}" if mark.time else ""
        heading = f"step {int(mark.x):,}{when} · {mark.label}"
        if mark.sentence:
            lines.extend(
                (
                    heading,
                    *(f"  {wrapped}" for wrapped in textwrap.wrap(mark.sentence, letters - 2)),
                )
            )
        else:
            lines.append(heading)
    return tuple(lines)


def steps_around(steps: tuple[float, float], full: tuple[float, float]) -> tuple[float, float]:
    """Return the steps to show for events at these steps, centred with some margin.

    Within the `full` range; never fewer than 20 steps.
    """
    span = steps[1] - steps[0]
    beside = max(0.25 * span, 0.04 * (full[1] - full[0]), 10.0)
    low, high = steps[0] - beside, steps[1] + beside
    if high - low >= full[1] - full[0]:
        return full
    shift = max(full[0] - low, 0.0) + min(full[1] - high, 0.0)
    return low + shift, high + shift
