"""The toolbar of a run: its buttons, and the settings that the engine changes between steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QSizePolicy, QToolBar, QWidget

from dgn_engine.config import SETTINGS, ValueInput
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.events import Event
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.scene.run_text import run_in_words, weights_in_words
from dgn_viewer.style.stylesheet import plain_tip
from dgn_viewer.widgets.choice_box import BoxChoice, ChoiceBox
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.form_fields import number_field
from dgn_viewer.widgets.layouts import PlainLabel
from dgn_viewer.widgets.number_field import NumberField

_KEPT = ", kept"  # after a regime's id: a way into it, not a regime of its own
VALUE_KEPT_ABOUT = "Freezes the feature network; the value network goes on from where it is."
_INPUTS: dict[str, tuple[ValueInput, str]] = {
    "image": ("image", "the image x"),
    "ones": ("ones", "all ones: the gates alone carry the example"),
    "random": ("random", "one fixed random tensor, the same for every example"),
}


class RunToolbar(QToolBar):
    """Sends commands; every control shows the engine's last word. `first`, `last`: its buttons."""

    def __init__(
        self,
        send: Callable[[do.Command], None],
        first: Sequence[QAction] = (),
        last: Sequence[QAction] = (),
    ) -> None:
        super().__init__("Run")
        self.setObjectName("run_toolbar")
        self.setMovable(False)
        self.setIconSize(QSize(16, 16))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self._send = send
        self.state = RunState()
        self._make_fields()
        self._place(first, last)
        self._show()

    # what is shown

    def on_event(self, _event: Event, state: RunState) -> None:
        """Show the state after an event; a value that the engine refused goes back, too."""
        before, self.state = self.state, state
        if state.catalogue is not None and state.catalogue is not before.catalogue:
            self._offer(state.catalogue)
        self._show()

    def _offer(self, catalogue: Catalogue) -> None:
        choices: list[BoxChoice] = []
        for entry in catalogue.regimes:
            hint = "value network drawn anew" if entry.for_copied_gates else ""
            group = entry.group
            choices.append(BoxChoice(entry.id, entry.id, entry.title, entry.about, hint, group))
            if entry.for_copied_gates:
                id_, kept = f"{entry.id}{_KEPT}", f"{entry.id}, value network kept"
                choices.append(BoxChoice(id_, entry.id, kept, VALUE_KEPT_ABOUT, group=group))
        self.regime.offer(choices)

    def _show(self) -> None:
        now, entry = self.state, self.state.regime_entry
        wired = entry is not None and not entry.own_gates
        soft = entry is not None and entry.soft
        self.regime.setEnabled(now.has_run)
        self.regime.show_value(now.regime)
        self.regime.setToolTip(plain_tip(entry.about if entry else "Gating regime"))
        self.value_input.setEnabled(now.has_run and wired)
        self.beta.setEnabled(now.has_run and soft)
        self.learning_rate.setEnabled(now.has_run)
        self.pace.setEnabled(now.has_run)
        settings = now.settings
        if now.run is not None and now.run.watched:  # only the program that trains it knows
            for field in (self.beta, self.learning_rate, self.pace):
                field.show_nothing()
        elif settings is not None:
            self.value_input.show_value(settings.value_input if wired else "image")
            for number, value in (
                (self.beta, settings.beta),
                (self.learning_rate, settings.learning_rate),
                (self.pace, settings.pace),
            ):
                if not (number.problem and number.value() == value):  # what was refused stays
                    number.show_value(value)
        self._say()

    def _say(self) -> None:
        now = self.state
        if now.run is not None:
            entry, feature = now.regime_entry, now.parameters_feature
            aside = entry is not None and entry.own_gates
            words = weights_in_words(now.run, feature, aside)
            whole = run_in_words(now.run, feature)
            self.summary.say(whole, words, whole.rpartition(" · ")[0])
        elif not now.ready:
            self.summary.say("" if now.phase == "stopped" else "loading torch…")
        else:
            self.summary.say("no run")

    # what is asked

    def _swap(self, regime: str) -> None:
        kept = regime.endswith(_KEPT)
        self._send(do.SwapRegime(regime.removesuffix(_KEPT), restart_value=not kept))

    def _feed(self, name: str) -> None:
        self._send(do.SetValueInput(_INPUTS[name][0]))

    # building

    def _make_fields(self) -> None:
        self.regime = ChoiceBox("Gating regime")
        self.regime.asked.connect(self._swap)
        self.value_input = ChoiceBox("Input of the value network")
        self.value_input.setToolTip("What the value network is fed; the gates always see the image")
        self.value_input.offer(
            [BoxChoice(name, name, f"{name}: {about}") for name, (_, about) in _INPUTS.items()]
        )
        self.value_input.asked.connect(self._feed)
        self.beta = _field(
            number_field(SETTINGS["gating"]["beta"]),
            "Steepness β of the soft gate 1/(1+exp(-βq))",
            52,
        )
        self.beta.chosen.connect(lambda value: self._send(do.SetBeta(value)))
        self.learning_rate = _field(
            number_field(SETTINGS["training"]["learning_rate"]), "Learning rate", 68
        )
        self.learning_rate.chosen.connect(lambda value: self._send(do.SetLearningRate(value)))
        self.pace = _field(
            number_field(SETTINGS["training"]["pace"]),
            "At most this many steps a second, to watch; 'full speed' lifts the limit",
            96,
        )
        self.pace.chosen.connect(lambda value: self._send(do.SetPace(value)))
        self.summary = ElidedLabel("", least=24)
        self.summary.setProperty("role", "muted")
        self.summary.setContentsMargins(8, 0, 8, 0)

    def _place(self, first: Sequence[QAction], last: Sequence[QAction]) -> None:
        self.addActions(first)
        self.addSeparator()
        self.addWidget(_caption("regime", self.regime))
        self.addWidget(self.regime)
        self.addSeparator()
        self.addWidget(_caption("value input", self.value_input))
        self.addWidget(self.value_input)
        for text, field in (("β", self.beta), ("lr", self.learning_rate)):
            self.addWidget(_caption(text, field))
            self.addWidget(field)
        self.addWidget(self.pace)
        self.addWidget(self.summary)
        self.addActions(last)


def _field(field: NumberField, about: str, width: int) -> NumberField:
    field.setToolTip(plain_tip(about))
    field.setAccessibleName(about.split(";")[0].split(" β")[0])
    field.setFixedWidth(width)
    field.lineEdit().returnPressed.connect(field.clearFocus)  # so that Space is 'run' again
    field.show_nothing()
    return field


def _caption(text: str, field: QWidget) -> QLabel:
    label = PlainLabel(text)
    label.setProperty("role", "small")
    label.setContentsMargins(6, 0, 2, 0)
    label.setBuddy(field)
    label.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
    return label
