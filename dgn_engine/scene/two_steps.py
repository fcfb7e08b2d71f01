"""What a panel shows at two steps of one run, as one scene."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.scene.compared import overlaid
from dgn_engine.scene.elements import Chart, Fact, Scene, same
from dgn_engine.scene.fixed_axes import with_fixed_axes
from dgn_engine.scene.scatter import is_scattered

_FEW = 4  # curves of one step that can be told apart among as many of another
_PARTS = 6  # of a column: two charts share it, or three
_SENTENCE = re.compile(r"(?<=\.) ")


def step_labels(steps: tuple[int, int]) -> tuple[str, str]:
    """What titles and legends call them: 'step 0', 'step 900'."""
    return f"step {steps[0]}", f"step {steps[1]}"


def step_key(key: str, step: int) -> str:
    """The key of a chart that is of one of both steps."""
    return f"{key}_step{step}"


def scene_of_steps(paired: Scene, first: Scene, second: Scene, steps: tuple[int, int]) -> Scene:
    """Return one scene of both steps.

    What the panel compares by itself is drawn as in the window. Of the rest, a few curves lie in
    one chart, matrices and clouds of points stand side by side with the same colours and axes, and
    charts over steps have a line at each.

    Args:
        paired: What the panel draws of the first step, compared with the second.
        first: What it draws of the first step alone.
        second: What it draws of the second step alone.
        steps: Both steps.
    """
    alone = {chart.key: chart for chart in first.charts}
    others = {chart.key: chart for chart in second.charts}
    compares, groups = False, []
    for chart in paired.charts:
        if chart.timed:
            groups.append([replace(chart, cursor=None, delta=steps)])
        elif chart.key in alone and _adds_curves(chart, alone[chart.key]):
            groups.append(_of_both(alone[chart.key], others.get(chart.key), steps))
        else:
            compares = True
            groups.append([_with_step_in_key(chart, steps)])
    by_panel = not same(paired.facts, first.facts)
    facts = paired.facts if by_panel else _facts(first.facts, second.facts)
    note = paired.note if compares else _note(paired.note, second.note, steps[1])
    return replace(paired, charts=tuple(_in_rows(groups)), facts=facts, note=note)


def _adds_curves(chart: Chart, alone: Chart) -> bool:
    """Whether all that the chart has of the first step is the same without the second: it does not
    say which step that is of."""
    kept = {curve.name: curve for curve in chart.curves}
    curves = all(same(kept.get(curve.name), curve) for curve in alone.curves)
    return curves and same(chart.matrix, alone.matrix)


def _of_both(ours: Chart, theirs: Chart | None, steps: tuple[int, int]) -> list[Chart]:
    """One chart of both steps, or one of each."""
    if theirs is None:
        return [_titled(ours, steps[0])]
    ours, theirs = _with_same_axes(ours, theirs)
    if ours.matrix is None and not ours.square and _are_lines(ours) and _are_lines(theirs):
        return [overlaid(ours, theirs, step_labels(steps))]
    if ours.matrix is not None and theirs.matrix is not None:
        a, b = ours.matrix, theirs.matrix
        if a.ramp != b.ramp:  # one of them has values of one sign alone
            high = max(map(abs, (a.low, a.high, b.low, b.high)))
            a, b = (replace(one, ramp="diverging", low=-high, high=high) for one in (a, b))
        a = replace(a, bar="" if a.bar == b.bar else a.bar)
        ours, theirs = replace(ours, matrix=a), replace(theirs, matrix=replace(b, of_compared=True))
    if ours.y.ticks is not None and same(ours.y, theirs.y):  # names, which the left chart has
        theirs = replace(theirs, y=replace(theirs.y, label="", ticks=()))
    return [_titled(ours, steps[0]), _titled(theirs, steps[1])]


def _with_same_axes(ours: Chart, theirs: Chart) -> tuple[Chart, Chart]:
    """The charts with axes and colours that reach as far as both do; an empty one has none."""
    if ours.matrix is None and not (ours.curves and theirs.curves):
        wanted = ours if ours.curves else theirs
        return replace(wanted, curves=ours.curves), replace(wanted, curves=theirs.curves)
    a, b = with_fixed_axes([Scene((ours,)), Scene((theirs,))])
    return a.charts[0], b.charts[0]


def _are_lines(chart: Chart) -> bool:
    """A few curves from left to right: no edges of a graph, no cloud of points."""
    if len(chart.curves) > _FEW:
        return False
    return not any(
        curve.segments or bool(np.any(np.diff(curve.x) < 0)) or is_scattered(curve)
        for curve in chart.curves
    )


def _titled(chart: Chart, step: int) -> Chart:
    title = ", ".join(filter(None, (chart.title, f"step {step}")))
    if chart.small:  # those of one step stand in one row
        title = f"step {step}: {chart.title}" if chart.column == 0 else chart.title
    return replace(chart, key=step_key(chart.key, step), title=title)


def _with_step_in_key(chart: Chart, steps: tuple[int, int]) -> Chart:
    base, _, place = chart.key.rpartition("_")
    if chart.matrix is None or place not in ("0", "1"):
        return chart
    return replace(chart, key=step_key(base, steps[int(place)]))


def _in_rows(groups: Sequence[Sequence[Chart]]) -> Iterator[Chart]:
    """Where charts stand in pairs, each pair in a row of its own, below a row of overviews for each
    step; the other charts share a row, where there is room."""
    if all(len(group) == 1 for group in groups):
        yield from (chart for group in groups for chart in group)
        return
    small = [group for group in groups if group[0].small]
    high = max((chart.row + 1 for group in small for chart in group), default=0)
    whole = _PARTS * max((c.column + c.column_span for group in small for c in group), default=1)
    for place in (0, 1):
        for chart in (group[place] for group in small if place < len(group)):
            row, column = chart.row + place * high, _PARTS * chart.column
            span = _PARTS * chart.column_span
            yield replace(
                chart, row=row, column=column, column_span=span, narrow=(row, column, 1, span)
            )
    rows = [group for group in groups if not group[0].small and len(group) > 1]
    others = [group[0] for group in groups if not group[0].small and len(group) == 1]
    if others:
        before = next(place for place, group in enumerate(groups) if group[0] is others[0])
        rows.insert(sum(len(group) > 1 and not group[0].small for group in groups[:before]), others)
    low = row = high * (2 if any(len(group) > 1 for group in small) else 1)
    for charts in rows:
        edges = [whole * place // len(charts) for place in range(len(charts) + 1)]
        for place, chart in enumerate(charts):
            span = edges[place + 1] - edges[place]
            narrow = (low, edges[place], 1, span)
            if charts is others:
                narrow = (low + place, 0, 1, whole)
            yield replace(
                chart, row=row, row_span=1, column=edges[place], column_span=span, narrow=narrow
            )
        row += 1
        low += len(others) if charts is others else 1


def _facts(ours: Sequence[Fact], theirs: Sequence[Fact]) -> tuple[Fact, ...]:
    """Each number of both steps, once where they are equal."""
    a, b = ({fact.name: fact for fact in facts} for facts in (ours, theirs))
    found = []
    for name in dict.fromkeys((*a, *b)):
        values = [facts[name].value if name in facts else "–" for facts in (a, b)]
        value = values[0] if values[0] == values[1] else " | ".join(values)
        found.append(replace(a.get(name) or b[name], value=value))
    return tuple(found)


def _note(ours: str, theirs: str, step: int) -> str:
    """The note of the first step, and what that of the second says else."""
    known = _SENTENCE.split(ours)
    more = [sentence for sentence in _SENTENCE.split(theirs) if sentence not in known]
    return f"{ours} At step {step}: {' '.join(more)}".strip() if more else ours
