"""HTML tables for results in a notebook."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping

LONGEST = 200  # characters of a value


def html_table(rows: Mapping[str, str]) -> str:
    """Format names and values as an HTML table with two columns.

    Args:
        rows: Values by name; both are escaped and cut after `LONGEST` characters.

    Returns:
        The HTML.
    """
    style = "style='text-align:left'"
    cells = "".join(
        f"<tr><th {style}>{_escape_text(name)}</th><td {style}>{_escape_text(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


class HtmlFields:
    """Mix-in that shows a dataclass as a table in a notebook; arrays by shape and range."""

    def _repr_html_(self) -> str:
        assert dataclasses.is_dataclass(self)
        names = [field.name for field in dataclasses.fields(self)]
        rows = {name.replace("_", " "): _describe_field(getattr(self, name)) for name in names}
        return html_table({"": type(self).__name__, **rows})


def _describe_field(value: object) -> str:
    """Describe a field in a few characters."""
    shape = getattr(value, "shape", None)
    if value is None:
        return "none"
    if isinstance(value, float):
        return _format_number(value)
    if shape is not None and len(shape):
        return f"{' × '.join(str(side) for side in shape)}{_format_range(value)}"
    if isinstance(value, (tuple, list)) and len(value) > 4:
        return f"{len(value)} of {type(value[0]).__name__}"
    return str(value)


def _format_range(array: object) -> str:
    """Format the minimum and maximum of a real tensor or array."""
    try:
        low, high = float(array.min()), float(array.max())  # type: ignore[attr-defined]
    except (TypeError, ValueError, RuntimeError):  # empty
        return ""
    if math.isnan(low) or math.isnan(high):
        return ", with NaN"
    return f", {_format_number(low)} to {_format_number(high)}"


def _escape_text(text: str) -> str:
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return html.escape("".join(letter if letter.isprintable() else "�" for letter in cut))


def _format_number(value: float) -> str:
    return f"{value:.6g}".replace("-", "−")
