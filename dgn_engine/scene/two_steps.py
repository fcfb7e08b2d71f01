"""A panel at two steps of one run, as one scene."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.scene.compared import overlay_charts
from dgn_engine.scene.elements import Chart, Fact, Scene, deep_equal
from dgn_engine.scene.fixed_axes import with_fixed_axes
from dgn_engine.scene.scatter import is_scattered

_FEW = 4  # curves per step that can still be told apart in one chart
_PARTS = 6  # of a column, which two or three charts can share
_SENTENCE = re.compile(r"(?<=\.) ")


def step_labels(steps: tuple[int, int]) -> tuple[str, str]:
    """Return the labels of both steps in titles and legends: 'step 0', 'step 900'."""
    return f"step {steps[0]}", f"step {steps[1]}"


def step_key(key: str, step: int) -> str:
    """Return the key of a chart that shows one of both steps."""
    return f"{key}_step{step}"


def scene_of_steps(paired: Scene, first: Scene, second: Scene, steps: tuple[int, int]) -> Scene:
    """Return one scene of both steps.

    What the panel itself compares is drawn as in the window. Of the rest, a few curves share one
    chart, matrices and clouds of points are side by side with the same colours and axes, and charts
    over steps have a line at each step.

    Args:
        paired: The scene of the first step, compared with the second.
        first: The scene of the first step alone.
        second: The scene of the second step alone.
        steps: Both steps.
    """
    first_charts = {chart.key: chart for chart in first.charts}
    second_charts = {chart.key: chart for chart in second.charts}
    panel_compares, groups = False, []
    for chart in paired.charts:
        if chart.has_step_axis:
            groups.append([replace(chart, cursor=None, delta=steps)])
        elif chart.key in first_charts and _adds_curves(chart, first_charts[chart.key]):
            groups.append(
                _charts_of_both(first_charts[chart.key], second_charts.get(chart.key), steps)
            )
        else:
            panel_compares = True
            groups.append([_with_step_in_key(chart, steps)])
    facts_differ = not deep_equal(paired.facts, first.facts)
    facts = paired.facts if facts_differ else _merge_facts(first.facts, second.facts)
    note = paired.note if panel_compares else _merge_notes(paired.note, second.note, steps[1])
    return replace(paired, charts=tuple(_in_rows(groups)), facts=facts, note=note)


def _adds_curves(chart: Chart, alone: Chart) -> bool:
    """Return whether the second step only adds curves to the chart of the first.

    Such a chart does not show which step its curves belong to.
    """
    curves_by_name = {curve.name: curve for curve in chart.curves}
    curves = all(deep_equal(curves_by_name.get(curve.name), curve) for curve in alone.curves)
    return curves and deep_equal(chart.matrix, alone.matrix)


def _charts_of_both(ours: Chart, theirs: Chart | None, steps: tuple[int, int]) -> list[Chart]:
    """Return one chart of both steps, or one of each."""
    if theirs is None:
        return [_title_with_step(ours, steps[0])]
    ours, theirs = _with_same_axes(ours, theirs)
    if ours.matrix is None and not ours.square and _are_lines(ours) and _are_lines(theirs):
        return [overlay_charts(ours, theirs, step_labels(steps))]
    if ours.matrix is not None and theirs.matrix is not None:
        a, b = ours.matrix, theirs.matrix
        if a.ramp != b.ramp:  # one of them has values of one sign only
            high = max(map(abs, (a.low, a.high, b.low, b.high)))
            a, b = (replace(matrix, ramp="diverging", low=-high, high=high) for matrix in (a, b))
        a = replace(a, bar="" if a.bar == b.bar else a.bar)
        ours, theirs = replace(ours, matrix=a), replace(theirs, matrix=replace(b, of_compared=True))
    if ours.y.ticks is not None and deep_equal(ours.y, theirs.y):  # the left chart has the names
        theirs = replace(theirs, y=replace(theirs.y, label="", ticks=()))
    return [_title_with_step(ours, steps[0]), _title_with_step(theirs, steps[1])]


def _with_same_axes(ours: Chart, theirs: Chart) -> tuple[Chart, Chart]:
    """Give both charts axes and colours that cover both; an empty chart has none."""
    if ours.matrix is None and not (ours.curves and theirs.curves):
        filled = ours if ours.curves else theirs
        return replace(filled, curves=ours.curves), replace(filled, curves=theirs.curves)
    a, b = with_fixed_axes([Scene((ours,)), Scene((theirs,))])
    return a.charts[0], b.charts[0]


def _are_lines(chart: Chart) -> bool:
    """Return whether the chart has a few curves from left to right, no graph or cloud."""
    if len(chart.curves) > _FEW:
        return False
    return not any(
        curve.segments or bool(np.any(np.diff(curve.x) < 0)) or is_scattered(curve)
        for curve in chart.curves
    )


def _title_with_step(chart: Chart, step: int) -> Chart:
    title = ", ".join(filter(None, (chart.title, f"step {step}")))
    if chart.small:  # the overviews of one step are in one row
        title = f"step {step}: {chart.title}" if chart.column == 0 else chart.title
    return replace(chart, key=step_key(chart.key, step), title=title)


def _with_step_in_key(chart: Chart, steps: tuple[int, int]) -> Chart:
    base, _, index = chart.key.rpartition("_")
    if chart.matrix is None or index not in ("0", "1"):
        return chart
    return replace(chart, key=step_key(base, steps[int(index)]))


def _in_rows(groups: Sequence[Sequence[Chart]]) -> Iterator[Chart]:
    """Put each pair of charts in its own row, below a row of overviews for each step.

    The other charts share a row, if there is room.
    """
    if all(len(group) == 1 for group in groups):
        yield from (chart for group in groups for chart in group)
        return
    small = [group for group in groups if group[0].small]
    high = max((chart.row + 1 for group in small for chart in group), default=0)
    whole = _PARTS * max((c.column + c.column_span for group in small for c in group), default=1)
    for index in (0, 1):
        for chart in (group[index] for group in small if index < len(group)):
            row, column = chart.row + index * high, _PARTS * chart.column
            span = _PARTS * chart.column_span
            yield replace(
                chart, row=row, column=column, column_span=span, narrow=(row, column, 1, span)
            )
    rows = [group for group in groups if not group[0].small and len(group) > 1]
    others = [group[0] for group in groups if not group[0].small and len(group) == 1]
    if others:
        first_other = next(index for index, group in enumerate(groups) if group[0] is others[0])
        rows.insert(
            sum(len(group) > 1 and not group[0].small for group in groups[:first_other]), others
        )
    low = row = high * (2 if any(len(group) > 1 for group in small) else 1)
    for charts in rows:
        edges = [whole * index // len(charts) for index in range(len(charts) + 1)]
        for index, chart in enumerate(charts):
            span = edges[index + 1] - edges[index]
            narrow = (low, edges[index], 1, span)
            if charts is others:
                narrow = (low + index, 0, 1, whole)
            yield replace(
                chart, row=row, row_span=1, column=edges[index], column_span=span, narrow=narrow
            )
        row += 1
        low += len(others) if charts is others else 1


def _merge_facts(ours: Sequence[Fact], theirs: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return each number of both steps, once if they are equal."""
    a, b = ({fact.name: fact for fact in facts} for facts in (ours, theirs))
    merged = []
    for name in dict.fromkeys((*a, *b)):
        values = [facts[name].value if name in facts else "–" for facts in (a, b)]
        value = values[0] if values[0] == values[1] else " | ".join(values)
        merged.append(replace(a.get(name) or b[name], value=value))
    return tuple(merged)


def _merge_notes(ours: str, theirs: str, step: int) -> str:
    """Append what the second step's note adds to that of the first."""
    sentences = _SENTENCE.split(ours)
    added = [sentence for sentence in _SENTENCE.split(theirs) if sentence not in sentences]
    return f"{ours} At step {step}: {' '.join(added)}".strip() if added else ours
