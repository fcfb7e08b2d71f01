"""The published numbers and claims of the papers, read from published.json."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from dgn_engine.experiments._experiment import Request
from dgn_engine.protocol.experiments import Printed

# Points within which a measured mean counts as equal to the printed one. The printed gap between
# random and learnt gates is 0.9 to 2.6 points on MNIST, 4 to 13 on CIFAR-10.
MARGINS = {"MNIST": 0.5, "CIFAR-10": 2.0}


@cache
def _published_tables() -> dict[str, Any]:
    path = files("dgn_resources") / "papers" / "published.json"
    tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return tree


def find_printed(table: str, row: str, column: str) -> Printed | None:
    """Return a cell of a table; None if the paper gives no number there."""
    published = _published_tables()[table]
    value = published["rows"][row][published["columns"].index(column)]
    if value is None:
        return None
    if isinstance(value, list):
        margin = MARGINS["MNIST" if "MNIST" in row else "CIFAR-10"]
        return Printed(float(value[0]), float(value[1]), margin)
    return Printed(float(value))


def number_in(table: str, row: str, column: str) -> Printed:
    """Return a cell of a table; raises `LookupError` if the paper gives no number there."""
    number = find_printed(table, row, column)
    if number is None:
        raise LookupError(f"{table} has no number in '{row}', '{column}'")
    return number


def table_rows(table: str) -> tuple[str, ...]:
    """Return the row names of a table, or the names of the numbers given for a figure."""
    published = _published_tables()[table]
    if "rows" in published:
        return tuple(published["rows"])
    return tuple(name for name, value in published.items() if isinstance(value, (int, float)))


def comparable_number(
    request: Request, found: Printed | None, of: str
) -> tuple[Printed | None, str]:
    """Return the number for the 'printed' column and a remark for the row.

    At quick scale a different network is trained, so that the column is empty and the remark gives
    the number.

    Args:
        request: the options.
        found: the printed number.
        of: the network for which it was printed.
    """
    if found is None:
        return None, ""
    if not request.quick:
        return found, f"trained on {request.data}" if request.data else ""
    half = "" if found.half_width is None else f" ± {found.half_width:g}"
    return None, f"published for {of}: {found.value:g}{half}"


def published_claim(claim_id: str) -> tuple[str, str]:
    for entry in _published_tables()["claims"]:
        if entry["id"] == claim_id:
            return claim_id, str(entry["statement"])
    raise LookupError(f"published.json has no claim '{claim_id}'")


def claim_ids() -> tuple[str, ...]:
    return tuple(entry["id"] for entry in _published_tables()["claims"])
