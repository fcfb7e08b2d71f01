"""Columns side by side; the last one gives way."""

from __future__ import annotations

import pytest

from dgn_engine.cli.run.list_experiments import say_table


def test_columns_stand_side_by_side_and_the_last_is_folded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = " ".join(["word"] * 40)
    rows = [("a", "10", "short"), ("bcdefg", "1", long), ("x\x1b", "", "")]
    say_table(("name", "n", "what"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["name    n   what", "a       10  short"]
    assert lines[2].startswith("bcdefg  1   word word")
    assert lines[3].startswith(" " * 12 + "word")
    assert max(map(len, lines)) <= 160
    assert lines[4] == "x\\x1b"
