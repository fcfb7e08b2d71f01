"""Differences of two matrices of the same examples: what the user subtracts, and the chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.frozen_data import dataclass
from dgn_engine.scene.elements import Chart, Scene, largest_magnitude, with_matrix


@dataclass(frozen=True)
class Subtrahend:
    """The chart to subtract, as the panel draws it now or with another choice.

    `option` and `value`: the choice in the panel's header; '' for the panel as drawn now.
    """

    chart: str
    option: str = ""
    value: str = ""


# Draws the panel's scene with an option at a value; None if it shows nothing then.
DrawnWith = Callable[[str, str], Scene | None]


def no_other_choices(_option: str, _value: str) -> Scene | None:
    """Return None: a scene without a panel has no other choices."""
    return None


def reason_not_subtractable(minuend: Chart, other: Chart) -> str:
    """Return why one chart cannot be subtracted from another, in one sentence; '' if it can."""
    matrix, other_matrix = minuend.matrix, other.matrix
    if matrix is None or other_matrix is None:
        return "that matrix is not available"
    if matrix.tile or other_matrix.tile:
        return "images of units are not subtracted"
    if matrix.values.shape != other_matrix.values.shape:
        return (
            f"{other.title} has {_format_shape(other_matrix.values.shape)}, not "
            f"{_format_shape(matrix.values.shape)}"
        )
    labels = (
        (matrix.row_labels, matrix.column_labels),
        (other_matrix.row_labels, other_matrix.column_labels),
    )
    if labels[0] != labels[1]:
        return f"{other.title} shows different examples"
    return ""


def subtract_charts(
    charts: Sequence[Chart],
    wanted: Mapping[str, Subtrahend],
    drawn_with: DrawnWith = no_other_choices,
) -> tuple[tuple[Chart, ...], tuple[str, ...], tuple[str, ...]]:
    """Replace charts by their differences.

    Returns:
        The charts, a sentence about each difference, and one about each that is not possible.
    """
    result: list[Chart] = []
    sentences: list[str] = []
    refusals: list[str] = []
    for chart in charts:
        if chart.key not in wanted or chart.matrix is None:
            result.append(chart)
            continue
        subtrahend = find_subtrahend(charts, wanted[chart.key], drawn_with)
        why = (
            "that matrix is not available"
            if subtrahend is None
            else reason_not_subtractable(chart, subtrahend)
        )
        if subtrahend is None or why:
            result.append(chart)
            refusals.append(f"Cannot subtract from {chart.title}: {why}.")
        else:
            result.append(difference_chart(chart, subtrahend))
            sentences.append(_describe_difference(chart, subtrahend))
    return _with_bars(charts, result), tuple(sentences), tuple(refusals)


def find_subtrahend(
    charts: Sequence[Chart], wanted: Subtrahend, drawn_with: DrawnWith = no_other_choices
) -> Chart | None:
    """Return the chart to subtract, if there is one now."""
    if wanted.option:
        scene = drawn_with(wanted.option, wanted.value)
        charts = scene.charts if scene is not None else ()
    return next((chart for chart in charts if chart.key == wanted.chart), None)


def difference_chart(minuend: Chart, other: Chart) -> Chart:
    """Subtract entry by entry, in diverging colours centred on 0, with its own colour bar."""
    assert minuend.matrix is not None
    assert other.matrix is not None
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is undefined
        values = minuend.matrix.values.astype(np.float64) - other.matrix.values
    reach = largest_magnitude(values)
    matrix = replace(
        minuend.matrix,
        name=f"{minuend.matrix.name} - {other.matrix.name}",
        values=values,
        ramp="diverging",
        low=-reach,
        high=reach,
        bar="difference",
        scale="",
        beyond=(False, False),
        dead_columns=(),
        sides=None,
        estimated=minuend.matrix.estimated or other.matrix.estimated,
        error=None,  # unknown for a difference: both may come from the same draws
    )
    return replace(minuend, title=f"{minuend.title} − {other.title}", matrix=matrix)


def _describe_difference(minuend: Chart, other: Chart) -> str:
    """Describe what was subtracted, and how both are normalised."""
    assert minuend.matrix is not None
    assert other.matrix is not None
    scales = [matrix.scale or matrix.bar for matrix in (minuend.matrix, other.matrix)]
    names = (minuend.title, other.title)
    if scales[0] == scales[1]:
        how = f"both {scales[0]}" if scales[0] else "both as shown"
        return f"{names[0]} − {names[1]}: {how}."
    parts = (f"{name} ({scale or 'as shown'})" for name, scale in zip(names, scales, strict=True))
    return f"{' − '.join(parts)}: normalised differently."


def _with_bars(before: Sequence[Chart], after: list[Chart]) -> tuple[Chart, ...]:
    """Pass the shared colour bar on if a difference replaced the matrix that had it."""
    for old, new in zip(before, list(after), strict=True):
        if old is new or old.matrix is None or not old.matrix.bar:
            continue
        scale = (old.matrix.ramp, old.matrix.low, old.matrix.high)
        others = {
            index: matrix.bar
            for index, chart in enumerate(after)
            if (matrix := chart.matrix) is not None and not chart.small
            if (matrix.ramp, matrix.low, matrix.high) == scale
        }
        if others and not any(others.values()):
            after[max(others)] = with_matrix(after[max(others)], bar=old.matrix.bar)
    return tuple(after)


def _format_shape(shape: tuple[int, ...]) -> str:
    return " × ".join(str(side) for side in shape)
