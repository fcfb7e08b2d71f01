"""Some of a scene's charts by name, laid out as if they were all of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dgn_engine.scene.chart_layout import closed_up
from dgn_engine.scene.elements import Chart, Matrix, Scene, with_matrix

_OF_STEP = re.compile(r"(.+)_step\d+")


def chart_names(scene: Scene) -> tuple[str, ...]:
    """Names of the charts: their keys, and one name for the charts of two steps together."""
    keys = [chart.key for chart in scene.charts]
    bases = (found[1] for key in keys if (found := _OF_STEP.fullmatch(key)))
    return tuple(dict.fromkeys((*bases, *keys)))


def choose_charts(scene: Scene, names: set[str]) -> Scene:
    """Return the scene with the charts of these names alone; see `chart_names`."""
    chosen = [chart for chart in scene.charts if names & _names_of(chart)]
    whole = (replace(c, narrow=None, small=False, chosen=False) for c in closed_up(chosen))
    charts = [_with_names(chart) for chart in whole]
    return replace(scene, charts=tuple(_with_bars(scene.charts, charts)))


def _names_of(chart: Chart) -> set[str]:
    found = _OF_STEP.fullmatch(chart.key)
    return {chart.key, found[1]} if found else {chart.key}


def _with_names(chart: Chart) -> Chart:
    """With the names of its rows, where a chart on its left had them."""
    if chart.square and chart.column == 0 and chart.y.ticks == ():
        return replace(chart, y=chart.x)
    return chart


def _with_bars(every: Sequence[Chart], chosen: Sequence[Chart]) -> list[Chart]:
    """With a colour bar for each scale, where another chart had it."""
    bars = {_scale(m): m.bar for chart in every if (m := chart.matrix) is not None and m.bar}
    shown = {_scale(m) for chart in chosen if (m := chart.matrix) is not None and m.bar}
    found: list[Chart] = []
    for chart in reversed(chosen):
        matrix = chart.matrix
        if matrix is not None and _scale(matrix) in bars and _scale(matrix) not in shown:
            shown.add(_scale(matrix))
            chart = with_matrix(chart, bar=bars[_scale(matrix)])
        found.append(chart)
    return found[::-1]


def _scale(matrix: Matrix) -> tuple[str, float, float]:
    return matrix.ramp, matrix.low, matrix.high
