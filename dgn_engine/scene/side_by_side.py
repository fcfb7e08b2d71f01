"""A and B of a panel that draws one network only: its charts of both, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgn_engine.scene.compared import (
    b_name,
    facts_of_both,
    notes_of_both,
    overlay_charts,
    pair_labels,
    title_of_side,
    with_difference,
)
from dgn_engine.scene.elements import Chart, Empty, Scene, Shown, with_matrix
from dgn_engine.scene.fixed_axes import with_fixed_axes
from dgn_engine.scene.panel_spec import ComparedRun
from dgn_engine.scene.scatter import is_scattered

_FEW = 4  # curves of a chart that can be told apart from those of another one


def scene_of_both(ours: Shown, theirs: Shown, compared: ComparedRun) -> Shown:
    """Return one scene of A and B; with the reason if there is nothing to show of B.

    Lines share a chart. Matrices are side by side in the same colours, with A − B; other charts
    are side by side on the same axes. Overviews are left out.
    """
    if isinstance(ours, Empty):
        return ours
    if isinstance(theirs, Empty):
        charts = tuple(c if c.small else _with_side(c, compared, False) for c in ours.charts)
        note = f"{ours.note} {b_name(compared)}: {theirs.reason}".lstrip()
        return replace(
            ours, charts=charts, facts=facts_of_both(ours.facts, (), compared), note=note
        )
    others = {chart.key: chart for chart in theirs.charts}
    groups, reasons = [], []
    for chart in ours.charts:
        if not chart.small:
            group, reason = _draw_group(chart, others.get(chart.key), compared)
            groups.append(group)
            reasons.append(reason)
    note = " ".join(filter(None, [notes_of_both(ours.note, theirs.note, compared), *reasons]))
    facts = facts_of_both(ours.facts, theirs.facts, compared)
    return replace(ours, charts=tuple(_in_one_row(groups)), facts=facts, note=note)


def _draw_group(
    ours: Chart, theirs: Chart | None, compared: ComparedRun
) -> tuple[list[Chart], str]:
    """Return the charts that show one chart of A and of B, and why there is no difference."""
    if theirs is None:
        return [_with_side(ours, compared, False)], ""
    if ours.has_step_axis and compared.own:  # both are steps of the curves of A
        return [ours], ""
    if ours.has_step_axis and not theirs.curves:  # a file has no earlier steps
        return [_with_side(ours, compared, False)], ""
    if _are_lines(ours) and _are_lines(theirs):
        return [overlay_charts(ours, theirs, pair_labels(compared))], ""
    left, right = with_fixed_axes([Scene((ours,)), Scene((theirs,))])
    pair = [
        _with_side(left.charts[0], compared, False),
        _with_side(right.charts[0], compared, True),
    ]
    pair = [
        with_matrix(replace(chart, key=f"{ours.key}_{index}"), of_compared=index > 0)
        for index, chart in enumerate(pair)
    ]
    if ours.matrix is None:
        return pair, ""
    charts, reason = with_difference(pair, f"{ours.key}_difference", compared)
    return list(charts), reason


def _with_side(chart: Chart, compared: ComparedRun, of_b: bool) -> Chart:
    return replace(chart, title=title_of_side(compared, of_b, chart.title))


def _are_lines(chart: Chart) -> bool:
    """Return whether the chart has a few curves from left to right, no graph or cloud."""
    return (
        chart.matrix is None
        and not chart.square
        and 0 < len(chart.curves) <= _FEW
        and not any(curve.segments or curve.filled or is_scattered(curve) for curve in chart.curves)
    )


def _in_one_row(groups: Sequence[Sequence[Chart]]) -> list[Chart]:
    """Place all charts in one row; in narrow space, each group in a row of its own."""
    placed: list[Chart] = []
    widest = max((len(group) for group in groups), default=1)
    for row, group in enumerate(groups):
        for index, chart in enumerate(group):
            span = widest if len(group) == 1 else 1
            placed.append(
                replace(
                    chart,
                    row=0,
                    row_span=1,
                    column=len(placed),
                    column_span=1,
                    narrow=(row, index, 1, span),
                )
            )
    return placed
