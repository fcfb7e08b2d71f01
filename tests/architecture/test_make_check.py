"""`make check`: a test of each plug-in, the documents that are read first, and a real window."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from dgn_engine.data import data_sets
from dgn_engine.model.nets import all_nets
from dgn_engine.plugins import plugin_names
from dgn_engine.regimes import all_regimes
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.training.probes import all_probes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checked() -> dict[str, list[str]]:
    """The cases of `make check` by the folder of their tests, collected as the Makefile does."""
    modules = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.check" in path.read_text("utf-8")
    ]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-m", "check and not nightly", *modules],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    cases: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"tests/((?:engine/)?\w+)/.*::(.*)", line):
            cases.setdefault(match[1], []).append(match[2].lower().replace("-", "_"))
    return cases


def missing(names: Iterable[str], cases: Iterable[str]) -> list[str]:
    text = " ".join(cases)
    return [name for name in names if name.lower().replace("-", "_") not in text]


@pytest.mark.discovery
def test_every_plug_in_has_a_case_in_make_check(checked: dict[str, list[str]]) -> None:
    regimes = [regime.name for regime in all_regimes()]
    assert missing(regimes, checked["engine/kernels"]) == []
    assert missing(all_nets(), checked["engine/kernels"]) == []
    assert missing(all_probes(), checked["engine/training"]) == []
    assert missing(data_sets(), checked["engine/data"]) == []
    assert missing(plugin_names("dgn_engine.experiments"), checked["engine/experiments"]) == []


@pytest.mark.discovery
def test_every_panel_a_window_and_the_first_documents_are_in_make_check(
    checked: dict[str, list[str]],
) -> None:
    ours = {name for name, spec in all_panels().items() if "dgn_engine" in spec.draw.__module__}
    assert missing(ours, checked["engine/panels"]) == []
    assert len(checked["viewer"]) >= 1
    how_to = [f"docs/how-to/{path.name}" for path in (ROOT / "docs/how-to").glob("*.md")]
    shown = [page for page in how_to if "\n    dgn " in (ROOT / page).read_text("utf-8")]
    assert missing(["readme.md", *shown], checked["documentation"]) == []
