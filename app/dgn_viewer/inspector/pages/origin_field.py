"""The field for the step from which a branch starts: now, a checkpoint, or any typed step."""

from __future__ import annotations

import re
from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QLineEdit

from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import CheckpointsListed
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.typeset import strip_markup
from dgn_engine.text.written_numbers import time_left
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.widgets.form_fields import PickBox

NOW = "now"
_CHANGES = {  # by kind of mark, for marks whose label is not a name
    "permutation": "the gate layers were reordered",
    "rotation": "the gates were rotated",
    "drop": "weights were copied from a file",
    "undo": "a change was undone",
    "redo": "a change was redone",
}
# Accepts '3,314', '3 314' and 'step 3314'.
_STEP = re.compile(r"(?:step )?\s*(\d{1,15}|\d{1,3}(?:[,\s]\d{3}){1,4})", re.IGNORECASE)


class OriginField(PickBox):
    """An editable list of steps that follows the displayed step until the user chooses one.

    `moved` is emitted when its text changes.
    """

    moved = Signal()

    def __init__(self) -> None:
        super().__init__([("", NOW)])
        self._chosen = False  # the user has chosen a step
        self._listed: dict[str, int] = {}  # step of each title ever listed
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.line = QLineEdit()
        self.setLineEdit(self.line)
        self.line.setPlaceholderText(NOW)
        self.line.setAcceptDrops(False)  # a file dropped on the window is a checkpoint
        self.line.textEdited.connect(self._on_step_edited)
        # A completer would turn '1' into '1,204' if that is in the list.
        self.setCompleter(None)  # type: ignore[arg-type]  # stub: None is allowed
        self.activated.connect(self._on_step_edited)
        self.editTextChanged.connect(lambda _: self.moved.emit())

    def chosen_step(self) -> int | None:
        """Return the step, None for now; raise `UserError` if the text is neither."""
        text = self.currentText().strip()
        if not text or text.lower() == NOW:
            return None
        if text in self._listed:
            return self._listed[text]
        match = _STEP.fullmatch(text)
        if match is None:
            raise UserError(f"'{text}' is not a step: type a step number or '{NOW}'.")
        return int(re.sub(r"[,\s]", "", match[1]))

    def follow_cursor(self, cursor: int | None) -> None:
        """Show the displayed past step (None for live), unless the user has chosen a step."""
        text = NOW if cursor is None else with_chosen_numbers(f"{cursor:,}")
        if not self._chosen and self.currentText() != text:
            self.setEditText(text)

    def choose_step(self, step: int) -> None:
        """Choose a step, as if the user had typed it."""
        self._chosen = True
        self.setEditText(with_chosen_numbers(f"{step:,}"))

    def offer_checkpoints(self, listed: CheckpointsListed | None, best: int | None = None) -> None:
        """List 'now', the step of the best test accuracy, and these checkpoints, keeping the
        current text."""
        if self.view().isVisible():
            return  # the user is choosing; wait for the next list
        titles = [NOW]
        if best is not None:
            titles.append(with_chosen_numbers(f"step {best:,}, best test accuracy"))
            self._listed[titles[-1]] = best
        for step, note in reversed(() if listed is None else listed.checkpoints):
            titles.append(with_chosen_numbers(f"step {step:,}{f', {note}' if note else ''}"))
            self._listed[titles[-1]] = step
        if [self.itemText(index) for index in range(self.count())] != titles:
            text, cursor_position = self.currentText(), self.line.cursorPosition()
            self.blockSignals(True)
            self.set_entries([(title, title) for title in titles])
            self.setEditText(text)
            self.line.setCursorPosition(cursor_position)
            self.blockSignals(False)

    def _on_step_edited(self) -> None:
        self._chosen = True
        self.moved.emit()


def origin_in_words(
    step: int | None, now: int, listed: CheckpointsListed | None, marks: Iterable[Mark] = ()
) -> str:
    """Describe the state from which a branch starts.

    For example, 'Step 10,154: checkpoint of step 10,000, then 154 steps repeated, about 2 s.' The
    branch starts before any change made at the step itself, which is mentioned, too.

    Args:
        step: The first step of the branch; None for now.
        now: The latest step of the run.
        listed: The known checkpoints.
        marks: The marks of the run, among them changes made at this step.
    """
    if step is None or step == now:
        return "Now: the state of the run when the branch starts."
    before = _changes_in_words(mark for mark in marks if int(mark.x) == step)
    nearest = None if listed is None else listed.nearest_step(step)
    if nearest == step:
        return f"Step {step:,}: from its checkpoint{before}."
    if step == 0:
        return f"Step 0: the initial state{before}."
    repeated = step - (nearest or 0)
    steps = f"{repeated:,} step{'' if repeated == 1 else 's'} repeated"
    source = (
        f"{steps} from the start"
        if nearest is None
        else f"checkpoint of step {nearest:,}, then {steps}"
    )
    return f"Step {step:,}: {source}{_describe_time(repeated, listed)}{before}."


def _changes_in_words(marks: Iterable[Mark]) -> str:
    """Return ', before FR-II was chosen', or '' if nothing was changed."""
    verbs = {"swap": "chosen", "dial": "set"}
    changes = [
        f"{strip_markup(mark.label)} was {verbs[mark.kind]}"
        if mark.kind in verbs
        else _CHANGES[mark.kind]
        for mark in marks
        if mark.kind in verbs or mark.kind in _CHANGES
    ]
    return f", before {' and '.join(dict.fromkeys(changes))}" if changes else ""


def _describe_time(steps: int, listed: CheckpointsListed | None) -> str:
    """Return ', about 2 s', or '' if the time per step is unknown."""
    seconds = steps * (0.0 if listed is None else listed.seconds_a_step)
    if not seconds:
        return ""
    if seconds < 1.0:
        return ", less than 1 s"
    return f", about {time_left(seconds)}"
