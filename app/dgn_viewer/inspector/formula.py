"""Formulas set by matplotlib's mathtext, crisp at the screen's own resolution."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.scene.typeset import formula_in_letters

_PIXELS = 16  # size of the letters
_POINTS = 10.0  # what mathtext is asked for; the resolution does the rest


class FormulaView(QWidget):
    """One formula; too wide for its place, it is set smaller."""

    def __init__(self, tex: str) -> None:
        super().__init__()
        self._tex, self._theme = tex, LIGHT
        self._image: QImage | None = None
        self._drawn_for: tuple[float, str] | None = None
        mask = typeset(tex, 1.0)
        self._natural = QSize(mask.shape[1], mask.shape[0])
        self.setAccessibleName(formula_in_letters(tex))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return self._natural

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._natural.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Set it anew where scale or colour changed, and show it pixel by pixel."""
        ratio = self.devicePixelRatio()
        shrink = min(1.0, self.width() / self._natural.width())
        key = (ratio * shrink, self._theme.text)
        if key != self._drawn_for or self._image is None:
            self._image = tinted(typeset(self._tex, ratio * shrink), self._theme.text)
            self._drawn_for = key
        painter = QPainter(self)
        width, height = self._image.width() / ratio, self._image.height() / ratio
        top = round((self.height() - height) / 2 * ratio) / ratio
        painter.drawImage(QRectF(0, top, width, height), self._image)
        painter.end()


def typeset(tex: str, scale: float) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Coverage (height, width), 0…255; raises `ValueError` where the TeX is not understood."""
    # Loading matplotlib takes a quarter of a second: only when a formula is asked for.
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    dpi = 72.0 * _PIXELS / _POINTS * scale
    prop = FontProperties(size=_POINTS, math_fontfamily="stix")
    parsed = MathTextParser("agg").parse(tex, dpi, prop)
    return np.asarray(parsed.image, dtype=np.uint8)


def tinted(mask: np.ndarray[tuple[int, int], np.dtype[np.uint8]], colour: str) -> QImage:
    """The coverage in one colour."""
    height, width = mask.shape
    ink = QColor(colour)
    channels = np.empty((height, width, 4), np.uint8)
    channels[..., 0], channels[..., 1], channels[..., 2] = ink.red(), ink.green(), ink.blue()
    channels[..., 3] = mask
    data = channels.tobytes()
    return QImage(data, width, height, 4 * width, QImage.Format.Format_RGBA8888).copy()
