"""One panel in the window: its facts, options and buttons, its picture, and the state it is in."""

from __future__ import annotations

import dataclasses
import logging
import time
import traceback
from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QSizePolicy,
    QStackedWidget,
    QToolButton,
    QWidget,
)

from dgn_engine.protocol.commands import ANYWAY, ANYWAY_COMPARED, ProbeRequest
from dgn_engine.protocol.frames import Reading
from dgn_engine.setting import OptionValue
from dgn_viewer.docks.panel_message import (
    ComparisonButton,
    PanelMessage,
    State,
    WholeButton,
    expected_compared_seconds,
    expected_seconds,
    footer,
    message,
    readings_of,
)
from dgn_viewer.docks.text_line import FactsLine, TextLine
from dgn_viewer.plots.scene_view import SceneView
from dgn_viewer.scene.elements import Empty, Scene, Shown
from dgn_viewer.scene.panel_spec import Option, PanelSpec, View, choice
from dgn_viewer.style.stylesheet import icon
from dgn_viewer.style.theme import Theme
from dgn_viewer.widgets.layouts import column, row

_LATE = 3.0  # a reading is stale when it is this many intervals late …
_PATIENCE = 2.0  # … and at least this many seconds
_log = logging.getLogger(__name__)


class PanelDock(QWidget):
    """Draws one panel from the views it is given; a fault in its drawing stays in its frame."""

    choices_changed = Signal()
    about_requested = Signal(str)
    export_requested = Signal(str)

    def __init__(
        self,
        panel_id: str,
        spec: PanelSpec,
        theme: Theme,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self.panel_id = panel_id
        self.spec = spec
        self.setObjectName(f"panel_{panel_id}")
        self.setAccessibleName(spec.title)
        self.setFocusPolicy(Qt.FocusPolicy.ClickFocus)  # wherever it is clicked it is in front
        self._clock = clock
        self._view = View()
        self._choices: dict[str, str] = {}
        self._anyway = False  # the user wants what is held too expensive, in this run
        self._shown: Shown | None = None
        self._state: State = "waiting"
        self._last_fault = ""
        self._every = 0.0
        self._arrived: dict[str, tuple[int, float]] = {}  # probe → (step, when it came)
        self._facts = FactsLine(theme)
        self._combos = {option.id: self._combo(option) for option in spec.options}
        self._about = self._button("What am I seeing?")
        self._export = self._button("Export this panel")
        self._about.clicked.connect(self._ask_about)
        self._export.clicked.connect(self._ask_export)
        self._scene = SceneView(theme)
        self._scene.chosen.connect(self.set_choice)
        self._message = PanelMessage()
        self._message.accepted.connect(self._compute_anyway)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._message)
        self._pages.addWidget(self._scene)
        self._footer = TextLine(theme)
        self._all = WholeButton(self.spec)
        self._all.clicked.connect(self._compute_anyway)
        self._offer = ComparisonButton(self.spec)
        self._offer.clicked.connect(self._compute_compared)
        self._lay_out()
        self.set_theme(theme)
        self.show_view(self._view)

    # What others use

    def show_view(self, view: View, every: float = 0.0) -> None:
        """Draw the view with this panel's own choices; `every`: seconds between drawings."""
        self._every = every
        if view.run is not self._view.run:
            self._anyway = False
        self._view = dataclasses.replace(view, choices=dict(self._choices))
        now = self._clock()
        for probe in self.spec.probes:
            reading = view.readings.get(probe)
            known = self._arrived.get(probe)
            if reading is None:
                self._arrived.pop(probe, None)
            elif known is None or known[0] != reading.step:
                self._arrived[probe] = (reading.step, now)
        try:
            self._fill_combos()
            shown = self.spec.draw(self._view)
            if isinstance(shown, Scene):
                self._scene.show_scene(shown)
        except Exception as error:  # the panel's last line of defence: the window lives on
            self._fail(error)
            return
        self._last_fault = ""
        self._shown = shown
        self._state = self._state_of(shown, now)
        match shown:
            case Scene():
                self._facts.set_facts(shown.facts)
                words = footer(self._state, self.spec, self._view, shown, self._every)
                self._footer.set_text(words)
                self._pages.setCurrentWidget(self._scene)
            case Empty():
                self._facts.set_facts(())
                self._footer.set_text("")
                said = message(self._state, self.spec, self._view, shown, self._anyway)
                self._message.say(*said[:2], offer=said[2])
                self._pages.setCurrentWidget(self._message)
        self._all.show_view(self._view, isinstance(shown, Scene), self._anyway)
        self._offer.show_view(self._view, isinstance(shown, Scene))
        self._export.setEnabled(isinstance(shown, Scene))

    def requests(self) -> tuple[ProbeRequest, ...]:
        """What the engine has to measure for this panel as it is set now."""
        asked = ((ANYWAY, self._anyway), (ANYWAY_COMPARED, self._offer.wanted))
        options: list[tuple[str, OptionValue]] = [(name, True) for name, yes in asked if yes]
        for option in self.spec.options:
            if option.engine and (value := choice(self._view, option)):
                options.append((option.id, int(value) if value.isdecimal() else value))
        return tuple(ProbeRequest(probe, tuple(options)) for probe in self.spec.probes)

    def choices(self) -> dict[str, str]:
        return dict(self._choices)

    def set_choice(self, option_id: str, value: str) -> None:
        """Choose; unknown options are a fault of ours, unknown values fall back to the default."""
        if option_id not in self._combos:
            raise ValueError(f"panel {self.panel_id!r} has no option {option_id!r}")
        if self._choices.get(option_id) == value:
            return
        self._choices[option_id] = value
        self.show_view(self._view, self._every)
        self.choices_changed.emit()

    def shown(self) -> Shown | None:
        """What the panel shows now; None after a fault."""
        return self._shown

    def view(self) -> View:
        return self._view

    def state(self) -> State:
        return self._state

    def scene_view(self) -> SceneView:
        return self._scene

    def words(self) -> tuple[str, str, str]:
        return self._message.words()

    def footer(self) -> str:
        return self._footer.text()

    def set_theme(self, theme: Theme) -> None:
        self._about.setIcon(icon("about", theme, colour=theme.muted))
        self._export.setIcon(icon("export", theme, colour=theme.muted))
        for part in (self._facts, self._footer, self._scene):
            part.set_theme(theme)
        self.setAutoFillBackground(True)
        palette = self.palette()
        palette.setColor(self.backgroundRole(), theme.panel)
        self.setPalette(palette)

    # Inside

    def _lay_out(self) -> None:
        combos = self._combos.values()
        header = row((self._facts, 1), *combos, self._about, self._export, spacing=4)
        below = row((self._footer, 1), self._all, self._offer)
        column(header, (self._pages, 1), below, into=self, margins=(8, 4, 8, 4), spacing=2)

    def _button(self, tip: str) -> QToolButton:
        button = QToolButton()
        button.setToolTip(tip)
        button.setAccessibleName(f"{tip} ({self.spec.title})")
        button.setAutoRaise(True)
        return button

    def _combo(self, option: Option) -> QComboBox:
        combo = QComboBox()
        combo.setObjectName(option.id)
        combo.setToolTip(option.label)
        combo.setAccessibleName(f"{self.spec.title}: {option.label}")
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        combo.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        combo.setMaxVisibleItems(16)
        combo.setVisible(False)
        combo.activated.connect(lambda _: self.set_choice(option.id, str(combo.currentData())))
        return combo

    def _fill_combos(self) -> None:
        """Offer what can be chosen now; an open list is left in peace."""
        for option in self.spec.options:
            combo = self._combos[option.id]
            if combo.view().isVisible():
                continue
            wanted = option.values(self._view)
            present = tuple(
                (str(combo.itemData(i)), combo.itemText(i)) for i in range(combo.count())
            )
            if wanted != present:
                combo.clear()
                for value, label in wanted:
                    combo.addItem(label, value)
            combo.setCurrentIndex(combo.findData(choice(self._view, option)))
            combo.setVisible(len(wanted) > 1)

    def _state_of(self, shown: Shown, now: float) -> State:
        readings = readings_of(self.spec, self._view)
        if isinstance(shown, Empty):
            if expected_seconds(self.spec, self._view) > 0:
                return "costly"
            return "unavailable" if any(reading.absent for reading in readings) else "waiting"
        if self._view.paused:
            return "paused"
        return "stale" if any(self._late(reading, now) for reading in readings) else "live"

    def _late(self, reading: Reading, now: float) -> bool:
        since = now - self._arrived[reading.probe][1]
        return self._view.step > reading.step and since > max(_LATE * reading.interval, _PATIENCE)

    def _compute_anyway(self) -> None:
        """Request the costly reading of the run, and that of the compared network."""
        self._anyway = True
        self._offer.wanted = expected_compared_seconds(self.spec, self._view) > 0
        self._ask_anew()

    def _compute_compared(self) -> None:
        self._offer.wanted = True
        self._ask_anew()

    def _ask_anew(self) -> None:
        self.show_view(self._view, self._every)
        self.choices_changed.emit()

    def _fail(self, error: Exception) -> None:
        details = "".join(traceback.format_exception(error))
        self._shown = None
        self._state = "failed"
        sentence = (
            f"{self.spec.title} could not be drawn at step {self._view.step:,} "
            f"({type(error).__name__}). Training goes on; the next frame tries again."
        )
        self._facts.set_facts(())
        self._message.say("This panel failed", sentence, details)
        self._pages.setCurrentWidget(self._message)
        self._export.setEnabled(False)
        self._footer.set_text("")
        if details != self._last_fault:
            self._last_fault = details
            _log.error("panel %s failed", self.panel_id, exc_info=error)

    def _ask_about(self) -> None:
        self.about_requested.emit(self.panel_id)

    def _ask_export(self) -> None:
        self.export_requested.emit(self.panel_id)
