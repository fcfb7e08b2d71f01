"""Some of a scene's charts, by name, laid out as if there were no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dgn_engine.scene.chart_layout import close_gaps
from dgn_engine.scene.elements import Chart, Matrix, Scene, with_matrix

_OF_STEP = re.compile(r"(.+)_step\d+")


def chart_names(scene: Scene) -> tuple[str, ...]:
    """Return the chart keys, and one common name for the charts of two steps."""
    keys = [chart.key for chart in scene.charts]
    bases = (match[1] for key in keys if (match := _OF_STEP.fullmatch(key)))
    return tuple(dict.fromkeys((*bases, *keys)))


def choose_charts(scene: Scene, names: set[str]) -> Scene:
    """Return the scene with only the charts of these names; see `chart_names`."""
    chosen = [chart for chart in scene.charts if names & _names_of(chart)]
    whole = (replace(c, narrow=None, small=False, chosen=False) for c in close_gaps(chosen))
    charts = [_with_names(chart) for chart in whole]
    return replace(scene, charts=tuple(_with_bars(scene.charts, charts)))


def _names_of(chart: Chart) -> set[str]:
    match = _OF_STEP.fullmatch(chart.key)
    return {chart.key, match[1]} if match else {chart.key}


def _with_names(chart: Chart) -> Chart:
    """Name the chart's rows if a chart on its left had the names."""
    if chart.square and chart.column == 0 and chart.y.ticks == ():
        return replace(chart, y=chart.x)
    return chart


def _with_bars(every: Sequence[Chart], chosen: Sequence[Chart]) -> list[Chart]:
    """Give each scale a colour bar if another chart had it."""
    bars = {_colour_scale(m): m.bar for chart in every if (m := chart.matrix) is not None and m.bar}
    shown = {_colour_scale(m) for chart in chosen if (m := chart.matrix) is not None and m.bar}
    result: list[Chart] = []
    for chart in reversed(chosen):
        matrix = chart.matrix
        if (
            matrix is not None
            and _colour_scale(matrix) in bars
            and _colour_scale(matrix) not in shown
        ):
            shown.add(_colour_scale(matrix))
            chart = with_matrix(chart, bar=bars[_colour_scale(matrix)])
        result.append(chart)
    return result[::-1]


def _colour_scale(matrix: Matrix) -> tuple[str, float, float]:
    return matrix.ramp, matrix.low, matrix.high
