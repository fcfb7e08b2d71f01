"""How numbers are written for people: figures, powers of ten, percent and signs, in one style."""

from __future__ import annotations

import math

_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def number(value: float, figures: int = 0, signed: bool = False) -> str:
    """Return a value for reading: '0.0123', '12,480', '−3.5×10⁻⁷', '∞'; '–' for NaN.

    Args:
        value: What is written.
        figures: To how many significant figures it is rounded first; 0: not at all, and four are
            written where it is no whole number.
        signed: Whether a positive value has its sign: '+0.2'.
    """
    if math.isnan(value):
        return "–"
    plus = "+" if signed and value > 0 else ""
    if math.isinf(value):
        return f"{plus}∞" if value > 0 else "−∞"
    value = float(f"{value:.{figures}g}") if figures else value
    size = abs(value)
    if size and (size >= 1e6 or size < 1e-3):
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{plus}{mantissa}×{power_of_ten(int(exponent))}".replace("-", "−")
    if float(value).is_integer():
        return f"{plus}{int(value):,}".replace("-", "−")
    text = f"{value:,.1f}" if size >= 1000 else f"{value:.4g}"
    return plus + text.replace("-", "−")


def power_of_ten(exponent: int) -> str:
    """Return '10⁻³', with real raised figures."""
    return "10" + str(exponent).translate(_RAISED)


def percent(share: float, digits: int = 1, signed: bool = False) -> str:
    """Return a share of 1 in percent, with a space before the sign: '93.6 %', '−0.25 %'."""
    return f"{100 * share:{'+' if signed else ''}.{digits}f} %".replace("-", "−")
