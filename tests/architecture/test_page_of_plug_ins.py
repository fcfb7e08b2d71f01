"""docs/adding.md lists what there is: nodes, what a probe is given, how a regime begins."""

from __future__ import annotations

import inspect
import re
from typing import get_args

import pytest

from dgn_engine.model.architecture import Node
from dgn_engine.regimes._regime import OnEntry
from dgn_engine.training.probes import ProbeContext
from tests.architecture.examples import ROOT, examples

PAGE = (ROOT / "docs" / "adding.md").read_text("utf-8")


def listed(heading: str) -> set[str]:
    """The names in the first column of the table with this heading."""
    _, _, table = PAGE.partition(f"\n| {heading} |")
    rows = re.match(r"[^\n]*\n\|[- |]*\n((?:\|.*\n)+)", table)
    assert rows is not None
    first = [row.split("|")[1] for row in rows[1].splitlines()]
    return {name for cell in first for name in re.findall(r"`([\w-]+)", cell)}


def members_of_a_context() -> set[str]:
    given = re.findall(r"self\.(\w+) =", inspect.getsource(ProbeContext))
    return {name for name in (*vars(ProbeContext), *given) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("heading", "there"),
    [
        ("node", {node.__name__ for node in get_args(Node)}),
        ("member of `ProbeContext`", members_of_a_context()),
        ("`on_entry`", set(get_args(OnEntry))),
    ],
)
def test_the_page_lists_all_that_there_is_and_nothing_else(heading: str, there: set[str]) -> None:
    assert listed(heading) == there


def test_there_is_a_test_to_copy_of_every_kind_of_plug_in() -> None:
    rows = re.findall(r"\| `(dgn_engine/\S+)/NAME\.py` \| `[A-Z]+` \| `(tests/\S+)` \|", PAGE)
    assert [place for place, _ in rows] == [
        example.path.rpartition("/")[0] for example in examples()
    ]
    assert [test for _, test in rows if not (ROOT / test).is_file()] == []
