"""One line of plain text that is elided to fit, with the full text as tooltip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy

from dgn_engine.text.printable import printable
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.style.stylesheet import wrapping_tip
from dgn_viewer.widgets.layouts import PlainLabel


class ElidedLabel(PlainLabel):
    """Label that never asks for more than `least` pixels."""

    def __init__(
        self,
        text: str = "",
        least: int = 40,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideMiddle,
        role: str = "",
    ) -> None:
        super().__init__(role=role)
        self._least, self._mode = least, mode
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.show_text(text)

    def show_text(self, text: str, more: str = "", *shorter: str) -> None:
        """Show the first of `text` and `shorter` that fits; append `more` to the tooltip."""
        self._texts = tuple(printable(variant) for variant in (text, *shorter))
        self.setText(self._texts[0])
        self.setToolTip(wrapping_tip(f"{text}. {more}" if more else text) if text else "")

    def sizeHint(self) -> QSize:
        return QSize(self._least, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def shown_text(self) -> str:
        return self.elided_text(self.contentsRect().width())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.contentsRect(), self.alignment(), self.shown_text())
        painter.end()

    def elided_text(self, room: int) -> str:
        """Return the text as drawn in `room` pixels."""
        metrics = self.fontMetrics()
        texts = [with_chosen_numbers(text) for text in self._texts]
        fitting = (text for text in texts if metrics.horizontalAdvance(text) <= room)
        return metrics.elidedText(next(fitting, texts[-1]), self._mode, room)
