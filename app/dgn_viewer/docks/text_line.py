"""Single lines of text with mathematics, shortened in a narrow window."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import QEvent, QPointF, QSize
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from dgn_engine.scene.elements import Fact
from dgn_engine.scene.theme import DIMMED, Theme
from dgn_engine.scene.typeset import label_html, strip_markup
from dgn_viewer.plots.rich_text import TextStyle
from dgn_viewer.style.chosen_numbers import with_chosen_numbers

_GAP = 16.0
_MORE = "…"  # stands for facts that do not fit; they are in its tooltip


class TextLine(QWidget):
    """A muted line; tooltip and screen readers have more text than is drawn."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._text = self._drawn = ""
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def set_text(self, text: str, drawn: str | None = None) -> None:
        """Set the whole text, and what is drawn of it, elided to fit; by default all."""
        drawn = text if drawn is None else drawn
        if (text, drawn) != (self._text, self._drawn):
            self._text, self._drawn = text, drawn
            self.setToolTip(label_html(with_chosen_numbers(text)))
            self.setAccessibleName(strip_markup(text))
            self.update()

    def text(self) -> str:
        return self._text

    def drawn_text(self) -> str:
        return self._drawn

    def set_theme(self, theme: Theme) -> None:
        if theme.scale != self._theme.scale:
            self.updateGeometry()
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(120, round(self._text_style().height) + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        style = self._text_style()
        painter = QPainter(self)
        text = style.shorten_label(self._drawn, self.width())
        baseline = QPointF(0.0, (self.height() - style.height) / 2 + style.ascent)
        style.paint(painter, baseline, text, QColor(self._theme.muted))

    def _text_style(self) -> TextStyle:
        pixels = 11 * self._theme.scale
        return TextStyle(self.font().family(), pixels, numbers=self._theme.numbers)


class FactsLine(QWidget):
    """A row of names and values: the facts in sight that fit; the others are on hover."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._facts: tuple[Fact, ...] = ()
        self._dimmed = False
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def set_facts(self, facts: tuple[Fact, ...]) -> None:
        if facts != self._facts:
            self._facts = facts
            fact_texts = (f"{strip_markup(fact.name)} {fact.value}" for fact in facts)
            self.setAccessibleName(", ".join(fact_texts))
            self.update()

    def set_dimmed(self, dimmed: bool) -> None:
        """Draw the facts dimmed, for values from an earlier step."""
        if dimmed != self._dimmed:
            self._dimmed = dimmed
            self.update()

    def set_theme(self, theme: Theme) -> None:
        if theme.scale != self._theme.scale:
            self.updateGeometry()
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(120, round(24 * self._theme.scale))

    def paintEvent(self, event: QPaintEvent) -> None:
        names, values = self._text_styles()
        painter = QPainter(self)
        painter.setOpacity(DIMMED if self._dimmed else 1.0)
        base = (self.height() - values.height) / 2 + values.ascent
        positions = self._fact_positions()
        for fact, left, _ in positions:
            name_position = QPointF(left, base)
            names.paint(painter, name_position, fact.name, QColor(self._theme.muted))
            value_position = QPointF(left + names.width(fact.name) + 5, base)
            values.paint(painter, value_position, fact.value, QColor(self._theme.text))
        ellipsis_x = positions[-1][2] + _GAP / 2 if positions else 0.0
        if (
            len(positions) < len(self._facts_in_sight())
            and ellipsis_x + names.width(_MORE) <= self.width()
        ):
            names.paint(painter, QPointF(ellipsis_x, base), _MORE, QColor(self._theme.muted))

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            x = event.pos().x()
            hovered = [fact for fact, left, right in self._fact_positions() if left <= x <= right]
            about, more = hovered[0].about if hovered else "", self.hidden_facts_text()
            text = f"{escape(about)}<br>{more}" if about and more else about or more
            QToolTip.showText(event.globalPos(), text, self)
            return True
        return super().event(event)

    def shown_facts(self) -> tuple[str, ...]:
        return tuple(fact.name for fact, _, _ in self._fact_positions())

    def hidden_facts_text(self) -> str:
        """Return the facts that are not shown, as rich text; '' if all are."""
        shown = [fact for fact, _, _ in self._fact_positions()]
        hidden = [fact for fact in self._facts if fact not in shown]
        return "<br>".join(
            f"{label_html(fact.name)} <b>{label_html(fact.value)}</b>" for fact in hidden
        )

    def _text_styles(self) -> tuple[TextStyle, TextStyle]:
        family, numbers = self.font().family(), self._theme.numbers
        scale = self._theme.scale
        return TextStyle(family, 12 * scale), TextStyle(family, 13 * scale, True, numbers)

    def _facts_in_sight(self) -> tuple[Fact, ...]:
        return tuple(fact for fact in self._facts if not fact.aside)

    def _fact_positions(self) -> list[tuple[Fact, float, float]]:
        names, values = self._text_styles()
        left = 0.0
        positions = []
        for fact in self._facts_in_sight():
            right = left + names.width(fact.name) + 5 + values.width(fact.value)
            if right > self.width():
                break
            positions.append((fact, left, right))
            left = right + _GAP
        return positions
