"""A number field that keeps invalid input and says in a sentence what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QFocusEvent, QHelpEvent, QKeyEvent, QValidator, QWheelEvent
from PySide6.QtWidgets import QDoubleSpinBox, QToolTip, QWidget

# '1,000' is a thousand or one, depending on the language, so it is refused; '0,001' is clear.
_AMBIGUOUS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+")
# float() also accepts '1_000' and digits of other scripts ('١,٠٠٠' as 1); we do not.
_NUMBER = re.compile(r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?")
_BEGUN = re.compile(r"[+-]?[0-9]*[.,]?[0-9]*([eE][+-]?[0-9]*)?")  # the beginning of a number
_NOTHING = "–"


@dataclass(frozen=True)
class NumberProblem:
    """Problem of an input: its kind and one sentence.

    `too small` and `unreadable` may resolve as more is typed.
    """

    kind: Literal["unreadable", "ambiguous", "too small", "too large", "other"]
    sentence: str


class TypedNumber:
    """Parser of input as a number from `least` to `most`, or as the word for 0."""

    def __init__(self, field: NumberEntry, least: float, most: float, unit: str, zero: str) -> None:
        self._field = field
        self.least, self.most = least, most
        self.suffix = f" {unit}" if unit else ""
        self._zero = zero

    def strip_unit(self, text: str) -> str:
        return text.removesuffix(self.suffix).strip()

    def is_begun(self, bare: str) -> bool:
        """Return whether this may become a number as more is typed."""
        return not bare or bool(_BEGUN.fullmatch(bare)) or self._zero.startswith(bare)

    def parse_number(self, bare: str, now: float) -> tuple[float, NumberProblem | None]:
        """Return the number and its problem, if any; the current value is always valid."""
        if self._zero and bare == self._zero:
            return 0.0, None
        if not bare:
            return 0.0, NumberProblem("unreadable", "Enter a number.")
        if _AMBIGUOUS.fullmatch(bare):
            return 0.0, NumberProblem(
                "ambiguous", f"'{bare}' is ambiguous; enter it without the comma."
            )
        if not _NUMBER.fullmatch(bare):
            return 0.0, NumberProblem("unreadable", f"'{bare[:20]}' is not a number.")
        number = float(bare.replace(",", "."))
        if (self._zero and number == 0) or number == now:
            return number, None
        if reason := self._field.reason_rejected(number):
            return number, NumberProblem("other", reason)
        if number > self.most:
            most = self._in_words(self.most)
            return number, NumberProblem("too large", f"Must be at most {most}.")
        if number < self.least:
            least = self._in_words(self.least)
            return number, NumberProblem("too small", f"Must be at least {least}.")
        return number, None

    def _in_words(self, number: float) -> str:
        return self._field.number_text(number) if number < 10_000 else f"{number:,.0f}"


class NumberEntry(QDoubleSpinBox):
    """Field for a number from `least` to `most`, or 0 if there is a word for it: `zero`.

    Invalid input stays in the field while `value` remains the last valid number. `problem` says
    what is wrong, and `refused` carries it ('' once it is corrected). Unless the form shows the
    problem (`shown_beside`), it pops up below the field, again on Enter, and replaces the tooltip.
    Escape restores the value.
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
        self.zero = zero
        self._typing = TypedNumber(self, least, most, unit, zero)
        self.shown_beside = False
        self._typed = self._announced = ""
        self._problem: NumberProblem | None = None
        self._empty = False
        self._ends = min(least, 0.0) if zero else least, most
        self.setRange(*self._ends)
        self.lineEdit().setTextMargins(5, 0, 0, 0)  # like other fields
        self.lineEdit().textEdited.connect(self._on_edited)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    @property
    def problem(self) -> str:
        """Why the input is invalid, as one sentence; '' if it is valid."""
        return "" if self._problem is None else self._problem.sentence

    def setValue(self, value: float) -> None:
        """Show a number within the range, discarding the input."""
        self._typed, self._problem, self._empty = "", None, False
        super().setValue(value)
        self._announce_problem()

    def show_value(self, value: float) -> None:
        """Show a number, even if it is outside the range that can be typed."""
        self.setRange(min(self._ends[0], value), max(self._ends[1], value))
        self.setValue(value)

    def show_nothing(self) -> None:
        """Show a dash: there is no value yet."""
        self.setValue(self.minimum())
        self._empty = True
        super().setValue(self.minimum())

    def textFromValue(self, value: float) -> str:
        """Return the number with its unit, or the invalid input."""
        if self._problem:
            return self._typed
        if self._empty:
            return _NOTHING
        if self.zero and value == 0:
            return self.zero
        return self.number_text(value) + self._typing.suffix

    def valueFromText(self, text: str) -> float:
        """Return the number, or the current value if the input is invalid."""
        number = self._parse_text(text)
        return self.value() if number is None else number

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Accept any input; invalid input is reported as a problem."""
        return QValidator.State.Acceptable, text, position

    def stepBy(self, steps: int) -> None:
        """Step from the current value, discarding the input."""
        self.setValue(self.value())
        super().stepBy(steps)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ignore the wheel unless the field has the focus."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def event(self, event: QEvent) -> bool:
        """Show the problem as tooltip."""
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
            if self._pops_up:  # the key, or the focus change, has closed the popup
                self._pop_up()

    def number_text(self, value: float) -> str:
        """Return a number as it is displayed and can be typed."""
        raise NotImplementedError

    def reason_rejected(self, number: float) -> str:
        """Return why a number is invalid regardless of the range, as one sentence, or ''."""
        return ""

    def _parse_text(self, text: str) -> float | None:
        """Parse the input: return the number, or None and set the problem."""
        bare = self._typing.strip_unit(text)
        if self._empty and bare == _NOTHING:
            return None
        number, self._problem = self._typing.parse_number(bare, self.value())
        self._typed, self._empty = (bare if self._problem else ""), False
        return None if self._problem else number

    def _on_edited(self, text: str) -> None:
        self._parse_text(text)
        begun = self._typing.is_begun(self._typing.strip_unit(text))
        kind = None if self._problem is None else self._problem.kind
        if not (begun and kind in ("too small", "unreadable")):  # it may still become a number
            self._announce_problem()

    def _announce_problem(self) -> None:
        """Report the problem if it has changed since the last report."""
        problem = self.problem
        if problem == self._announced:
            return
        self._announced = problem
        self.setProperty("refused", bool(problem))
        self.style().polish(self)  # re-evaluates the style sheet for this property
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
