"""Whether mypy would have noticed a mutant: answers of a daemon, as they come."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import __main__ as mutants
from tests.mutants.mutations import Mutation
from tests.mutants.sample import Mutant

MUTANT = Mutant("g", "a.py", Mutation("constant", 1, 4, 5, "b"))
FINE = "Success: no issues found in 2 source files\n"
LIBRARY = "lib.py:7: error: untyped call\nFound 1 error in 1 file (checked 2 source files)\n"
MOVED = LIBRARY.replace(":7:", ":9:")
WRONG = "a.py:1: error: no such name\nFound 1 error in 1 file (checked 2 source files)\n"
SILENT = ""


@pytest.mark.parametrize(
    ("said", "rejected"),
    [
        ([FINE, FINE], False),
        ([FINE, WRONG, FINE], True),
        ([LIBRARY, MOVED], False),
        ([FINE, LIBRARY, LIBRARY], False),  # of a library, and only from the second run on
        ([FINE, LIBRARY + WRONG, LIBRARY], True),
        ([SILENT, SILENT, FINE, SILENT, WRONG, FINE], True),
    ],
)
def test_a_mutant_is_rejected_for_what_is_said_of_it_alone(
    said: list[str], rejected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    answers, seen = iter(said), []

    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        seen.append((tmp_path / "a.py").read_text())
        return subprocess.CompletedProcess((), 0, next(answers), "")

    here: Any = lambda _: tmp_path  # noqa: E731
    monkeypatch.setattr(mutants, "copy_tree", here)
    monkeypatch.setattr(mutants, "PAUSE", 0.0)
    monkeypatch.setattr(subprocess, "run", run)
    assert mutants.Types().reject(MUTANT, b"a = b\n") is rejected
    assert list(answers) == []
    assert "a = b\n" in seen
    assert (tmp_path / "a.py").read_text() == "a = 1\n"


def test_without_a_verdict_of_mypy_nothing_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: Any = lambda _: tmp_path  # noqa: E731
    monkeypatch.setattr(mutants, "copy_tree", here)
    monkeypatch.setattr(mutants, "PAUSE", 0.0)
    broken = subprocess.CompletedProcess((), 2, "", "Timed out waiting for daemon to start")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: broken)
    with pytest.raises(RuntimeError, match="mypy has no verdict: Timed out waiting"):
        mutants.Types()
