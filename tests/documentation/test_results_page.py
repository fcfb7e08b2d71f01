"""docs/results.md says what the kept results say, which printed rows were run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.experiments import Request
from dgn_engine.experiments import find_experiment as find
from dgn_engine.experiments._published import find_printed
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.workshop_table4 import COLUMNS
from dgn_engine.protocol.experiments import Printed
from documentation import results_page
from documentation.results_page import (
    PAGE,
    SAME_NETWORKS,
    TABLES,
    keep,
    kept,
    main,
    taken_claims,
    written,
)
from tests.engine.experiments.documents import CLAIM, EXACT, MISSED, result

ROW = "FC(w=128,d=6)/Adam/MNIST"


def measured(column: str, mean: float, margin: float = 0.5) -> ReportRow:
    return ReportRow(
        f"{ROW} {column}",
        tuple(mean + 0.05 * step for step in (-2, -1, 0, 1, 2)),
        mean,
        0.1,
        Printed(98.0, 0.1, margin),
        mean - 98.0,
        seconds=60.0,
        place=(ROW, column),
    )


def made(**given: object) -> Document:
    rows = (measured("ReLU", 98.1), measured("FLNPF", 97.0))
    return result(**{"scale": "full", "rows": rows, "protocol": "as-in-code", **given})


def rows_of(page: str, table: str) -> str:
    """Return the line that says at which scale each row of a printed table was run."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"- **{table}.**")]
    return line


def test_the_page_is_what_the_kept_results_say() -> None:
    text = PAGE.read_text("utf-8")
    assert written(kept()) == text, "python -m documentation.results_page write"
    assert len(text.split()) <= 1300


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
    within = made().rows[0].agreement.within
    cell = f"98.10 (98.00), ±{within:.2f}"
    assert f"| {ROW} (full scale, as-in-code, 5 seeds) | {cell} |" in page
    assert rows_of(page, "[DUAL] Experiment 2").endswith("No kept result: 4 of 4 rows.")


def test_a_row_is_listed_at_the_best_scale_at_which_it_was_run() -> None:
    reduced = made(scale="reduced", notices=("Reduced scale: 3 of 60 epochs.",))
    assert f"Reduced scale: {ROW}" in rows_of(written([reduced]), "[NPF] Table 2")
    assert f"Full scale: {ROW}" in rows_of(written([reduced, made()]), "[NPF] Table 2")
    row = replace(measured("ReLU", 90.0), remark=f"published for {ROW}: 98.1", place=None)
    quick = made(scale="quick", rows=(row,))
    assert f"Quick scale: {ROW}" in rows_of(written([quick]), "[NPF] Table 2")


def test_every_result_leads_to_the_page_of_its_experiment() -> None:
    page = written([made(request={"only": "FC"})])
    assert "[npf-table2](experiments/npf-table2.md), FC, as-in-code (2 h)" in page


def test_printed_means_agree_within_a_margin_and_old_ones_declared_none() -> None:
    old = replace(measured("DNPFL", 98.0), printed=Printed(98.0, 0.1))
    result = made(rows=(*made().rows, old))
    margins = [row.agreement.within for row in result.rows]
    page = written([result])
    assert f"3 agree with ours within ±{min(margins):.2f} to ±{max(margins):.2f} points" in page
    assert "1 agree within it, 1 differ by more, 1 had none" in page


def test_verdicts_are_counted_by_claim_and_claims_that_nobody_judged_are_named() -> None:
    page = written([made(claims=(*made().claims, CLAIM))])
    assert (
        "**Full scale**: Statistical claims: 1 held, 1 not held, 1 not decided "
        "(4 verdicts on 3 claims). Exact claims: 1 held (1 verdict on 1 claim)." in page
    )
    (missing,) = [line for line in page.splitlines() if line.startswith("- No verdict yet:")]
    assert "npf-2" in missing
    assert "npf-3" in missing, "its line only says how to measure it"


