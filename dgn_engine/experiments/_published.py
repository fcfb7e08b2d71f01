"""The numbers and claims of the papers, from the file that comes with the package."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from dgn_engine.experiments._findings import Printed


@cache
def _papers() -> dict[str, Any]:
    path = files("dgn_resources") / "papers" / "published.json"
    tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return tree


def printed(table: str, row: str, column: str) -> Printed | None:
    """One cell of a table; None where the paper prints nothing there."""
    found = _papers()[table]
    value = found["rows"][row][found["columns"].index(column)]
    if value is None:
        return None
    if isinstance(value, list):
        return Printed(float(value[0]), float(value[1]))
    return Printed(float(value))


def regime_numbers(table: str, row: str) -> dict[str, float]:
    """A row without half-widths, by its column."""
    found = _papers()[table]
    return dict(zip(found["columns"], (float(v) for v in found["rows"][row]), strict=True))


def table_rows(table: str) -> tuple[str, ...]:
    """The names of a table's rows."""
    return tuple(_papers()[table]["rows"])


def claim(claim_id: str) -> tuple[str, str]:
    """The id and the statement of a claim, as `judge` takes them."""
    for entry in _papers()["claims"]:
        if entry["id"] == claim_id:
            return claim_id, str(entry["statement"])
    raise LookupError(f"published.json has no claim '{claim_id}'")


def claim_ids() -> tuple[str, ...]:
    """Every claim of the papers, in their order."""
    return tuple(entry["id"] for entry in _papers()["claims"])
