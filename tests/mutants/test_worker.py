"""A worker tells a change that the tests notice from one that they do not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.worker import LOADED, Trial

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "loaded",
    [
        pytest.param(("matplotlib.figure", "scipy"), id="little loaded"),
        pytest.param(LOADED, id="all loaded", marks=pytest.mark.faults),  # torch takes seconds
    ],
)
def test_an_unchanged_file_survives_and_a_broken_one_does_not(
    loaded: tuple[str, ...], tmp_path: Path
) -> None:
    """In a tree of its own, under the settings of this one."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "answer.py").write_text("ANSWER = 42\n")
    (tmp_path / "test_answer.py").write_text(
        "import answer\n\n\ndef test_it() -> None:\n    assert answer.ANSWER == 42\n"
    )
    trials = [
        Trial("answer.py", content, ("test_answer.py",), 60.0).to_json()
        for content in ("ANSWER = 42\n", "ANSWER = 43\n")
    ]
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.mutants.worker import main; main({loaded!r})"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
        input="\n".join(trials) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.split() == ["survived", "killed"]
    assert (tmp_path / "answer.py").read_text() == "ANSWER = 42\n"
