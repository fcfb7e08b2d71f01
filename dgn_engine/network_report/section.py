"""A section of a report: its cost, its numbers with what is usual, its sentences and figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dgn_engine.errors import UserError
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.network_report.subject import Subject
from dgn_engine.text.written_numbers import format_decimals, format_number, format_percent

Form = Literal["percent", "decimals", "number"]


def write_value(value: float, form: Form) -> str:
    """Return a value as text; '–' if it is not finite."""
    if not math.isfinite(value):
        return "–"
    if form == "percent":
        return format_percent(value)
    return format_decimals(value, 3) if form == "decimals" else format_number(value, 3)


def write_range(low: float, high: float, form: Form) -> str:
    """Return '0.31 to 0.42', '48 to 51 %'; one number if both are written alike."""
    first, last = write_value(low, form), write_value(high, form)
    if first == last:
        return last
    return f"{first.removesuffix(' %')} to {last}"


@dataclass(frozen=True)
class Quantity:
    """A number of this network, and what is usual.

    Attributes:
        name: What it is.
        value: The number.
        form: How it is written: 'percent' for a share in [0, 1].
        low, high: Ends of its 95 % interval; NaN without one.
        random: The same number of networks with random weights.
        shuffled: The same number with the labels in random order.
        typical: The range over the trained networks of the documentation; '' if there is none.
    """

    name: str
    value: float
    form: Form = "decimals"
    low: float = math.nan
    high: float = math.nan
    random: tuple[float, ...] = ()
    shuffled: tuple[float, ...] = ()
    typical: str = ""

    @property
    def text(self) -> str:
        """The number, with its interval if it has one."""
        words = write_value(self.value, self.form)
        if math.isfinite(self.low + self.high):
            words += f" [{write_range(self.low, self.high, self.form)}]"
        return words

    def range_of(self, null: Sequence[float]) -> str:
        """Return the range of a null; '' without one."""
        finite = [value for value in null if math.isfinite(value)]
        return write_range(min(finite), max(finite), self.form) if finite else ""

    @property
    def rank(self) -> str:
        """Its place among random networks: 'above all 20 random networks (48 to 51 %)'; or ''."""
        return self._place(self.random, "random networks")

    @property
    def label_rank(self) -> str:
        """Its place among shuffled labels: 'below all 20 orders of shuffled labels (…)'; or ''."""
        return self._place(self.shuffled, "orders of shuffled labels")

    def _place(self, null: Sequence[float], of: str) -> str:
        finite = [value for value in null if math.isfinite(value)]
        if not finite or not math.isfinite(self.value):
            return ""
        count, at = len(finite), f"({self.range_of(null)})"
        if all(value < self.value for value in finite):
            return f"above all {count} {of} {at}"
        if all(value > self.value for value in finite):
            return f"below all {count} {of} {at}"
        return f"within the range of {count} {of} {at}"


@dataclass(frozen=True)
class SectionResult:
    """What one section found.

    Attributes:
        sentences: What the numbers mean for this network, and how usual they are.
        quantities: The numbers.
        panel: Its figure; None if there is none.
        caption: The caption of the figure.
        method: How the numbers were computed.
    """

    sentences: tuple[str, ...]
    quantities: tuple[Quantity, ...] = ()
    panel: FigurePanel | None = None
    caption: str = ""
    method: str = ""


@dataclass(frozen=True)
class SectionCost:
    """The estimated cost of a section.

    Attributes:
        seconds: Computing time on one core.
        least: Time below which it has no result: it is left out if this is over the limit.
        estimated: Whether exact numbers would take longer than the limit, so that they are
            estimated within it.
    """

    seconds: float
    least: float = 0.0
    estimated: bool = False


def not_here(why: str) -> UserError:
    """Return the refusal of a section that does not exist for this network."""
    return UserError(why, kind="not-supported")


@dataclass(frozen=True)
class SectionSpec:
    """A section: its name, its title, what it costs, and the function that measures it.

    Attributes:
        key: Name of its files and of the option that selects it.
        title: Its heading.
        cost: Estimates the cost under a limit of seconds.
        measure: Measures it within a number of seconds; raises `UserError`.
    """

    key: str
    title: str
    cost: Callable[[Subject, float], SectionCost]
    measure: Callable[[Subject, float], SectionResult]


@dataclass(frozen=True)
class MeasuredSection:
    """A section with its result, or why there is none.

    Attributes:
        spec: The section.
        cost: Its estimated cost.
        seconds: What it took.
        section: The result; None if it was left out.
        why: Why it was left out.
        files: Names of the files of its figure.
    """

    spec: SectionSpec
    cost: SectionCost
    seconds: float = 0.0
    section: SectionResult | None = None
    why: str = ""
    files: tuple[str, ...] = field(default=())


def join_words(words: Sequence[str]) -> str:
    """Return 'a', 'a and b' or 'a, b and c'."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
