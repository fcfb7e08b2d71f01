"""The step from which a branch begins: now, a checkpoint out of a list, or any step, typed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QLineEdit

from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import CheckpointsListed
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.typeset import plain
from dgn_engine.text.written_numbers import time_left
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.widgets.form_fields import PickBox

NOW = "now"
_CHANGES = {  # of a mark, by its kind, where its label is no name
    "permutation": "the gate layers were reordered",
    "rotation": "the gates were rotated",
    "drop": "weights of a file were taken",
    "undo": "a change was undone",
    "redo": "a change was made again",
}
# As somebody types it: '3,314', '3 314' or 'step 3314'.
_STEP = re.compile(r"(?:step )?\s*(\d{1,15}|\d{1,3}(?:[,\s]\d{3}){1,4})", re.IGNORECASE)


class OriginField(PickBox):
    """Follows the step that is looked back at until somebody chooses another one.

    `moved`: what it says has changed.
    """

    moved = Signal()

    def __init__(self) -> None:
        super().__init__([("", NOW)])
        self._chosen = False  # by somebody
        self._listed: dict[str, int] = {}  # title, as it was listed once → step
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.line = QLineEdit()
        self.setLineEdit(self.line)
        self.line.setPlaceholderText(NOW)
        self.line.setAcceptDrops(False)  # a file dropped on the window is a checkpoint
        self.line.textEdited.connect(self._choose)
        # Without one '1' is step 1, not the 1,204 of the list.
        self.setCompleter(None)  # type: ignore[arg-type]  # stub: None is allowed
        self.activated.connect(self._choose)
        self.editTextChanged.connect(lambda _: self.moved.emit())

    def step(self) -> int | None:
        """None: now. Raises `UserError` where it is neither that nor a step."""
        text = self.currentText().strip()
        if not text or text.lower() == NOW:
            return None
        if text in self._listed:
            return self._listed[text]
        found = _STEP.fullmatch(text)
        if found is None:
            raise UserError(f"'{text}' is no step; type its number, or '{NOW}'.")
        return int(re.sub(r"[,\s]", "", found[1]))

    def follow(self, cursor: int | None) -> None:
        """Say the step that is looked back at (None: none is), unless somebody chose another."""
        text = NOW if cursor is None else with_chosen_numbers(f"{cursor:,}")
        if not self._chosen and self.currentText() != text:
            self.setEditText(text)

    def offer_checkpoints(self, listed: CheckpointsListed | None) -> None:
        """List now and these; what is typed or chosen stays."""
        if self.view().isVisible():
            return  # somebody is choosing; the next list counts
        titles = [NOW]
        for step, kept in reversed(() if listed is None else listed.checkpoints):
            titles.append(with_chosen_numbers(f"step {step:,}{f', {kept}' if kept else ''}"))
            self._listed[titles[-1]] = step
        if [self.itemText(place) for place in range(self.count())] != titles:
            text, at = self.currentText(), self.line.cursorPosition()
            self.blockSignals(True)
            self.offer([(title, title) for title in titles])
            self.setEditText(text)
            self.line.setCursorPosition(at)
            self.blockSignals(False)

    def _choose(self) -> None:
        self._chosen = True
        self.moved.emit()


def origin_in_words(
    step: int | None, now: int, listed: CheckpointsListed | None, marks: Iterable[Mark] = ()
) -> str:
    """What a branch from this step begins with: 'Step 10,154: checkpoint of step 10,000 and 154
    steps again, about 2 s.' What was changed at the step itself, of these `marks`, comes after it:
    the branch begins with the step as it was before."""
    if step is None or step == now:
        return "Now: the run as it is when the branch starts."
    before = _changes_in_words(mark for mark in marks if int(mark.x) == step)
    nearest = None if listed is None else listed.nearest(step)
    if nearest == step:
        return f"Step {step:,}: exactly a checkpoint{before}."
    if step == 0:
        return f"Step 0: the run as it began{before}."
    again = step - (nearest or 0)
    steps = f"{again:,} step{'' if again == 1 else 's'} again"
    source = (
        f"{steps} from the beginning"
        if nearest is None
        else f"checkpoint of step {nearest:,} and {steps}"
    )
    return f"Step {step:,}: {source}{_time(again, listed)}{before}."


def _changes_in_words(marks: Iterable[Mark]) -> str:
    """', before FR-II was chosen there'; '' where nothing was changed."""
    made = {"swap": "chosen", "dial": "set"}
    words = [
        f"{plain(mark.label)} was {made[mark.kind]}" if mark.kind in made else _CHANGES[mark.kind]
        for mark in marks
        if mark.kind in made or mark.kind in _CHANGES
    ]
    return f", before {' and '.join(dict.fromkeys(words))} there" if words else ""


def _time(steps: int, listed: CheckpointsListed | None) -> str:
    """', about 2 s'; '' where it is not known what a step takes."""
    seconds = steps * (0.0 if listed is None else listed.seconds_a_step)
    if not seconds:
        return ""
    if seconds < 1.0:
        return ", less than 1 s"
    return f", about {time_left(seconds)}"
