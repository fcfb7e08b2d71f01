"""A gate layer as a chip that is dragged, or moved with the keyboard, to another value layer."""

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
from dgn_viewer.style.stylesheet import font, mixed, tip

RING = 2  # pixels around the chip that the focus ring takes


@dataclass(frozen=True)
class ChipContent:
    """What a chip shows. `wired` is off where the network makes its own gates, `movable` also where
    they cannot be moved now."""

    name: str  # 'G3'
    colour: str
    note: str = ""  # 'resnet18.pth'
    turn: str = ""  # '↻3'
    wired: bool = True
    movable: bool = True
    about: str = ""  # tool tip and accessible description
    label: str = ""  # accessible name


class GateChip(QWidget):
    """One chip. It only reports what the user does; the canvas decides what it means."""

    grabbed = Signal(int)
    dragged = Signal(int, QPointF)  # the chip's new centre, in the parent
    released = Signal(int, QPointF)
    cancelled = Signal(int)
    moved = Signal(int, int)  # by this many places (keyboard)
    walked = Signal(int, int)  # the focus, by this many places
    homed = Signal()
    turned = Signal(int, int)  # by this many units (wheel, keyboard)
    menu_wanted = Signal(int, QPoint)  # where, on the screen

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
            self._finish(None)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if movable else Qt.FocusPolicy.NoFocus)
        self.setCursor(Qt.CursorShape.OpenHandCursor if movable else Qt.CursorShape.ArrowCursor)
        self.setToolTip(tip(content.about))
        self.setAccessibleName(printable(content.label))
        self.setAccessibleDescription(printable(content.about))
        self.update()

    @property
    def dragging(self) -> bool:
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
        way = event.position() - self._pressed_at
        if not self._dragging:
            if way.manhattanLength() < QApplication.startDragDistance():
                return
            self._dragging = True
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.raise_()
            self.grabbed.emit(self.feature)
        self.dragged.emit(self.feature, self._centre_wanted(event))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._pressed_at is not None:
            self._finish(self._centre_wanted(event))

    def event(self, event: QEvent) -> bool:
        """Arrows are the chip's, before shortcuts of the window (Alt+→ is 'Step after')."""
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
        """Arrows walk, with Ctrl or Alt they move the chip or turn its gates; Home resets."""
        key = event.key()
        ways = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        turns = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}
        held = event.modifiers() & (
            Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier
        )
        if not self._content.movable:
            super().keyPressEvent(event)
        elif key == Qt.Key.Key_Escape and self._pressed_at is not None:
            self._finish(None)
        elif key == Qt.Key.Key_Home:
            self.homed.emit()
        elif key in turns and held and not self._dragging:
            self.turned.emit(self.feature, turns[Qt.Key(key)])
        elif key in ways and held:
            self.moved.emit(self.feature, ways[Qt.Key(key)])
        elif key in ways:
            self.walked.emit(self.feature, ways[Qt.Key(key)])
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """With Ctrl it turns the gates, with Shift too by ten units; else the strip scrolls."""
        steps = 1 if event.angleDelta().y() > 0 else -1
        held = event.modifiers()
        mine = self._content.movable and not self._dragging
        if not (mine and held & Qt.KeyboardModifier.ControlModifier):
            event.ignore()
        elif event.angleDelta().y():
            far = bool(held & Qt.KeyboardModifier.ShiftModifier)
            self.turned.emit(self.feature, steps * (10 if far else 1))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The turn of the gates, by the mouse or the menu key."""
        if self._content.movable and not self._dragging:
            self.menu_wanted.emit(self.feature, self.mapToGlobal(self.rect().bottomLeft()))

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """A chip that loses the focus in mid-drag (a switch of windows) is let go."""
        self._finish(None)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, content = self._theme, self._content
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(RING + 0.5, RING + 0.5, -RING - 0.5, -RING - 0.5)
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
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 5, 5)
        painter.end()

    def _paint_text(self, painter: QPainter, box: QRectF) -> None:
        theme, content = self._theme, self._content
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        narrow = box.width() < 52
        room = box.adjusted(5, 0, 0, 0) if narrow else box.adjusted(12, 0, -16, 0)
        painter.setFont(font(self, 12 if narrow else 13, bold=True))
        painter.setPen(QColor(theme.text if content.wired else theme.muted))
        name = self._name_that_fits(painter, room.width())
        if narrow:
            painter.drawText(room, Qt.AlignmentFlag.AlignCenter, name)
            return
        painter.drawText(room, left, name)
        used = painter.fontMetrics().horizontalAdvance(name) + 8
        if content.note:
            painter.setFont(font(self, 12))
            metrics = painter.fontMetrics()
            rest = room.adjusted(used, 0, 0, 0)
            tight = metrics.horizontalAdvance(content.note) > rest.width()
            if tight and rest.width() < 72:  # the name matters more than the grip
                rest.adjust(0, 0, 12, 0)
            end = Qt.TextElideMode.ElideRight
            painter.drawText(rest, left, metrics.elidedText(content.note, end, int(rest.width())))
            if tight and rest.right() > room.right():
                return
        if content.movable:
            self._paint_grip(painter, box)

    def _name_that_fits(self, painter: QPainter, width: float) -> str:
        """'G2 ↻3', or only the sign of a turn where its size does not fit."""
        content = self._content
        whole = f"{content.name} {content.turn}".rstrip()
        if painter.fontMetrics().horizontalAdvance(whole) <= width - 4:
            return whole
        return f"{content.name}{content.turn[:1]}"

    def _paint_grip(self, painter: QPainter, box: QRectF) -> None:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.muted))
        for column in (0, 1):
            for row in (-1, 0, 1):
                at = QPointF(box.right() - 10 + 4 * column, box.center().y() + 4 * row)
                painter.drawEllipse(at, 0.9, 0.9)

    def _centre_wanted(self, event: QMouseEvent) -> QPointF:
        assert self._pressed_at is not None
        shift = event.position() - self._pressed_at
        return QPointF(self.geometry().center()) + shift

    def _finish(self, at: QPointF | None) -> None:
        """End a press: `released` where there was a drag and it ends somewhere."""
        was_dragging, self._dragging, self._pressed_at = self._dragging, False, None
        if not was_dragging:
            return
        self.setCursor(Qt.CursorShape.OpenHandCursor)
        if at is None:
            self.cancelled.emit(self.feature)
        else:
            self.released.emit(self.feature, at)


def chip_fill(theme: Theme, colour: str) -> str:
    """The fill of a chip: a tint on which its text stays readable."""
    return mixed(theme.panel, colour, 0.14)
