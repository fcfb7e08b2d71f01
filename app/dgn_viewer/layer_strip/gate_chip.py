"""A gate layer as a chip that mouse or keyboard move to another value layer."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QWidget

from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.text.printable import printable
from dgn_viewer.style.stylesheet import mix_colours, tabular_font, wrapping_tip

RING = 2  # pixels; width of the focus ring around the chip


@dataclass(frozen=True)
class ChipContent:
    """The content of a chip.

    `wired` is False if the network computes its own gates; `movable` is False then, too, and
    whenever the gates cannot be moved.
    """

    name: str  # 'G3'
    colour: str
    note: str = ""  # 'resnet18.pth'
    turn: str = ""  # '↻3'
    wired: bool = True
    movable: bool = True
    about: str = ""  # tool tip and accessible description
    label: str = ""  # accessible name


class GateChip(QWidget):
    """A chip that reports the user's actions; the canvas decides on their effect."""

    grabbed = Signal(int)
    dragged = Signal(int, QPointF)  # the chip's new centre, in the parent
    released = Signal(int, QPointF)
    cancelled = Signal(int)
    moved = Signal(int, int)  # feature layer, number of columns (keyboard)
    walked = Signal(int, int)  # feature layer, number of columns for the keyboard focus
    homed = Signal()
    turned = Signal(int, int)  # feature layer, number of units (wheel, keyboard)
    menu_wanted = Signal(int, QPoint)  # feature layer, screen position

    def __init__(self, feature: int, parent: QWidget) -> None:
        super().__init__(parent)
        self.feature = feature
        self._theme = LIGHT
        self._content = ChipContent("", LIGHT.muted)
        self._pressed_at: QPointF | None = None
        self._dragging = False
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_content(self, content: ChipContent, theme: Theme) -> None:
        if content == self._content and theme is self._theme:
            return
        self._content, self._theme = content, theme
        movable = content.movable
        if not movable:
            self._finish_press(None)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if movable else Qt.FocusPolicy.NoFocus)
        self.setCursor(Qt.CursorShape.OpenHandCursor if movable else Qt.CursorShape.ArrowCursor)
        self.setToolTip(wrapping_tip(content.about))
        self.setAccessibleName(printable(content.label))
        self.setAccessibleDescription(printable(content.about))
        self.update()

    @property
    def is_dragging(self) -> bool:
        return self._dragging

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._content.movable:
            self.setFocus(Qt.FocusReason.MouseFocusReason)
            self._pressed_at = event.position()
        else:
            event.ignore()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed_at is None:
            return
        distance = event.position() - self._pressed_at
        if not self._dragging:
            if distance.manhattanLength() < QApplication.startDragDistance():
                return
            self._dragging = True
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.raise_()
            self.grabbed.emit(self.feature)
        self.dragged.emit(self.feature, self._dragged_centre(event))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._pressed_at is not None:
            self._finish_press(self._dragged_centre(event))

    def event(self, event: QEvent) -> bool:
        """Claim the arrow keys before the window's shortcuts (Alt+→ is 'Next step')."""
        arrows = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down)
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and self._content.movable
            and event.key() in arrows
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle the keyboard.

        Arrows move the focus, or with Ctrl or Alt move the chip (left, right) and rotate its gates
        (up, down). Home resets all chips.
        """
        key = event.key()
        offsets = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        turns = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
        modified = event.modifiers() & (
            Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
        )
        if not self._content.movable:
            super().keyPressEvent(event)
        elif key == Qt.Key.Key_Escape and self._pressed_at is not None:
            self._finish_press(None)
        elif key == Qt.Key.Key_Home:
            self.homed.emit()
        elif key in turns and modified and not self._dragging:
            self.turned.emit(self.feature, turns[Qt.Key(key)])
        elif key in offsets and modified:
            self.moved.emit(self.feature, offsets[Qt.Key(key)])
        elif key in offsets:
            self.walked.emit(self.feature, offsets[Qt.Key(key)])
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Rotate the gates with Ctrl, by ten units with Ctrl+Shift; otherwise scroll the strip."""
        steps = 1 if event.angleDelta().y() > 0 else -1
        modifiers = event.modifiers()
        rotatable = self._content.movable and not self._dragging
        if not (rotatable and modifiers & Qt.KeyboardModifier.ControlModifier):
            event.ignore()
        elif event.angleDelta().y():
            fast = bool(modifiers & Qt.KeyboardModifier.ShiftModifier)
            self.turned.emit(self.feature, steps * (10 if fast else 1))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Request the rotation menu, by right click or menu key."""
        if self._content.movable and not self._dragging:
            self.menu_wanted.emit(self.feature, self.mapToGlobal(self.rect().bottomLeft()))

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Cancel a drag when the focus is lost, for example to another window."""
        self._finish_press(None)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, content = self._theme, self._content
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(theme.scale, theme.scale)
        whole = QRectF(0.0, 0.0, self.width() / theme.scale, self.height() / theme.scale)
        box = whole.adjusted(RING + 0.5, RING + 0.5, -RING - 0.5, -RING - 0.5)
        edge = QPen(QColor(content.colour if content.wired else theme.muted), 1)
        if not content.wired:
            edge.setStyle(Qt.PenStyle.DashLine)
        fill = chip_fill(theme, content.colour) if content.wired else theme.window
        painter.setPen(edge)
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(box, 4, 4)
        if content.wired:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(content.colour))
            painter.drawRoundedRect(QRectF(box.x(), box.y(), 5, box.height()), 2.5, 2.5)
        self._paint_text(painter, box)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(theme.accent), RING))
            painter.drawRoundedRect(whole.adjusted(1, 1, -1, -1), 5, 5)
        painter.end()

    def _paint_text(self, painter: QPainter, box: QRectF) -> None:
        theme, content = self._theme, self._content
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        narrow = box.width() < 52
        text_box = box.adjusted(5, 0, 0, 0) if narrow else box.adjusted(12, 0, -16, 0)
        painter.setFont(tabular_font(self, 12 if narrow else 13, bold=True))
        painter.setPen(QColor(theme.text if content.wired else theme.muted))
        name = self._fitting_name(painter, text_box.width())
        if narrow:
            painter.drawText(text_box, Qt.AlignmentFlag.AlignCenter, name)
            return
        painter.drawText(text_box, left, name)
        text_width = painter.fontMetrics().horizontalAdvance(name) + 8
        if content.note:
            painter.setFont(tabular_font(self, 12))
            metrics = painter.fontMetrics()
            note_box = text_box.adjusted(text_width, 0, 0, 0)
            tight = metrics.horizontalAdvance(content.note) > note_box.width()
            if tight and note_box.width() < 72:  # the note is more useful than the grip
                note_box.adjust(0, 0, 12, 0)
            end = Qt.TextElideMode.ElideRight
            painter.drawText(
                note_box, left, metrics.elidedText(content.note, end, int(note_box.width()))
            )
            if tight and note_box.right() > text_box.right():
                return
        if content.movable:
            self._paint_grip(painter, box)

    def _fitting_name(self, painter: QPainter, width: float) -> str:
        """Return 'G2 ↻3', or 'G2 ↻' if the amount does not fit."""
        content = self._content
        full_name = f"{content.name} {content.turn}".rstrip()
        if painter.fontMetrics().horizontalAdvance(full_name) <= width - 4:
            return full_name
        return f"{content.name}{content.turn[:1]}"

    def _paint_grip(self, painter: QPainter, box: QRectF) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.muted))
        for column in (0, 1):
            for row in (-1, 0, 1):
                point = QPointF(box.right() - 10 + 4 * column, box.center().y() + 4 * row)
                painter.drawEllipse(point, 0.9, 0.9)

    def _dragged_centre(self, event: QMouseEvent) -> QPointF:
        assert self._pressed_at is not None
        shift = event.position() - self._pressed_at
        return QPointF(self.geometry().center()) + shift

    def _finish_press(self, at: QPointF | None) -> None:
        """End a press; a drag is released at `at`, or cancelled if that is None."""
        was_dragging, self._dragging, self._pressed_at = self._dragging, False, None
        if not was_dragging:
            return
        self.setCursor(Qt.CursorShape.OpenHandCursor)
        if at is None:
            self.cancelled.emit(self.feature)
        else:
            self.released.emit(self.feature, at)


def chip_fill(theme: Theme, colour: str) -> str:
    """Return the fill colour of a chip, a tint light enough for readable text."""
    return mix_colours(theme.panel, colour, 0.14)
