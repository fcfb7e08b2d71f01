"""A score over the steps of a run in 24 characters, for a line a few pixels high.

Each character is the last score of one 24th of the steps: one of 64 levels from 0 to 1, or '.'
where there is none. The list of runs keeps it, so that no log is read to draw it.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

POINTS = 24
_LEVELS = string.digits + string.ascii_uppercase + string.ascii_lowercase + "-_"
_NONE = "."
_PLACES = {letter: level for level, letter in enumerate(_LEVELS)}


def encode_trend(steps: Sequence[int], scores: Sequence[float]) -> str:
    """Encode scores at increasing steps; '' if there are fewer than two. What is not between 0 and
    1 is left out."""
    if len(steps) < 2 or steps[-1] <= 0:
        return ""
    letters, last = [_NONE] * POINTS, steps[-1]
    for step, score in zip(steps, scores, strict=True):
        if 0.0 <= score <= 1.0:  # a damaged log may hold anything, NaN too
            place = min(max(step - 1, 0) * POINTS // last, POINTS - 1)
            letters[place] = _LEVELS[round(score * (len(_LEVELS) - 1))]
    return "".join(letters)


def decode_trend(trend: str) -> tuple[tuple[float, float], ...]:
    """Return the points of a line: share of the steps and score, both from 0 to 1."""
    return tuple(
        ((place + 1) / len(trend), _PLACES[letter] / (len(_LEVELS) - 1))
        for place, letter in enumerate(trend)
        if letter in _PLACES
    )


def is_trend(value: object) -> bool:
    """Return whether this is '' or an encoded trend."""
    return isinstance(value, str) and (
        not value
        or (len(value) == POINTS and all(letter in _PLACES or letter == _NONE for letter in value))
    )
