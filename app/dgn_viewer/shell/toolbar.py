"""The toolbar of the run: buttons, and settings that the engine applies between steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QAction, QMouseEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from dgn_engine.config import SETTINGS
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import (
    SetBeta,
    SetLearningRate,
    SetPace,
    SetValueInput,
    SwapRegime,
)
from dgn_engine.scene.run_text import describe_run, describe_weights
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_engine.views.past_view import BACK_TO_LIVE
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.timeline.looking_back import background_colour
from dgn_viewer.widgets.choice_box import ChoiceBox
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.form_fields import number_field
from dgn_viewer.widgets.grouped_box import BoxChoice, parse_swap, regime_choices
from dgn_viewer.widgets.layouts import FixedBar, PlainLabel
from dgn_viewer.widgets.number_field import NumberField

_INPUTS: dict[str, tuple[ValueInput, str]] = {
    "image": ("image", "the image x"),
    "ones": ("ones", "all ones: only the gates depend on the example"),
    "random": ("random", "a fixed random tensor, the same for every example"),
}


class RunToolbar(FixedBar):
    """Toolbar that sends commands; its controls show the state confirmed by the engine.

    While a past step is shown, they show the settings at that step and are disabled. `first`,
    `last`:
    actions at its ends.
    """

    live_wanted = Signal()  # a control was clicked while a past step is shown

    def __init__(
        self,
        send: Callable[[Command], None],
        first: Sequence[QAction] = (),
        last: Sequence[QAction] = (),
    ) -> None:
        super().__init__("run_toolbar", "Run")
        self.setIconSize(QSize(16, 16))
        self._send = send
        self.state = RunState()
        self._past: int | None = None  # past step that is shown
        self._theme = LIGHT
        self._tips: dict[QWidget, str] = {}  # tooltips of the controls while live
        self._make_fields()
        self._add_controls(first, last)
        self._update_controls()

    # State

    def on_event(self, _event: Event, state: RunState) -> None:
        """Show the state after an event; refused values revert."""
        self.show_state(state, self._past)

    def show_state(self, state: RunState, past: int | None = None) -> None:
        (before, then), self.state, self._past = (self.state, self._past), state, past
        if state.catalogue is not None and state.catalogue is not before.catalogue:
            self.regime.offer_choices(regime_choices(state.catalogue.regimes, of_swaps=True))
        self._update_controls()
        if past != then:
            self._apply_tint()

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self._apply_tint()

    def _apply_tint(self) -> None:
        past = self._past
        self.setAccessibleDescription("" if past is None else f"State at step {past:,}")
        tint = background_colour(self._theme, past)
        sheet = "" if past is None else f"#run_toolbar {{ background: {tint}; }}"
        if sheet != self.styleSheet():
            self.setStyleSheet(sheet)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Explain how to return to live if a disabled control is clicked."""
        child = self.childAt(event.position().toPoint())
        if self._past is not None and child is not None:
            is_field = any(
                field is child or field.isAncestorOf(child) for field in self._setting_fields()
            )
            if is_field:
                self.live_wanted.emit()
        super().mousePressEvent(event)

    def _update_controls(self) -> None:
        now, entry = self.state, self.state.regime_entry
        has_value_input = entry is not None and not entry.own_gates
        is_soft = entry is not None and entry.soft
        changeable = now.has_run and self._past is None
        self.regime.setEnabled(changeable)
        self.regime.show_value(now.regime)
        self._tips[self.regime] = entry.about if entry else "Gating regime"
        self.value_input.setEnabled(changeable and has_value_input)
        self.beta.setEnabled(changeable and is_soft)
        self.learning_rate.setEnabled(changeable)
        self.pace.setEnabled(changeable)
        for field, about in self._tips.items():
            field.setToolTip(plain_tip(about if self._past is None else BACK_TO_LIVE))
        settings = now.settings
        if now.run is not None and now.run.watched:  # known only to the program that trains the run
            for field in (self.beta, self.learning_rate, self.pace):
                field.show_nothing()
        elif settings is not None:
            self.value_input.show_value(settings.value_input if has_value_input else "image")
            for number, value in (
                (self.beta, settings.beta),
                (self.learning_rate, settings.learning_rate),
                (self.pace, settings.pace),
            ):
                refused = number.problem and number.value() == value
                if not refused or self._past is not None:  # while live, keep refused input
                    number.show_value(value)
        self._update_summary()

    def _update_summary(self) -> None:
        now = self.state
        if now.run is not None:
            entry, feature = now.regime_entry, now.parameters_feature
            has_own_gates = entry is not None and entry.own_gates
            weights = describe_weights(now.run, feature, has_own_gates)
            full_text = describe_run(now.run, feature)
            self.summary.show_text(full_text, weights, full_text.rpartition(" · ")[0])
        elif not now.is_ready:
            self.summary.show_text("" if now.phase == "stopped" else "loading torch…")
        else:
            self.summary.show_text("no run")

    def set_brief(self, brief: bool) -> None:
        """Show only the buttons, the regime and the value input: no numbers."""
        for action in self._numbers:
            action.setVisible(not brief)

    def _setting_fields(self) -> tuple[QWidget, ...]:
        return self.regime, self.value_input, self.beta, self.learning_rate, self.pace

    # Commands

    def _swap_regime(self, regime: str) -> None:
        name, keeps_value = parse_swap(regime)
        self._send(SwapRegime(name, restart_value=not keeps_value))

    # Construction

    def _make_fields(self) -> None:
        self.regime = ChoiceBox("Gating regime")
        self.regime.asked.connect(self._swap_regime)
        self.value_input = ChoiceBox("Input of the value network")
        tip = "Input of the value network; the gates always see the image"
        self._tips[self.value_input] = tip
        self.value_input.offer_choices(
            [BoxChoice(name, name, f"{name}: {about}") for name, (_, about) in _INPUTS.items()]
        )
        self.value_input.asked.connect(lambda name: self._send(SetValueInput(_INPUTS[name][0])))
        self.beta = self._set_up_field(
            number_field(SETTINGS["gating"]["beta"]),
            "Steepness β of the soft gate 1/(1+exp(-βq))",
            52,
        )
        self.beta.chosen.connect(lambda value: self._send(SetBeta(value)))
        self.learning_rate = self._set_up_field(
            number_field(SETTINGS["training"]["learning_rate"]), "Learning rate", 68
        )
        self.learning_rate.chosen.connect(lambda value: self._send(SetLearningRate(value)))
        self.pace = self._set_up_field(
            number_field(SETTINGS["training"]["pace"]),
            "Maximum steps per second; 'full speed' removes the limit",
            96,
        )
        self.pace.chosen.connect(lambda value: self._send(SetPace(value)))
        self.summary = ElidedLabel("", least=24, role="muted")
        self.summary.setContentsMargins(8, 0, 8, 0)

    def _set_up_field(self, field: NumberField, about: str, width: int) -> NumberField:
        self._tips[field] = about
        field.setAccessibleName(about.split(";")[0].split(" β")[0])
        field.setFixedWidth(width)
        field.lineEdit().returnPressed.connect(
            field.clearFocus
        )  # so that Space toggles training again
        field.show_nothing()
        return field

    def _add_controls(self, first: Sequence[QAction], last: Sequence[QAction]) -> None:
        self.addActions(first)
        self.addSeparator()
        self.addWidget(_caption_label("regime", self.regime))
        self.addWidget(self.regime)
        self.addSeparator()
        self.addWidget(_caption_label("value input", self.value_input))
        self.addWidget(self.value_input)
        self._numbers = []
        for text, field in (("β", self.beta), ("lr", self.learning_rate)):
            self._numbers.append(self.addWidget(_caption_label(text, field)))
            self._numbers.append(self.addWidget(field))
        self._numbers.append(self.addWidget(self.pace))
        self.addWidget(self.summary)
        self.addActions(last)


def _caption_label(text: str, field: QWidget) -> QLabel:
    label = PlainLabel(text, role="small")
    label.setContentsMargins(6, 0, 2, 0)
    label.setBuddy(field)
    label.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
    return label