@pytest.fixture
def no_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rates in made-up worlds, which are columns of the table of claims."""
    monkeypatch.setattr(results_page, "WORLDS", tmp_path / "worlds.json")


@pytest.mark.usefixtures("no_worlds")
def test_a_claim_has_its_worst_verdict_at_its_best_scale() -> None:
    quick = made(scale="quick", claims=(CLAIM, replace(EXACT, id="ws-2"), MISSED))
    assert "| npf-1 | held at quick scale |" in written([quick])
    assert "| ws-2 | held |" in written([quick]), "exact ones have no scale"
    full = made(claims=(CLAIM, replace(CLAIM, verdict="not decided")))
    page = written([quick, full])
    assert "| npf-1 | not decided |" in page
    assert "| dgn-1 | not held at quick scale |" in page


def test_a_claim_has_the_rates_of_its_worst_worlds_if_these_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_page, "WORLDS", tmp_path / "worlds.json")
    assert "world" not in written([made()])
    kinds = {"experiment": "npf-table2", "claim": "npf-1", "n": 5, "draws": 400}
    entries = [
        {**kinds, "statistic": "a", "null": 0.0125, "paper": 0.99},
        {**kinds, "statistic": "b", "null": 0.031, "paper": None},
    ]
    results_page.WORLDS.write_text(json.dumps(entries))
    page = written([made()])
    assert "| npf-1 | 3 | 99 | held |" in page
    assert "| dgn-1 | – | – | not held |" in page


def test_arch_1_has_the_networks_and_numbers_of_a_row_of_table_2() -> None:
    columns = dict(zip(COLUMNS, ("ReLU", "DNPFL", "FRNPF(II)", "FRNPF(DI)", "FLNPF"), strict=False))
    for row, same in SAME_NETWORKS.items():
        plans = [
            {unit.id.removeprefix(prefix): unit for unit in find(name).plan(request).units}
            for name, request, prefix in (
                ("npf-table2", Request("full", "as-in-code", only=same), "fc-"),
                ("workshop-table4", Request("full", "as-in-code", only=row), "Arch-1-"),
            )
        ]
        for unit_id, unit in plans[0].items():
            twin = plans[1][unit_id]
            assert (twin.config, bool(twin.gates_from)) == (unit.config, bool(unit.gates_from))
        for column, its in columns.items():
            ours = find_printed("npf_workshop_table4", row, column)
            assert ours == find_printed("npf_npk_2020_table2", same, its)


@pytest.mark.usefixtures("no_worlds")
def test_arch_1_takes_columns_and_claims_of_table_2_unless_it_was_run() -> None:
    arch = "Arch-1 w=128 d=6 Adam MNIST"
    share = replace(CLAIM, id="npf-8", statistic=f"{ROW}: (FL − FR)/(ReLU − FR) in %; above 50")
    near = replace(share, statistic=share.statistic.replace("above 50", "within ±25 of 62.5"))
    results = [made(claims=(share, near, CLAIM))]
    assert [(claim.id, claim.verdict) for claim in taken_claims(results)] == [
        ("ws-5", "held"),
        ("ws-6", "held"),
    ]
    assert taken_claims(results)[0].statistic == f"{arch}: (FL − FR)/(ReLU − FR) in %; above 50"
    page = written(results)
    assert "| ws-5 | held |" in page
    line = rows_of(page, "[WS] Table 4")
    assert f"Five columns from [NPF] Table 2, whose networks are the same: {arch}; ws-5" in line
    assert line.endswith("No kept result: 8 of 9 rows.")
    row = replace(measured("ReLU", 98.1), place=(arch, "ReLU"))
    own = made(name="workshop-table4", rows=(row,))
    assert taken_claims([*results, own]) == []
    assert f"Full scale: {arch}." in rows_of(written([*results, own]), "[WS] Table 4")
    assert taken_claims([made(claims=(share,), scale="reduced")]) == []


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
