"""The sample is found again after its files have changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.mutants.__main__ import choose_tests
from tests.mutants.mutations import mutations
from tests.mutants.sample import Mutant, find
from tests.mutants.which_tests import LineMap

SOURCE = "a = 1\nif a < 2:\n    b = a + 1\n"


def row_of(mutant: Mutant) -> dict[str, str]:
    line = SOURCE.splitlines()[mutant.mutation.line - 1].strip()
    return {"id": mutant.id, "group": "g", "line": line, "new": mutant.mutation.text}


def drawn(kind: str) -> Mutant:
    found = next(m for m in mutations(SOURCE.encode()) if m.kind == kind)
    return Mutant("g", "a.py", found)


def test_a_survivor_is_found_where_its_line_has_moved(tmp_path: Path) -> None:
    mutant = drawn("comparison")
    (tmp_path / "a.py").write_text("\n\n" + SOURCE)
    found = find(tmp_path, row_of(mutant))
    assert found is not None
    assert (found.mutation.line, found.drawn_as) == (mutant.mutation.line + 2, mutant.id)


def test_a_survivor_whose_line_is_gone_is_not_found(tmp_path: Path) -> None:
    row = row_of(drawn("comparison"))
    assert find(tmp_path, row) is None
    (tmp_path / "a.py").write_text("a = 1\n")
    assert find(tmp_path, row) is None


def test_a_line_that_no_test_is_seen_to_run_is_tried_on_the_tests_of_its_file() -> None:
    mutant = drawn("constant")
    seconds = {"tests/a": 3.0, "tests/b": 1.0, "tests/c": 2.0}
    known = LineMap("", {"a.py": {2: ["tests/a", "tests/b"], 3: ["tests/c"]}}, seconds)
    assert mutant.mutation.line == 1
    assert choose_tests(mutant, known, 9.0) == ("tests/b", "tests/c", "tests/a")


def test_a_line_that_runs_at_import_is_tried_on_every_test_of_its_file() -> None:
    source = b"a = 1\n\n\ndef f(b=2):\n    return (lambda c=3: c + 4)() + 5\n"
    seconds = {"tests/first": 1.0, "tests/other": 2.0}
    lines = {1: ["tests/first"], 4: ["tests/first"], 5: ["tests/other"]}
    seen = LineMap("", {"a.py": lines}, seconds)
    found = {
        m.text: choose_tests(Mutant("g", "a.py", m), seen, 9.0)
        for m in mutations(source)
        if m.kind == "constant"
    }
    every, own = ("tests/first", "tests/other"), ("tests/other",)
    assert found == {"2": every, "3": every, "4": own, "5": own, "6": own}


def test_a_compiled_line_is_tried_on_the_tests_of_its_package() -> None:
    mutant = replace(drawn("constant"), file="dgn_engine/kernels/cntk.py")
    seconds = {"tests/engine/kernels/test_a.py::a": 1.0, "tests/engine/data/test_b.py::b": 1.0}
    chosen = choose_tests(mutant, LineMap(seconds=seconds), 9.0)
    assert chosen == ("tests/engine/kernels/test_a.py::a",)
