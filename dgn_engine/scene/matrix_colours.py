"""Value ranges of the colours of matrices, and matrices that share one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.axes import Range
from dgn_engine.scene.elements import Array, Chart, Matrix, Ramp
from dgn_engine.text.written_numbers import format_number

# '': as the panel draws it; 'pairs': off the diagonal of a square matrix.
Span = Literal["", "whole", "middle_98", "middle_90", "pairs", "symmetric", "fixed"]
SPANS: Mapping[Span, str] = {
    "whole": "smallest to largest value",
    "middle_98": "1st to 99th percentile",
    "middle_90": "5th to 95th percentile",
    "pairs": "1st to 99th percentile off the diagonal",
    "symmetric": "symmetric about 0",
    "fixed": "custom range",
}
_ROUNDING = 1e-6  # relative: values that differ by less are one value
_SHARES = {"middle_98": (1.0, 99.0), "pairs": (1.0, 99.0), "middle_90": (5.0, 95.0)}


@dataclass(frozen=True)
class ColourChoice:
    """The user's choice for one matrix; '' leaves it to the panel. `fixed` is for its span."""

    span: Span = ""
    fixed: Range = (0.0, 1.0)
    ramp: Ramp | Literal[""] = ""


def span_range(matrices: Sequence[Array], span: Span) -> Range | None:
    """Return (low, high) of all matrices together, low < high; None if no value is finite.

    Percentiles are interpolated. 'fixed' and '' have no range.
    """
    parts = [_off_diagonal(values) if span == "pairs" else np.ravel(values) for values in matrices]
    values = np.concatenate(parts).astype(np.float64) if parts else np.zeros(0)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return None
    match span:
        case "whole":
            low, high = float(values.min()), float(values.max())
        case "symmetric":
            reach = float(np.abs(values).max()) or 1.0
            return -reach, reach
        case "middle_98" | "middle_90" | "pairs":
            low, high = (float(end) for end in np.percentile(values, _SHARES[span]))
            if high - low <= _ROUNDING * max(abs(low), abs(high)):
                low = high
        case _:
            return None
    # A single value: from 0 to it, so that an overlap of 1 everywhere is bright.
    return (low, high) if low < high else (min(low, 0.0), max(low, 0.0 if low else 1.0))


def with_colour_range(
    matrix: Matrix, low: float, high: float, seen: Sequence[Array] = ()
) -> Matrix:
    """Return the matrix in colours from `low` to `high`, and whether values lie beyond.

    `seen`: the values to check instead of the matrix's own. A diverging scale is centred on 0, so
    it reaches equally far to both sides.
    """
    if matrix.ramp == "diverging":
        high = max(abs(low), abs(high))
        low = -high
    parts = seen or (matrix.values,)
    with np.errstate(invalid="ignore"):
        below = any(bool((values < low).any()) for values in parts)
        above = any(bool((values > high).any()) for values in parts)
    return replace(matrix, low=low, high=high, beyond=(below, above))


def with_pair_colours(matrix: Matrix, seen: Sequence[Array] = ()) -> Matrix:
    """Return the kernel in colours of its off-diagonal percentiles, which show how pairs differ.

    Values of one sign have a sequential scale, others one centred on 0. Where all pairs are alike,
    the colour bar says so: no scale would show more than a sheet of one colour.

    Args:
        matrix: A square matrix.
        seen: All matrices that share the scale; the matrix alone if empty.
    """
    parts = seen or (matrix.values,)
    reach = span_range(parts, "pairs")
    if constant := _describe_constant(matrix.values):
        matrix = replace(matrix, bar=constant)
    if reach is None:
        return matrix
    ramp: Ramp = "diverging" if reach[0] < 0.0 < reach[1] else "sequential"
    return with_colour_range(replace(matrix, ramp=ramp), *reach, parts)


