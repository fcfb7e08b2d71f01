"""The delta cursor: two marked steps, and how every curve over steps changed between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.scene.elements import Chart, Curve, Scene
from dgn_engine.text.written_numbers import format_number


def with_delta(scene: Scene, marks: tuple[int, ...]) -> Scene:
    """Add marks to the charts over steps; between two, add the changes to the note."""
    if not marks or not any(chart.has_step_axis for chart in scene.charts):
        return scene
    delta = tuple(float(step) for step in marks)
    charts = tuple(replace(c, delta=delta) if c.has_step_axis else c for c in scene.charts)
    timed = [chart for chart in charts if chart.has_step_axis]
    lines = (": ".join((c.title, ", ".join(delta_lines(c)[1:]))) for c in timed)
    summary = f"{delta_lines(timed[0])[0]}. " if len(marks) == 2 else ""
    note = f"{summary}{'; '.join(lines)}. {scene.note}" if summary else scene.note
    return replace(scene, charts=charts, note=note.strip())


def delta_lines(chart: Chart) -> tuple[str, ...]:
    """Return 'Δ step +360 (120 → 480)' and each curve's change; of one mark 'step 120 …'."""
    if len(chart.delta) == 1:
        return (f"step {format_number(chart.delta[0])} → mark another",)
    if len(chart.delta) != 2:
        return ()
    first, second = chart.delta
    lines = [
        f"Δ step {format_number(second - first, signed=True)} ({format_number(first)} → "
        f"{format_number(second)})"
    ]
    for curve in chart.curves:
        if curve.smoothed or not curve.x.size:
            continue
        ends = value_at(curve, first), value_at(curve, second)
        name = curve.name or chart.title
        if ends[0] is None or ends[1] is None:
            lines.append(f"{name}  value missing")
            continue
        times = ends[1] / ends[0] if chart.y.log and ends[0] else None
        ratio = f" (×{format_number(times, 3)})" if times is not None else ""
        lines.append(f"{name}  {format_number(ends[1] - ends[0], 4, signed=True)}{ratio}")
    return tuple(lines)


def value_at(curve: Curve, step: float) -> float | None:
    """Return the last value known at this step; None if there was none."""
    finite = np.isfinite(curve.y)
    x, y = curve.x[finite], curve.y[finite]
    count = int(np.searchsorted(x, step, side="right"))
    return float(y[count - 1]) if count else None
