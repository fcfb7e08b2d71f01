"""Which cases of a test run at every push, and which only with `make test-all`, nightly.

    @pytest.mark.wide
    @pytest.mark.parametrize("net", NETS)
    @pytest.mark.parametrize("regime", REGIMES)
    def test_...

At every push each network runs with one regime and each regime with one network; the rest of the
product is marked `nightly`. `wide(3)` keeps at most three cases. `nightly("cnn4", "resnet")` marks
single values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest

OTHER = {"nightly", "faults", "display", "gpu"}  # marks of what no push runs


def nightly(*values: object) -> list[object]:
    """Return values for `pytest.mark.parametrize` that run nightly; a tuple is one row."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.nightly)
        for value in values
    ]


def mark_the_rest_nightly(items: Iterable[pytest.Item], most: int | None = None) -> None:
    """Mark the cases of a `wide` test `nightly` that bring no new value of any parameter, and those
    beyond `most` of one test; those that no push runs anyway bring none."""
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if "wide" in (marks := {mark.name for mark in item.iter_markers()}) and not marks & OTHER:
            groups[item.nodeid.partition("[")[0]].append(item)
    for group in groups.values():
        mark = group[0].get_closest_marker("wide")
        assert mark is not None
        kept = _cover(group)[: mark.args[0] if mark.args else None][:most]
        for item in group:
            if item not in kept:
                item.add_marker(pytest.mark.nightly)


def _cover(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return items with every value of every parameter, those that bring most of them first."""
    values = {item: _values(item) for item in items}
    missing = set().union(*values.values())
    chosen = []
    while missing:
        best = max(items, key=lambda item: len(values[item] & missing))
        missing -= values[best]
        chosen.append(best)
    return chosen


def _values(item: pytest.Item) -> set[tuple[str, object]]:
    parameters = getattr(item, "callspec", None)
    if parameters is None:
        return set()
    return {(name, _identity(value)) for name, value in parameters.params.items()}


def _identity(value: object) -> object:
    """Return what tells a value from others: itself, or which object it is.

    Not its name, which all lambdas share, nor where it stands: beside a fixture with parameters
    pytest counts cases, not values.
    """
    return value if value is None or isinstance(value, (str, int, float)) else id(value)
