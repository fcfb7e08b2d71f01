"""Results that nobody computed: each run and calculation has numbers that no other one has.

A test says in plain Python what an experiment must read out of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from dgn_engine.experiments import Findings, PlottedLine, Request
from dgn_engine.experiments import find_experiment as find
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults

QUICK, FULL = Request(), Request(scale="full")


def primes(how_many: int) -> list[int]:
    """Primes from 1,009 on, so mixed that neighbours differ by much and either way."""
    found = (n for n in count(1009, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2)))
    some = [next(found) for _ in range(how_many)]
    return sorted(some, key=lambda prime: prime * 7919 % 10007)


def made_run(prime: int, **given: Any) -> TrainedRun:
    """A run of three epochs whose every number follows from a prime, and no two are alike."""
    best = prime / 1e4
    numbers: dict[str, Any] = {
        "path": Path(),
        "best": best,
        "last": best / 2,
        "epochs": (1.0, 2.0, prime / 100),
        "train": (best / 3, best / 5, best / 9),
        "train_loss": (best / 7, best / 11, best / 13),
        "test": (best / 4, best, best / 2),
        "seconds": prime / 10,
        "diverged_at": None,
    }
    return TrainedRun(**{**numbers, **given})


def made_runs(cells: Iterable[str], seeds: int = 3) -> dict[str, TrainedRun]:
    """A run for each cell and seed, by the id of its unit."""
    ids = [f"{cell}-s{seed}" for cell in cells for seed in range(seeds)]
    return {unit: made_run(prime) for unit, prime in zip(ids, primes(len(ids)), strict=True)}


class MadeUpResults(UnitResults):
    """Runs by id, and values of calculations with their seconds; every other id is an error."""

    def __init__(
        self,
        runs: Mapping[str, TrainedRun] | None = None,
        values: Mapping[str, tuple[Any, float]] | None = None,
    ) -> None:
        super().__init__(Path())
        self._runs, self._values = runs or {}, values or {}

    def trained(self, unit_id: str) -> TrainedRun:
        self._trained[unit_id] = self._runs[unit_id]
        return self._runs[unit_id]

    def calculated(self, unit_id: str) -> Any:
        value, self._calculated[unit_id] = self._values[unit_id]
        return value


def read(
    name: str,
    request: Request,
    runs: Mapping[str, TrainedRun] | None = None,
    values: Mapping[str, tuple[Any, float]] | None = None,
) -> Findings:
    """What an experiment reads out of made-up results."""
    return find(name).findings(request, MadeUpResults(runs, values))


class Numbers:
    """Primes over a scale, each once."""

    def __init__(self) -> None:
        self._primes = iter(primes(3000))

    def some(self, count: int, scale: float = 1e5) -> list[float]:
        return [next(self._primes) / scale for _ in range(count)]

    def one(self, scale: float = 1e5) -> float:
        return self.some(1, scale)[0]


def spent(values: Mapping[str, tuple[Any, float]], cell: str, seeds: int) -> float:
    """Seconds of all calculations of a cell."""
    return sum(values[f"{cell}-s{seed}"][1] for seed in range(seeds))


def of(values: Mapping[str, tuple[Any, float]], cell: str, key: Any, seeds: int) -> list[Any]:
    """What the results of a cell say under a name, by seed."""
    return [values[f"{cell}-s{seed}"][0][key] for seed in range(seeds)]


def made(cells: Iterable[str], seeds: int, value: Any) -> dict[str, tuple[Any, float]]:
    """`value(numbers)` for each cell and seed, each with seconds of its own."""
    numbers = Numbers()
    return {
        f"{cell}-s{seed}": (value(numbers), numbers.one(100))
        for cell in cells
        for seed in range(seeds)
    }


# What is read, as tuples; and what is expected, with room for rounding.


def near(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def rows(found: Findings) -> list[tuple[Any, ...]]:
    return [
        (r.label, tuple(r.values), r.printed, r.unit, r.epochs, r.seconds, r.remark)
        for r in found.rows
    ]


def row(
    label: str,
    values: Iterable[float],
    *,
    printed: Printed | None = None,
    unit: str = "",
    epochs: float = math.nan,
    seconds: float = 0.0,
    remark: str = "",
) -> tuple[Any, ...]:
    return (label, near(tuple(values)), printed, unit, near(epochs), near(seconds), remark)


def cell_row(
    runs: Mapping[str, TrainedRun],
    cell: str,
    label: str,
    seeds: int = 3,
    printed: Printed | None = None,
    remark: str = "",
    values: Iterable[float] | None = None,
    unit: str = "%",
) -> tuple[Any, ...]:
    """The row of a cell: percents of its runs unless other values are said."""
    some = [runs[f"{cell}-s{seed}"] for seed in range(seeds)]
    return row(
        label,
        [100 * run.best for run in some] if values is None else values,
        printed=printed,
        unit=unit,
        epochs=max(run.epochs[-1] for run in some),
        seconds=sum(run.seconds for run in some),
        remark=remark,
    )


def percents(runs: Mapping[str, TrainedRun], cell: str, seeds: int = 3) -> np.ndarray:
    """Best test accuracies of a cell, one for each seed."""
    return np.array([100 * runs[f"{cell}-s{seed}"].best for seed in range(seeds)])


def claims(found: Findings) -> list[tuple[Any, ...]]:
    return [
        (c.id, c.statistic, c.value, c.low, c.high, c.n, c.verdict, c.remark) for c in found.claims
    ]


def claim(
    claim_id: str,
    statistic: str,
    values: Iterable[float],
    remark: str = "",
    inside: tuple[float, float] | None = None,
) -> tuple[Any, ...]:
    """A claim decided by Student's interval; the statistic ends in the condition.

    `inside`: ends of what the values cannot leave.
    """
    some = np.array(list(values), dtype=float)
    if len(some) < 2:
        mean, low, high = float(some.mean()) if len(some) else math.nan, math.nan, math.nan
    elif inside is None or np.ptp(some) == 0:
        mean, low, high = _students(some)
    else:
        mean, low, high = _students_inside(some, *inside)
    return _judged(claim_id, statistic, (mean, low, high), len(some), remark)


def exact_claim(
    claim_id: str, statistic: str, error: float, n: int, verdict: str
) -> tuple[Any, ...]:
    return (claim_id, statistic, near(error), near(error), near(error), n, verdict, "")


def unmeasured(claim_id: str, statistic: str, remark: str) -> tuple[Any, ...]:
    nothing = near(math.nan)
    return (claim_id, statistic, nothing, nothing, nothing, 0, "not decided", remark)


def _judged(
    claim_id: str, statistic: str, ends: tuple[float, float, float], n: int, remark: str
) -> tuple[Any, ...]:
    condition, number, *around = statistic.rpartition("; ")[2].split(" ")
    _, low, high = ends
    if condition == "within":
        middle = float(around[-1]) if around else 0.0
        wanted = (middle - float(number[1:]), middle + float(number[1:]))
    else:
        limit = float(number)
        wanted = (limit, math.inf) if condition == "above" else (-math.inf, limit)
    verdict = "not decided"
    if n >= 3 and wanted[0] < low and high < wanted[1]:
        verdict = "held"
    elif n >= 3 and (high < wanted[0] or wanted[1] < low):
        verdict = "not held"
    return (claim_id, statistic, *(near(end) for end in ends), n, verdict, remark)


def _students(values: np.ndarray) -> tuple[float, float, float]:
    if np.ptp(values) == 0:
        return (float(values[0]),) * 3
    found = ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(values.mean()), float(found.low), float(found.high)


def _students_inside(values: np.ndarray, low: float, high: float) -> tuple[float, float, float]:
    """On the scale of log((v − low)/(high − v)), or log(v − low) without an upper end."""
    if math.isinf(high):
        return tuple(low + math.exp(end) for end in _students(np.log(values - low)))  # type: ignore[return-value]
    ends = _students(np.log((values - low) / (high - values)))
    return tuple(low + (high - low) / (1 + math.exp(-end)) for end in ends)  # type: ignore[return-value]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least squares of log y against log x."""
    a, b = np.log(x), np.log(y)
    return float(((a - a.mean()) * (b - b.mean())).sum() / ((a - a.mean()) ** 2).sum())


