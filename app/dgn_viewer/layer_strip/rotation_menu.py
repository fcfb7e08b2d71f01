"""Rotation of gate layers: the menu of a chip, and requests the engine has not confirmed yet."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFormLayout, QMenu, QWidget, QWidgetAction

from dgn_engine.protocol.training import Rotate
from dgn_engine.views.strip_state import Order, StripState, Turn
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import PlainLabel

_MOST = 10**6


class RotationRequests:
    """The rotations that were requested by `Rotate` and neither confirmed nor refused yet."""

    def __init__(self, ask: Callable[[Rotate], None]) -> None:
        self._ask = ask
        self._asked: dict[int, Turn] = {}  # by feature layer

    def apply_pending_turns(self, state: StripState) -> StripState:
        """Return the state with pending rotations instead of the confirmed ones."""
        self._asked = {f: turn for f, turn in self._asked.items() if turn != state.turn_of(f)}
        return state.with_turns(self._asked)

    def forget_turns(self) -> None:
        """Drop all pending rotations, after a refusal or a new run."""
        self._asked = {}

    def request_turn(self, state: StripState, order: Order, feature: int, to: Turn) -> None:
        """Request a rotation of one gate layer.

        Args:
            state: The state of the strip.
            order: The order of the gate layers once pending changes are confirmed.
            feature: The gate layer.
            to: Its rotation in units and its shift in rows and columns.
        """
        self._asked[feature] = state.shortest_turn(feature, to)
        self._send_turns(state, order)

    def reset_turns(self, state: StripState, order: Order) -> None:
        if self.apply_pending_turns(state).is_turned:
            self._asked = dict.fromkeys(order, (0, 0))
            self._send_turns(state, order)

    def _send_turns(self, state: StripState, order: Order) -> None:
        requested = state.with_turns(self._asked)
        turns = [requested.turn_of(feature) for feature in order]
        rotation, shift = tuple(turn[0] for turn in turns), tuple(turn[1] for turn in turns)
        self._ask(Rotate(rotation, shift if any(shift) else ()))


class RotationMenu(QMenu):
    """A menu with the rotation of one gate layer; each edit is requested immediately."""

    def __init__(
        self, parent: QWidget, name: str, turn: Turn, is_map: bool, ask: Callable[[Turn], None]
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._ask = ask
        self.rotation, self.shift = _make_turn_field(turn[0]), _make_turn_field(turn[1])
        self.addAction(self._make_form(name, is_map))
        self.addSeparator()
        self.back = self.addAction("Reset")
        self.back.setEnabled(turn != (0, 0))
        self.back.triggered.connect(lambda: ask((0, 0)))
        for field in (self.rotation, self.shift):
            field.valueChanged.connect(self._on_turn_edited)
            field.lineEdit().returnPressed.connect(self.close)

    def open_at(self, place: QPoint) -> None:
        """Open next to the chip, with the keyboard focus in the rotation field."""
        self.popup(place)
        self.rotation.setFocus()
        self.rotation.selectAll()

    def _make_form(self, name: str, is_map: bool) -> QWidgetAction:
        page = QWidget()
        rows = QFormLayout(page)
        rows.setContentsMargins(12, 8, 12, 8)
        rows.setHorizontalSpacing(8)
        rows.setVerticalSpacing(6)
        title = PlainLabel(f"Rotate gates of {name}", role="heading")
        rows.addRow(title)
        self.rotation.setAccessibleName(f"Rotation of {name} in units")
        self.shift.setAccessibleName(f"Shift of {name} in rows and columns")
        rows.addRow("channels" if is_map else "units", self.rotation)
        rows.addRow("rows and columns", self.shift)
        rows.setRowVisible(self.shift, is_map)
        about = PlainLabel("Cyclic; the same for all examples.", role="small")
        rows.addRow(about)
        action = QWidgetAction(self)
        action.setDefaultWidget(page)
        return action

    def _on_turn_edited(self) -> None:
        turn = (self.rotation.value(), self.shift.value())
        self.back.setEnabled(turn != (0, 0))
        self._ask(turn)


def _make_turn_field(value: int) -> IntegerField:
    field = IntegerField(-_MOST, _MOST)
    field.setKeyboardTracking(False)
    field.setValue(value)
    field.setMinimumWidth(72)
    return field
