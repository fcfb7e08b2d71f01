"""Format the table as text and as JSON."""

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
        """Whether the results of all methods agree within the tolerance of the case."""
        allowed = self.case.agreement
        return math.isinf(allowed) or self.disagreement <= allowed

    def judge_bars(self) -> list[tuple[str, float | None, str]]:
        """Return, for each bar, its text, its figure, and 'met', 'missed' or 'not judged' (not
        measured, or measured with fewer examples than the bar is defined for)."""
        ours = self.measured[0]
        others = {each.method.name: each for each in self.measured}
        verdicts = []
        for bar in self.case.bars:
            value = bar.value(ours, others[bar.against])
            word = "not judged"
            if value is not None and self.n == self.case.n:
                word = "met" if bar.is_met(value) else "missed"
            verdicts.append((bar.text(value), value, word))
        return verdicts


def compute_quantiles(seconds: Sequence[float]) -> tuple[float, float, float, float]:
    """Return the minimum, lower quartile, median and upper quartile."""
    points = torch.tensor([0.0, 0.25, 0.5, 0.75], dtype=torch.float64)
    least, low, middle, high = torch.tensor(seconds, dtype=torch.float64).quantile(points).tolist()
    return least, low, middle, high


def format_duration(seconds: float) -> str:
    """Format seconds with three significant digits and a suitable unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def compute_spreads(row: Row) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Return the quantiles of each other method's time relative to ours, round by round."""
    ours, *others = row.measured
    return [(each.method.name, compute_quantiles(ours.ratios(each))) for each in others]


def format_row(row: Row) -> str:
    """Return the row as text: times and memory of each method, and the verdict on each bar."""
    lines = [f"{row.case.title}, n = {row.n:,}"]
    for each in row.measured:
        least, low, middle, high = compute_quantiles(each.seconds)
        spread = f"[{format_duration(low)} – {format_duration(high)}], min {format_duration(least)}"
        line = f"  {each.method.name:<42} {format_duration(middle):>9}  {spread}"
        line += f", {len(each.seconds)} rounds"
        if each.memory is not None:
            line += f", {each.memory / 2**20:.0f} MiB"
        if each.method.share < 1:
            line += f" (extrapolated from {each.method.share:.1%} of the work)"
        lines.append(line)
    lines += [f"  {word:>12}: {words}" for words, _, word in row.judge_bars()]
    lines += [
        f"  round by round {name} took {middle:.3g} times as long [{low:.3g} – {high:.3g}]"
        for name, (_, low, middle, high) in compute_spreads(row)
    ]
    if len(row.measured) > 1:
        same = "the methods agree" if row.agrees else "THE METHODS DISAGREE"
        lines.append(f"  {same}: relative difference {row.disagreement:.1e}")
    return "\n".join(lines)


def encode_row(row: Row) -> dict[str, object]:
    """Return the row as a JSON object, including the raw seconds."""
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
                "needs": _least_work(row, each.method),
                "median_seconds": each.median,
                "quantiles_seconds": compute_quantiles(each.seconds),
                "processor_seconds": list(each.seconds),
                "wall_seconds": list(each.wall),
                "share_timed": each.method.share,
                "peak_bytes": each.memory,
            }
            for each in row.measured
        ],
        "ratios": {name: list(spread) for name, spread in compute_spreads(row)},
        "bars": [
            {"text": words, "value": value, "verdict": word}
            for words, value, word in row.judge_bars()
        ],
    }


def _least_work(row: Row, method: Method) -> dict[str, float] | None:
    """Return the least work of a method, or None if it is not known."""
    floor = method.floor or row.case.floor
    return None if floor is None else asdict(floor(row.n))
