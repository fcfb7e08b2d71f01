"""What one row of the table measures: the methods, side by side, and the bars for the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

Work = Callable[[], Tensor]
Arithmetic = Literal["float32", "tf32", "bf16", "float64"]


def everything(result: Tensor) -> Tensor:
    """The whole result is compared."""
    return result


@dataclass(frozen=True)
class Amounts:
    """The work that a piece of work needs at least: operations, and bytes that move once."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Method:
    """One way to do the work. `prepare(device, n)` makes the inputs for n examples and returns
    what is timed; it returns its result.

    `share`: where the timed work is not the whole, as with a few of many pairs, its size in
    wholes; seconds are divided by it and the table says so. `comparable`: the part of the result
    that all methods have in common. `arithmetic`: the numbers that most operations are done in;
    `floor`: the least work, where it is not that of the case.
    """

    name: str
    prepare: Callable[[torch.device, int], Work]
    share: float = 1.0
    comparable: Callable[[Tensor], Tensor] = everything
    arithmetic: Arithmetic = "float32"
    floor: Callable[[int], Amounts] | None = None


@dataclass(frozen=True)
class Measured:
    """Of one method: processor and wall seconds of every round (the former are judged), and
    bytes over the baseline where measured."""

    method: Method
    seconds: tuple[float, ...]
    wall: tuple[float, ...]
    memory: int | None = None

    def ratios(self, other: Measured) -> tuple[float, ...]:
        """How many times longer the other took in each round, where they took turns."""
        return tuple(b / a for a, b in zip(self.seconds, other.seconds, strict=True))

    @property
    def median(self) -> float:
        """Median seconds of the whole work."""
        return float(torch.tensor(self.seconds, dtype=torch.float64).quantile(0.5))


class Bar(Protocol):
    """A promise about the first method, compared with another."""

    @property
    def against(self) -> str:
        """Name of the other method."""

    def value(self, ours: Measured, other: Measured) -> float | None:
        """The figure that is held against the bar; None where it was not measured."""

    def is_met(self, value: float) -> bool:
        """Whether the figure keeps the promise."""

    def text(self, value: float | None) -> str:
        """The figure and the bar in words."""


@dataclass(frozen=True)
class Faster:
    """At least so many times faster than another method."""

    against: str
    at_least: float

    def value(self, ours: Measured, other: Measured) -> float | None:
        """How many times faster: the median over the rounds."""
        return float(torch.tensor(ours.ratios(other), dtype=torch.float64).quantile(0.5))

    def is_met(self, value: float) -> bool:
        """At least the bar."""
        return value >= self.at_least

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        return f"{value:.3g}× faster than {self.against} (bar ≥ {self.at_least:g}×)"


@dataclass(frozen=True)
class Within:
    """At most so many times the duration of another piece of work."""

    against: str
    at_most: float

    def value(self, ours: Measured, other: Measured) -> float | None:
        """The ratio of the medians."""
        return ours.median / other.median

    def is_met(self, value: float) -> bool:
        """At most the bar."""
        return value <= self.at_most

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        return f"{value:.3g} × {self.against} (bar ≤ {self.at_most:g})"


@dataclass(frozen=True)
class Leaner:
    """At most 1/at_least of the peak memory of another method."""

    against: str
    at_least: float

    def value(self, ours: Measured, other: Measured) -> float | None:
        """How many times less memory."""
        if ours.memory is None or other.memory is None:
            return None
        return other.memory / max(ours.memory, 1)

    def is_met(self, value: float) -> bool:
        """At least the bar."""
        return value >= self.at_least

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        bar = f"(bar ≥ {self.at_least:g}×)"
        if value is None:
            return f"memory not measured {bar}"
        return f"{value:.3g}× less memory than {self.against} {bar}"


@dataclass(frozen=True)
class Bounded:
    """At most so many bytes beyond the result."""

    against: str
    result: int
    at_most: int

    def value(self, ours: Measured, other: Measured) -> float | None:
        """Bytes beyond the result."""
        return None if ours.memory is None else float(ours.memory - self.result)

    def is_met(self, value: float) -> bool:
        """At most the bar."""
        return value <= self.at_most

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        bar = f"(bar ≤ {self.at_most / 2**30:g} GiB)"
        if value is None:
            return f"memory not measured {bar}"
        return f"{max(value, 0.0) / 2**20:.0f} MiB beyond the result {bar}"


@dataclass(frozen=True)
class Case:
    """One row: `n` examples (`quick` of them with --quick), methods (ours first) and bars.

    `agreement`: largest relative difference allowed between the methods' results, in norm; `rank`:
    what is lower is measured first where time is short. `dry`: examples of a dry run on a CPU, 0
    where `quick` is small enough; `floor(n)`: the least work of n examples.
    """

    title: str
    n: int
    quick: int
    methods: Sequence[Method]
    bars: Sequence[Bar]
    agreement: float = 1e-4
    memory: bool = False
    rank: int = 9
    most_rounds: int = 15
    dry: int = 0
    floor: Callable[[int], Amounts] | None = None
