"""`make gpu`: what it says without a card, and the page that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu, gpu_page
from benchmarks.case import Case, Faster, Measured, Method
from benchmarks.report import Row, tree
from dgn_engine.plugins import discover

DOCS = Path(__file__).parents[2] / "docs"


def made_up() -> dict[str, Any]:
    """In the shape that is recorded, and marked as not measured."""
    one, two = (Method(name, lambda *_: lambda: torch.zeros(1)) for name in ("ours", "theirs"))
    case = Case("A case", 8, 2, (one, two), (Faster("theirs", 5.0),))
    wall = (1.0, 1.0, 1.0)
    seconds = [Measured(one, (0.001, 0.002, 0.003), wall), Measured(two, (0.02, 0.02, 0.03), wall)]
    about = {
        "device": "a card", "torch": "2.13.0", "cuda": "13.0", "processor": "a processor",
        "cores": 4, "load": None, "date": "2000-01-01",
    }  # fmt: skip
    return {
        "measured": False, "machine": about, "quick": False, "seconds": 61.2,
        "tests": {"code": 0, "summary": "80 passed in 60 s", "seconds": 60.0},
        "cases": [
            tree(Row("a", case, 8, seconds, 1e-7, 0.5)),
            {"name": "b", "title": "Another", "failed": "RuntimeError: no room"},
        ],
    }  # fmt: skip


def test_without_a_card_it_says_so_in_one_sentence_and_touches_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out, page = tmp_path / "gpu.json", tmp_path / "gpu.md"
    assert gpu.main(["--out", str(out), "--page", str(page)]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == gpu.NO_CARD_WORDS + "\n"
    assert list(tmp_path.iterdir()) == []


def test_the_page_has_every_case_with_its_bar_and_marks_made_up_figures() -> None:
    lines = gpu_page.page(made_up()).splitlines()
    assert "**Not measured: these figures are made up, to try the page.**" in lines
    assert "Tests: passed: 80 passed in 60 s." in lines
    assert "| ours | 2 ms | 1.5 ms – 2.5 ms |" in lines
    assert "- met: 10× faster than theirs (bar ≥ 5×)" in lines
    assert "Not measured: RuntimeError: no room." in lines
    assert "made up" not in gpu_page.page(made_up() | {"measured": True})


def test_the_page_in_the_documentation_holds_no_figure_that_nobody_measured() -> None:
    text = (DOCS / "gpu.md").read_text("utf-8")
    if "Not measured yet" in text:
        assert text == gpu_page.page(None)
    assert "made up" not in text


def test_every_case_compares_with_a_method_it_has() -> None:
    cases = discover("benchmarks.gpu_cases", "CASE", Case)
    for case in cases.values():
        assert {bar.against for bar in case.bars} <= {method.name for method in case.methods}
    assert {"fc_graphs", "packed", "cnn", "fc_full", "watching"} <= set(cases)
