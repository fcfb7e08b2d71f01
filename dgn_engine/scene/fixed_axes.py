"""The same axes and colours in all scenes of an animation, so that only the data move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dgn_engine.scene.axes import Range, chart_range
from dgn_engine.scene.elements import Chart, Scene, finite_range, with_matrix


def with_fixed_axes(scenes: Sequence[Scene]) -> list[Scene]:
    """Give these scenes axes that cover the data of all of them.

    Charts are matched by key. The colours of a matrix in several scenes range from its smallest
    `low` to its largest `high`.
    """
    charts_by_key: dict[str, list[Chart]] = {}
    for scene in scenes:
        for chart in scene.charts:
            charts_by_key.setdefault(chart.key, []).append(chart)
    reaches = {key: _joint_range(charts) for key, charts in charts_by_key.items()}
    colours = {key: _joint_colours(charts) for key, charts in charts_by_key.items()}
    return [
        replace(scene, charts=tuple(_fix_axes(chart, reaches, colours) for chart in scene.charts))
        for scene in scenes
    ]


def _joint_range(charts: Sequence[Chart]) -> tuple[Range, Range]:
    ranges = [chart_range(chart) for chart in charts]
    return _union_range([x for x, _ in ranges]), _union_range([y for _, y in ranges])


def _union_range(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _joint_colours(charts: Sequence[Chart]) -> Range | None:
    ends = [(chart.matrix.low, chart.matrix.high) for chart in charts if chart.matrix is not None]
    return _union_range(ends) if ends else None


def _fix_axes(
    chart: Chart, reaches: dict[str, tuple[Range, Range]], colours: dict[str, Range | None]
) -> Chart:
    ends, matrix = colours[chart.key], chart.matrix
    if matrix is not None and ends is not None:
        smallest, largest = finite_range(matrix.values)
        beyond = matrix.beyond[0] and smallest < ends[0], matrix.beyond[1] and largest > ends[1]
        return with_matrix(chart, low=ends[0], high=ends[1], beyond=beyond)
    x, y = reaches[chart.key]
    return replace(chart, x=replace(chart.x, limits=x), y=replace(chart.y, limits=y))
