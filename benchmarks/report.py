"""The table as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from benchmarks.case import Case, Measured, Method


@dataclass(frozen=True)
class Row:
    """One measured case."""

    name: str
    case: Case
    n: int
    measured: Sequence[Measured]
    disagreement: float
    load: float | None

    @property
    def agrees(self) -> bool:
        """Whether all methods gave the same result."""
        allowed = self.case.agreement
        return math.isinf(allowed) or self.disagreement <= allowed

    def verdicts(self) -> list[tuple[str, float | None, str]]:
        """Of each bar: text, figure, and 'met', 'missed' or 'not judged' (not measured, or for
        fewer examples than the bar is meant for)."""
        ours = self.measured[0]
        others = {each.method.name: each for each in self.measured}
        found = []
        for bar in self.case.bars:
            value = bar.value(ours, others[bar.against])
            word = "not judged"
            if value is not None and self.n == self.case.n:
                word = "met" if bar.is_met(value) else "missed"
            found.append((bar.text(value), value, word))
        return found


def quantiles(seconds: Sequence[float]) -> tuple[float, float, float, float]:
    """Minimum, lower quartile, median, upper quartile."""
    points = torch.tensor([0.0, 0.25, 0.5, 0.75], dtype=torch.float64)
    least, low, middle, high = torch.tensor(seconds, dtype=torch.float64).quantile(points).tolist()
    return least, low, middle, high


def duration(seconds: float) -> str:
    """Seconds with three digits and the unit that fits."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def spreads(row: Row) -> list[tuple[str, tuple[float, float, float, float]]]:
    """How many times longer each other method took, round by round."""
    ours, *others = row.measured
    return [(each.method.name, quantiles(ours.ratios(each))) for each in others]


def text(row: Row) -> str:
    """A few lines: every method with median, quartiles and minimum, every bar with its word."""
    lines = [f"{row.case.title}, n = {row.n:,}"]
    for each in row.measured:
        least, low, middle, high = quantiles(each.seconds)
        spread = f"[{duration(low)} – {duration(high)}], min {duration(least)}"
        line = (
            f"  {each.method.name:<42} {duration(middle):>9}  {spread}, {len(each.seconds)} rounds"
        )
        if each.memory is not None:
            line += f", {each.memory / 2**20:.0f} MiB"
        if each.method.share < 1:
            line += f" (extrapolated from {each.method.share:.1%} of the work)"
        lines.append(line)
    lines += [f"  {word:>12}: {words}" for words, _, word in row.verdicts()]
    lines += [
        f"  round by round {name} took {middle:.3g} times as long [{low:.3g} – {high:.3g}]"
        for name, (_, low, middle, high) in spreads(row)
    ]
    if len(row.measured) > 1:
        same = "the methods agree" if row.agrees else "THE METHODS DISAGREE"
        lines.append(f"  {same}: relative difference {row.disagreement:.1e}")
    return "\n".join(lines)


def tree(row: Row) -> dict[str, object]:
    """The same for JSON, with the raw seconds."""
    return {
        "name": row.name,
        "title": row.case.title,
        "n": row.n,
        "full_n": row.case.n,
        "load": row.load,
        "relative_difference": row.disagreement,
        "agrees": row.agrees,
        "methods": [
            {
                "name": each.method.name,
                "arithmetic": each.method.arithmetic,
                "needs": _needs(row, each.method),
                "median_seconds": each.median,
                "quantiles_seconds": quantiles(each.seconds),
                "processor_seconds": list(each.seconds),
                "wall_seconds": list(each.wall),
                "share_timed": each.method.share,
                "peak_bytes": each.memory,
            }
            for each in row.measured
        ],
        "ratios": {name: list(spread) for name, spread in spreads(row)},
        "bars": [
            {"text": words, "value": value, "verdict": word}
            for words, value, word in row.verdicts()
        ],
    }


def _needs(row: Row, method: Method) -> dict[str, float] | None:
    """Return the least work of a method; None where nobody counted it."""
    floor = method.floor or row.case.floor
    return None if floor is None else asdict(floor(row.n))
