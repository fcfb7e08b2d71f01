"""One row of the benchmark table: the methods to compare, and the bars the first must meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

Work = Callable[[], Tensor]
Arithmetic = Literal["float32", "tf32", "bf16", "float64"]


def compare_everything(result: Tensor) -> Tensor:
    """Return the result unchanged: all of it is compared."""
    return result


@dataclass(frozen=True)
class Amounts:
    """Lower bound on some work: floating-point operations, bytes that must move, and words of 64
    gates of which the common bits are counted."""

    flops: float
    bytes: float
    words: float = 0.0


@dataclass(frozen=True)
class Method:
    """One way to do the work. `prepare(device, n)` creates the inputs for n examples and returns
    the callable that is timed; calling it returns the result.

    `share`: the fraction of the work that is timed, for example a few of many pairs; seconds are
    divided by it, and the table says so. `comparable`: extracts the part of the result that all
    methods compute. `arithmetic`: the number format of most operations. `floor`: the least work,
    if it differs from that of the case.
    """

    name: str
    prepare: Callable[[torch.device, int], Work]
    share: float = 1.0
    comparable: Callable[[Tensor], Tensor] = compare_everything
    arithmetic: Arithmetic = "float32"
    floor: Callable[[int], Amounts] | None = None


@dataclass(frozen=True)
class Measured:
    """The measurements of one method: processor seconds (used for the verdicts) and wall seconds
    of every round, and peak memory above the baseline in bytes, if measured."""

    method: Method
    seconds: tuple[float, ...]
    wall: tuple[float, ...]
    memory: int | None = None

    def ratios(self, other: Measured) -> tuple[float, ...]:
        """Return, for each round, the time of the other method divided by the time of this one."""
        return tuple(b / a for a, b in zip(self.seconds, other.seconds, strict=True))

    @property
    def median(self) -> float:
        """Median seconds for all of the work."""
        return float(torch.tensor(self.seconds, dtype=torch.float64).quantile(0.5))


class Bar(Protocol):
    """A requirement on the first method, relative to another one."""

    @property
    def against(self) -> str:
        """Name of the other method."""

    def value(self, ours: Measured, other: Measured) -> float | None:
        """Return the figure to compare with the bar, or None if it was not measured."""

    def is_met(self, value: float) -> bool:
        """Return whether the figure meets the bar."""

    def text(self, value: float | None) -> str:
        """Return the figure and the bar as text."""


@dataclass(frozen=True)
class Faster:
    """The first method is at least `at_least` times faster than another."""

    against: str
    at_least: float

    def value(self, ours: Measured, other: Measured) -> float | None:
        """Return the speed-up: the median over the rounds."""
        return float(torch.tensor(ours.ratios(other), dtype=torch.float64).quantile(0.5))

    def is_met(self, value: float) -> bool:
        """At least the bar."""
        return value >= self.at_least

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        return f"{value:.3g}× faster than {self.against} (target ≥ {self.at_least:g}×)"


@dataclass(frozen=True)
class Within:
    """The first method takes at most `at_most` times as long as another piece of work."""

    against: str
    at_most: float

    def value(self, ours: Measured, other: Measured) -> float | None:
        """Return the ratio of the median times."""
        return ours.median / other.median

    def is_met(self, value: float) -> bool:
        """At most the bar."""
        return value <= self.at_most

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        return f"{value:.3g} × {self.against} (target ≤ {self.at_most:g})"


@dataclass(frozen=True)
class Leaner:
    """The first method needs at most 1/at_least of the peak memory of another."""

    against: str
    at_least: float

    def value(self, ours: Measured, other: Measured) -> float | None:
        """Return the memory of the other method divided by ours."""
        if ours.memory is None or other.memory is None:
            return None
        return other.memory / max(ours.memory, 1)

    def is_met(self, value: float) -> bool:
        """At least the bar."""
        return value >= self.at_least

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        bar = f"(target ≥ {self.at_least:g}×)"
        if value is None:
            return f"memory not measured {bar}"
        return f"{value:.3g}× less memory than {self.against} {bar}"


@dataclass(frozen=True)
class Bounded:
    """The first method needs at most `at_most` bytes in addition to its result."""

    against: str
    result: int
    at_most: int

    def value(self, ours: Measured, other: Measured) -> float | None:
        """Return the bytes used in addition to the result."""
        return None if ours.memory is None else float(ours.memory - self.result)

    def is_met(self, value: float) -> bool:
        """At most the bar."""
        return value <= self.at_most

    def text(self, value: float | None) -> str:
        """As the table shows it."""
        bar = f"(target ≤ {self.at_most / 2**30:g} GiB)"
        if value is None:
            return f"memory not measured {bar}"
        return f"{max(value, 0.0) / 2**20:.0f} MiB beyond the result {bar}"


@dataclass(frozen=True)
class Case:
    """One row: `n` examples (`quick` of them with --quick), the methods (ours first) and the bars.

    `agreement`: the largest relative difference in norm allowed between the methods' results.
    `rank`: cases with a lower rank are measured first when time is short. `dry`: the number of
    examples in a dry run on a CPU, or 0 to use `quick`. `floor(n)`: the least work for n examples;
    `no_floor`: why it is not known.
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
    no_floor: str = ""
