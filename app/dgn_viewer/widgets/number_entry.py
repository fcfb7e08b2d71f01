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


class TypedNumber:
    """Reads what is typed in a field as a number from `least` to `most`, or the word for 0."""

    def __init__(self, field: NumberEntry, least: float, most: float, unit: str, zero: str) -> None:
        self._field = field
        self.least, self.most = least, most
        self.suffix = f" {unit}" if unit else ""
        self._zero = zero

    def strip(self, text: str) -> str:
        return text.removesuffix(self.suffix).strip()

    def is_begun(self, bare: str) -> bool:
        """Whether more of it may make it a number."""
        return not bare or bool(_BEGUN.fullmatch(bare)) or self._zero.startswith(bare)

    def read(self, bare: str, now: float) -> tuple[float, NumberProblem | None]:
        """The number, or what is wrong with it; the one that stands, `now`, is always taken."""
        if self._zero and bare == self._zero:
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
        if (self._zero and number == 0) or number == now:
            return number, None
        if reason := self._field.reason_not_taken(number):
            return number, NumberProblem("other", reason)
        if number > self.most:
            most = self._in_words(self.most)
            return number, NumberProblem("too large", f"It must be at most {most}.")
        if number < self.least:
            least = self._in_words(self.least)
            return number, NumberProblem("too small", f"It must be at least {least}.")
        return number, None

    def _in_words(self, number: float) -> str:
        return self._field.number_text(number) if number < 10_000 else f"{number:,.0f}"


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
        self.zero = zero
        self._typing = TypedNumber(self, least, most, unit, zero)
        self.shown_beside = False
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
        return self.number_text(value) + self._typing.suffix

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

    def _read(self, text: str) -> float | None:
        """The number that a text is; None, and the problem, where it cannot be taken."""
        bare = self._typing.strip(text)
        if self._empty and bare == _NOTHING:
            return None
        number, self._problem = self._typing.read(bare, self.value())
        self._typed, self._empty = (bare if self._problem else ""), False
        return None if self._problem else number

    def _on_edited(self, text: str) -> None:
        self._read(text)
        begun = self._typing.is_begun(self._typing.strip(text))
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
