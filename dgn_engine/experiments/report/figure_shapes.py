"""What a figure of a result draws, for paper and window alike: colours, limits, places, boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dgn_engine.experiments.report.formatting import series_of
from dgn_engine.protocol.results import Figure, PlottedLine

BOX, CLOUD = 0.36, 0.11  # half-widths of a box and of a cloud; 1 is from category to category
_APART = 0.28  # of two marks of one category
_GOLDEN = (math.sqrt(5) - 1) / 2
_PRINTED = ("dot", "dashdot", "dash")
_WHISKER = 1.5  # interquartile ranges


@dataclass(frozen=True)
class BoxPlot:
    """Quartiles and median of the values at one place; whiskers reach the furthest value within
    1.5 interquartile ranges of the box (Tukey).
    """

    at: float
    low: float
    first: float
    median: float
    third: float
    high: float


def looks(figure: Figure) -> list[tuple[str, str]]:
    """Return token and dash of each line.

    What was printed is grey, each with another dash, and counts for no colour; 'ideal, d = 2' is
    dotted in the colour of the line 'd = 2'.
    """
    measured = [n for n, line in enumerate(figure.lines) if line.style not in ("printed", "boxes")]
    series = {place: series_of(index) for index, place in enumerate(measured)}
    found, grey = [], 0
    for place, line in enumerate(figure.lines):
        partner = partner_of(figure, line)
        if place in series:
            found.append(series[place])
        elif line.style == "boxes":
            found.append(("muted", "solid"))
        elif partner is not None:
            found.append((series[partner][0], "dot"))
        else:
            found.append(("muted", _PRINTED[grey % len(_PRINTED)]))
            grey += 1
    return found


def partner_of(figure: Figure, line: PlottedLine) -> int | None:
    """Return which measured line a printed one stands beside: 'd = 2' for 'ideal, d = 2'."""
    if line.style != "printed" or not line.x or figure.categories:
        return None
    _, comma, label = line.label.partition(", ")
    found = (n for n, one in enumerate(figure.lines) if one.style == "line" and one.label == label)
    return next(found, None) if comma else None


def value_limits(figure: Figure) -> tuple[float, float]:
    """Return what a value cannot lie beyond: 0 and 100 of an accuracy, else infinities."""
    if "accuracy" in figure.y and "%" in figure.y:
        return 0.0, 100.0
    return -math.inf, math.inf


def places(figure: Figure) -> list[tuple[float, ...]]:
    """Return x of each line as it is drawn.

    Over categories the marks of one place stand beside each other, and a cloud is spread sideways.
    """
    if not figure.categories:
        return [line.x for line in figure.lines]
    return [
        tuple(
            at + _offset(figure, index, at) + side
            for at, side in zip(line.x, _sideways(line), strict=True)
        )
        for index, line in enumerate(figure.lines)
    ]


def boxes(line: PlottedLine) -> list[BoxPlot]:
    """Return a box for each place of the line that has a finite value."""
    found = []
    for at in sorted(set(line.x)):
        values = sorted(
            y for x, y in zip(line.x, line.y, strict=True) if x == at and math.isfinite(y)
        )
        if values:
            found.append(_box(at, values))
    return found


def _box(at: float, values: Sequence[float]) -> BoxPlot:
    first, median, third = (_quantile(values, share) for share in (0.25, 0.5, 0.75))
    reach = _WHISKER * (third - first)
    inside = [value for value in values if first - reach <= value <= third + reach]
    return BoxPlot(at, min(*inside, first), first, median, third, max(*inside, third))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between the two nearest values, as numpy's default."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _offset(figure: Figure, index: int, at: float) -> float:
    """Return how far a line's marks stand beside the middle of a category."""
    kind = _kind(figure.lines[index])
    beside = [
        place for place, line in enumerate(figure.lines) if _kind(line) == kind and at in line.x
    ]
    if kind == "boxes":
        return 0.0
    right = kind == "points" and any(line.style == "boxes" for line in figure.lines)
    if right:  # of the box, which it would be lost in
        return BOX + _APART / 3 * (1 + beside.index(index))
    return _APART * (beside.index(index) - (len(beside) - 1) / 2)


def _kind(line: PlottedLine) -> str:
    return line.style if line.style in ("boxes", "cloud") else "points"


def _sideways(line: PlottedLine) -> list[float]:
    """Return steps to the side that keep the points of a cloud apart, in the order of the values.

    They follow the golden ratio, so that the same values are always drawn alike.
    """
    if line.style != "cloud":
        return [0.0] * len(line.x)
    steps = [0.0] * len(line.x)
    for at in set(line.x):
        here = sorted((y, index) for index, y in enumerate(line.y) if line.x[index] == at)
        for rank, (_, index) in enumerate(here):
            share = (0.5 + rank * _GOLDEN) % 1.0
            steps[index] = 0.0 if len(here) == 1 else CLOUD * (2.0 * share - 1.0)
    return steps
