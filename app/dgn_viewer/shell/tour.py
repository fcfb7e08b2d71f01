"""The guided tour: cards that point at the live window and can demonstrate their point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QToolButton, QWidget

from dgn_engine.scene.theme import Theme
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.style.stylesheet import themed_icon
from dgn_viewer.style.type_scale import scaled
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button

_WIDTH = 340
_ARROW = 12  # length of the arrow, pixels
_HALF = 9  # half of its base width
_GAP = 2


@dataclass(frozen=True)
class TourStep:
    """One step of a tour.

    Attributes:
        target: Returns the widget to point at, or None if it is not there.
        act: Performs the action of 'Show me'.
        back: Undoes what should not outlast the step.
        seen: Returns the results so far, as text.
    """

    title: str
    text: str
    target: Callable[[], QWidget | None]
    act: Callable[[], object]
    back: Callable[[], object] = lambda: None
    seen: Callable[[], str] = lambda: ""


class Callout(QWidget):
    """Card with an arrow, placed over the window; non-modal."""

    next_wanted = Signal()
    act_wanted = Signal()
    skip_wanted = Signal()

    def __init__(self, window: QWidget, theme: Theme) -> None:
        super().__init__(window)
        self._theme = theme
        self._card = QRect()
        self._tip: QPoint | None = None
        self.title = plain_label(role="title")  # wraps
        self.close_ = QToolButton()
        self.close_.setAccessibleName("Skip the tour")
        self.close_.setToolTip("Skip the tour (Esc)")
        self.close_.setIconSize(QSize(16, 16))
        self.close_.clicked.connect(self.skip_wanted)
        self.text = plain_label()
        self.seen = plain_label(role="small")
        self.note = plain_label(role="small")
        self.count = plain_label(role="small")
        self.act = push_button("Show me", self.act_wanted)
        self.next = push_button("Next", self.next_wanted, "primary")
        head = make_row((self.title, 1), self.close_, spacing=8)
        foot = make_row((self.count, 1), self.act, self.next, spacing=8)
        edges = (_ARROW + 14,) * 4
        make_column(
            head, self.text, self.seen, self.note, foot, into=self, margins=edges, spacing=8
        )
        self.set_theme(theme)
        self.hide()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.close_.setIcon(themed_icon("close", theme))
        self.update()

    def show_tour_step(self, step: TourStep, place: int, of: int, note: str = "") -> None:
        self.title.setText(step.title)
        self.text.setText(step.text)
        self.update_measurement(step)
        self.add_note(note)
        self.count.setText(f"{place + 1} of {of}")
        self.next.setText("Done" if place + 1 == of else "Next")
        self.act.setEnabled(True)
        self.setAccessibleName(f"Tour, {place + 1} of {of}: {step.title}")
        self.setAccessibleDescription(step.text)

    def add_note(self, note: str) -> None:
        """Show what the tour itself has done."""
        self.note.setText(note)
        self.note.setVisible(bool(note))

    def update_measurement(self, step: TourStep) -> bool:
        """Update the results; return whether their length has changed."""
        results, previous = step.seen(), self.seen.text()
        self.seen.setText(results)
        self.seen.setVisible(bool(results))
        return len(results) != len(previous)

    def point_at(self, target: QRect | None, room: QRect) -> None:
        """Place the card next to the target (window coordinates) within `room`, pointing at it."""
        self.setFixedWidth(scaled(_WIDTH) + 2 * _ARROW)
        height = max(self.heightForWidth(self.width()), self.minimumSizeHint().height())
        size = QSize(self.width(), height)
        corner, tip = _place_callout(target, size, room)
        self.setGeometry(QRect(corner, size))
        self._card = QRect(QPoint(0, 0), size).adjusted(_ARROW, _ARROW, -_ARROW, -_ARROW)
        self._tip = None if tip is None else tip - corner
        self.show()
        self.raise_()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self._theme.accent), 1.5))
        painter.setBrush(QColor(self._theme.panel))
        painter.drawRoundedRect(self._card, 6, 6)
        if self._tip is not None:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self._theme.accent))
            painter.drawPolygon(_arrow_polygon(self._card, self._tip))
        painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.skip_wanted.emit()
        else:
            super().keyPressEvent(event)


class Tour(QObject):
    """Runs through its steps. `ended`: the last step is done, or the tour was skipped."""

    ended = Signal()

    def __init__(
        self,
        window: QWidget,
        steps: tuple[TourStep, ...],
        theme: Theme,
        return_to_live: Callable[[], bool] = lambda: False,
    ) -> None:
        """`return_to_live` leaves a past step that is shown, and returns whether there was one."""
        super().__init__(window)
        self._window = window
        self._return_to_live = return_to_live
        self._own = self._steps = steps
        self._place = -1
        self._theme = theme
        on_event = {
            QEvent.Type.Resize: lambda _event: self.reposition_callout(),
            QEvent.Type.LayoutRequest: lambda _event: self.reposition_callout(),
            # New docks would cover the callout.
            QEvent.Type.ChildAdded: lambda _event: self.callout.raise_(),
        }
        self._filter = EventFilter(self, on_event)

    @cached_property
    def callout(self) -> Callout:
        """The card, made when a tour first starts."""
        callout = Callout(self._window, self._theme)
        callout.next_wanted.connect(self.go_to_next_step)
        callout.act_wanted.connect(self._perform_act)
        callout.skip_wanted.connect(self.skip_tour)
        return callout

    @property
    def step_index(self) -> int:
        """Index of the current step; -1 if no tour is running."""
        return self._place

    def start(self, steps: tuple[TourStep, ...] | None = None) -> None:
        """Start or restart the tour, optionally with other steps."""
        self.skip_tour()
        self._steps = steps or self._own
        self.callout.raise_()  # it exists before its window is watched for new children
        self._filter.watch_objects(self._window)
        self._show_callout_step(0)

    def go_to_next_step(self) -> None:
        """Go to the next step, or end after the last one."""
        if self._place < 0:
            return
        self._steps[self._place].back()
        if self._place + 1 < len(self._steps):
            self._show_callout_step(self._place + 1)
        else:
            self._end_tour()

    def skip_tour(self) -> None:
        if self._place >= 0:
            self._steps[self._place].back()
            self._end_tour()

    def refresh_measurement(self) -> None:
        """Update the results."""
        if self._place >= 0 and self.callout.update_measurement(self._steps[self._place]):
            self._point_at_target()

    def reposition_callout(self) -> None:
        if self._place >= 0:
            self._point_at_target()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        if "callout" in vars(self):
            self.callout.set_theme(theme)

    def _perform_act(self) -> None:
        self.callout.act.setEnabled(False)
        if note := self._live_note(self._place):
            self.callout.add_note(note)
        self._steps[self._place].act()
        self.reposition_callout()

    def _show_callout_step(self, place: int) -> None:
        self._place = place
        note = self._live_note(place)
        self.callout.show_tour_step(self._steps[place], place, len(self._steps), note)
        self._point_at_target()

    def _live_note(self, place: int) -> str:
        """Return to live, and return a note; '' if it was live."""
        if not self._return_to_live():
            return ""
        return f"Back to live: step {place + 1} of the tour is about the current run."

    def _point_at_target(self) -> None:
        target = self._steps[self._place].target()
        seen = target is not None and target.isVisible()
        area = QRect(target.mapTo(self._window, QPoint(0, 0)), target.size()) if seen else None  # type: ignore[union-attr]
        self.callout.point_at(area, self._window.rect())

    def _end_tour(self) -> None:
        self._place = -1
        self._filter.stop_watching()
        self.callout.hide()
        self._window.setFocus(Qt.FocusReason.OtherFocusReason)
        self.ended.emit()


def _place_callout(target: QRect | None, size: QSize, room: QRect) -> tuple[QPoint, QPoint | None]:
    """Return the position of the card and the tip of its arrow.

    The card is next to the target if there is room, otherwise over its lower part.
    """
    if target is None:
        return room.center() - QPoint(size.width() // 2, size.height() // 2), None
    middle = target.center()
    left = middle.x() - size.width() // 2
    top = middle.y() - size.height() // 2
    candidates = (
        (QPoint(target.right() + _GAP, top), QPoint(target.right(), middle.y())),
        (QPoint(left, target.bottom() + _GAP), QPoint(middle.x(), target.bottom())),
        (QPoint(target.left() - size.width() - _GAP, top), QPoint(target.left(), middle.y())),
        (QPoint(left, target.top() - size.height() - _GAP), QPoint(middle.x(), target.top())),
    )
    for corner, tip in candidates:
        clamped = _clamp_to_room(corner, size, room)
        is_aligned = corner.x() == clamped.x() or corner.y() == clamped.y()
        if is_aligned and not QRect(clamped, size).intersects(target.adjusted(2, 2, -2, -2)):
            return clamped, tip
    overlapping = QPoint(left, target.bottom() - size.height())
    return _clamp_to_room(overlapping, size, room), QPoint(
        middle.x(), target.top() + target.height() // 3
    )


def _clamp_to_room(place: QPoint, size: QSize, room: QRect) -> QPoint:
    maximum = QPoint(room.right() - size.width(), room.bottom() - size.height())
    return QPoint(
        max(room.left(), min(place.x(), maximum.x())), max(room.top(), min(place.y(), maximum.y()))
    )


def _arrow_polygon(card: QRect, tip: QPoint) -> QPolygonF:
    """Return a triangle on the edge of the card nearest to the tip."""
    x = min(max(tip.x(), card.left() + 2 * _HALF), card.right() - 2 * _HALF)
    y = min(max(tip.y(), card.top() + 2 * _HALF), card.bottom() - 2 * _HALF)
    outside = {
        "left": card.left() - tip.x(),
        "right": tip.x() - card.right(),
        "top": card.top() - tip.y(),
        "bottom": tip.y() - card.bottom(),
    }
    side = max(outside, key=lambda name: outside[name])
    out = _ARROW - 1
    points = {
        "left": ((card.left(), y - _HALF), (card.left() - out, y), (card.left(), y + _HALF)),
        "right": ((card.right(), y - _HALF), (card.right() + out, y), (card.right(), y + _HALF)),
        "top": ((x - _HALF, card.top()), (x, card.top() - out), (x + _HALF, card.top())),
        "bottom": (
            (x - _HALF, card.bottom()),
            (x, card.bottom() + out),
            (x + _HALF, card.bottom()),
        ),
    }
    return QPolygonF([QPointF(*point) for point in points[side]])
