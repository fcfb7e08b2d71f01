"""Tests that hold for every plug-in, and the choice of those that concern new ones.

`each(names)` parametrises a test over plug-ins; `pytest -m discovery --plug-in NAME` runs what is
said of the plug-in in the file NAME.py, and the unparametrised tests marked `discovery`, which
are about all plug-ins together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

MARKER = "discovery"


def each(values: Iterable[object]) -> list[object]:
    """Values for `pytest.mark.parametrize` that come from a discovery; a tuple is one row."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.discovery
        )
        for value in values
    ]


def concerns(item: pytest.Item, files: Iterable[str], together: bool = True) -> bool:
    """Whether a test is about one of these plug-ins or, if `together`, about all of them."""
    if item.get_closest_marker(MARKER) is None:
        return False
    parameters = getattr(item, "callspec", None)
    names = set(_file_names(parameters.params.values())) if parameters else set()
    if not _is_parametrised_over_plug_ins(item):
        return together
    return not names.isdisjoint(files)


def _is_parametrised_over_plug_ins(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and any(mark.name == MARKER for mark in parameters.marks)


def _file_names(parameters: Iterable[object]) -> Iterator[str]:
    """The file of the plug-in that a parameter names: 'FR-soft' is in fr_soft.py."""
    for parameter in parameters:
        if isinstance(parameter, str):
            yield parameter.lower().replace("-", "_")
