"""Which cases of a `wide` test run at every push: each value of each parameter once."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.daily import leave_the_rest_for_the_night


class Case:
    """What is asked of a test that pytest has collected."""

    def __init__(self, one: object, two: object) -> None:
        self.nodeid = f"test_of_values[{one}-{two}]"
        self.callspec = SimpleNamespace(params={"one": one, "two": two})
        self.marks = {"wide": pytest.mark.wide.mark}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, mark: Any) -> None:
        self.marks[mark.name] = mark


def test_values_that_are_objects_are_covered_as_words_are() -> None:
    ones, twos = [object(), object(), None], [lambda: 1, lambda: 2, "word", 1.5]
    cases = [Case(one, two) for one, two in itertools.product(ones, twos)]
    leave_the_rest_for_the_night(cast(list[pytest.Item], cases))
    kept = [case.callspec.params for case in cases if "nightly" not in case.marks]
    assert len(kept) == 4
    for name, values in (("one", ones), ("two", twos)):
        assert {id(case[name]) for case in kept} == set(map(id, values))
