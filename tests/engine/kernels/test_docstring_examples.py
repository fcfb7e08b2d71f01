"""The examples in the docstrings of the library give what they say."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import dgn_engine

ROOT = Path(dgn_engine.__file__).parent
FOLDERS = ("kernels", "importing", "attachment")
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_give_what_they_say(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_main_functions_have_an_example() -> None:
    from dgn_engine import kernels

    for name in ("adapt", "empirical_ntk", "spectrum", "layer_overlap", "class_targets"):
        assert ">>> " in (getattr(kernels, name).__doc__ or "")
