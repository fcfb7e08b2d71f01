"""Tests that hold for every plug-in, and the choice of those that concern new ones.

`each(names)` parametrises a test over plug-ins; `pytest -m discovery --plug-in NAME` runs what is
said of the plug-in in the file NAME.py, and the unparametrised tests marked `discovery`, which
are about all plug-ins together; of both no more than every push does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

MARKER = "discovery"
ELSEWHERE = ("nightly", "faults", "display", "gpu")
"""Marks of tests that `--plug-in` leaves out, though `-m discovery` asks for them."""


def each(values: Iterable[object]) -> list[object]:
    """Values for `pytest.mark.parametrize` that come from a discovery; a tuple is one row."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.discovery
        )
        for value in values
    ]


def own(names: Iterable[str]) -> list[str]:
    """Names of a discovery without the examples of docs/adding.md: a snapshot holds no others."""
    from tests.architecture.examples import examples

    added = {example.name for example in examples()}
    return [name for name in names if name.lower().replace("-", "_") not in added]


def may_concern(module: Path) -> bool:
    """Whether any test of a module can be about plug-ins."""
    text = module.read_text("utf-8")
    return "each(" in text or f"mark.{MARKER}" in text


def is_selected(item: pytest.Item, files: Iterable[str], together: bool = True) -> bool:
    """Whether a test is about one of these plug-ins or, if `together`, about all of them."""
    if item.get_closest_marker(MARKER) is None:
        return False
    return any(is_about(item, file) for file in files) if _is_of_each(item) else together


def is_about(item: pytest.Item, file: str) -> bool:
    """Whether a test is parametrised over plug-ins and is now about the one in this file."""
    return _is_of_each(item) and file in _file_names(item.callspec.params.values())  # type: ignore[attr-defined]


def _is_of_each(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and any(mark.name == MARKER for mark in parameters.marks)


def _file_names(parameters: Iterable[object]) -> Iterator[str]:
    """The file of the plug-in that a parameter names: 'FR-soft' is in fr_soft.py."""
    for parameter in parameters:
        if isinstance(parameter, str):
            yield parameter.lower().replace("-", "_")
