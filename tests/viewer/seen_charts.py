"""What of the charts of a view is in sight."""

from __future__ import annotations

from PySide6.QtCore import QRectF

from dgn_engine.scene.axes import Range
from dgn_viewer.plots.scene_view import SceneView


def visible_range(view: SceneView, key: str) -> tuple[Range, Range]:
    """The part of a chart that is visible, in drawn coordinates (powers of ten on log axes)."""
    area = view.charts.items[key].plot_area()
    return area.x, area.y


def chips(view: SceneView, key: str) -> tuple[tuple[str, QRectF], ...]:
    """What the lane of a chart shows: the text of each chip, and where it is."""
    lane = view.charts.items[key].lane() if key in view.charts.shown_keys() else None
    return tuple((c.text, lane.chip_box(c)) for c in lane.chips) if lane is not None else ()
