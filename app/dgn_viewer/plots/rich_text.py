"""Painting and measuring of labels with superscripts, subscripts and italics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter

from dgn_engine.scene.number_style import rewrite_numbers
from dgn_engine.scene.typeset import TextRun, split_runs

_SMALLER = 0.78
_RAISED = 0.36
_LOWERED = 0.20
_SHIFTS = {1: -_RAISED, 0: 0.0, -1: _LOWERED}


@dataclass(frozen=True)
class TextStyle:
    """A size and weight of the interface font."""

    family: str
    pixels: float
    bold: bool = False
    numbers: str = ""  # number format, as an example; '' leaves numbers unchanged

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Computed once: a style is the key of three hundred cached widths in every drawing.
        return hash((self.family, self.pixels, self.bold, self.numbers))

    @property
    def height(self) -> float:
        return _font_metrics(self, 0, False).height()

    @property
    def ascent(self) -> float:
        return _font_metrics(self, 0, False).ascent()

    def width(self, label: str) -> float:
        """Return the width of a label as painted, in pixels."""
        return _label_width(self, label)

    def shorten_label(self, label: str, width: float) -> str:
        """Return the label, elided if it is wider than `width` pixels."""
        if self.width(label) <= width:
            return label
        low, high = 0, len(label)  # bisection: `low` letters fit, `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.width(_label_start(label, middle) + "…") <= width
            low, high = (middle, high) if fits else (low, middle)
        text = _label_start(label, low)
        return f"{text.rstrip()}…" if text else ""

    def paint(self, painter: QPainter, place: QPointF, label: str, colour: QColor) -> None:
        """Paint the label with its baseline starting at `place`."""
        painter.setPen(colour)
        x = place.x()
        for run, width in _measure_runs(self, label):
            shift = _SHIFTS[run.level] * self.pixels
            painter.setFont(_run_font(self, run.level, run.italic))
            painter.drawText(QPointF(x, place.y() + shift), run.text)
            x += width


def _label_start(label: str, letters: int) -> str:
    """Return the first letters of a label, with its `$…$` balanced."""
    text = label[:letters]
    if text.count("$") % 2:
        before, _, inside = text.rpartition("$")
        if inside.rfind("{") > inside.rfind("}"):
            inside = inside[: inside.rfind("{")]
        inside = inside.rstrip("^_ ")
        return f"{before}${inside}$" if inside else before
    return text


@lru_cache(maxsize=256)
def _run_font(type_: TextStyle, level: int, italic: bool) -> QFont:
    """Return the font of a run; tabular figures keep changing numbers from jumping."""
    font = QFont(type_.family) if type_.family else QFont()
    font.setPixelSize(max(round(type_.pixels * (_SMALLER if level else 1.0)), 7))
    font.setItalic(italic)
    font.setWeight(QFont.Weight.DemiBold if type_.bold else QFont.Weight.Normal)
    font.setFeature(QFont.Tag("tnum"), 1)
    return font


@lru_cache(maxsize=256)
def _font_metrics(type_: TextStyle, level: int, italic: bool) -> QFontMetricsF:
    return QFontMetricsF(_run_font(type_, level, italic))


@lru_cache(maxsize=2048)
def _label_width(type_: TextStyle, label: str) -> float:
    return sum(width for _, width in _measure_runs(type_, label))


@lru_cache(maxsize=512)  # every frame has the same few labels
def _measure_runs(type_: TextStyle, label: str) -> tuple[tuple[TextRun, float], ...]:
    return tuple(
        (run, _font_metrics(type_, run.level, run.italic).horizontalAdvance(run.text))
        for run in split_runs(rewrite_numbers(label, type_.numbers))
    )
