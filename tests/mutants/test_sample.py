"""The sample is found again after its files have changed."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.mutations import mutations
from tests.mutants.sample import Mutant, find

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
