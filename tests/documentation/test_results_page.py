"""docs/results.md says what the kept results say, and which printed rows were run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.protocol.experiments import Printed
from documentation import results_page
from documentation.results_page import PAGE, TABLES, keep, kept, main, renewed
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


def generated(*results: Document) -> str:
    return renewed(f"{results_page.BEGIN}{results_page.END}", results)


def lines_of(page: str, row: str) -> list[str]:
    return [line for line in page.splitlines() if f"| {row} |" in line]


def test_the_page_is_what_the_kept_results_say() -> None:
    page = PAGE.read_text("utf-8")
    assert renewed(page, kept()) == page, "python -m documentation.results_page write"


def test_kept_results_say_nothing_of_the_machines_folders() -> None:
    for one in kept():
        assert not one.request.get("data_root"), one.name
        assert not {"--data-root", "--out"} & set(one.command), one.name
        assert not one.units, one.name


def test_every_printed_row_has_a_line_also_those_that_were_not_run() -> None:
    page = generated(made())
    for table in TABLES:
        for row in table.rows:
            assert lines_of(page, row), (table.title, row)
    (line,) = lines_of(page, ROW)
    assert "full scale" in line
    assert "n = 5 seeds" in line
    assert "FLNPF 97.00 / 98.00" in line
    (earlier,) = lines_of(page, "GCONV/Adam/CIFAR-10")
    assert "reduced scale | 2,000 images" in earlier
    (other,) = lines_of(page, "VCONV/Adam/CIFAR-10")
    assert "not run" in other


def test_a_row_is_listed_at_the_best_scale_at_which_it_was_run() -> None:
    reduced = made(scale="reduced", notices=("Reduced scale: 3 of 60 epochs.",))
    (line,) = lines_of(generated(reduced), ROW)
    assert "reduced scale" in line
    assert "3 of 60 epochs" in line
    (line,) = lines_of(generated(reduced, made()), ROW)
    assert "full scale" in line
    row = replace(measured("ReLU", 90.0, math.nan), remark=f"published for {ROW}: 98.1", place=None)
    (line,) = lines_of(generated(made(scale="quick", rows=(row,))), ROW)
    assert "quick only" in line


def test_printed_means_differ_only_after_holm() -> None:
    found = generated(made())
    assert "1 of 2 differ" in found
    assert f"{ROW} FLNPF (−1.00)" in found
    weak = made(rows=(measured("ReLU", 98.1, 0.03), measured("FLNPF", 97.0, 0.04)))
    assert "0 of 2 differ" in generated(weak)


def test_verdicts_are_counted_and_claims_that_nobody_judged_are_named() -> None:
    page = generated(made())
    assert "**Full scale**: 2 held, 1 not held, 1 undecided (4 verdicts on 4 claims)" in page
    assert "Not judged at all:" in page
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
