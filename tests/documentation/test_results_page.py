"""docs/results.md says what the kept results say, which printed rows were run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.protocol.experiments import Printed
from documentation import results_page
from documentation.results_page import PAGE, TABLES, keep, kept, main, written
from tests.engine.experiments.documents import result

ROW = "FC(w=128,d=6)/Adam/MNIST"


def measured(column: str, mean: float, p: float) -> ReportRow:
    return ReportRow(
        f"{ROW} {column}",
        (mean,) * 5,
        mean,
        0.1,
        Printed(98.0, 0.1),
        mean - 98.0,
        seconds=60.0,
        welch_p=p,
        place=(ROW, column),
    )


def made(**given: object) -> Document:
    rows = (measured("ReLU", 98.1, 0.2), measured("FLNPF", 97.0, 0.001))
    return result(**{"scale": "full", "rows": rows, "protocol": "as-in-code", **given})


def rows_of(page: str, table: str) -> str:
    """Return the line that says at which scale each row of a printed table was run."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"- **{table}.**")]
    return line


def test_the_page_is_what_the_kept_results_say() -> None:
    text = PAGE.read_text("utf-8")
    assert written(kept()) == text, "python -m documentation.results_page write"
    assert len(text.split()) <= 900


def test_kept_results_say_nothing_of_the_machines_folders() -> None:
    for one in kept():
        assert not one.request.get("data_root"), one.name
        assert not {"--data-root", "--out"} & set(one.command), one.name
        assert not one.units, one.name


def test_every_printed_row_is_named_or_counted() -> None:
    page = written([made()])
    for table in TABLES:
        assert rows_of(page, table.title)
    assert rows_of(page, "[NPF] Table 2") == (
        f"- **[NPF] Table 2.** Full scale: {ROW}. No kept result: 5 of 6 rows."
    )
    assert f"| {ROW} (full scale, as-in-code, 5 seeds) | 98.10 ± 0.10 (98.00 ± 0.10) |" in page
    assert rows_of(page, "[DUAL] Experiment 2").endswith("No kept result: 4 of 4 rows.")


def test_a_row_is_listed_at_the_best_scale_at_which_it_was_run() -> None:
    reduced = made(scale="reduced", notices=("Reduced scale: 3 of 60 epochs.",))
    assert f"Reduced scale: {ROW}" in rows_of(written([reduced]), "[NPF] Table 2")
    assert f"Full scale: {ROW}" in rows_of(written([reduced, made()]), "[NPF] Table 2")
    row = replace(measured("ReLU", 90.0, math.nan), remark=f"published for {ROW}: 98.1", place=None)
    quick = made(scale="quick", rows=(row,))
    assert f"Quick: {ROW}" in rows_of(written([quick]), "[NPF] Table 2")


def test_every_result_leads_to_the_page_of_its_experiment_with_its_claims() -> None:
    page = written([made(request={"only": "FC"})])
    assert "| [npf-table2](experiments/npf-table2.md), FC, as-in-code |" in page
    assert "| held | not held | not decided |" in page


def test_printed_means_differ_only_after_holm() -> None:
    found = written([made()])
    assert "1 of 2 differ" in found
    assert f"{ROW} FLNPF (−1.00)" in found
    weak = made(rows=(measured("ReLU", 98.1, 0.03), measured("FLNPF", 97.0, 0.04)))
    assert "0 of 2 differ" in written([weak])


def test_verdicts_are_counted_and_claims_that_nobody_judged_are_named() -> None:
    page = written([made()])
    assert "**Full scale**: 2 held, 1 not held, 1 not decided (4 verdicts on 4 claims)" in page
    assert "No verdict yet:" in page
    assert "npf-2" in page


def test_a_result_is_kept_without_its_runs_and_without_the_folders_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results_page, "KEPT", tmp_path / "kept")
    command = ("reproduce", "npf-table2", "--data-root", "/home/me", "--full", "--out", "/x")
    path = keep(made(command=command, request={"data_root": "/home/me", "only": "a/b c"}))
    assert path.name == "npf-table2-full-as-in-code-a-b-c.json"
    assert "/home/me" not in path.read_text("utf-8")
    assert document.read_document(path).command == ("reproduce", "npf-table2", "--full")
    assert [one.rows for one in kept()] == [made().rows]
    (tmp_path / "open").mkdir()
    open_ = document.to_bytes(made(state="interrupted"))
    (tmp_path / "open" / "results.json").write_bytes(open_)
    assert main(["keep", str(tmp_path / "open")]) == 2
    assert "only whole ones are kept" in capsys.readouterr().err
