"""What an experiment found: rows beside printed numbers, judged claims, and figures as numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["held", "not held", "not decided", "not decided at this scale"]

PRINTED_RUNS = 5  # behind every printed ±
PRINTED_SPREAD = "the standard deviation of five runs (np.std, ddof 0, in the authors’ notebooks)"


@dataclass(frozen=True)
class Printed:
    """A number of the paper; `half_width` as it stands behind ±, where one does.

    In the authors' notebooks the ± is `np.std` (ddof 0) of five runs: no half-width of an
    interval, but a standard deviation, and too small by √(5/4).
    """

    value: float
    half_width: float | None = None

    @property
    def spread(self) -> float:
        """Standard deviation of one of the paper's runs (ddof 1); NaN where none is printed."""
        half = self.half_width
        runs = PRINTED_RUNS
        return math.nan if half is None else half * math.sqrt(runs / (runs - 1))


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, once per replicate, beside what was printed.

    `unit`: '%' for accuracies (0…100), '' for plain numbers. `epochs`: NaN where it is not
    trained in epochs; `seconds`: of all its runs and calculations. `of`: what one value stands
    for ('seeds', 'draws'). `place`: its row and column in the table of the paper, where that has
    a grid.
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
    """One claim of published.json with what decides it; `id` as there ('npf-1').

    `low` and `high`: the 95 % interval of `value`; NaN below two values. `exact`: decided by
    rounding alone, so that `n` does not matter. `of`: what `n` counts. `p`: the chance of a
    sample that speaks so clearly for 'held', or for 'not held', if the other were true; one-sided;
    `p_holm`: the same after Holm, with all claims of the report. `power`: how often the claim
    would be held at this `n` if the paper were exactly right; `enough`: the `n` at which that is
    80 %, 0 where none is; `power_from`: where the spread that this rests on is from. NaN, 0 and ''
    where nothing is known.
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


LineStyle = Literal["line", "points", "printed", "boxes", "cloud"]


@dataclass(frozen=True)
class PlottedLine:
    """One curve; `spread` (half-width) is drawn as a band. Without x it is a line across.

    Over categories `x` counts them from 0. 'boxes': the values of each x as a box (quartiles,
    median, whiskers); 'cloud': each value as a small point, spread sideways.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] = ()
    style: LineStyle = "line"


@dataclass(frozen=True)
class Figure:
    """One figure as numbers; drawn by the report and by the viewer.

    `image`: rows of values instead of lines, NaN where nothing is drawn. `rows`, `columns`: names
    of its tiles, one empty pixel between two of them; `scale`: what its values are. `categories`:
    names of the places 0, 1, … on x, where x is no number. `note`: what a point, a band and a box
    are, for the caption.
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
    """All that an experiment found. `remarks`: sentences that belong under the table; `answer`:
    those that belong above it; `details`: plain values by name, for whoever calculates on.
    `columns`: of the paper's table in its order; empty: as they come in the rows."""

    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
