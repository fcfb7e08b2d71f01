"""Slider over the steps of a run, with its recorded steps and events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QEvent, QLineF, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QSlider, QToolTip

from dgn_engine.scene.elements import Mark
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.style.stylesheet import mix_colours, wrapping_tip

_EDGE = 8.0  # pixels left and right of the track
_HEIGHT = 20
_HANDLE = 4.5  # radius
_NEAR = 5.0  # maximum distance to an event under the pointer, pixels
_FINEST = 1 << 20  # slider positions; longer runs get a coarser slider
_PAGE = 10  # recorded steps
_SHOWN = 4  # events per tooltip


class StepSlider(QSlider):
    """Slider over steps.

    Signals: `wanted(step)`: clicked or dragged to a step; `moved(n)`: move by n recorded steps;
    `ended(first)`: go to the first recorded step, or live; `reach_chosen(first, last)`: Shift+drag.
    """

    wanted = Signal(int)
    moved = Signal(int)
    ended = Signal(bool)
    reach_chosen = Signal(int, int)

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setObjectName("step_slider")
        self.setAccessibleName("Step shown in all panels")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._theme = LIGHT
        self._last = 0
        self._step: int | None = None  # None: live
        self._steps: tuple[int, ...] = ()
        self._marks: tuple[Mark, ...] = ()
        self._reach: tuple[int, int] | None = None
        self._reach_from: int | None = None  # start of a Shift+drag

    def show_reach(self, reach: tuple[int, int] | None) -> None:
        """Show the selected range of steps; None: no selection."""
        if reach != self._reach:
            self._reach = reach
            self.update()

    def show_time(
        self, step: int | None, last: int, steps: tuple[int, ...], marks: Sequence[Mark]
    ) -> None:
        """Set the handle to `step` (None: live) in a run that has reached step `last`."""
        marks = tuple(marks)
        if (step, last, marks) == (self._step, self._last, self._marks) and steps is self._steps:
            return
        self._step, self._last, self._steps, self._marks = step, last, steps, marks
        maximum = min(max(last, 1), _FINEST)
        value = maximum if step is None else round(maximum * min(step, last) / max(last, 1))
        self.blockSignals(True)
        self.setRange(0, maximum)
        self.setValue(value)
        self.blockSignals(False)
        description = f"live, step {last:,}" if step is None else f"step {step:,} of {last:,}"
        self.setAccessibleDescription(description)
        self.update()

    def x_of_step(self, step: int) -> float:
        """Return the x coordinate of a step, in pixels."""
        return _EDGE + (self.width() - 2 * _EDGE) * min(step, self._last) / max(self._last, 1)

    def step_at(self, x: float) -> int:
        share = (x - _EDGE) / max(self.width() - 2 * _EDGE, 1.0)
        return round(min(max(share, 0.0), 1.0) * self._last)

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    # Qt

    def sizeHint(self) -> QSize:
        return QSize(240, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(80, _HEIGHT)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            step = self.step_at(event.position().x())
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self._reach_from = step
                self.reach_chosen.emit(step, step)
            else:
                self.wanted.emit(step)
            event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if not event.buttons() & Qt.MouseButton.LeftButton:
            return
        step = self.step_at(event.position().x())
        if self._reach_from is not None:
            self.reach_chosen.emit(self._reach_from, step)
        else:
            self.wanted.emit(step)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._reach_from = None
        event.accept()

    def wheelEvent(self, event: QWheelEvent) -> None:
        turned = event.angleDelta().y() or event.angleDelta().x()
        if turned:
            self.moved.emit(1 if turned > 0 else -1)
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Down: -1,
            Qt.Key.Key_Up: 1,
            Qt.Key.Key_PageDown: -_PAGE,
            Qt.Key.Key_PageUp: _PAGE,
        }
        key = Qt.Key(event.key())
        if key in moves and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            self.moved.emit(moves[key])
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self.ended.emit(key == Qt.Key.Key_Home)
        else:
            event.ignore()  # the window handles Space and Esc

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            text = self.tip_text_at(event.pos().x())
            QToolTip.showText(event.globalPos(), wrapping_tip(text), self)
            return True
        return super().event(event)

    def tip_text_at(self, x: float) -> str:
        """Return the tooltip at a position: its step, and the events there."""
        lines = [f"Step {self.step_at(x):,}"] if self.isEnabled() else [self.toolTip()]
        if self._reach is not None and self.isEnabled():
            lines.append(f"Selected: steps {self._reach[0]:,} to {self._reach[1]:,}")
        near = [mark for mark in self._marks if abs(self.x_of_step(int(mark.x)) - x) <= _NEAR]
        for mark in near[:_SHOWN]:
            lines.append(f"{int(mark.x):,}: {mark.sentence or mark.label}")
        if len(near) > _SHOWN:
            lines.append(f"and {len(near) - _SHOWN:,} more")
        return "\n".join(lines)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the track, a tick below it for each recorded step, the events and the handle."""
        theme, painter = self._theme, QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle, on = self.height() / 2, self.isEnabled()
        handle_x = self.width() - _EDGE if self._step is None else self.x_of_step(self._step)
        line = mix_colours(theme.line, theme.muted, 0.5)
        painter.setPen(QPen(QColor(line), 2))
        painter.drawLine(QLineF(_EDGE, middle, self.width() - _EDGE, middle))
        if on:
            self._paint_reach(painter, middle)
            painter.setPen(QPen(QColor(theme.accent), 2))
            painter.drawLine(QLineF(_EDGE, middle, handle_x, middle))
            self._paint_steps(painter, middle)
            self._paint_marks(painter, middle)
        painter.setPen(QPen(QColor(theme.accent if on else line), 2))
        filled = theme.accent if on and self._step is not None else theme.panel
        painter.setBrush(QColor(filled if on else theme.window))
        painter.drawEllipse(QPointF(handle_x, middle), _HANDLE, _HANDLE)
        if self.hasFocus():
            painter.setPen(QPen(QColor(theme.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.end()

    def _paint_reach(self, painter: QPainter, middle: float) -> None:
        """Draw the selected range as a band with two ends."""
        if self._reach is None:
            return
        first, last = (self.x_of_step(step) for step in self._reach)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(mix_colours(self._theme.panel, self._theme.accent, 0.35)))
        painter.drawRect(QRectF(first, middle - 7, last - first, 14))
        painter.setPen(QPen(QColor(self._theme.accent), 2))
        for x in (first, last):
            painter.drawLine(QLineF(x, middle - 8, x, middle + 8))

    def _paint_steps(self, painter: QPainter, middle: float) -> None:
        """Draw the ticks, at most one per pixel."""
        if not self._steps:
            return
        steps = np.asarray(self._steps, dtype=np.float64)
        positions = _EDGE + (self.width() - 2 * _EDGE) * steps / max(self._last, 1)
        painter.setPen(QPen(QColor(self._theme.muted), 1))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for x in np.unique(positions.astype(int)):
            painter.drawLine(QLineF(int(x), middle + 5, int(x), middle + 8))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)

    def _paint_marks(self, painter: QPainter, middle: float) -> None:
        """Draw a flag for each event."""
        for x in sorted({round(self.x_of_step(int(mark.x))) for mark in self._marks}):
            painter.setPen(QPen(QColor(self._theme.text), 1))
            painter.drawLine(QLineF(x + 0.5, middle - 9, x + 0.5, middle))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._theme.text))
            flag = [QPointF(x + dx, middle + dy) for dx, dy in ((0.5, -9), (6.5, -6.5), (0.5, -4))]
            painter.drawPolygon(QPolygonF(flag))
