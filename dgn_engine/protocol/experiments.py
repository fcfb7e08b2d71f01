"""The findings of an experiment: rows with printed numbers, judged claims, and figures as
numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from dgn_engine.frozen_data import dataclass

Verdict = Literal[
    "held",
    "not held",
    "not decided",
    "not decided at this scale",  # only in results of 0.2 and before
]

PRINTED_RUNS = 5  # averaged in every printed ±
PRINTED_SPREAD = "the standard deviation of five runs (np.std, ddof 0, in the authors’ notebooks)"


@dataclass(frozen=True)
class Printed:
    """A number in the paper; `half_width` is what follows its ±, if it has one.

    In the authors' notebooks the ± is `np.std` (ddof 0) of five runs: not the half-width of an
    interval but a standard deviation, too small by √(5/4). `margin` is the difference within which
    a measured mean counts as equal, declared before the run; NaN if none was.
    """

    value: float
    half_width: float | None = None
    margin: float = math.nan

    @property
    def spread(self) -> float:
        """Standard deviation of one of the paper's runs (ddof 1); NaN if none is printed."""
        half = self.half_width
        runs = PRINTED_RUNS
        return math.nan if half is None else half * math.sqrt(runs / (runs - 1))


@dataclass(frozen=True)
class Outlier:
    """A replicate far from the others.

    `number` is its seed, or its number from 0; `distance` is that from the mean of the others, in
    their standard deviations.
    """

    number: int
    value: float
    distance: float


@dataclass(frozen=True)
class Row:
    """One row of the table: a measured value per replicate, next to the printed one.

    `unit` is '%' for accuracies (0…100), '' for plain numbers. `epochs` is NaN if it is not trained
    in epochs; `seconds` covers all its runs and computations. `of` is what one value stands for
    ('seeds', 'draws'). `place` is its row and column in the paper's table, if that is a grid.
    """

    label: str
    values: tuple[float, ...]
    printed: Printed | None = None
    unit: str = "%"
    epochs: float = math.nan
    seconds: float = 0.0
    remark: str = ""
    of: str = "seeds"
    place: tuple[str, str] | None = None


@dataclass(frozen=True)
class Claim:
    """One claim of published.json with the evidence that decides it; `id` as there ('npf-1').

    `low` and `high` are the 95 % interval of `value`, NaN below two values. `exact`: decided by
    rounding alone, so `n` does not matter. `of` is what `n` counts. `p` is the one-sided p-value
    for the verdict 'held' or 'not held', if the other were true; `p_holm` is Holm-corrected
    over all claims of the report. `power` is the probability of 'held' at this `n` if the paper
    were exactly right; `enough` is the `n` at which it is 80 %, 0 if none; `power_from` is the
    source of the spread used for it. `flip_low` and `flip_high` are the interval by flipping signs
    (see `sign_flip_interval`). NaN, 0 and '' mean unknown.
    """

    id: str
    statement: str
    statistic: str
    value: float
    low: float
    high: float
    n: int
    verdict: Verdict
    remark: str = ""
    exact: bool = False
    of: str = "seeds"
    p: float = math.nan
    p_holm: float = math.nan
    power: float = math.nan
    enough: int = 0
    power_from: str = ""
    flip_low: float = math.nan
    flip_high: float = math.nan
    outlier: Outlier | None = None


LineStyle = Literal["line", "points", "printed", "boxes", "cloud"]


@dataclass(frozen=True)
class PlottedLine:
    """One curve; `spread` (half-width) is drawn as a band. Without x it is a horizontal line.

    With `log`, `y` are geometric means and `spread` is a half-width of log10 y. For categories, `x`
    counts them from 0. 'boxes' draws the values at each x as a box plot (quartiles, median,
    whiskers); 'cloud' draws each value as a small point, spread sideways.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] = ()
    style: LineStyle = "line"
    log: bool = False


@dataclass(frozen=True)
class Figure:
    """One figure as numbers, drawn by the report and the viewer.

    `image` has rows of values instead of lines, NaN where nothing is drawn. `rows` and `columns`
    name its tiles, separated by one empty pixel; `scale` describes its values. `categories` label
    the positions 0, 1, … on x, if x is not a number. `note` explains points, bands and boxes in the
    caption.
    """

    name: str  # of its files
    title: str
    x: str
    y: str
    lines: tuple[PlottedLine, ...]
    log_x: bool = False
    log_y: bool = False
    image: tuple[tuple[float, ...], ...] = ()
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    scale: str = ""
    categories: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Findings:
    """Everything that an experiment found.

    `remarks` are the sentences below the table, `answer` those above it; `details` are plain values
    by name, for further computation. `columns` are those of the paper's table in order; empty: in
    the order of the rows.
    """

    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
