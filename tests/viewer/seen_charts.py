"""What of the charts of a view is in sight."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from dgn_engine.scene.axes import Range
from dgn_viewer.plots.scene_view import SceneView


def visible_range(view: SceneView, key: str) -> tuple[Range, Range]:
    """The part of a chart that is visible, in drawn coordinates (powers of ten on log axes)."""
    area = view.charts.items[key].plot_area()
    return area.x, area.y


def chips(view: SceneView, key: str) -> tuple[tuple[str, QRectF], ...]:
    """What the lane of a chart shows: the text of each chip, and where it is."""
    lane = view.charts.items[key].current_lane() if key in view.charts.shown_keys() else None
    return tuple((c.text, lane.chip_box(c)) for c in lane.chips) if lane is not None else ()


def colours_in(seen: QWidget | QImage, every: int = 1) -> set[str]:
    """The opaque colours '#RRGGBB' of a widget or a picture, of every so-manieth pixel each way."""
    image = seen if isinstance(seen, QImage) else seen.grab().toImage()
    image = image.convertToFormat(QImage.Format.Format_ARGB32)
    size = image.height(), image.bytesPerLine() // 4
    pixels = np.frombuffer(image.constBits(), np.uint32).reshape(size)[:, : image.width()]
    found = np.unique(pixels[::every, ::every]).tolist()
    return {f"#{pixel & 0xFFFFFF:06X}" for pixel in found if pixel >> 24 == 0xFF}
