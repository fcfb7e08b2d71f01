"""How numbers are written for people: figures, powers, percent, signs, times and rates."""

from __future__ import annotations

import math

_TIMES = (  # a unit, its seconds, and from how many seconds on the next one is written
    ("µs", 1e-6, 0.9995e-3),
    ("ms", 1e-3, 0.0995),
    ("s", 1.0, 99.5),
    ("min", 60.0, 6000.0),
    ("h", 3600.0, 172_800.0),
    ("days", 86_400.0, 730 * 86_400.0),
    ("years", 365.25 * 86_400.0, math.inf),
)
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
        mantissa, _, exponent = f"{value:.{max(figures, 3) - 1}e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{plus}{mantissa}×{power_of_ten(int(exponent))}".replace("-", "−")
    if float(value).is_integer():
        return f"{plus}{int(value):,}".replace("-", "−")
    if size < 1000:
        return plus + f"{value:.{max(figures, 4)}g}".replace("-", "−")
    places = max(figures - len(str(int(size))), 1)
    text = f"{value:,.{places}f}"
    text = text.rstrip("0") if places > 1 else text
    return plus + text.replace("-", "−")


def power_of_ten(exponent: int) -> str:
    """Return '10⁻³', with real raised figures."""
    return "10" + str(exponent).translate(_RAISED)


def percent(share: float, digits: int = 1, signed: bool = False) -> str:
    """Return a share of 1 in percent, with a space before the sign: '93.6 %', '−0.25 %', '∞ %'; '–'
    for NaN."""
    if not math.isfinite(share):
        return number(share) if math.isnan(share) else f"{number(share, signed=signed)} %"
    return f"{100 * share:{'+' if signed else ''}.{digits}f} %".replace("-", "−")


def decimals(value: float, digits: int) -> str:
    """Return a value with so many decimal places, for numbers that stand below each other or change
    in place: '1,250.0', '−0.25'."""
    return f"{value:,.{digits}f}".replace("-", "−")


def plus_minus(value: float, error: float) -> str:
    """Return '0.412 ± 0.013': the error with two figures, the value as far as the error reaches;
    the value alone where the error is 0 or NaN."""
    if not error > 0.0 or not math.isfinite(value):
        return number(value)
    places = 1 - math.floor(math.log10(error)) if math.isfinite(error) else 7
    if not -3 <= places <= 6:
        return f"{number(value, 3)} ± {number(error, 2)}"
    return f"{decimals(value, max(places, 0))} ± {decimals(error, max(places, 0))}"


def duration(seconds: float) -> str:
    """Return a time with two figures: '2.1 ms', '0.25 s', '42 s', '14 min', '2.1 h', '4.1 days';
    '–' where it is not finite."""
    if not math.isfinite(seconds):
        return "–"
    if not seconds:
        return "0 s"
    unit, size = next((unit, size) for unit, size, until in _TIMES if seconds < until)
    count = seconds / size
    return f"{number(count, 2) if count < 99.5 else decimals(count, 0)} {unit}"


def time_left(seconds: float) -> str:
    """Return the time that is left, in whole seconds: '1 s', '42 s', '14 min'."""
    return duration(max(1.0, float(round(seconds))))


def rate(steps_per_second: float) -> str:
    """Return '812 steps/s', '3.4 steps/s': one decimal place below 10, so that it stands still."""
    return f"{decimals(steps_per_second, 1 if steps_per_second < 9.95 else 0)} steps/s"
