"""A field for numbers across decades: steps along a ladder, accepts '3e-4' and '0,5'."""

from __future__ import annotations

import math

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QAbstractSpinBox, QWidget

from dgn_viewer.widgets.number_entry import NumberEntry

LADDER = (1.0, 2.0, 3.0, 5.0)
_NEAR_ZERO = 0.01  # smallest rung above zero, if zero is allowed


class NumberField(NumberEntry):
    """Field for a number between `least` and `most`.

    With `no_limit`, zero is shown as that text and ranks above the highest number, as in 'at most
    1,000 steps per second … full speed'. `chosen` is emitted only for input by the user.
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
        super().__init__(least, most, unit=unit, zero=no_limit, parent=parent)
        self._rungs = rungs
        self._quiet = False
        self.setDecimals(15)
        self.setRange(*self._ends)  # again: it was rounded to two decimals
        self.setKeyboardTracking(False)
        self.valueChanged.connect(self._on_changed)

    def show_value(self, value: float) -> None:
        """Show the engine's value, even outside the range, without emitting `chosen`."""
        self._quiet = True
        super().show_value(value)
        self._quiet = False

    def show_nothing(self) -> None:
        self._quiet = True
        super().show_nothing()
        self._quiet = False

    def number_text(self, value: float) -> str:
        """Return a text such as '3e-4', '0.05' or '120'."""
        return number_text(value)

    def stepBy(self, steps: int) -> None:
        value = self.value()
        for _ in range(abs(steps)):
            value = self._rung_above(value) if steps > 0 else self._rung_below(value)
        self.setValue(value)
        self.selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        """Enable both directions, except at the ends."""
        flag = QAbstractSpinBox.StepEnabledFlag
        value, enabled = self.value(), flag.StepNone
        if self._rung_above(value) != value:
            enabled |= flag.StepUpEnabled
        if self._rung_below(value) != value:
            enabled |= flag.StepDownEnabled
        return enabled

    def _rung_above(self, value: float) -> float:
        if self.zero and (value == 0 or value >= self.maximum()):
            return 0.0
        return min(next_rung(value, self._rungs), self.maximum())

    def _rung_below(self, value: float) -> float:
        if self.zero and value == 0:
            return self.maximum()
        below = next_rung(value, self._rungs, up=False) if value > 0 else 0.0
        if self._typing.least == 0 and below < _NEAR_ZERO:
            return 0.0
        return max(below, self._typing.least)

    def _on_changed(self, value: float) -> None:
        if not self._quiet:
            self.chosen.emit(value)


def number_text(value: float) -> str:
    """Return a short text, exact to six digits: '3e-4', '0.05', '1000'.

    Powers of ten are used for the same numbers as in sentences (`written_numbers.format_number`).
    """
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:.6g}"
    mantissa, exponent = f"{value:.5e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def next_rung(value: float, rungs: tuple[float, ...], *, up: bool = True) -> float:
    """Return the nearest rung·10^k strictly above (or below) a positive value."""
    power = math.floor(math.log10(value)) if value > 0 else 0
    ladder = [float(f"{r}e{k}") for k in (power - 1, power, power + 1) for r in rungs]
    if up:
        return min(rung for rung in ladder if rung > value * (1 + 1e-9))
    return max(rung for rung in ladder if rung < value * (1 - 1e-9))
