"""Results in a notebook: the fields of a dataclass as a small table of HTML."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping

LONGEST = 200  # characters of a value


def html_table(rows: Mapping[str, str]) -> str:
    """Return names and values in two columns, escaped and cut after `LONGEST` characters."""
    left = "style='text-align:left'"
    cells = "".join(
        f"<tr><th {left}>{_safe(name)}</th><td {left}>{_safe(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


class HtmlFields:
    """A dataclass that a notebook shows as a table: numbers as they are, arrays by their shape and
    range."""

    def _repr_html_(self) -> str:
        assert dataclasses.is_dataclass(self)
        names = [field.name for field in dataclasses.fields(self)]
        rows = {name.replace("_", " "): _words(getattr(self, name)) for name in names}
        return html_table({"": type(self).__name__, **rows})


def _words(value: object) -> str:
    shape = getattr(value, "shape", None)
    if value is None:
        return "none"
    if isinstance(value, float):
        return _number(value)
    if shape is not None and len(shape):
        return f"{' × '.join(str(side) for side in shape)}{_range(value)}"
    if isinstance(value, (tuple, list)) and len(value) > 4:
        return f"{len(value)} of {type(value[0]).__name__}"
    return str(value)


def _range(array: object) -> str:
    """Least and greatest of a tensor or array of real numbers."""
    try:
        low, high = float(array.min()), float(array.max())  # type: ignore[attr-defined]
    except (TypeError, ValueError, RuntimeError):  # empty
        return ""
    if math.isnan(low) or math.isnan(high):
        return ", with what is not a number"
    return f", {_number(low)} to {_number(high)}"


def _safe(text: str) -> str:
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return html.escape("".join(letter if letter.isprintable() else "�" for letter in cut))


def _number(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")
