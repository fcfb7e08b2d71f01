"""A changed line is noticed by the tests that run it, and by few others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutants import changed_lines
from tests.mutants.__main__ import environment
from tests.mutants.which_tests import LineMap

SOURCE = """def double(x):
    return 2 * x


def half(x):
    return x / 2
"""
TESTS = """from dgn_engine.numbers import double, half


def test_double():
    assert double(3) == 6


def test_half():
    assert half(3) == 1.5
"""
DOUBLE, HALF = (f"tests/engine/test_numbers.py::test_{name}" for name in ("double", "half"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small repository with two functions and a test of each."""
    for name, text in (("dgn_engine/numbers.py", SOURCE), ("tests/engine/test_numbers.py", TESTS)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    who = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false")
    git(tmp_path, *who, "commit", "--quiet", "--message", "first")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def mapped(project: Path) -> LineMap:
    lines = {"dgn_engine/numbers.py": {2: [DOUBLE], 6: [HALF]}}
    return LineMap(changed_lines.head(project), lines, {DOUBLE: 0.1, HALF: 0.1})


def test_a_map_is_read_as_it_was_written(project: Path, tmp_path: Path) -> None:
    mapped(project).write(tmp_path / "map.json")
    assert LineMap.read(tmp_path / "map.json") == mapped(project)


def write(project: Path, old: str, new: str) -> None:
    path = project / "dgn_engine/numbers.py"
    path.write_text(path.read_text("utf-8").replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "tests"),
    [
        ("2 * x", "3 * x", (DOUBLE,)),
        ("x / 2", "x / 3", (HALF,)),
        ("    return 2 * x\n", "    x = -x\n    return 2 * x\n", (DOUBLE,)),
        ("\n\ndef half", "\n\n# Of numbers.\ndef half", (DOUBLE, HALF)),
    ],
    ids=["a line", "another", "a new line beside it", "no line of a function"],
)
def test_the_tests_that_run_a_changed_line_are_chosen(
    project: Path, old: str, new: str, tests: tuple[str, ...]
) -> None:
    known = mapped(project)
    assert changed_lines.choose(project, known, 60.0).tests == ()
    write(project, old, new)
    chosen = changed_lines.choose(project, known, 60.0)
    assert chosen.tests == tests
    done = subprocess.run(
        [*("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"), *chosen.tests],
        cwd=project,
        env=environment(project),
        capture_output=True,
        check=False,
    )
    assert (done.returncode != 0) == ("return" in old or "x" in old)


def test_what_was_moved_by_lines_above_it_is_still_found(project: Path) -> None:
    known = mapped(project)
    write(project, "def double", '"""Numbers."""\n\n\ndef double')
    write(project, "x / 2", "x / 3")
    assert HALF in changed_lines.choose(project, known, 60.0).tests


def test_a_changed_test_module_and_a_new_file_are_run_too(project: Path) -> None:
    known = mapped(project)
    path = project / "tests/engine/test_numbers.py"
    path.write_text(path.read_text("utf-8") + "\n# more\n", encoding="utf-8")
    (project / "dgn_engine/sums.py").write_text("A = 1\n", encoding="utf-8")
    chosen = changed_lines.choose(project, known, 60.0)
    assert "tests/engine/test_numbers.py" in chosen.tests
    assert "dgn_engine/sums.py" in chosen.summary
