"""The scale of type and controls: 1, or 1.5 while something is presented."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication

BASE_PIXELS = 13  # size of the interface font at scale 1


def type_scale() -> float:
    """Return the current scale, that of the application's font."""
    pixels = QApplication.font().pixelSize()
    return pixels / BASE_PIXELS if pixels > BASE_PIXELS else 1.0


def scaled(pixels: float) -> int:
    """Return a length at the current scale, in whole pixels."""
    return round(pixels * type_scale())
