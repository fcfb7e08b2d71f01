"""The text of a panel: the message shown instead of charts, and the footer below them."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QPlainTextEdit, QPushButton, QWidget

from dgn_engine.protocol.frames import MISFIT, NOT_RECORDED
from dgn_engine.scene.compared import reason_not_compared
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.scene.panel_readings import (
    available_readings,
    describe_divergence,
    describe_left_out,
    describe_outdated,
    describe_step_of_b,
    list_remarks,
    list_samples,
)
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.scene.run_text import describe_assumption
from dgn_engine.text.written_numbers import format_duration
from dgn_viewer.widgets.layouts import (
    PlainLabel,
    make_column,
    make_row,
    make_scroll_area,
    push_button,
)

State = Literal["waiting", "live", "paused", "unavailable", "reading", "stale", "past", "failed"]

_BEGIN = "Start one with File ▸ New run… (Ctrl+N)."
_AT_ONCE = 0.1  # seconds; shorter drawing intervals are not mentioned


def is_pending(spec: PanelSpec, view: View) -> bool:
    """Return whether a first result is being computed."""
    return any(reading.pending for reading in available_readings(spec, view))


def compose_message(
    state: State, spec: PanelSpec, view: View, empty: Empty
) -> tuple[str, str, str]:
    """Return the heading, the sentence, and the label of the button ('' for no button)."""
    if state == "reading":
        return "In progress", empty.reason, ""
    if any(reading.cancelled for reading in available_readings(spec, view)):
        return "No result yet", empty.reason, "Resume"
    if spec.compares and view.compared is None:
        return "Nothing to compare", empty.reason, ""
    faults = {
        r.facts["fault"] for r in available_readings(spec, view) if r.absent and "fault" in r.facts
    }
    if view.diverged is not None:
        why = empty.reason if faults else "The loss is no longer finite."
        return f"Diverged at step {view.diverged:,}", why, ""
    if faults:
        if NOT_RECORDED in faults:
            return "Not recorded", empty.reason, ""
        return "Out of memory" if MISFIT in faults else "Not computed", empty.reason, ""
    if spec.compares:
        return "Nothing to compare", empty.reason, ""
    if state == "unavailable":
        return f"Not in {view.regime or 'this regime'}", empty.reason, ""
    if view.run is not None and view.run.inspected:
        if spec.probes:
            return "In progress", f"{spec.title}: computed now.", ""
        return "Not training", empty.reason, ""
    if view.run is None:
        return "No run yet", f"{empty.reason} {_BEGIN}", ""
    if view.step and view.cursor is None:
        if not spec.probes:
            return "No scores yet", empty.reason, ""
        when = "after the step in progress" if view.trains and not view.paused else "now"
        return "In progress", f"{spec.title}: computed {when}.", ""
    return "Waiting for the first frame", empty.reason, ""


def compose_footer(state: State, spec: PanelSpec, view: View, scene: Scene, every: float) -> str:
    """Return the footer: state, step, drawing interval, omissions, and the scene's note.

    `every` is the time between two drawings, in seconds.
    """
    parts = {"paused": ["paused"], "past": ["looking back"]}.get(state, [])
    if view.run is not None and view.run.inspected:
        parts = ["not training", *filter(None, [describe_assumption(view.run)])]
    if view.diverged is not None:
        parts = [describe_divergence(view)]
    parts.extend(_describe_steps(spec, view, scene))
    parts.extend(_describe_pace(spec, view, every))
    parts.extend(list_remarks(spec, view))
    parts.extend(describe_left_out(spec, view, scene))
    parts.extend(_describe_gaps(spec, view, scene))
    return " · ".join([*parts, scene.note] if scene.note else parts)


def compose_caption(spec: PanelSpec, view: View, scene: Scene) -> str:
    """Return what of the footer is in sight: step and number of examples, and what limits them."""
    parts = [describe_divergence(view)]
    if view.run is not None:
        parts.append(describe_assumption(view.run))
    parts.extend(_describe_steps(spec, view, scene))
    parts.extend(list_samples(spec, view))
    reasons = dict.fromkeys(reason_not_compared(view, probe) for probe in spec.probes)
    parts.extend(reason for reason in reasons if reason in scene.note)
    return " · ".join(filter(None, (*parts, scene.refusal)))


def _describe_steps(spec: PanelSpec, view: View, scene: Scene) -> tuple[str, ...]:
    """Return the step of what is drawn, and B's in a comparison."""
    of_b = describe_step_of_b(spec, view)
    step = f"A step {scene.step:,}" if of_b else f"step {scene.step:,}"
    of_a = ", ".join(filter(None, (step, describe_outdated(spec, view))))
    return (of_a, of_b) if of_b else (of_a,)


