"""docs/safety.md and the tables of cases are made of what several runs of the tests wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.faults import report, tables

ROOT = Path(__file__).parents[2]
PAGE = f"before\n\n{report.BEGIN}\nold figures\n{report.END}\n\nafter\n"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(PAGE, "utf-8")
    return path


def fault(name: str, survived: int) -> dict[str, Any]:
    return {
        **{"fault": name, "injected": 2, "survived": survived, "lost": 0},
        **{"seconds": 0.0, "remark": ""},
    }


def file(kind: str, **other: Any) -> dict[str, Any]:
    usual = {"refused": True, "verdict": "a | b", "right": True, "ran": False, "seconds": 1.0}
    return {"kind": kind, **usual, "parent": 3 << 20, "child": 5 << 20, "stated": 1 << 20, **other}


def write(path: Path, **lists: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps(lists), "utf-8")
    return path


def make_report(page: Path, *results: Path) -> tuple[dict[str, str], str]:
    """Return the rows of the short table by their names, and the text of all cases."""
    cases = page.parent / "safety" / "cases.md"
    arguments = [*map(str, results), "--page", str(page), "--cases", str(cases)]
    assert report.main(arguments) == 0
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", page.read_text("utf-8"), re.MULTILINE)
    return dict(rows), cases.read_text("utf-8")


def test_a_row_that_was_measured_again_counts_once_and_as_it_was_the_last_time(
    tmp_path: Path, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [tmp_path / "one.json", tmp_path / "two.json"]
    for part, rows in zip(parts, ([fault("a", 1), fault("b", 2)], [fault("a", 2)]), strict=True):
        monkeypatch.setenv(tables.KEPT, str(part))
        tables.append_rows("faults", rows)
        assert len(json.loads(part.read_text("utf-8"))["faults"]) == len(rows)
    figures, cases = make_report(page, *parts)
    assert figures["Faults of programs and disks survived"] == "4 of 4"
    assert cases.index("| a | 2 | 2 |") < cases.index("| b | 2 | 2 |")
    assert cases.count("| a |") == 1
    assert tables.describe_machine() in page.read_text("utf-8")


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path, page: Path) -> None:
    make_report(page, write(tmp_path / "a.json", faults=[fault("a", 2)]))
    text = page.read_text("utf-8")
    assert text.startswith(f"before\n\n{report.BEGIN}\n")
    assert text.endswith(f"{report.END}\n\nafter\n")
    assert "old figures" not in text
    make_report(page, tmp_path / "a.json")
    assert page.read_text("utf-8") == text


def test_a_figure_without_data_is_not_measured(tmp_path: Path, page: Path) -> None:
    figures, cases = make_report(page, write(tmp_path / "a.json", hostile=[file("a")]))
    assert figures.pop("Hostile or odd checkpoint files").startswith("1: 1 refused")
    assert figures.pop("Files whose code ran") == "0"
    assert figures["Ordinary checkpoint files read bit for bit"] == report.NOT_MEASURED
    assert figures["Fuzzed inputs"] == report.NOT_MEASURED
    assert len(figures) <= 15
    assert "## Hostile and odd files" in cases
    assert "## Fuzzing" not in cases
    figures, _ = make_report(page, write(tmp_path / "b.json"))
    assert {value for name, value in figures.items() if name not in ("What was tried", "---")} == {
        report.NOT_MEASURED
    }


def test_what_went_wrong_is_in_the_figures_and_in_the_cases(tmp_path: Path, page: Path) -> None:
    guided = {"target": "zip", "how": "blind", "inputs": 7, "branches": "-", "broken": True}
    test = {"test": "tests/faults/test_x.py::test_y", "seconds": 2.0, "reason": ""}
    results = write(
        tmp_path / "a.json",
        hostile=[file("a"), file("b", ran=True, right=False, seconds=9.0)],
        guided=[guided],
        fuzzed=[{"sort": "each byte changed", "inputs": 1_000, "taken": 3}],
        faults=[fault("a", 1)],
        tests=[{**test, "outcome": "failed"}],
    )
    figures, cases = make_report(page, results)
    assert figures["Hostile or odd checkpoint files"].endswith("1 wrong")
    assert figures["Files whose code ran"] == "1"
    assert figures["Longest time for one file"] == "9.0 s"
    assert figures["Peak memory of a confined process"] == "5 MB"
    assert figures["Fuzzed inputs"] == "1,007; the reader broke in 1 of 2 campaigns"
    assert figures["Faults of programs and disks survived"] == "1 of 2"
    assert figures["Training lost to a kill, at most"] == report.NOT_MEASURED
    assert figures["Tests of `make faults`"] == "0 passed, 1 failed, 0 skipped"
    assert r"WRONG: a \| b" in cases
    assert "- failed: `tests/faults/test_x.py::test_y`" in cases
    assert "| test_x | 0 | 1 | 0 | 2 |" in cases


@pytest.mark.parametrize("text", [None, "{"], ids=["missing", "not JSON"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_written(
    text: str | None, tmp_path: Path, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, cases = tmp_path / "none.json", tmp_path / "cases.md"
    if text is not None:
        results.write_text(text, "utf-8")
    assert report.main([str(results), "--page", str(page), "--cases", str(cases)]) == 2
    assert "none.json" in capsys.readouterr().err
    assert page.read_text("utf-8") == PAGE
    assert not cases.exists()


def test_a_page_without_marks_is_left_as_it_is(
    tmp_path: Path, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page.write_text("by hand", "utf-8")
    results, cases = write(tmp_path / "a.json"), tmp_path / "cases.md"
    assert report.main([str(results), "--page", str(page), "--cases", str(cases)]) == 2
    assert str(page) in capsys.readouterr().err
    assert page.read_text("utf-8") == "by hand"


def test_docs_safety_can_be_read_in_three_minutes_and_takes_the_figures() -> None:
    path = ROOT / "docs" / "safety.md"
    by_hand = report.replace_figures(path, "")
    assert f"{report.BEGIN}\n\nnew\n\n{report.END}" in report.replace_figures(path, "new")
    assert len(re.findall(r"\w[\w.,'’-]*", by_hand)) <= 620  # and some 130 of figures
