"""The layer strip: an editor for the assignment of gate layers to value layers."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QMouseEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QWidget

from dgn_engine.protocol.messages import Command, Event, Failed, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import RegimeSwapped, Rewire, Rewired, RunStarted
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.strip_state import StripState, Turn, strip_state
from dgn_viewer.layer_strip.canvas import StripCanvas
from dgn_viewer.layer_strip.geometry import HEIGHT
from dgn_viewer.layer_strip.rotation_menu import RotationMenu, RotationRequests
from dgn_viewer.style.stylesheet import set_sheet, wrapping_tip
from dgn_viewer.timeline.looking_back import background_colour
from dgn_viewer.widgets.layouts import FixedBar, PlainLabel, make_column, make_row, push_button

_SIDE = 208  # pixels; width of the text column
_NARROW_SIDE = 128  # its width if the chips need the space: the sentence moves to the tooltip


class LayersStrip(QFrame):
    """A strip with feature network, gate chips and value network, and their permutation.

    It sends `Rewire` and `Rotate` and updates on the engine's `Rewired`, or reverts on `Refused`.
    At a past step it shows the state of that step and sends nothing.
    """

    live_wanted = Signal()  # clicked while it shows a past step

    def __init__(self, send: Callable[[Command], None]) -> None:
        super().__init__()
        self.setObjectName("layers_strip")
        self.setAccessibleName("Layer strip")
        self._send = send
        self.state = RunState()
        self._state = StripState()
        self._theme = LIGHT
        self.canvas = StripCanvas()
        self.canvas.wanted.connect(lambda order: send(Rewire(order)))
        self.canvas.turned.connect(self._rotate_by)
        self.canvas.menu_wanted.connect(self._open_menu)
        self.canvas.homed.connect(self.reset_wiring)
        self._turning = RotationRequests(send)
        self._headline = _make_side_label("heading")
        self._sentence = _make_side_label("small")
        self._sentence.setWordWrap(True)
        tooltip = "Give each value layer its own gates again, unrotated (Home)"
        self.reset = push_button("Reset order", self.reset_wiring, "small", tooltip)
        self._lay_out()
        self.set_theme(LIGHT)
        self._update_strip()

    def on_event(self, event: Event, state: RunState) -> None:
        match event:
            case Rewired():
                self.canvas.clear_pending()
            case Refused() | RunStarted() | RegimeSwapped() | Failed():
                self._turning.forget_turns()
                self.canvas.clear_pending()
        self.show_state(state, self._state.past)
        self._update_strip()

    def show_state(self, state: RunState, past: int | None = None) -> None:
        before = self._state
        self.state, self._state = state, strip_state(state, past)
        if self._state != before:
            # Pending requests do not apply to the past.
            if past is not None and before.past is None:
                self._turning.forget_turns()
                self.canvas.clear_pending()
            self._update_strip()
        if past != before.past:
            self._update_background()

    @property
    def headline(self) -> str:
        return self._state.headline()

    @property
    def sentence(self) -> str:
        return self._state.describe_actions()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.canvas.set_theme(theme)
        self._update_background()
        self._update_strip()

    def _update_background(self) -> None:
        past, theme = self._state.past, self._theme
        self.setAccessibleName("Layer strip" if past is None else f"Layer strip at step {past:,}")
        set_sheet(
            self,
            f"#layers_strip {{ background: {background_colour(theme, past)}; border: none; "
            f"border-bottom: 1px solid {theme.line}; }}",
        )

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Report clicks at a past step, which cannot change anything."""
        if self._state.past is not None and event.button() == Qt.MouseButton.LeftButton:
            self.live_wanted.emit()
        super().mousePressEvent(event)

    def reset_wiring(self) -> None:
        if self._state.can_rewire:
            self.canvas.reset_order()
            self._turning.reset_turns(self._state, self.canvas.shown_order)
            self._update_strip()

    def _rotate_by(self, feature: int, units: int) -> None:
        rotation, shift = self._turning.apply_pending_turns(self._state).turn_of(feature)
        self._rotate_gates(feature, (rotation + units, shift))

    def _rotate_gates(self, feature: int, to: Turn) -> None:
        if self._state.can_rewire:
            self._turning.request_turn(self._state, self.canvas.shown_order, feature, to)
            self._update_strip()

    def _open_menu(self, feature: int, place: QPoint) -> None:
        state = self._turning.apply_pending_turns(self._state)
        is_map = len(state.layers[feature].shape) > 1
        turn = state.turn_of(feature)
        self.menu = RotationMenu(
            self, f"G{feature + 1}", turn, is_map, lambda to: self._rotate_gates(feature, to)
        )
        self.menu.open_at(place)

    def _update_strip(self) -> None:
        state = self._turning.apply_pending_turns(self._state)
        self.canvas.show_state(state)
        self._sentence.setText(state.describe_actions())
        both = state.is_permuted and state.is_turned
        order = "Reset all" if both else "Reset order"
        self.reset.setText(order if state.is_permuted else "Reset rotation")
        self.reset.setVisible((state.is_permuted or state.is_turned) and state.can_rewire)
        self._fit_height()

    def _set_side_text(self, label: QLabel, text: str, more: str, side: int) -> None:
        short = QFontMetricsF(label.font()).elidedText(
            text, Qt.TextElideMode.ElideMiddle, side - 24 if side == _SIDE else 1.7 * side
        )
        label.setWordWrap(side != _SIDE)  # then it takes two lines
        label.setText(short)
        label.setToolTip(wrapping_tip(f"{text}. {more}" if more else text))
        label.setAccessibleName(text)
        label.setVisible(bool(text))

    def _lay_out(self) -> None:
        scroller = QScrollArea()
        scroller.setWidget(self.canvas)
        scroller.setWidgetResizable(True)
        scroller.setFrameShape(QFrame.Shape.NoFrame)
        scroller.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroller.viewport().setAutoFillBackground(False)
        self.canvas.setAutoFillBackground(False)
        parts = (self._headline, self._sentence, self.reset)
        text_column = make_column(1, *parts, 1, margins=(0, 8, 12, 8), spacing=4)
        text_column.setAlignment(self.reset, Qt.AlignmentFlag.AlignLeft)
        make_row((scroller, 1), text_column, into=self, spacing=8)
        self.setFixedHeight(HEIGHT + 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit_height()

    def _fit_height(self) -> None:
        """Narrow the text column if the chips need the space, then let the chips scroll."""
        min_width = self.canvas.minimumWidth()
        scale = self._theme.scale
        is_wide = scale == 1.0 and min_width <= self.width() - _SIDE
        side = _SIDE if is_wide else round(_NARROW_SIDE * scale)
        for label in (self._headline, self._sentence):
            label.setFixedWidth(side - 12)
        self._sentence.setVisible(is_wide and bool(self._sentence.text()))
        hidden = "" if is_wide else self._state.describe_actions()
        self._set_side_text(self._headline, self._state.headline(), hidden, side)
        scrolls = min_width > self.width() - side
        self.setFixedHeight(round(HEIGHT * scale) + 1 + (10 if scrolls else 0))


class StripBar(FixedBar):
    """The fixed toolbar that contains the strip."""

    def __init__(self, strip: LayersStrip, window: QWidget) -> None:
        super().__init__("bar.strip", "Layer strip", window)
        self.setStyleSheet("QToolBar { padding: 0; border: none; }")
        self.addWidget(strip)

    def showEvent(self, event: QShowEvent) -> None:
        """Reset the margins, which Qt takes from the application's style sheet otherwise."""
        if (layout := self.layout()) is not None:
            layout.setContentsMargins(0, 0, 0, 0)
        super().showEvent(event)


def _make_side_label(role: str) -> QLabel:
    label = PlainLabel(role=role)
    label.setFixedWidth(_SIDE - 12)
    return label
