"""Values that a test compares with a reviewed file instead of typing them out.

    def test_the_rows_of_a_table(recorded: Recorded) -> None:
        recorded(rows)

`make snapshots` writes tests/recorded anew, one JSON file for each module with an entry for each
test; its diff is read before it is committed. `pytest --write-snapshots TESTS` writes those of
these tests alone.
"""

from __future__ import annotations

import difflib
import json
import math
from pathlib import Path
from typing import Any, Protocol

import pytest

TESTS = Path(__file__).parent
FOLDER = TESTS / "recorded"
DIGITS = 9  # of a number that is written


class Recorded(Protocol):
    """Assert that a value is what the snapshot holds of this test."""

    def __call__(self, value: object) -> None:
        """JSON data, with tuples for lists; numbers are rounded to `DIGITS` significant digits."""


class Snapshot:
    """The recorded value of one test: what the fixture `recorded` gives."""

    def __init__(self, item: pytest.Item, write: bool) -> None:
        module = item.path.relative_to(TESTS)
        self._path = FOLDER / module.with_suffix(".json")
        self._way_out = f"if it is right: python -m pytest --write-snapshots tests/{module}"
        self._key = item.name
        self._write = write

    def __call__(self, value: object) -> None:
        plain = _plain(value)
        entries = _read(self._path)
        if self._write:
            entries[self._key] = plain
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(_pretty(dict(sorted(entries.items()))) + "\n", encoding="utf-8")
        assert self._key in entries, f"{self._path.name} has no {self._key}; {self._way_out}"
        recorded = entries[self._key]
        assert plain == recorded, f"{_difference(recorded, plain)}\n{self._way_out}"


def _difference(recorded: object, now: object) -> str:
    """Return the lines that differ, as git shows them."""
    pages = (_pretty(recorded).splitlines(), _pretty(now).splitlines())
    return "\n".join(difflib.unified_diff(*pages, "recorded", "now", lineterm="", n=1))


def _read(path: Path) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return entries


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def _pretty(value: Any, indent: str = "") -> str:
    """JSON with one line for whatever fits one, so that a diff shows what changed."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + len(indent) <= 100 or not isinstance(value, (dict, list)):
        return short
    inner = indent + " "
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_pretty(each, inner)}"
            for key, each in value.items()
        ]
        left, right = "{", "}"
    else:
        parts = [_pretty(each, inner) for each in value]
        left, right = "[", "]"
    body = ",\n".join(inner + part for part in parts)
    return f"{left}\n{body}\n{indent}{right}"
