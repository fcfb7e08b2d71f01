"""One line of text with mathematics that gives way where the window is narrow."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QSize
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from dgn_engine.scene.elements import Fact
from dgn_engine.scene.theme import DIMMED, Theme
from dgn_engine.scene.typeset import html, plain
from dgn_viewer.plots.rich_text import TextStyle
from dgn_viewer.style.chosen_numbers import with_chosen_numbers

_GAP = 16.0
_MORE = "…"  # facts that there is no room for: its tip has them


class TextLine(QWidget):
    """A muted line, cut with an ellipsis; the whole of it is its tooltip."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._text = ""
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def set_text(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self.setToolTip(html(with_chosen_numbers(text)))
            self.setAccessibleName(plain(text))
            self.update()

    def text(self) -> str:
        return self._text

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(120, round(self._type().height) + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        type_ = self._type()
        painter = QPainter(self)
        shown = type_.shortened(self._text, self.width())
        base = QPointF(0.0, (self.height() - type_.height) / 2 + type_.ascent)
        type_.paint(painter, base, shown, QColor(self._theme.muted))

    def _type(self) -> TextStyle:
        return TextStyle(self.font().family(), 11, numbers=self._theme.numbers)


class FactsLine(QWidget):
    """Names and values in a row; as many as there is room for, the first ones first."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._facts: tuple[Fact, ...] = ()
        self._dimmed = False
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def set_facts(self, facts: tuple[Fact, ...]) -> None:
        if facts != self._facts:
            self._facts = facts
            words = (f"{plain(fact.name)} {fact.value}" for fact in facts)
            self.setAccessibleName(", ".join(words))
            self.update()

    def set_dimmed(self, dimmed: bool) -> None:
        """Write the values pale: they are of an earlier step."""
        if dimmed != self._dimmed:
            self._dimmed = dimmed
            self.update()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(120, 24)

    def paintEvent(self, event: QPaintEvent) -> None:
        names, values = self._types()
        painter = QPainter(self)
        painter.setOpacity(DIMMED if self._dimmed else 1.0)
        base = (self.height() - values.height) / 2 + values.ascent
        places = self._places()
        for fact, left, _ in places:
            name = QPointF(left, base)
            names.paint(painter, name, fact.name, QColor(self._theme.muted))
            value = QPointF(left + names.width(fact.name) + 5, base)
            values.paint(painter, value, fact.value, QColor(self._theme.text))
        more = places[-1][2] + _GAP / 2 if places else 0.0
        if self.rest() and more + names.width(_MORE) <= self.width():
            names.paint(painter, QPointF(more, base), _MORE, QColor(self._theme.muted))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            x = event.pos().x()
            under = [fact for fact, left, right in self._places() if left <= x <= right]
            QToolTip.showText(event.globalPos(), under[0].about if under else self.rest(), self)
            return True
        return super().event(event)

    def shown(self) -> tuple[str, ...]:
        return tuple(fact.name for fact, _, _ in self._places())

    def rest(self) -> str:
        """The facts that there is no room for, as rich text; '' where all are shown."""
        hidden = self._facts[len(self._places()) :]
        return "<br>".join(f"{html(fact.name)} <b>{html(fact.value)}</b>" for fact in hidden)

    def _types(self) -> tuple[TextStyle, TextStyle]:
        family, numbers = self.font().family(), self._theme.numbers
        return TextStyle(family, 12), TextStyle(family, 13, True, numbers)

    def _places(self) -> list[tuple[Fact, float, float]]:
        names, values = self._types()
        left = 0.0
        places = []
        for fact in self._facts:
            right = left + names.width(fact.name) + 5 + values.width(fact.value)
            if right > self.width():
                break
            places.append((fact, left, right))
            left = right + _GAP
        return places
