"""One matrix minus another of the same examples: what the user subtracts, and its chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dgn_engine.scene.elements import Chart, Scene, reach_of, with_matrix


@dataclass(frozen=True)
class Subtrahend:
    """What is subtracted: a chart of the panel as it is, or as it is with another choice.

    `option` and `value`: the choice in the panel's header; '' for the panel as it is.
    """

    chart: str
    option: str = ""
    value: str = ""


# The panel's scene with an option at a value; None where it shows nothing so.
DrawnWith = Callable[[str, str], Scene | None]


def as_it_is(_option: str, _value: str) -> Scene | None:
    """For scenes of no panel: there are no other choices."""
    return None


def why_not(minuend: Chart, other: Chart) -> str:
    """Why the difference of two charts makes no sense, in one sentence; '' where it does."""
    one, two = minuend.matrix, other.matrix
    if one is None or two is None:
        return "there is no such matrix now"
    if one.tile or two.tile or one.values.shape != two.values.shape:
        return f"{other.title} has {_size(two.values.shape)}, not {_size(one.values.shape)}"
    labels = (one.row_labels, one.column_labels), (two.row_labels, two.column_labels)
    if labels[0] != labels[1]:
        return f"{other.title} is of other examples"
    return ""


def subtracted(
    charts: Sequence[Chart], wanted: Mapping[str, Subtrahend], drawn_with: DrawnWith = as_it_is
) -> tuple[tuple[Chart, ...], tuple[str, ...]]:
    """The charts with differences in the place of the minuends, and a sentence about each."""
    found: list[Chart] = []
    words: list[str] = []
    for chart in charts:
        if chart.key not in wanted or chart.matrix is None:
            found.append(chart)
            continue
        other = operand(charts, wanted[chart.key], drawn_with)
        why = "there is no such matrix now" if other is None else why_not(chart, other)
        if other is None or why:
            found.append(chart)
            words.append(f"Nothing is subtracted from {chart.title}: {why}.")
        else:
            found.append(difference(chart, other))
            words.append(_said(chart, other))
    return _with_bars(charts, found), tuple(words)


def operand(
    charts: Sequence[Chart], wanted: Subtrahend, drawn_with: DrawnWith = as_it_is
) -> Chart | None:
    """The chart that is to be subtracted, where there is one now."""
    if wanted.option:
        scene = drawn_with(wanted.option, wanted.value)
        charts = scene.charts if scene is not None else ()
    return next((chart for chart in charts if chart.key == wanted.chart), None)


def difference(minuend: Chart, other: Chart) -> Chart:
    """Entry by entry, in the diverging colours centred on 0, with a colour bar of its own."""
    assert minuend.matrix is not None
    assert other.matrix is not None
    with np.errstate(invalid="ignore"):  # ∞ − ∞: there is no number for it
        values = minuend.matrix.values.astype(np.float64) - other.matrix.values
    reach = reach_of(values)
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
        estimated=minuend.matrix.estimated or other.matrix.estimated,
        error=None,  # that of a difference is not known: both may come from the same draws
    )
    return replace(minuend, title=f"{minuend.title} − {other.title}", matrix=matrix)


def _said(minuend: Chart, other: Chart) -> str:
    """What was subtracted, and how both are normalised."""
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
    """Where a difference took the place of the matrix with the shared bar, another has it now."""
    for old, new in zip(before, list(after), strict=True):
        if old is new or old.matrix is None or not old.matrix.bar:
            continue
        scale = (old.matrix.ramp, old.matrix.low, old.matrix.high)
        rest = {
            place: matrix.bar
            for place, chart in enumerate(after)
            if (matrix := chart.matrix) is not None and not chart.small
            if (matrix.ramp, matrix.low, matrix.high) == scale
        }
        if rest and not any(rest.values()):
            after[max(rest)] = with_matrix(after[max(rest)], bar=old.matrix.bar)
    return tuple(after)


def _size(shape: tuple[int, ...]) -> str:
    return " × ".join(str(side) for side in shape)