def share_colours(matrices: Sequence[Array]) -> bool:
    """Return whether one scale, with one colour bar, shows the pairs of each of these kernels.

    It does not if the pairs of one of them crowd in less than a third of it.
    """
    pooled = span_range(matrices, "pairs")
    if pooled is None:
        return False
    reach = pooled[1] - pooled[0]
    if pooled[0] < 0.0 < pooled[1]:  # symmetric about 0
        reach = 2.0 * max(-pooled[0], pooled[1])
    ranges = (span_range((values,), "pairs") for values in matrices)
    return all(own is None or own[1] - own[0] >= reach / 3.0 for own in ranges)


def _describe_constant(values: Array) -> str:
    """Return '0.25 for all pairs' if all off-diagonal values are alike, else ''."""
    pairs = _off_diagonal(values)
    pairs = pairs[np.isfinite(pairs)]
    if not pairs.size:
        return ""
    low, high = float(pairs.min()), float(pairs.max())
    same = high - low <= _ROUNDING * max(abs(low), abs(high))
    return f"{format_number(low, 3)} for all pairs" if same else ""


def charts_sharing_scale(charts: Sequence[Chart], key: str) -> tuple[str, ...]:
    """Return the keys of the charts that share one scale and one colour bar with this one."""
    matrix = next((chart.matrix for chart in charts if chart.key == key), None)
    if matrix is None:
        return ()
    same = [
        chart for chart in charts if _colour_scale(chart) == (matrix.ramp, matrix.low, matrix.high)
    ]
    bars = [chart for chart in same if chart.matrix is not None and chart.matrix.bar]
    shared = len(bars) <= 1 and any(chart.key == key for chart in same)
    return tuple(chart.key for chart in same) if shared else (key,)


def apply_colours(
    charts: Sequence[Chart], wanted: Mapping[str, ColourChoice]
) -> tuple[tuple[Chart, ...], tuple[str, ...]]:
    """Apply colour choices, and return a sentence about each range that was chosen.

    Matrices that share a scale and have the same choice keep sharing it.
    """
    result = {chart.key: chart for chart in charts}
    sentences: list[str] = []
    pending = [chart.key for chart in charts if chart.key in wanted and _colour_scale(chart)]
    while pending:
        choice = wanted[pending[0]]
        group = [
            key for key in charts_sharing_scale(charts, pending[0]) if wanted.get(key) == choice
        ]
        pending = [key for key in pending if key not in group]
        matrices = {
            key: replace(matrix, ramp=choice.ramp or matrix.ramp)
            for key in group
            if (matrix := result[key].matrix)
        }
        values = [matrix.values for matrix in matrices.values()]
        reach = choice.fixed if choice.span == "fixed" else span_range(values, choice.span)
        for key, matrix in matrices.items():
            recoloured = (
                with_colour_range(matrix, *reach, values) if reach and choice.span else matrix
            )
            result[key] = replace(result[key], matrix=recoloured)
        if reach and choice.span:
            sentences.append(f"Colours{_name_charts(charts, group)}: {SPANS[choice.span]}.")
    return tuple(result[chart.key] for chart in charts), tuple(sentences)


def _name_charts(charts: Sequence[Chart], group: Sequence[str]) -> str:
    """Return ' of Active Λ' if the panel has matrices in other colours, else ''."""
    scaled = {chart.key: chart.title for chart in charts if _colour_scale(chart)}
    return "" if set(group) == set(scaled) else f" of {' and '.join(scaled[k] for k in group)}"


def _colour_scale(chart: Chart) -> tuple[Ramp, float, float] | None:
    """Return what matrices that share a colour bar have in common; None without a scale."""
    matrix = chart.matrix
    if matrix is None or chart.small:
        return None
    return matrix.ramp, matrix.low, matrix.high


def _off_diagonal(values: Array) -> Array:
    """Return the off-diagonal entries of a square matrix; all entries if it is not square."""
    rows, columns = values.shape
    return values[~np.eye(rows, dtype=bool)] if rows == columns else np.ravel(values)
