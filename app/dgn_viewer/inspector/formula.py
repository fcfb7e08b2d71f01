"""Formulas rendered by matplotlib's mathtext at the resolution of the screen."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.scene.typeset import formula_to_text

_PIXELS = 16  # font size on the screen
_POINTS = 10.0  # font size for mathtext; the resolution scales it to _PIXELS


class FormulaView(QWidget):
    """A formula, shrunk if it is wider than the widget."""

    def __init__(self, tex: str) -> None:
        super().__init__()
        self._tex, self._theme = tex, LIGHT
        self._image: QImage | None = None
        self._drawn_for: tuple[float, str] | None = None
        mask = render_coverage(tex, 1.0)
        self._natural = QSize(mask.shape[1], mask.shape[0])
        self.setAccessibleName(formula_to_text(tex))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return self._natural

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._natural.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Render the formula again if scale or colour have changed, and paint it unscaled."""
        ratio = self.devicePixelRatio()
        shrink = min(1.0, self.width() / self._natural.width())
        key = (ratio * shrink, self._theme.text)
        if key != self._drawn_for or self._image is None:
            self._image = tint_mask(render_coverage(self._tex, ratio * shrink), self._theme.text)
            self._drawn_for = key
        painter = QPainter(self)
        width, height = self._image.width() / ratio, self._image.height() / ratio
        top = round((self.height() - height) / 2 * ratio) / ratio
        painter.drawImage(QRectF(0, top, width, height), self._image)
        painter.end()


def render_coverage(tex: str, scale: float) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Render a formula.

    Args:
        tex: The formula in mathtext syntax.
        scale: The scale relative to 16 px letters.

    Returns:
        The coverage of each pixel from 0 to 255, of shape (height, width).

    Raises:
        ValueError: mathtext cannot parse the formula.
    """
    # Importing matplotlib takes a quarter of a second, so only import it when needed.
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    from dgn_engine.figures.set_text import matplotlib_lock

    dpi = 72.0 * _PIXELS / _POINTS * scale
    prop = FontProperties(size=_POINTS, math_fontfamily="stix")
    with matplotlib_lock:  # figures are drawn in another thread
        parsed = MathTextParser("agg").parse(tex, dpi, prop)
    return np.asarray(parsed.image, dtype=np.uint8)


def tint_mask(mask: np.ndarray[tuple[int, int], np.dtype[np.uint8]], colour: str) -> QImage:
    """Return an image in one colour with a coverage of shape (height, width) as alpha."""
    height, width = mask.shape
    rgb = QColor(colour)
    channels = np.empty((height, width, 4), np.uint8)
    channels[..., 0], channels[..., 1], channels[..., 2] = rgb.red(), rgb.green(), rgb.blue()
    channels[..., 3] = mask
    data = channels.tobytes()
    return QImage(data, width, height, 4 * width, QImage.Format.Format_RGBA8888).copy()
