"""A field for a number that keeps what was typed, and says in a sentence why it cannot be taken."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QValidator, QWheelEvent
from PySide6.QtWidgets import QDoubleSpinBox, QToolTip, QWidget

# '1,000' is a thousand or one, by the language: neither is taken for the other. '0,001' is clear.
_AMBIGUOUS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+")
# Only what is also shown: float() takes '1_000' and the digits of every script, '١,٠٠٠' as 1.
_NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?")
_BEGUN = re.compile(r"[+-]?[0-9]*[.,]?[0-9]*([eE][+-]?[0-9]*)?")  # what may become a number
_NOTHING = "–"


@dataclass(frozen=True)
class NumberProblem:
    """Why what was typed cannot be taken: its kind, and one sentence.

    `too small` and `unreadable` may end as more is typed.
    """

    kind: Literal["unreadable", "ambiguous", "too small", "too large", "other"]
    sentence: str


class NumberEntry(QDoubleSpinBox):
    """A number from `least` to `most`, or 0 where it has a word for it: `zero`.

    What is typed and cannot be taken stays as it was typed, while `value` is the last number that
    could; `problem` says what is wrong, and `refused` passes it on ('' once it is mended). Where
    nobody shows it beside the field (`shown_beside`), it pops up below, again at Enter, and is the
    field's tip as long as it stands. Escape brings the value back.
    """

    refused = Signal(str)

    def __init__(
        self,
        least: float,
        most: float,
        *,
        unit: str = "",
        zero: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.unit, self.zero = unit, zero
        self.shown_beside = False
        self._least, self._most = least, most
        self._typed = self._announced = ""
        self._problem: NumberProblem | None = None
        self._empty = False
        self._ends = min(least, 0.0) if zero else least, most
        self.setRange(*self._ends)
        self.lineEdit().setTextMargins(5, 0, 0, 0)  # as other fields have it
        self.lineEdit().textEdited.connect(self._on_edited)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    @property
    def problem(self) -> str:
        """Why what stands in the field cannot be taken, one sentence; '' where it can."""
        return "" if self._problem is None else self._problem.sentence

    def setValue(self, value: float) -> None:
        """Show a number within the range, in the place of whatever was typed."""
        self._typed, self._problem, self._empty = "", None, False
        super().setValue(value)
        self._announce_problem()

    def show_value(self, value: float) -> None:
        """Show a number, also one that is outside of what can be typed here."""
        self.setRange(min(self._ends[0], value), max(self._ends[1], value))
        self.setValue(value)

    def show_nothing(self) -> None:
        """Show a dash: there is no value yet."""
        self.setValue(self.minimum())
        self._empty = True
        super().setValue(self.minimum())

    def textFromValue(self, value: float) -> str:
        """The number with its unit, or what was typed instead."""
        if self._problem:
            return self._typed
        if self._empty:
            return _NOTHING
        if self.zero and value == 0:
            return self.zero
        return self.number_text(value) + self._suffix

    def valueFromText(self, text: str) -> float:
        """The number, or the value that stands where there is none."""
        number = self._read(text)
        return self.value() if number is None else number

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Everything may be typed; what cannot be taken is refused in a sentence."""
        return QValidator.State.Acceptable, text, position

    def stepBy(self, steps: int) -> None:
        """From the value that stands, whatever was typed."""
        self.setValue(self.value())
        super().stepBy(steps)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """A wheel that passes by changes nothing; the field must have the focus."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def event(self, event: QEvent) -> bool:
        """A field in red says why it is."""
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip and self._pops_up:
            QToolTip.showText(event.globalPos(), self.problem, self)
            return True
        return super().event(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._announce_problem()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._problem:
            self.setValue(self.value())
            self.selectAll()
            return
        super().keyPressEvent(event)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._announce_problem()
            if self._pops_up:  # the key, or the focus that it has moved, has closed what popped up
                self._pop_up()

    def number_text(self, value: float) -> str:
        """A number as it is shown and may be typed."""
        raise NotImplementedError

    def reason_not_taken(self, number: float) -> str:
        """What is wrong with a number, whatever the ends, one sentence; or ''."""
        return ""

    @property
    def _suffix(self) -> str:
        return f" {self.unit}" if self.unit else ""

    def _read(self, text: str) -> float | None:
        """The number that a text is; None, and the problem, where it cannot be taken."""
        bare = text.removesuffix(self._suffix).strip()
        if self._empty and bare == _NOTHING:
            return None
        number, self._problem = self._parsed(bare)
        self._typed, self._empty = (bare if self._problem else ""), False
        return None if self._problem else number

    def _parsed(self, bare: str) -> tuple[float, NumberProblem | None]:
        if self.zero and bare == self.zero:
            return 0.0, None
        if not bare:
            return 0.0, NumberProblem("unreadable", "Type a number.")
        if _AMBIGUOUS.fullmatch(bare):
            return 0.0, NumberProblem(
                "ambiguous", f"'{bare}' is ambiguous: type it without the comma."
            )
        if not _NUMBER.fullmatch(bare):
            return 0.0, NumberProblem("unreadable", f"'{bare[:20]}' is not a number.")
        number = float(bare.replace(",", "."))
        if (self.zero and number == 0) or number == self.value():
            return number, None
        return number, self._problem_of(number)

    def _problem_of(self, number: float) -> NumberProblem | None:
        if reason := self.reason_not_taken(number):
            return NumberProblem("other", reason)
        if number > self._most:
            most = self._in_words(self._most)
            return NumberProblem("too large", f"It must be at most {most}.")
        if number < self._least:
            least = self._in_words(self._least)
            return NumberProblem("too small", f"It must be at least {least}.")
        return None

    def _in_words(self, number: float) -> str:
        return self.number_text(number) if number < 10_000 else f"{number:,.0f}"

    def _on_edited(self, text: str) -> None:
        self._read(text)
        bare = text.removesuffix(self._suffix).strip()
        begun = not bare or _BEGUN.fullmatch(bare) or self.zero.startswith(bare)
        kind = None if self._problem is None else self._problem.kind
        if not (begun and kind in ("too small", "unreadable")):  # it may become a number yet
            self._announce_problem()

    def _announce_problem(self) -> None:
        """Say what has become of the problem since it was last said."""
        problem = self.problem
        if problem == self._announced:
            return
        self._announced = problem
        self.setProperty("refused", bool(problem))
        self.style().polish(self)  # a style sheet reads properties only then
        self.setAccessibleDescription(problem)
        if not self.shown_beside:
            if self._pops_up:
                self._pop_up()
            else:
                QToolTip.hideText()
        self.refused.emit(problem)

    @property
    def _pops_up(self) -> bool:
        return bool(self._problem) and not self.shown_beside and self.isVisible()

    def _pop_up(self) -> None:
        QToolTip.showText(self.mapToGlobal(QPoint(0, self.height())), self.problem, self)
