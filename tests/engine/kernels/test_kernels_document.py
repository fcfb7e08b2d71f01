"""What documents say of kernels is true: pages, examples in docstrings, and what they load."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dgn_engine
import dgn_engine.kernels as k
from dgn_engine.cli import main

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "kernels.md").read_text("utf-8")
OWN_NETWORK = (ROOT / "docs" / "own-network.md").read_text("utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="(.+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (.+?) \| §(\d) \| `(\w+)` \| `(\w+)` \|$", re.MULTILINE)
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for folder in ("kernels", "importing", "attachment")
    for path in (Path(dgn_engine.__file__).parent / folder).rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)
MOST = 35  # modules of ours that the kernels of a network need
ABOVE = ("config", "protocol", "setting", "storage", "importing", "training", "session")
COUNT = """
import sys
print(*[name for name in sys.modules if name.partition(".")[0] == "dgn_engine"])
"""


def run_python(block: str, names: dict[str, Any]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, "an example", "exec"), names)


def test_the_examples_run_one_after_the_other() -> None:
    names: dict[str, Any] = {}
    blocks = [block for kind, _, block in BLOCK.findall(TEXT) if kind == "python"]
    assert len(blocks) >= 6
    for block in blocks:
        run_python(block, names)


@pytest.mark.nightly
def test_every_block_of_the_page_of_ones_own_network_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"__name__": "own_network"}
    for kind, title, block in BLOCK.findall(OWN_NETWORK):
        if kind == "python" and title:
            (tmp_path / title).write_text(block)
        elif kind == "python":
            run_python(block, names)
        else:
            assert kind == "console"
            for command, *lines in map(str.splitlines, re.split(r"^\$ ", block, flags=re.M)[1:]):
                pipe = subprocess.PIPE
                done = subprocess.run(command, shell=True, check=True, stdout=pipe, text=True)
                assert [line for line in lines if line not in done.stdout.splitlines()] == []
    monkeypatch.delitem(sys.modules, "nets")
    sections = OWN_NETWORK.split("\n## ")[1:]
    assert len(sections) >= 5
    assert all("```python" in section for section in sections)


def test_the_options_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them are on the generated page of the command."""
    with pytest.raises(SystemExit):
        main(["kernels", "--help"])
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help"}
    used = set(re.findall(r"--[a-z][a-z-]+", TEXT))
    assert len(used) >= 8
    assert used <= known


def test_every_figure_has_its_section_its_function_and_its_test() -> None:
    rows = ROW.findall(TEXT)
    assert len(rows) >= 20
    theory = (ROOT / "docs" / "theory.md").read_text("utf-8")
    sections = set(re.findall(r"^## (\d)\. ", theory, re.MULTILINE))
    tests = {
        name
        for path in (ROOT / "tests" / "engine" / "kernels").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    for figure, section, function, test in rows:
        assert section in sections, figure
        assert function in k.__all__, figure
        assert test in tests, figure


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_give_what_they_say(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_main_functions_have_an_example() -> None:
    for name in ("adapt", "empirical_ntk", "spectrum", "layer_overlap", "class_targets"):
        assert ">>> " in (getattr(k, name).__doc__ or "")


def loaded_by(code: str, folder: Path) -> list[str]:
    """Modules of ours that a fresh interpreter has loaded after `code`."""
    words = [sys.executable, "-P", "-c", code + COUNT]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder)
    return ran.stdout.splitlines()[-1].split()


def test_the_first_example_loads_few_modules_and_the_package_none(tmp_path: Path) -> None:
    example = next(block for kind, _, block in BLOCK.findall(TEXT) if kind == "python")
    assert "neural_path_kernel" in example
    loaded = loaded_by(example, tmp_path)
    assert len(loaded) <= MOST, loaded
    assert not [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in ABOVE]
    nothing = "import dgn_engine.kernels, sys\nassert 'torch' not in sys.modules"
    assert len(loaded_by(nothing, tmp_path)) <= 5