def _describe_pace(spec: PanelSpec, view: View, every: float) -> tuple[str, ...]:
    """Return the update interval while the charts update regularly, else nothing.

    They do not when the run is stopped, at a past step, or for a reading that was cancelled or is
    being refined, which has its own progress bar.
    """
    readings = available_readings(spec, view)
    refining = any(reading.progress < 1.0 or reading.cancelled for reading in readings)
    if refining or not view.trains or view.paused or view.cursor is not None:
        return ()
    longest = max([*(item.interval for item in readings[:1]), every if every > _AT_ONCE else 0.0])
    return (f"every {format_duration(longest)}",) if longest > 0 else ()


def _describe_gaps(spec: PanelSpec, view: View, scene: Scene) -> tuple[str, ...]:
    """Return the last gap in the traces, from steps at which no open panel requested them."""
    gaps = [gap for probe in spec.probes for gap in view.gaps.get(probe, ())]
    if not gaps or not any(chart.has_step_axis for chart in scene.charts):
        return ()
    start, end = gaps[-1]
    more = ", and some earlier steps" if len(gaps) > 1 else ""
    return (f"not measured from step {start:,} to {end:,}{more}",)


class PanelMessage(QWidget):
    """A message in the middle of a panel, with an expandable traceback for errors."""

    accepted = Signal()  # the button was pressed

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._heading = PlainLabel(role="heading")
        self._sentence = PlainLabel(role="muted")
        self._sentence.setWordWrap(True)
        for label in (self._heading, self._sentence):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._more = QPushButton("Details")
        self._more.setProperty("role", "small")
        self._more.setCheckable(True)
        self._more.toggled.connect(lambda on: self._details.setVisible(on))
        self._copy = push_button("Copy", self._copy_details, "small")
        self._offer = push_button("", self.accepted)
        buttons = make_row(0, self._offer, self._more, self._copy, 0)
        content = QWidget()
        parts = (self._heading, self._sentence, buttons)
        make_column(0, *parts, 0, into=content, margins=(16, 8, 16, 8), spacing=4)
        page = make_scroll_area(content)  # a long sentence may not fit into a low panel
        page.setAccessibleName("Panel message")
        page.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._column = make_column((page, 1), into=self)
        self.show_message("", "")

    def show_message(self, heading: str, sentence: str, details: str = "", offer: str = "") -> None:
        """Show a message.

        Args:
            heading: The heading.
            sentence: The text below it.
            details: A traceback, shown on demand.
            offer: The label of a button; '' for none.
        """
        self._offer.setText(offer)
        self._offer.setVisible(bool(offer))
        self._heading.setText(heading)
        self._sentence.setText(sentence)
        self._more.setVisible(bool(details))
        self._copy.setVisible(bool(details))
        if not details and "_details" not in vars(self):
            return
        if self._details.toPlainText() != details:
            self._details.setPlainText(details)
        self._details.setVisible(bool(details) and self._more.isChecked())

    def displayed_text(self) -> tuple[str, str, str]:
        details = self._details.toPlainText() if "_details" in vars(self) else ""
        return self._heading.text(), self._sentence.text(), details

    @cached_property
    def _details(self) -> QPlainTextEdit:
        """The field for a traceback, made when there is one: a window has fifteen panels."""
        details = QPlainTextEdit()
        details.setAccessibleName("Error details")
        details.setReadOnly(True)
        details.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        details.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._column.addWidget(details, 2)
        return details

    def _copy_details(self) -> None:
        QGuiApplication.clipboard().setText(self._details.toPlainText())
