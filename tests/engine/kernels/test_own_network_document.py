"""docs/own-network.md is true: every block runs, and the commands print what stands there."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "own-network.md").read_text("utf-8")
BLOCK = re.compile(r'^```(\w+)(?: title="(.+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SECTIONS = (
    "An MLP",
    "A torchvision ResNet",
    "A residual network of your own",
    "A transformer block, K only",
    "From the command line",
)


def commands(block: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines that stand below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(part.splitlines()[0], part.splitlines()[1:]) for part in parts]


def test_every_block_of_the_page_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"__name__": "own_network"}
    found = BLOCK.findall(TEXT)
    assert {kind for kind, _, _ in found} == {"python", "console"}
    for number, (kind, title, block) in enumerate(found, start=1):
        if kind == "console":
            for command, lines in commands(block):
                done = subprocess.run(
                    command, shell=True, check=True, stdout=subprocess.PIPE, text=True
                )
                said = done.stdout.splitlines()
                assert [line for line in lines if line not in said] == []
        elif title:
            (tmp_path / title).write_text(block)
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block, f"docs/own-network.md, block {number}", "exec"), names)
    monkeypatch.delitem(sys.modules, "nets")


def test_the_page_has_an_example_of_each_kind() -> None:
    assert tuple(re.findall(r"^## (.+)$", TEXT, re.MULTILINE)) == SECTIONS
    for section in TEXT.split("\n## ")[1:]:
        assert "```python" in section
