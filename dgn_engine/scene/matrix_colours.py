"""Which values the colours of a matrix reach from and to, and matrices that share one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dgn_engine.scene.axes import Range
from dgn_engine.scene.elements import Array, Chart, Matrix, Ramp

# '': as the panel draws it; 'pairs': off the diagonal of a square matrix.
Span = Literal["", "whole", "middle_98", "middle_90", "pairs", "symmetric", "fixed"]
SPANS: Mapping[Span, str] = {
    "whole": "least to greatest value",
    "middle_98": "1st to 99th percentile",
    "middle_90": "5th to 95th percentile",
    "pairs": "1st to 99th percentile off the diagonal",
    "symmetric": "symmetric about 0",
    "fixed": "fixed by hand",
}
_SHARES = {"middle_98": (1.0, 99.0), "pairs": (1.0, 99.0), "middle_90": (5.0, 95.0)}


@dataclass(frozen=True)
class ColourChoice:
    """What the user chose for one matrix; '' leaves it to the panel. `fixed` goes with its span."""

    span: Span = ""
    fixed: Range = (0.0, 1.0)
    ramp: Ramp | Literal[""] = ""


def span_range(matrices: Sequence[Array], span: Span) -> Range | None:
    """(low, high) of all these matrices together, low < high; None where no value is finite.

    Percentiles lie between two values where need be, in proportion. 'fixed' and '' have none.
    """
    parts = [_pairs(values) if span == "pairs" else np.ravel(values) for values in matrices]
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
            low, high = (float(one) for one in np.percentile(values, _SHARES[span]))
        case _:
            return None
    # Of one value alone: from 0 to it, so that an overlap of 1 everywhere is bright, below no 1.1.
    return (low, high) if low < high else (min(low, 0.0), max(low, 0.0 if low else 1.0))


def ranged(matrix: Matrix, low: float, high: float, seen: Sequence[Array] = ()) -> Matrix:
    """The matrix in colours from `low` to `high`; which of `seen`, or of its values, lie beyond.

    A diverging scale is centred on 0, so it reaches as far to both sides.
    """
    if matrix.ramp == "diverging":
        high = max(abs(low), abs(high))
        low = -high
    parts = seen or (matrix.values,)
    with np.errstate(invalid="ignore"):
        below = any(bool((values < low).any()) for values in parts)
        above = any(bool((values > high).any()) for values in parts)
    return replace(matrix, low=low, high=high, beyond=(below, above))


def sharing(charts: Sequence[Chart], key: str) -> tuple[str, ...]:
    """The keys of the charts whose matrices share one scale and one colour bar with this one."""
    own = next((chart.matrix for chart in charts if chart.key == key), None)
    if own is None:
        return ()
    same = [chart for chart in charts if _scale(chart) == (own.ramp, own.low, own.high)]
    bars = [chart for chart in same if chart.matrix is not None and chart.matrix.bar]
    together = len(bars) <= 1 and any(chart.key == key for chart in same)
    return tuple(chart.key for chart in same) if together else (key,)


def coloured(
    charts: Sequence[Chart], wanted: Mapping[str, ColourChoice]
) -> tuple[tuple[Chart, ...], tuple[str, ...]]:
    """The charts in the chosen colours, and a sentence for each range that was chosen.

    Matrices that share a scale and were given the same choice go on sharing it.
    """
    found = {chart.key: chart for chart in charts}
    words: list[str] = []
    left = [chart.key for chart in charts if chart.key in wanted and _scale(chart)]
    while left:
        choice = wanted[left[0]]
        group = [key for key in sharing(charts, left[0]) if wanted.get(key) == choice]
        left = [key for key in left if key not in group]
        matrices = {
            key: replace(matrix, ramp=choice.ramp or matrix.ramp)
            for key in group
            if (matrix := found[key].matrix)
        }
        seen = [matrix.values for matrix in matrices.values()]
        reach = choice.fixed if choice.span == "fixed" else span_range(seen, choice.span)
        for key, matrix in matrices.items():
            shown = ranged(matrix, *reach, seen) if reach and choice.span else matrix
            found[key] = replace(found[key], matrix=shown)
        if reach and choice.span:
            words.append(f"Colours{_of(charts, group)}: {SPANS[choice.span]}.")
    return tuple(found[chart.key] for chart in charts), tuple(words)


def _of(charts: Sequence[Chart], group: Sequence[str]) -> str:
    """' of Active Λ' where the panel has matrices in other colours."""
    scaled = {chart.key: chart.title for chart in charts if _scale(chart)}
    return "" if set(group) == set(scaled) else f" of {' and '.join(scaled[k] for k in group)}"


def _scale(chart: Chart) -> tuple[Ramp, float, float] | None:
    """What two matrices have in common that share a colour bar; None for what has no scale."""
    matrix = chart.matrix
    if matrix is None or chart.small:
        return None
    return matrix.ramp, matrix.low, matrix.high


def _pairs(values: Array) -> Array:
    """The entries of two different rows of a square matrix; all where it is not square."""
    rows, columns = values.shape
    return values[~np.eye(rows, dtype=bool)] if rows == columns else np.ravel(values)
