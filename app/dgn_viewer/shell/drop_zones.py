"""The overlay while a file is dragged over the window: a drop zone per use of the file."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from dgn_engine.protocol.files import Purpose
from dgn_engine.scene.file_use_text import USES, FileUse
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.text.printable import printable
from dgn_viewer.style.stylesheet import mix_colours, tabular_font, themed_icon

PROMISE = "Nothing changes until you confirm. Esc cancels."
_MARGIN, _GAP, _HEAD, _BAND, _FOOT = 24, 12, 56, 96, 40
_AROUND = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap


class DropZones(QWidget):
    """Overlay with three zones side by side and one below; highlights the one under the pointer."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._theme = LIGHT
        self._headline = self._sentence = ""
        self._open: tuple[Purpose, ...] = ()  # zones that accept the file; empty: refused
        self._whole = False
        self.lit: Purpose = ""
        self.setAcceptDrops(True)
        self.hide()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def show_zones(
        self, headline: str, sentence: str, purposes: Sequence[Purpose], whole: bool = False
    ) -> None:
        """Cover the window.

        Without `purposes` there is one zone (`whole`), or none, and `sentence` says why.
        """
        self._whole = whole
        headline, sentence = printable(headline), printable(sentence)
        self._headline, self._sentence, self._open = headline, sentence, tuple(purposes)
        self.lit = ""
        titles = [f"{zone.title} {zone.where}" for zone in USES if zone.purpose in self._open]
        self.setAccessibleName(". ".join([headline, *titles, sentence]))
        self.setGeometry(self._window.rect())
        self.show()
        self.raise_()
        self.update()

    def highlight_at(self, at: QPoint) -> None:
        """Highlight the zone at this position in the window."""
        lit = self.purpose_at(at)
        if lit != self.lit:
            self.lit = lit
            self.update()

    def purpose_at(self, at: QPoint) -> Purpose:
        """Return the purpose of the zone at a position; '' between zones and on closed zones."""
        for zone, rect in zip(USES, self._zone_rects(), strict=True):
            if rect.contains(at.toPointF()) and zone.purpose in self._open:
                return zone.purpose
        return ""

    def zone_rect(self, purpose: Purpose) -> QRectF:
        purposes = [zone.purpose for zone in USES]
        return self._zone_rects()[purposes.index(purpose)]

    def _zone_rects(self) -> list[QRectF]:
        inner = QRectF(self.rect()).adjusted(_MARGIN, _MARGIN + _HEAD, -_MARGIN, -_MARGIN - _FOOT)
        width = (inner.width() - 2 * _GAP) / 3
        height = inner.height() - _BAND - _GAP
        rooms = [
            QRectF(inner.x() + index * (width + _GAP), inner.y(), width, height)
            for index in range(3)
        ]
        return [*rooms, QRectF(inner.x(), inner.bottom() - _BAND, inner.width(), _BAND)]

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        veil = QColor(self._theme.window)
        veil.setAlphaF(0.94)
        painter.fillRect(self.rect(), veil)
        if self._open:
            self._paint_zones(painter)
        else:
            self._paint_one(painter)
        painter.end()

    def _paint_one(self, painter: QPainter) -> None:
        theme, frame = self._theme, QRectF(self.rect()).adjusted(16, 16, -16, -16)
        tone, name = (theme.accent, "drop") if self._whole else (theme.refused, "close")
        self._draw_outline(painter, frame, tone, dashed=True)
        middle = frame.center()
        symbol = themed_icon(name, theme, 48, tone).pixmap(48, 48)
        painter.drawPixmap(int(middle.x()) - 24, int(middle.y()) - 84, symbol)
        upper = QRectF(48, middle.y() - 20, self.width() - 96, 32)
        lower = QRectF(48, middle.y() + 16, self.width() - 96, 80)
        self._draw_text(
            painter, upper, self._headline, theme.text, tabular_font(self, 20, bold=True)
        )
        self._draw_text(painter, lower, self._sentence, theme.muted, tabular_font(self, 14))

    def _draw_text(
        self, painter: QPainter, room: QRectF, words: str, tone: str, letters: QFont
    ) -> None:
        painter.setPen(QColor(tone))
        painter.setFont(letters)
        painter.drawText(room, int(_AROUND), words)

    def _paint_zones(self, painter: QPainter) -> None:
        width = self.width() - 2 * _MARGIN
        painter.setPen(QColor(self._theme.text))
        painter.setFont(tabular_font(self, 20, bold=True))
        name = painter.fontMetrics().elidedText(self._headline, Qt.TextElideMode.ElideMiddle, width)
        painter.drawText(QRectF(_MARGIN, _MARGIN, width, _HEAD - 8), int(_AROUND), name)
        for zone, rect in zip(USES, self._zone_rects(), strict=True):
            self._paint_zone(painter, zone, rect)
        foot = QRectF(_MARGIN, self.height() - _MARGIN - _FOOT + 12, width, _FOOT - 8)
        self._draw_text(painter, foot, self._sentence, self._theme.muted, tabular_font(self, 13))

    def _paint_zone(self, painter: QPainter, zone: FileUse, room: QRectF) -> None:
        theme, lit = self._theme, zone.purpose == self.lit
        possible = zone.purpose in self._open
        background = mix_colours(theme.panel, theme.accent, 0.14) if lit else theme.panel
        painter.setBrush(QColor(background if possible else theme.window))
        tone = theme.accent if possible else theme.line
        self._draw_outline(painter, room, tone, dashed=not lit, width=3 if lit else 2)
        text, muted = theme.text, theme.muted
        if not possible:
            text = muted = mix_colours(theme.muted, theme.window, 0.35)
        flat = room.width() > 3 * room.height()
        size = 32 if flat else 48
        symbol = themed_icon(zone.icon, theme, size, tone if possible else text).pixmap(size, size)
        if flat:
            left, line = room.x() + 24, room.adjusted(76, 0, -24, 0)
            painter.drawPixmap(int(left), int(room.center().y()) - size // 2, symbol)
            self._draw_flat_zone(painter, zone, line, text, muted)
            return
        inner = room.adjusted(24, 0, -24, 0)
        top = room.center().y() - 112
        painter.drawPixmap(int(room.center().x()) - size // 2, int(top), symbol)
        for part, size, bold, colour, below, high in (
            (zone.title, 22, True, text, 64, 34),
            (zone.where, 15, False, text, 98, 44),
            (zone.about, 13, False, muted, 136, 96),
        ):
            area = QRectF(inner.x(), top + below, inner.width(), high)
            self._draw_text(painter, area, part, colour, tabular_font(self, size, bold=bold))

    def _draw_flat_zone(
        self, painter: QPainter, zone: FileUse, room: QRectF, text: str, muted: str
    ) -> None:
        """Draw title and description of the wide, flat zone."""
        upper = QRectF(room.x(), room.center().y() - 26, room.width(), 28)
        left = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        painter.setPen(QColor(text))
        painter.setFont(tabular_font(self, 18, bold=True))
        painter.drawText(upper, left, f"{zone.title} {zone.where}")
        painter.setPen(QColor(muted))
        painter.setFont(tabular_font(self, 13))
        painter.drawText(upper.translated(0, 27), left, zone.about)

    def _draw_outline(
        self, painter: QPainter, room: QRectF, tone: str, dashed: bool, width: int = 2
    ) -> None:
        pen = QPen(QColor(tone), width)
        if dashed:
            pen.setStyle(Qt.PenStyle.CustomDashLine)
            pen.setDashPattern([4, 3])
        painter.setPen(pen)
        painter.drawRoundedRect(room, 8, 8)
        painter.setBrush(Qt.BrushStyle.NoBrush)
