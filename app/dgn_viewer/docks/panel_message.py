"""What a panel says of itself: the message where there is no picture, the line below a picture."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QPushButton, QWidget

from dgn_engine.protocol.frames import MISFIT, Reading
from dgn_viewer.scene.elements import Empty, Scene
from dgn_viewer.scene.panel_spec import PanelSpec, View
from dgn_viewer.widgets.layouts import column, push_button, row

State = Literal["waiting", "live", "paused", "unavailable", "costly", "stale", "failed"]

_AT_ONCE = 0.1  # seconds; shorter intervals of drawing are not worth a word


def readings_of(spec: PanelSpec, view: View) -> tuple[Reading, ...]:
    """The readings that the panel is made of, as far as they have come."""
    found = (view.readings.get(probe) for probe in spec.probes)
    return tuple(reading for reading in found if reading is not None)


def expected_seconds(spec: PanelSpec, view: View) -> float:
    """Seconds of the reading that was left out as too expensive; 0 where none was."""
    return max((reading.too_expensive for reading in readings_of(spec, view)), default=0.0)


def message(
    state: State, spec: PanelSpec, view: View, empty: Empty, anyway: bool
) -> tuple[str, str, str]:
    """Heading, sentence, and what a button offers; `anyway`: the costly reading was asked for."""
    if state == "costly":
        cost = f"About {in_seconds(expected_seconds(spec, view))} a reading; training waits for it."
        if anyway:
            return "Computing", cost, ""
        why = f"{cost} Fewer probe examples or smaller images cost less."
        return "Too expensive at this size", why, "Compute anyway"
    faults = {r.facts["fault"] for r in readings_of(spec, view) if r.absent and "fault" in r.facts}
    if view.diverged is not None:
        why = empty.reason if faults else "The loss is no longer finite."
        return f"Diverged at step {view.diverged:,}", why, ""
    if faults:
        return "Out of memory" if MISFIT in faults else "No reading", empty.reason, ""
    if spec.compares:
        return "Nothing to compare", empty.reason, ""
    if state == "unavailable":
        return f"Not in {view.regime or 'this regime'}", empty.reason, ""
    if view.run is not None and view.run.inspected:
        return "Not training", empty.reason, ""
    return f"Waiting for {'the first frame' if view.run else 'a run'}", empty.reason, ""


def footer(state: State, spec: PanelSpec, view: View, scene: Scene, every: float) -> str:
    """Step, interval, what was left out, and note; `every`: seconds between two drawings."""
    parts = {"paused": ["paused"], "stale": ["late"]}.get(state, [])
    if view.run is not None and view.run.inspected:
        assuming = view.run.assuming
        parts = ["not training", *([f"assuming {assuming}"] if assuming else [])]
    if view.diverged is not None:
        parts = [f"diverged at step {view.diverged:,}"]
    parts.append(f"step {scene.step:,}")
    readings = readings_of(spec, view)
    intervals = [reading.interval for reading in readings[:1]]
    longest = max([*intervals, every if every > _AT_ONCE else 0.0])
    if longest > 0 and not view.paused:
        parts.append(f"every {in_seconds(longest)}")
    parts.extend(dict.fromkeys(reading.remark for reading in readings if reading.remark))
    parts.extend(_remarks_of_b(spec, view))
    return " · ".join([*parts, scene.note] if scene.note else parts)


def _remarks_of_b(spec: PanelSpec, view: View) -> tuple[str, ...]:
    """What the readings of B leave out, where those of A do not leave out the same."""
    ours = {reading.remark for reading in readings_of(spec, view)}
    found = (reading.remark for reading in compared_readings(spec, view))
    return tuple(f"B: {remark}" for remark in dict.fromkeys(found) if remark and remark not in ours)


def in_seconds(seconds: float) -> str:
    """'33 ms', '0.25 s', '140 s'."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"


