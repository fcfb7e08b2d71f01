"""Whether mypy would have noticed a mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import Types
from tests.mutants.mutations import Mutation
from tests.mutants.sample import Mutant

MUTANT = Mutant("g", "a.py", Mutation("constant", 2, 20, 21, "b"))


def test_a_mutant_is_rejected_for_what_is_said_of_it_alone(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.mypy]\nfiles = ["a.py"]\n')
    (tmp_path / "a.py").write_text("known: int = ''\nnumber: int = 1\n")
    types = Types(tmp_path)
    assert types.reject(MUTANT, b"known: int = ''\nnumber: int = ''\n")
    assert not types.reject(MUTANT, b"\nknown: int = ''\nnumber: int = 2\n")
    assert types.reject(MUTANT, b"known: int = ''\nnumber: int = nothing\n")
    assert (tmp_path / "a.py").read_text() == "known: int = ''\nnumber: int = 1\n"


def test_without_a_verdict_of_mypy_nothing_is_tried(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.mypy]\nfiles = ["a.py"]\n')
    with pytest.raises(RuntimeError, match="mypy has no verdict"):
        Types(tmp_path)
