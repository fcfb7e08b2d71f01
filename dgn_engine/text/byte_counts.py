"""Format byte counts for people, with at most three digits."""

from __future__ import annotations

from collections.abc import Sequence

_DECIMAL = ("bytes", "kB", "MB", "GB", "TB")
_BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB")


def bytes_in_words(count: float) -> str:
    """Return a number of bytes in units of 1,000, as in file managers: '7.64 MB', '310 MB'."""
    return _in_words(count, 1000, _DECIMAL)


def binary_size_in_words(count: float) -> str:
    """Return a number of bytes in units of 1,024, as storage limits are typed: '512 MiB', '1.5
    GiB'."""
    return _in_words(count, 1024, _BINARY)


def _in_words(count: float, base: int, units: Sequence[str]) -> str:
    unit = units[0]
    for larger in units[1:]:
        if count < base - 0.5:
            break
        count, unit = count / base, larger
    if unit == units[0]:
        return f"{count:,.0f} {'byte' if count == 1 else unit}"
    digits = 0 if count >= 99.95 else 1 if count >= 9.995 else 2
    number = f"{count:,.{digits}f}"
    return f"{number.rstrip('0').rstrip('.') if digits else number} {unit}"
