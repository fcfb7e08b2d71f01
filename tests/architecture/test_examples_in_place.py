"""With every example of docs/adding.md in place at once, every check passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.examples import ROOT, examples, run_in, write_project

EXAMPLES = examples()
pytestmark = pytest.mark.skipif(
    any((ROOT / example.path).exists() for example in EXAMPLES), reason="the examples are in place"
)
NAMES = [option for example in EXAMPLES for option in ("--plug-in", example.name)]
AT_A_PUSH = {  # of each kind one
    "test_data_sets.py",
    "test_every_command.py",
    "test_nets.py",
    "test_panels.py",
    "test_probes.py",
    "test_regimes.py",
    "test_seed_start.py",
}
LINT = "import importlinter.cli as c; raise SystemExit(c.lint_imports(no_cache=True, no_logo=True))"
RUN_ALL = (
    "import sys\nfor path in sys.argv[1:]:\n    exec(compile(open(path).read(), path, 'exec'), {})"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples_in_place")
    write_project(folder)
    return folder


def test_there_is_an_example_of_every_kind_of_plug_in() -> None:
    assert len(EXAMPLES) == len({Path(example.path).parent for example in EXAMPLES}) == 7
    assert all(example.use for example in EXAMPLES)


def test_the_examples_do_what_is_shown_of_them(project: Path, tmp_path: Path) -> None:
    scripts = []
    for example in EXAMPLES:
        script = tmp_path / f"{example.name}.py"
        script.write_text(example.use, encoding="utf-8")
        scripts.append(str(script))
    result = run_in(project, "-c", RUN_ALL, *scripts)
    assert result.returncode == 0, result.stdout


def test_the_examples_are_linted_and_formatted(project: Path) -> None:
    files = [example.path for example in EXAMPLES]
    for check in (("check",), ("format", "--check")):
        result = run_in(project, "-m", "ruff", *check, "--no-cache", *files)
        assert result.returncode == 0, result.stdout


def test_the_examples_keep_the_import_contracts(project: Path) -> None:
    result = run_in(project, "-c", f"import sys; sys.path[:0] = ['app', 'resources']; {LINT}")
    assert result.returncode == 0, result.stdout


@pytest.mark.slow
def test_a_test_over_every_plug_in_of_a_kind_takes_the_example_of_that_kind(project: Path) -> None:
    assert_each_is_taken(
        project, [path for path in said_of_each(project) if path.name in AT_A_PUSH]
    )


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_what_is_true_of_every_plug_in_is_true_of_the_examples(project: Path) -> None:
    """What is said of all plug-ins together is left to `make plugins`."""
    assert_each_is_taken(project, said_of_each(project))


def said_of_each(project: Path) -> list[Path]:
    """The modules with tests over every plug-in of a kind."""
    said = re.compile(r"\beach\(")
    return [
        path for path in (project / "tests").rglob("test_*.py") if said.search(path.read_text())
    ]


def assert_each_is_taken(project: Path, tests: list[Path]) -> None:
    """Each must be named by a test that passes, or nothing is known of plug-ins of its kind."""
    chosen = (*NAMES, "--each", *(str(path.relative_to(project)) for path in tests))
    marks = "discovery and not faults and not display and not gpu"
    arguments = ("-v", "-p", "no:cacheprovider", "-m", marks)
    result = run_in(project, "-m", "pytest", *arguments, *chosen)
    assert result.returncode == 0, result.stdout
    passed = re.findall(r"\[(.*)\] PASSED", result.stdout)
    parameters = " ".join(passed).lower().replace("-", "_")
    assert [example.name for example in EXAMPLES if example.name not in parameters] == []