class PanelMessage(QWidget):
    """A calm sentence in the middle of the panel; for a fault the traceback can be opened."""

    accepted = Signal()  # the button was pressed

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._heading = QLabel()
        self._heading.setProperty("role", "heading")
        self._sentence = QLabel()
        self._sentence.setProperty("role", "muted")
        self._sentence.setWordWrap(True)
        for label in (self._heading, self._sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            label.setTextFormat(Qt.TextFormat.PlainText)
        self._sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._details = QPlainTextEdit()
        self._details.setReadOnly(True)
        self._details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._details.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._more = QPushButton("Details")
        self._more.setProperty("role", "small")
        self._more.setCheckable(True)
        self._more.toggled.connect(self._details.setVisible)
        self._copy = push_button("Copy", self._copy_details, "small")
        self._offer = push_button("", self.accepted)
        buttons = row(0, self._offer, self._more, self._copy, 0)
        parts = (self._heading, self._sentence, buttons, (self._details, 2))
        column(0, *parts, 0, into=self, margins=(16, 8, 16, 8), spacing=4)
        self.say("", "")

    def say(self, heading: str, sentence: str, details: str = "", offer: str = "") -> None:
        """Show this; `details` (a traceback) stays closed until asked for, `offer` is a button."""
        self._offer.setText(offer)
        self._offer.setVisible(bool(offer))
        self._heading.setText(heading)
        self._sentence.setText(sentence)
        if self._details.toPlainText() != details:
            self._details.setPlainText(details)
        self._more.setVisible(bool(details))
        self._copy.setVisible(bool(details))
        self._details.setVisible(bool(details) and self._more.isChecked())

    def words(self) -> tuple[str, str, str]:
        return self._heading.text(), self._sentence.text(), self._details.toPlainText()

    def _copy_details(self) -> None:
        QGuiApplication.clipboard().setText(self._details.toPlainText())


class WholeButton(QPushButton):
    """'All examples': reads the whole probe set where a panel shows fewer to take no longer."""

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__("All examples")
        self.setObjectName("compute_whole")
        self.setProperty("role", "small")
        self._spec = spec
        self.setVisible(False)

    def show_view(self, view: View, picture: bool, anyway: bool) -> None:
        """`anyway`: it was pressed, and the reading has not come yet."""
        expected = max((r.whole for r in readings_of(self._spec, view)), default=0.0)
        self.setText("Computing…" if anyway else "All examples")
        self.setToolTip(f"About {in_seconds(expected)} a reading; training waits for it.")
        self.setEnabled(not anyway)
        self.setVisible(picture and expected > 0)


class ComparisonButton(QPushButton):
    """'Compute B anyway': requests the costly reading, until something else is compared."""

    def __init__(self, spec: PanelSpec) -> None:
        super().__init__()
        self.setObjectName("compute_compared")
        self.setProperty("role", "small")
        self._spec = spec
        self._name = ""
        self.wanted = False  # the costly reading of B was asked for
        self.setVisible(False)

    def show_view(self, view: View, picture: bool) -> None:
        """`picture`: A is shown; else the panel's message speaks of what A costs."""
        name = view.compared.name if view.compared is not None else ""
        if name != self._name:
            self._name, self.wanted = name, False
        expected = expected_compared_seconds(self._spec, view)
        self.setText("Computing B…" if self.wanted else self._offered(view))
        self.setToolTip(f"About {in_seconds(expected)} a reading of {name}; training waits for it.")
        self.setEnabled(not self.wanted)
        self.setVisible(picture and expected > 0)

    def _offered(self, view: View) -> str:
        dear = any(reading.too_expensive for reading in compared_readings(self._spec, view))
        return "Compute B anyway" if dear else "All examples of B"


def compared_readings(spec: PanelSpec, view: View) -> tuple[Reading, ...]:
    """The readings of B that the panel is made of."""
    known = view.compared.readings if view.compared is not None else {}
    found = (known.get(probe) for probe in spec.probes)
    return tuple(reading for reading in found if reading is not None)


def expected_compared_seconds(spec: PanelSpec, view: View) -> float:
    """Seconds of the reading of B that was left out, or cut down to fewer examples; 0: none was."""
    found = compared_readings(spec, view)
    return max((reading.too_expensive or reading.whole for reading in found), default=0.0)
