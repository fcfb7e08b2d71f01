"""docs/kernels.md is true: its examples run, its options, functions, sections and tests exist."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import dgn_engine.kernels as k
from dgn_engine.cli import main

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "kernels.md").read_text("utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (.+?) \| §(\d) \| `(\w+)` \| `(\w+)` \|$", re.MULTILINE)


def test_the_examples_run_one_after_the_other() -> None:
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(TEXT)
    assert len(blocks) >= 6
    with contextlib.redirect_stdout(io.StringIO()):
        for number, block in enumerate(blocks):
            exec(compile(block, f"docs/kernels.md, example {number + 1}", "exec"), names)


def test_the_options_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kernels", "--help"])
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help"}
    lines = [line for line in TEXT.splitlines() if line.startswith(("| `--", "    dgn kernels"))]
    assert set(re.findall(r"--[a-z][a-z-]+", " ".join(lines))) == known


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
