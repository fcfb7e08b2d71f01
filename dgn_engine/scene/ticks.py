"""Ticks and labels of axes: few, round values, SI prefixes; for screen and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from dgn_engine.scene.axes import Range
from dgn_engine.scene.elements import Axis, Chart
from dgn_engine.text.written_numbers import format_decimals, format_number, power_of_ten

Tick = tuple[float, str]

_REGULAR = 0.6  # least share of fitting labels worth a regular spacing
_FACTORS = ((1, 2, 5), (1, 3), (1, 2, 3, 5), (1, 1.5, 2, 3, 4, 6, 8))  # of each decade
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def linear_ticks(low: float, high: float, most: int = 5) -> tuple[Tick, ...]:
    """Return at most `most` round values within [low, high], each with its label."""
    span = high - low
    if not (math.isfinite(span) and span > 0) or most < 1:
        return ()
    step = _round_step(low, high, most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    values = [index * step for index in range(first, last + 1)]
    return tuple(zip(values, _tick_labels(values, step), strict=True))


def log_ticks(low: float, high: float, most: int = 5) -> tuple[Tick, ...]:
    """Return ticks of a logarithmic axis from `low` to `high` (positive), decades if they fit."""
    if not (0 < low < high < math.inf) or most < 1:
        return ()
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    decades = last - first + 1
    if decades >= 3:
        stride = max(1, math.ceil(decades / most))
        exponents = [e for e in range(first, last + 1) if e % stride == 0]
        return tuple((10.0**e, _decade_label(e)) for e in exponents)
    for factors in _FACTORS:
        powers = range(math.floor(math.log10(low)), last + 1)
        values = [factor * 10.0**power for power in powers for factor in factors]
        values = [value for value in values if low <= value <= high]
        if min(3, most) <= len(values) <= most:
            return tuple((value, _format_short(value)) for value in values)
    return tuple(tick for tick in linear_ticks(low, high, min(most, 3)) if tick[0] > 0)


def select_spaced(
    ticks: Sequence[Tick], places: Sequence[float], gap: Sequence[float]
) -> list[int]:
    """Return which ticks to keep so that labels of half-size `gap` do not touch.

    Keeps the first and then every second, third …, or every one that still fits if that keeps many
    more; `places` ascend or descend.
    """
    greedy = _greedy_spacing(places, gap)
    for stride in range(1, len(ticks)):
        regular = range(0, len(ticks), stride)
        if len(regular) < _REGULAR * len(greedy):
            break
        if all(_are_apart(places, gap, first, second) for first, second in pairwise(regular)):
            return list(regular)
    return greedy


def _greedy_spacing(places: Sequence[float], gap: Sequence[float]) -> list[int]:
    indices: list[int] = []
    for index in range(len(places)):
        if not indices or _are_apart(places, gap, indices[-1], index):
            indices.append(index)
    return indices


def _are_apart(places: Sequence[float], gap: Sequence[float], one: int, other: int) -> bool:
    return abs(places[other] - places[one]) >= gap[other] + gap[one]


def _round_step(low: float, high: float, most: int) -> float:
    scale = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0):
        step = factor * scale
        if math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1 <= most:
            return step
    return 50.0 * scale


def _si_prefix(largest: float) -> tuple[float, str]:
    """Return the unit of an axis up to `largest` and its SI prefix.

    Thousands are written out ('8,000') up to 10k; from there on no label has more than three digits
    before the point.
    """
    for unit, prefix in _PREFIXES:
        if largest >= (unit if prefix != "k" else 10 * unit):
            return unit, prefix
    return 1.0, ""


def _format_short(value: float) -> str:
    """Format a value with a prefix if that is shorter: '50k'; a power of ten beyond prefixes."""
    if value >= 1e15:
        return format_number(value)
    unit, prefix = _si_prefix(value)
    return format_number(value / unit) + prefix


def _tick_labels(values: Sequence[float], step: float) -> list[str]:
    largest = max((abs(value) for value in values), default=0.0)
    if largest == 0.0:
        return ["0" for _ in values]
    if largest < 1e-3:
        exponent = math.floor(math.log10(largest))
        tail = f"×{power_of_ten(exponent)}"
        unit = 10.0**exponent
        digits = _count_decimals(step / unit)
        return [
            "0" if abs(v) < step / 2 else format_decimals(v / unit, digits) + tail for v in values
        ]
    unit, prefix = _si_prefix(largest)
    if largest >= 1e15:
        return [format_number(value) for value in values]
    digits = _count_decimals(step / unit)
    texts = [format_decimals(value / unit, digits) for value in values]
    if prefix:  # '5k' next to '7.5k'
        texts = [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]
    return [
        "0" if abs(value) < step / 2 else text + prefix
        for value, text in zip(values, texts, strict=True)
    ]


def _count_decimals(step: float) -> int:
    for digits in range(10):
        if abs(round(step, digits) - step) < 1e-6 * step:
            return digits
    return 10


def _decade_label(exponent: int) -> str:
    return "1" if exponent == 0 else "10" if exponent == 1 else power_of_ten(exponent)


def axis_label(axis: Axis) -> str:
    """Return 'loss' or 'time (s)'."""
    return f"{axis.label} ({axis.unit})" if axis.unit else axis.label


def axis_ticks(axis: Axis, drawn: Range, most: int) -> tuple[Tick, ...]:
    """Return the ticks of the visible part, in drawn coordinates."""
    low, high = min(drawn), max(drawn)
    if axis.ticks is not None:
        inside = [(value, text) for value, text in axis.ticks if value > 0 or not axis.log]
        placed = [(math.log10(v) if axis.log else v, text) for v, text in inside]
        return tuple(tick for tick in placed if low <= tick[0] <= high)
    if axis.log:
        low, high = 10.0 ** max(low, -300.0), 10.0 ** min(high, 300.0)
        return tuple((math.log10(v), text) for v, text in log_ticks(low, high, most))
    return linear_ticks(low, high, most)


def bar_ticks(chart: Chart) -> tuple[Tick, ...]:
    """Return ticks of the colour bar, with '≥ 0.95' at an end that values lie beyond."""
    matrix = chart.matrix
    if matrix is None or not matrix.bar:
        return ()
    low, high = matrix.low, matrix.high
    if not any(matrix.beyond) or not 0 < high - low < math.inf:
        return linear_ticks(low, high, 3)
    digits = max(1 - math.floor(math.log10(high - low)), 0)
    below, above = matrix.beyond
    first, last = (format_number(round(value, digits)) for value in (low, high))
    room = 0.2 * (high - low)
    between = (tick for tick in linear_ticks(low, high, 3) if low + room < tick[0] < high - room)
    ends = (low, f"≤ {first}" if below else first), (high, f"≥ {last}" if above else last)
    return (ends[0], *between, ends[1])
