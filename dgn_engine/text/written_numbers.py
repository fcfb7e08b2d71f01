"""Format numbers for people: significant figures, powers of ten, percentages, times and rates."""

from __future__ import annotations

import math

_TIMES = (  # unit, its length in seconds, and the time from which the next unit is used
    ("µs", 1e-6, 0.9995e-3),
    ("ms", 1e-3, 0.0995),
    ("s", 1.0, 99.5),
    ("min", 60.0, 6000.0),
    ("h", 3600.0, 172_800.0),
    ("days", 86_400.0, 730 * 86_400.0),
    ("years", 365.25 * 86_400.0, math.inf),
)
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def format_number(value: float, figures: int = 0, signed: bool = False) -> str:
    """Format a value: '0.0123', '12,480', '−3.5×10⁻⁷', '∞'; '–' for NaN.

    Args:
        value: The value.
        figures: Significant figures to round to; 0 does not round integers and keeps four figures
            of other values.
        signed: Whether a positive value has a sign: '+0.2'.
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
    """Return '10⁻³', with Unicode superscripts."""
    return "10" + str(exponent).translate(_RAISED)


def format_percent(share: float, digits: int = 1, signed: bool = False) -> str:
    """Format a fraction as a percentage: '93.6 %', '−0.25 %', '∞ %'; '–' for NaN."""
    if not math.isfinite(share):
        return (
            format_number(share)
            if math.isnan(share)
            else f"{format_number(share, signed=signed)} %"
        )
    return f"{100 * share:{'+' if signed else ''}.{digits}f} %".replace("-", "−")


def format_decimals(value: float, digits: int) -> str:
    """Format a value with a fixed number of decimals, for columns and values that update:
    '1,250.0'."""
    return f"{value:,.{digits}f}".replace("-", "−")


def format_relative_error(error: float) -> str:
    """Format a relative standard error (0…1): '± 5 %', '± < 0.01 %'."""
    share = 100.0 * error
    if share < 0.01:
        return "± < 0.01 %"
    return f"± {format_number(share, 1) if share < 9.5 else format_decimals(share, 0)} %"


def plus_minus(value: float, error: float) -> str:
    """Format a value with its error: '0.412 ± 0.013'.

    The error has two figures, the value as many decimals; without an error (0 or NaN) only the
    value.
    """
    if not error > 0.0 or not math.isfinite(value):
        return format_number(value)
    places = 1 - math.floor(math.log10(error)) if math.isfinite(error) else 7
    if not -3 <= places <= 6:
        return f"{format_number(value, 3)} ± {format_number(error, 2)}"
    return f"{format_decimals(value, max(places, 0))} ± {format_decimals(error, max(places, 0))}"


def format_duration(seconds: float) -> str:
    """Format a time with two figures: '2.1 ms', '0.25 s', '42 s', '14 min', '2.1 h', '4.1 days';
    '–' if it is not finite."""
    if not math.isfinite(seconds):
        return "–"
    if not seconds:
        return "0 s"
    unit, size = next((unit, size) for unit, size, until in _TIMES if seconds < until)
    count = seconds / size
    return f"{format_number(count, 2) if count < 99.5 else format_decimals(count, 0)} {unit}"


def time_left(seconds: float) -> str:
    """Format the remaining time in whole seconds or larger units: '1 s', '42 s', '14 min'."""
    return format_duration(max(1.0, float(round(seconds))))


def format_rate(steps_per_second: float) -> str:
    """Format a step rate: '812 steps/s', '3.4 steps/s'; one decimal below 10, to keep it
    steady."""
    return f"{format_decimals(steps_per_second, 1 if steps_per_second < 9.95 else 0)} steps/s"
