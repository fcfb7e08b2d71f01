"""`make gpu`: what it says without a card, and the page that it writes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu, gpu_case, gpu_page
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
            {"name": "c", "title": "A third", "skipped": "no time was left"},
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


def test_an_interpreter_without_the_packages_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "NEEDED", gpu.NEEDED | {"no_such_package": "no-such-package"})
    assert gpu.main(["--out", str(tmp_path / "gpu.json")]) == 3
    said = capsys.readouterr().err
    assert said.startswith("make gpu needs no-such-package, which ")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_command_is_stopped_when_its_time_is_over_and_its_output_kept() -> None:
    words = "print('begun', flush=True); import time; time.sleep(600)"
    code, said = gpu.run_for([sys.executable, "-c", words], 1.0, {})
    assert code is None
    assert said in ("begun\n", "")  # a crowded machine may not have come so far
    assert gpu.run_for([sys.executable, "-c", "raise SystemExit(5)"], 60.0, {}) == (5, "")


def test_cases_are_measured_by_rank_and_one_without_time_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = list(gpu_case.cases())
    assert names[:4] == ["fc_graphs", "packed", "cnn", "watching"]
    given: list[tuple[str, float]] = []
    clock = iter([0.0, 400.0, 441.0])
    monkeypatch.setattr(gpu, "now", lambda: next(clock))

    def case(name: str, title: str, quick: bool, seconds: float) -> gpu.Tree:
        given.append((name, seconds))
        return {"name": name}

    monkeypatch.setattr(gpu, "case", case)
    rows = gpu.table({"a": "A", "b": "B", "c": "C"}, False, 460.0)
    assert given == [("a", gpu.CASE_SECONDS), ("b", 60.0)]
    assert rows[2] == {"name": "c", "title": "C", "skipped": "no time was left"}
    assert gpu.TEST_SECONDS + gpu.CASE_SECONDS < gpu.LIMIT < 480


def test_a_case_that_fails_in_its_process_is_a_row_that_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for code, said, why in (
        (1, "RuntimeError: CUDA error: no luck.\n", "RuntimeError: CUDA error: no luck"),
        (None, "", "it was stopped after 30 s"),
        (-9, "", "exit code -9"),
    ):
        monkeypatch.setattr(gpu, "run_for", lambda *_, c=code, s=said: (c, s))
        assert gpu.case("a", "A", False, 30.0) == {"name": "a", "title": "A", "failed": why}


def test_the_process_of_a_case_writes_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Method("ours", lambda *_: lambda: torch.ones(1))
    case = Case("A case", 8, 2, (work,), ())

    def broken(*_: object) -> Any:
        raise RuntimeError("CUDA error: no luck\nmore")

    bad = Case("Another", 8, 2, (Method("ours", broken),), ())
    monkeypatch.setattr(gpu_case, "cases", lambda: {"a": case, "b": bad})
    out = tmp_path / "row.json"
    common = ["--out", str(out), "--quick", "--device", "cpu", "--rounds-for", "0"]
    assert gpu_case.main(["b", *common]) == 1
    assert capsys.readouterr().out == "RuntimeError: CUDA error: no luck\n"
    assert gpu_case.main(["a", *common]) == 0
    assert json.loads(out.read_text("utf-8"))["title"] == "A case"


def test_the_page_has_every_case_with_its_bar_and_marks_made_up_figures() -> None:
    lines = gpu_page.page(made_up()).splitlines()
    assert "**Not measured: these figures are made up, to try the page.**" in lines
    assert "Tests: passed: 80 passed in 60 s." in lines
    assert "| ours | 2 ms | 1.5 ms – 2.5 ms |" in lines
    assert "- met: 10× faster than theirs (bar ≥ 5×)" in lines
    assert "Not measured: RuntimeError: no room." in lines
    assert "Not measured: no time was left." in lines
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
