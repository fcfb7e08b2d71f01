"""The tables of docs/safety.md are made of what several runs have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults import report, tables


def fault(name: str, survived: int) -> dict[str, Any]:
    return {
        **{"fault": name, "injected": 2, "survived": survived, "lost": 0},
        **{"seconds": 0.0, "remark": ""},
    }


def test_a_row_that_was_measured_again_counts_once_and_as_it_was_the_last_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [tmp_path / "one.json", tmp_path / "two.json"]
    for part, rows in zip(parts, ([fault("a", 1), fault("b", 2)], [fault("a", 2)]), strict=True):
        monkeypatch.setenv(tables.KEPT, str(part))
        tables.keep("faults", rows)
        assert len(json.loads(part.read_text("utf-8"))["faults"]) == len(rows)
    page = tmp_path / "page.md"
    page.write_text(f"by hand\n\n{report.MARK}\nold tables\n", "utf-8")
    assert report.main([*map(str, parts), "--into", str(page)]) == 0
    written = page.read_text("utf-8")
    assert written.startswith("by hand\n")
    assert "old tables" not in written
    assert "| faults injected, survived | 4, 4 |" in written
    assert written.index("| a | 2 | 2 |") < written.index("| b | 2 | 2 |")
    assert written.count("| a |") == 1


def test_what_is_missing_is_named_and_the_page_is_left_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("by hand", "utf-8")
    assert report.main([str(tmp_path / "none.json"), "--into", str(page)]) == 2
    assert "none.json is not there" in capsys.readouterr().err
    assert page.read_text("utf-8") == "by hand"
