"""What a panel says of itself: the message where there is no picture, the line below a picture."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QWidget

from dgn_engine.protocol.frames import MISFIT, NOT_RECORDED
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_readings import before, diverged, left_out, readings_of, remarks
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.run_text import reading_of
from dgn_engine.text.written_numbers import duration
from dgn_viewer.widgets.layouts import PlainLabel, column, push_button, row, scrolling

State = Literal["waiting", "live", "paused", "unavailable", "reading", "stale", "past", "failed"]

_BEGIN = "File, New run… (Ctrl+N) begins one."
_AT_ONCE = 0.1  # seconds; shorter intervals of drawing are not worth a word


def is_pending(spec: PanelSpec, view: View) -> bool:
    """No picture yet, but one is being made."""
    return any(reading.pending for reading in readings_of(spec, view))


def message(state: State, spec: PanelSpec, view: View, empty: Empty) -> tuple[str, str, str]:
    """Heading, sentence, and what a button offers."""
    if state == "reading":
        return "Reading", empty.reason, ""
    if any(reading.cancelled for reading in readings_of(spec, view)):
        return "No picture yet", empty.reason, "Go on"
    if spec.compares and view.compared is None:
        return "Nothing to compare", empty.reason, ""
    faults = {r.facts["fault"] for r in readings_of(spec, view) if r.absent and "fault" in r.facts}
    if view.diverged is not None:
        why = empty.reason if faults else "The loss is no longer finite."
        return f"Diverged at step {view.diverged:,}", why, ""
    if faults:
        if NOT_RECORDED in faults:
            return "Not recorded", empty.reason, ""
        return "Out of memory" if MISFIT in faults else "No reading", empty.reason, ""
    if spec.compares:
        return "Nothing to compare", empty.reason, ""
    if state == "unavailable":
        return f"Not in {view.regime or 'this regime'}", empty.reason, ""
    if view.run is not None and view.run.inspected:
        return "Not training", empty.reason, ""
    if view.run is None:
        return "Waiting for a run", f"{empty.reason} {_BEGIN}", ""
    return "Waiting for the first frame", empty.reason, ""


def footer(state: State, spec: PanelSpec, view: View, scene: Scene, every: float) -> str:
    """Step, interval, what was left out, and note; `every`: seconds between two drawings."""
    parts = {"paused": ["paused"], "past": ["looking back"]}.get(state, [])
    if view.run is not None and view.run.inspected:
        parts = ["not training", *filter(None, [reading_of(view.run)])]
    if view.diverged is not None:
        parts = [diverged(view)]
    parts.append(", ".join(filter(None, (f"step {scene.step:,}", before(spec, view)))))
    parts.extend(_pace(spec, view, every))
    parts.extend(remarks(spec, view))
    parts.extend(left_out(spec, view, scene))
    parts.extend(_gaps(spec, view, scene))
    return " · ".join([*parts, scene.note] if scene.note else parts)


def _pace(spec: PanelSpec, view: View, every: float) -> tuple[str, ...]:
    """How often the picture is made anew, while it is: not of a run that stands, of a past step, of
    a reading that is being refined (its bar says when) or that was given up."""
    readings = readings_of(spec, view)
    held = any(reading.progress < 1.0 or reading.cancelled for reading in readings)
    if held or not view.trains or view.paused or view.cursor is not None:
        return ()
    longest = max([*(one.interval for one in readings[:1]), every if every > _AT_ONCE else 0.0])
    return (f"every {duration(longest)}",) if longest > 0 else ()


def _gaps(spec: PanelSpec, view: View, scene: Scene) -> tuple[str, ...]:
    """Where the panel's traces are broken: it was closed, and nobody else asked for them."""
    gaps = [gap for probe in spec.probes for gap in view.gaps.get(probe, ())]
    if not gaps or not any(chart.timed for chart in scene.charts):
        return ()
    start, end = gaps[-1]
    more = ", nor some steps before" if len(gaps) > 1 else ""
    return (f"not measured from step {start:,} to {end:,}{more}",)


class PanelMessage(QWidget):
    """A calm sentence in the middle of the panel; for a fault the traceback can be opened."""

    accepted = Signal()  # the button was pressed

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._heading = PlainLabel(role="heading")
        self._sentence = PlainLabel(role="muted")
        self._sentence.setWordWrap(True)
        for label in (self._heading, self._sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._details = QPlainTextEdit()
        self._details.setAccessibleName("Details of the fault")
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
        words = QWidget()
        parts = (self._heading, self._sentence, buttons)
        column(0, *parts, 0, into=words, margins=(16, 8, 16, 8), spacing=4)
        page = scrolling(words)  # a low panel has no room for a long sentence
        page.setAccessibleName("What the panel says")
        page.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column((page, 1), (self._details, 2), into=self)
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
