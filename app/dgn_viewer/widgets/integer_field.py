"""A field for integers."""

from __future__ import annotations

from dgn_viewer.widgets.number_entry import NumberEntry


class IntegerField(NumberEntry):
    """Field for an integer; `zero` is the text shown for 0."""

    def __init__(self, least: int, most: int, zero: str = "", unit: str = "") -> None:
        super().__init__(least, most, unit=unit, zero=zero)
        self.setDecimals(0)

    def value(self) -> int:
        """Return the last valid integer."""
        return round(super().value())

    def number_text(self, value: float) -> str:
        return f"{value:.0f}"

    def reason_rejected(self, number: float) -> str:
        return "" if number.is_integer() else "Must be an integer."
