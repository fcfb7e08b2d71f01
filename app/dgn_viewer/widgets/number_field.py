"""A field for numbers that span decades: steps along a ladder, accepts '3e-4' and '0,5'."""

from __future__ import annotations

import math
import re

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QValidator, QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QWidget

LADDER = (1.0, 2.0, 3.0, 5.0)
# '1,000' is a thousand or one, by the language: neither is taken for the other. '0,001' is clear.
_AMBIGUOUS = re.compile(r"[1-9]\d{0,2}(,\d{3})+")
_NEAR_ZERO = 0.01  # the last rung before zero, where zero is allowed


class NumberField(QDoubleSpinBox):
    """A number between `least` and `most`.

    With `no_limit`, zero is shown by that word and stands above the highest number, as in
    'at most 1,000 steps a second … full speed'. `chosen` is emitted for what the user does only.
    """

    chosen = Signal(float)

    def __init__(
        self,
        least: float,
        most: float,
        *,
        rungs: tuple[float, ...] = LADDER,
        unit: str = "",
        no_limit: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._rungs, self._least, self._no_limit = rungs, least, no_limit
        self._quiet = False
        self.setDecimals(15)
        self._ends = 0.0 if no_limit else least, most
        self.setRange(*self._ends)
        self.setSpecialValueText(no_limit)
        self.setSuffix(f" {unit}" if unit else "")
        self.setKeyboardTracking(False)
        self.lineEdit().setTextMargins(4, 0, 0, 0)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.valueChanged.connect(self._changed)

    def show_value(self, value: float) -> None:
        """Show the engine's value, also one that is outside of what is offered here; nothing is
        emitted."""
        self._quiet = True
        self.setSpecialValueText(self._no_limit)
        self.setRange(min(self._ends[0], value), max(self._ends[1], value))
        self.setValue(value)
        self._quiet = False

    def show_nothing(self) -> None:
        """Show a dash: there is no value yet."""
        self._quiet = True
        self.setSpecialValueText("–")
        self.setValue(self.minimum())
        self._quiet = False

    def textFromValue(self, value: float) -> str:
        """'3e-4', '0.05', '120'."""
        return number_text(value)

    def valueFromText(self, text: str) -> float:
        """The number, or the value that stands where there is none."""
        number = self._parse(text)
        return self.value() if number is None else number

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Numbers in range are acceptable; what may become one is on its way."""
        number = self._parse(text)
        if number is not None and self.minimum() <= number <= self.maximum():
            state = QValidator.State.Acceptable
            if 0 < number < self._least:
                state = QValidator.State.Intermediate
        elif set(self._bare(text)) <= set("0123456789.,eE+- ") or self._no_limit.startswith(text):
            state = QValidator.State.Intermediate
        else:
            state = QValidator.State.Invalid
        return state, text, position

    def fixup(self, text: str) -> str:
        """What cannot be read goes back to the value that stands."""
        return self.textFromValue(self.value()) + self.suffix()

    def stepBy(self, steps: int) -> None:
        value = self.value()
        for _ in range(abs(steps)):
            value = self._above(value) if steps > 0 else self._below(value)
        self.setValue(value)
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        """Both ways, but not beyond the ends."""
        flag = QAbstractSpinBox.StepEnabledFlag
        value, way = self.value(), flag.StepNone
        if self._above(value) != value:
            way |= flag.StepUpEnabled
        if self._below(value) != value:
            way |= flag.StepDownEnabled
        return way

    def wheelEvent(self, event: QWheelEvent) -> None:
        """A wheel that passes by changes nothing; the field must have the focus."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def _above(self, value: float) -> float:
        if self._no_limit and (value == 0 or value >= self.maximum()):
            return 0.0
        return min(next_rung(value, self._rungs), self.maximum())

    def _below(self, value: float) -> float:
        if self._no_limit and value == 0:
            return self.maximum()
        below = next_rung(value, self._rungs, up=False) if value > 0 else 0.0
        if self._least == 0 and below < _NEAR_ZERO:
            return 0.0
        return max(below, self._least)

    def _parse(self, text: str) -> float | None:
        bare = self._bare(text)
        if self._no_limit and bare == self._no_limit:
            return 0.0
        if _AMBIGUOUS.fullmatch(bare):
            return None
        try:
            number = float(bare.replace(",", "."))
        except ValueError:
            return None
        return number if math.isfinite(number) else None

    def _bare(self, text: str) -> str:
        return text.removesuffix(self.suffix()).strip()

    def _changed(self, value: float) -> None:
        if not self._quiet:
            self.chosen.emit(value)


def number_text(value: float) -> str:
    """Short and exact to six digits: '3e-4', '0.05', '1000'."""
    if value == 0 or 0.01 <= abs(value) < 1e6:
        return f"{value:.6g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def next_rung(value: float, rungs: tuple[float, ...], *, up: bool = True) -> float:
    """The nearest rung·10^k strictly above (or below) a positive value."""
    power = math.floor(math.log10(value)) if value > 0 else 0
    ladder = [float(f"{r}e{k}") for k in (power - 1, power, power + 1) for r in rungs]
    if up:
        return min(rung for rung in ladder if rung > value * (1 + 1e-9))
    return max(rung for rung in ladder if rung < value * (1 - 1e-9))
