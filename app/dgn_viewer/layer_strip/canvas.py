"""The canvas of the layer strip: two networks, the links between them, and draggable chips."""

from __future__ import annotations

from itertools import pairwise

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from dgn_engine.scene.selection import Selection
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.strip_state import (
    Order,
    StripState,
    identity_order,
    reason_not_swappable,
    swap_layers,
)
from dgn_viewer.layer_strip.gate_chip import RING, ChipContent, GateChip
from dgn_viewer.layer_strip.geometry import HEIGHT, StripGrid
from dgn_viewer.layer_strip.painting import (
    Brushes,
    gate_colour,
    paint_highlight,
    paint_link,
    paint_origin,
    paint_reason,
    paint_rows,
    paint_slot,
    paint_waiting,
)
from dgn_viewer.style.stylesheet import tabular_font, themed_icon

_REASON_MS = 4000  # display time of the reason after a refused key


class StripCanvas(QWidget):
    """A canvas that shows a `StripState` and emits `wanted` with the order the user chooses."""

    wanted = Signal(object)  # Order
    turned = Signal(int, int)  # feature layer, rotation in units
    menu_wanted = Signal(int, QPoint)
    homed = Signal()  # reset order and rotations

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = LIGHT
        self._state = StripState()
        self._pending: Order | None = None  # requested, not yet confirmed by the engine
        self._chips: list[GateChip] = []
        self._held: int | None = None  # column of the chip being dragged
        self._over: int | None = None  # column below that chip
        self._reason: tuple[int, str] | None = None
        self._lit: int | None = None  # column of the layer outlined in the panels
        self._forget = QTimer(self, singleShot=True, interval=_REASON_MS)
        self._forget.timeout.connect(self._clear_reason)
        self.setFixedHeight(HEIGHT)
        self._brushes = self._make_brushes()

    # Contents

    def show_state(self, state: StripState) -> None:
        """Show a state; a drag in progress continues if it is still possible."""
        if len(state.layers) != len(self._state.layers):
            self._make_chips(len(state.layers))
        self._state = state
        if not state.can_rewire:
            self._cancel_drag()
        least = self._make_grid().least_width * self._theme.scale
        self.setMinimumWidth(int(least) if state.layers else 0)
        self._refresh_chips()

    def outline_layer(self, selection: Selection) -> None:
        """Outline the layer that is hovered or pinned in a panel."""
        if (lit := selection.single_id("layer")) != self._lit:
            self._lit = lit
            self.update()

    def clear_pending(self) -> None:
        """Forget the pending order, once the engine has answered."""
        self._pending = None
        self._refresh_chips()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.setFixedHeight(round(HEIGHT * theme.scale))
        self._brushes = self._make_brushes()
        self._refresh_chips()

    @property
    def chips(self) -> tuple[GateChip, ...]:
        return tuple(self._chips)

    @property
    def shown_order(self) -> Order:
        """The displayed order: the preview of a drag, the pending one, or the engine's."""
        order = self._pending or self._state.order
        if self._held is not None and self._over not in (None, self._held) and not self._reason:
            assert self._over is not None
            return swap_layers(order, self._held, self._over)
        return order

    @property
    def reason(self) -> str:
        """The reason why the current drag or the last key has no effect, or ''."""
        return self._reason[1] if self._reason else ""

    def slot_centre(self, column: int) -> QPointF:
        """Return the centre of a value layer's gate slot, in widget coordinates."""
        return self._make_grid().chip_rect(column).center() * self._theme.scale

    def sizeHint(self) -> QSize:
        return QSize(640, round(HEIGHT * self._theme.scale))

    # Dragging

    def _start_drag(self, feature: int) -> None:
        self._held = self.shown_order.index(feature)
        self._clear_reason()

    def _drag_chip(self, feature: int, centre: QPointF) -> None:
        if self._held is None:
            return
        self._over = self._make_grid().column_at(centre / self._theme.scale)
        self._reason = None
        if self._over is not None:
            reason = self._reason_blocked(self._held, self._over)
            self._reason = (self._over, reason) if reason else None
        self._refresh_chips()
        chip = self._chips[feature]
        top_left = centre - QPointF(chip.width() / 2, chip.height() / 2)
        left = min(max(top_left.x(), 0), self.width() - chip.width())
        top = min(max(top_left.y(), 0), self.height() - chip.height())
        chip.move(round(left), round(top))

    def _drop_chip(self, feature: int, centre: QPointF) -> None:
        if self._held is not None:
            self._drag_chip(feature, centre)
            order, previous = self.shown_order, self._pending or self._state.order
            self._cancel_drag()
            if order != previous:
                self._request_order(order)
        self._refresh_chips()

    def _cancel_drag(self, _feature: int = -1) -> None:
        self._held = self._over = self._reason = None
        self._refresh_chips()

    # Keyboard

    def _move_chip(self, feature: int, places: int) -> None:
        order = self._pending or self._state.order
        origin = order.index(feature)
        target = origin + places
        if self._held is not None or not 0 <= target < len(order):
            return
        reason = self._reason_blocked(origin, target)
        if reason:
            self._reason = (target, reason)
            self._forget.start()
            self.update()
        else:
            self._clear_reason()
            self._request_order(swap_layers(order, origin, target))

    def _move_focus(self, feature: int, places: int) -> None:
        order = self.shown_order
        target = order.index(feature) + places
        if 0 <= target < len(order):
            self._chips[order[target]].setFocus(Qt.FocusReason.TabFocusReason)

    def reset_order(self) -> None:
        if self._state.can_rewire and self.shown_order != identity_order(len(self._state.layers)):
            self._request_order(identity_order(len(self._state.layers)))

    def _request_order(self, order: Order) -> None:
        self._pending = None if order == self._state.order else order
        self._refresh_chips()
        self.wanted.emit(order)

    def _reason_blocked(self, origin: int, target: int) -> str:
        return reason_not_swappable(
            self._state.layers, self._pending or self._state.order, origin, target
        )

    def _clear_reason(self) -> None:
        self._forget.stop()
        self._reason = None
        self.update()

    # Building and painting

    def _make_chips(self, count: int) -> None:
        self._cancel_drag()
        self._pending = None
        for chip in self._chips:
            chip.hide()
            chip.deleteLater()
        self._chips = [GateChip(feature, self) for feature in range(count)]
        for chip in self._chips:
            chip.grabbed.connect(self._start_drag)
            chip.dragged.connect(self._drag_chip)
            chip.released.connect(self._drop_chip)
            chip.cancelled.connect(self._cancel_drag)
            chip.moved.connect(self._move_chip)
            chip.walked.connect(self._move_focus)
            chip.homed.connect(self.homed)
            chip.turned.connect(self.turned)
            chip.menu_wanted.connect(self.menu_wanted)
            chip.show()

    def _refresh_chips(self) -> None:
        grid, order = self._make_grid(), self.shown_order
        if len(order) != len(self._chips):
            return
        for column, feature in enumerate(order):
            chip = self._chips[feature]
            chip.show_content(self._chip_content(feature, column), self._theme)
            if not chip.is_dragging:
                ringed = grid.chip_rect(column).adjusted(-RING, -RING, RING, RING)
                scale = self._theme.scale
                area = QRectF(ringed.topLeft() * scale, ringed.size() * scale)
                chip.setGeometry(area.toRect())
        in_order = [self._chips[feature] for feature in order]
        for before, after in pairwise(in_order):
            QWidget.setTabOrder(before, after)
        self.update()

    def _chip_content(self, feature: int, column: int) -> ChipContent:
        state, name = self._state, f"G{feature + 1}"
        return ChipContent(
            name=name,
            colour=gate_colour(self._theme, feature, len(state.layers)),
            note="" if state.own_gates else state.source,
            turn="" if state.own_gates else state.describe_turn(feature),
            wired=state.has_wiring,
            movable=state.can_rewire,
            about=state.describe_gates(feature, column),
            label=f"G{feature + 1} over layer {column + 1}",
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._refresh_chips()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        scale = self._theme.scale
        painter.scale(scale, scale)
        order = self.shown_order
        if self._state.layers and len(order) == len(self._state.layers):
            self._paint_strip(painter, self._make_grid(), order)
        else:
            paint_waiting(painter, self._logical_rect(), self._brushes)
        painter.end()

    def _paint_strip(self, painter: QPainter, grid: StripGrid, order: Order) -> None:
        if self._lit is not None and self._lit < grid.count and self._held is None:
            paint_highlight(painter, grid.slot_rect(self._lit), self._brushes)
        paint_rows(painter, grid, self._state, self._brushes)
        if self._held is not None:
            self._paint_slots(painter, grid)
        if not self._state.own_gates:
            self._paint_links(painter, grid, order)
        if self._reason:
            column, text = self._reason
            room = self._logical_rect()
            paint_reason(painter, grid.middle_x(column), room, text, self._brushes)

    def _paint_slots(self, painter: QPainter, grid: StripGrid) -> None:
        assert self._held is not None
        for column in range(grid.count):
            if column != self._held:
                legal = not self._reason_blocked(self._held, column)
                paint_slot(
                    painter, grid.slot_rect(column), self._brushes, legal, column == self._over
                )
        if self.shown_order == (self._pending or self._state.order):
            feature = self.shown_order[self._held]
            colour = gate_colour(self._theme, feature, grid.count)
            paint_origin(painter, grid.chip_rect(self._held), colour)

    def _paint_links(self, painter: QPainter, grid: StripGrid, order: Order) -> None:
        for feature in order:
            chip = self._chips[feature]
            box = grid.chip_rect(order.index(feature))
            if chip.is_dragging:
                area, scale = QRectF(chip.geometry()), self._theme.scale
                box = QRectF(area.topLeft() / scale, area.size() / scale)
                box = box.adjusted(RING, RING, -RING, -RING)
            colour = gate_colour(self._theme, feature, grid.count)
            end = QPointF(box.center().x(), box.top())
            if end.y() < grid.node_rect(feature).bottom():
                end = QPointF(box.center().x(), box.center().y())
            requested_order = self._pending or self._state.order
            pending = requested_order.index(feature) != self._state.order.index(feature)
            paint_link(painter, grid.node_rect(feature), end, colour, pending, chip.is_dragging)

    def _make_grid(self) -> StripGrid:
        return StripGrid(len(self._state.layers), self.width() / self._theme.scale)

    def _logical_rect(self) -> QRectF:
        """Return the rectangle of the canvas before the scale of type."""
        scale = self._theme.scale
        return QRectF(0.0, 0.0, self.width() / scale, self.height() / scale)

    def _make_brushes(self) -> Brushes:
        lock = themed_icon("lock", self._theme, 14, self._theme.muted)
        pixmap = lock.pixmap(QSize(14, 14), self.devicePixelRatio())
        return Brushes(
            self._theme,
            tabular_font(self, 13),
            tabular_font(self, 12),
            tabular_font(self, 13, bold=True),
            pixmap,
        )
