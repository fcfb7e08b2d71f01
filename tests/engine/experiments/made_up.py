"""Results that nobody computed: each run and calculation has numbers that no other one has.

A test says in plain Python what an experiment must read out of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from dgn_engine.experiments import Findings, Request
from dgn_engine.experiments import find_experiment as find
from dgn_engine.protocol.experiments import Printed
from dgn_engine.sweep.unit_results import TrainedRun, UnitResults

QUICK, FULL = Request(), Request(scale="full")


def primes(how_many: int) -> list[int]:
    """Primes from 1,009 on, so mixed that neighbours differ by much and either way."""
    found = (n for n in count(1009, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2)))
    some = [next(found) for _ in range(how_many)]
    return sorted(some, key=lambda prime: prime * 7919 % 10007)


def make_run_of(prime: int, **given: Any) -> TrainedRun:
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


def make_runs_of(cells: Iterable[str], seeds: int = 3) -> dict[str, TrainedRun]:
    """A run for each cell and seed, by the id of its unit."""
    ids = [f"{cell}-s{seed}" for cell in cells for seed in range(seeds)]
    return {unit: make_run_of(prime) for unit, prime in zip(ids, primes(len(ids)), strict=True)}


class MadeUpResults(UnitResults):
    """Runs by id, and values of calculations with their seconds; every other id is an error."""

    def __init__(
        self,
        runs: Mapping[str, TrainedRun] | None = None,
        values: Mapping[str, tuple[Any, float]] | None = None,
    ) -> None:
        super().__init__(Path())
        self._runs, self._values = runs or {}, values or {}

    def trained_run(self, unit_id: str) -> TrainedRun:
        self._trained[unit_id] = self._runs[unit_id]
        return self._runs[unit_id]

    def calculation_result(self, unit_id: str) -> Any:
        value, self._calculated[unit_id] = self._values[unit_id]
        return value


def read_findings(
    name: str,
    request: Request,
    runs: Mapping[str, TrainedRun] | None = None,
    values: Mapping[str, tuple[Any, float]] | None = None,
) -> Findings:
    """What an experiment reads out of made-up results."""
    return find(name).findings(request, MadeUpResults(runs, values))


def quantities(sentences: Sequence[str]) -> list[str]:
    """The numbers and data sets of each sentence."""
    named = r"MNIST|CIFAR-10|\d[\d,.×]*(?:e-?\d+)?"
    return [" ".join(re.findall(named, sentence)) for sentence in sentences]


# What is read, as tuples; and what is expected, with room for rounding.


def approximately(values: Any) -> Any:
    return pytest.approx(values, rel=1e-9, abs=1e-12, nan_ok=True)


def finding_rows(found: Findings) -> list[tuple[Any, ...]]:
    return [
        (r.label, tuple(r.values), r.printed, r.unit, r.epochs, r.seconds, r.remark)
        for r in found.rows
    ]


def expected_row(
    label: str,
    values: Iterable[float],
    *,
    printed: Printed | None = None,
    unit: str = "",
    epochs: float = math.nan,
    seconds: float = 0.0,
    remark: str = "",
) -> tuple[Any, ...]:
    return (
        label,
        approximately(tuple(values)),
        printed,
        unit,
        approximately(epochs),
        approximately(seconds),
        remark,
    )


def expected_cell_row(
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
    return expected_row(
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


def finding_claims(found: Findings) -> list[tuple[Any, ...]]:
    return [
        (c.id, c.statistic, c.value, c.low, c.high, c.n, c.verdict, c.remark) for c in found.claims
    ]


def expected_claim(
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
        mean, low, high = _student_interval(some)
    else:
        mean, low, high = _bounded_student_interval(some, *inside)
    return _expected_verdict(claim_id, statistic, (mean, low, high), len(some), remark)


def _expected_verdict(
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
    return (claim_id, statistic, *(approximately(end) for end in ends), n, verdict, remark)


def _student_interval(values: np.ndarray) -> tuple[float, float, float]:
    if np.ptp(values) == 0:
        return (float(values[0]),) * 3
    found = ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(values.mean()), float(found.low), float(found.high)


def _bounded_student_interval(
    values: np.ndarray, low: float, high: float
) -> tuple[float, float, float]:
    """On the scale of log((v − low)/(high − v)), or log(v − low) without an upper end."""
    if math.isinf(high):
        return tuple(low + math.exp(end) for end in _student_interval(np.log(values - low)))  # type: ignore[return-value]
    ends = _student_interval(np.log((values - low) / (high - values)))
    return tuple(low + (high - low) / (1 + math.exp(-end)) for end in ends)  # type: ignore[return-value]


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least squares of log y against log x."""
    a, b = np.log(x), np.log(y)
    return float(((a - a.mean()) * (b - b.mean())).sum() / ((a - a.mean()) ** 2).sum())
