"""Pictures of examples as Qt draws them."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QImage

from dgn_engine.scene.elements import Array


def example_image(pixels: Array) -> QImage:
    """A picture that owns its pixels, of (H, W) or (H, W, 3) uint8."""
    high, wide = pixels.shape[:2]
    grey = pixels.ndim == 2
    format_ = QImage.Format.Format_Grayscale8 if grey else QImage.Format.Format_RGB888
    content = np.ascontiguousarray(pixels)
    return QImage(content.data, wide, high, wide * (1 if grey else 3), format_).copy()
