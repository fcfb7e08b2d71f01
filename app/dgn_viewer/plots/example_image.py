"""Images of examples for Qt."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QImage

from dgn_engine.scene.elements import Array


def example_image(pixels: Array) -> QImage:
    """Convert uint8 pixels of shape (H, W) or (H, W, 3) to an image that owns its data."""
    height, width = pixels.shape[:2]
    grey = pixels.ndim == 2
    format_ = QImage.Format.Format_Grayscale8 if grey else QImage.Format.Format_RGB888
    contiguous = np.ascontiguousarray(pixels)
    return QImage(contiguous.data, width, height, width * (1 if grey else 3), format_).copy()