def figures(found: Findings) -> list[tuple[Any, ...]]:
    return [
        (f.name, f.title, f.x, f.y, f.log_x, f.log_y, [_line(line) for line in f.lines])
        for f in found.figures
    ]


def _line(line: PlottedLine) -> tuple[Any, ...]:
    return (line.label, tuple(line.x), tuple(line.y), tuple(line.spread), line.style)


def curve(label: str, x: Iterable[float], curves: Any) -> tuple[Any, ...]:
    """The mean of the curves with its interval at each x."""
    columns = np.array(curves, dtype=float)
    n = len(columns)
    half = t.ppf(0.975, n - 1) * columns.std(axis=0, ddof=1) / math.sqrt(n)
    spread = tuple(half) if half.any() else ()
    return (label, near(tuple(x)), near(tuple(columns.mean(axis=0))), near(spread), "line")


def accuracy_curve(
    label: str, runs: Mapping[str, TrainedRun], cell: str, seeds: int = 3
) -> tuple[Any, ...]:
    """Test accuracies over the epochs of the first of the longest runs."""
    some = [runs[f"{cell}-s{seed}"] for seed in range(seeds)]
    return curve(label, some[0].epochs, [[100 * a for a in run.test] for run in some])


def loss_curve(
    label: str, runs: Mapping[str, TrainedRun], cell: str, seeds: int = 3
) -> tuple[Any, ...]:
    some = [runs[f"{cell}-s{seed}"] for seed in range(seeds)]
    return curve(label, some[0].epochs, [run.train_loss for run in some])


def across(label: str, y: float, style: str = "line") -> tuple[Any, ...]:
    """A line across the figure."""
    return (label, (), near((y,)), (), style)
