"""The ticks and the label of a scene's axis, for the screen and for figures alike."""

from __future__ import annotations

import math

from dgn_viewer.scene.axes import Range
from dgn_viewer.scene.elements import Axis, Chart
from dgn_viewer.scene.ticks import Tick, linear_ticks, log_ticks


def axis_label(axis: Axis) -> str:
    """'loss' or 'time (s)'."""
    return f"{axis.label} ({axis.unit})" if axis.unit else axis.label


def axis_ticks(axis: Axis, drawn: Range, most: int) -> tuple[Tick, ...]:
    """Ticks of the visible part in drawn coordinates."""
    low, high = min(drawn), max(drawn)
    if axis.ticks is not None:
        inside = [(value, text) for value, text in axis.ticks if value > 0 or not axis.log]
        placed = [(math.log10(v) if axis.log else v, text) for v, text in inside]
        return tuple(tick for tick in placed if low <= tick[0] <= high)
    if axis.log:
        low, high = 10.0 ** max(low, -300.0), 10.0 ** min(high, 300.0)
        return tuple((math.log10(v), text) for v, text in log_ticks(low, high, most))
    return linear_ticks(low, high, most)


def bar_ticks(chart: Chart) -> tuple[Tick, ...]:
    """Ticks of a colour bar."""
    matrix = chart.matrix
    if matrix is None or not matrix.bar:
        return ()
    return linear_ticks(matrix.low, matrix.high, 3)
