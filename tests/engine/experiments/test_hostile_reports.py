"""Names of others in reports: no row is forged, no tag, formula or link is made of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportUnit
from dgn_engine.experiments.report.write_report import write_files
from dgn_engine.protocol.experiments import Figure, PlottedLine
from dgn_engine.text.printable import printable
from tests.engine.experiments.documents import CLAIM, ROW, result
from tests.hostile_names import HOSTILE, hidden_characters
from tests.refusals import refused

ONE_LINE = (HOSTILE,)
FIGURE = Figure(
    "f", HOSTILE, HOSTILE, HOSTILE, (PlottedLine(HOSTILE, (0.0, 1.0), (1.0, 2.0)),), note=HOSTILE
)


def hostile_result() -> Document:
    texts = dict.fromkeys(("title", "paper", "about", "made", "scale", "protocol"), HOSTILE)
    rows = tuple(
        replace(ROW, label=f"{n}{HOSTILE}", remark=HOSTILE, place=(f"{n}{HOSTILE}", HOSTILE))
        for n in "12"
    )
    return result(
        **texts,
        rows=rows,
        claims=(replace(CLAIM, statement=HOSTILE, remark=HOSTILE),),
        figures=(FIGURE,),
        remarks=ONE_LINE,
        notices=ONE_LINE,
        answer=ONE_LINE,
        choices=ONE_LINE,
        scaled_down=ONE_LINE,
        units=(ReportUnit(HOSTILE, "failed", 1.0, f"Traceback\n  {HOSTILE}"),),
        versions={HOSTILE: HOSTILE},
        machine={"processor": HOSTILE},
        command=("reproduce", HOSTILE),
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report in which every text is hostile."""
    folder = tmp_path_factory.mktemp("report")
    tree = json.loads(document.to_bytes(hostile_result()))
    tree["rows"][0]["label"] = f"1{HOSTILE}"  # as a file of others has it
    (folder / "results.json").write_text(json.dumps(tree), encoding="utf-8")
    write_files(document.read_document(folder), folder)
    return folder


def test_no_file_of_a_report_hides_anything(report: Path) -> None:
    kinds = {".md", ".html", ".tex", ".csv", ".svg"}
    files = [file for file in report.rglob("*") if file.suffix in kinds]
    assert {file.suffix for file in files} == kinds
    for file in files:
        assert hidden_characters(file.read_text(encoding="utf-8")) <= {"\n", "\t"}, file


def test_a_page_has_no_tag_of_a_name(report: Path) -> None:
    page = (report / "report.html").read_text(encoding="utf-8")
    assert "&lt;img src=x&gt;" in page
    assert "<img" not in page
    assert "<b>" not in page
    assert "forged |</td>" not in page


def test_markdown_and_latex_have_a_line_for_each_row(report: Path) -> None:
    table = (report / "tables" / "npf-table2-rows.md").read_text(encoding="utf-8")
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    cells = [line.replace(r"\\", "").replace(r"\|", "").count("|") for line in lines]
    assert len(set(cells)) == 1
    assert "<b>" not in table.replace(r"\<", "")
    latex = (report / "tables" / "npf-table2-rows.tex").read_text(encoding="utf-8")
    body = latex.partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    assert len([line for line in body.splitlines() if line.endswith(r" \\")]) == 2
    assert r"\frac" not in body
    assert r"\$x" in body


def test_csv_has_a_line_for_each_row_and_no_formula(report: Path) -> None:
    text = (report / "tables" / "npf-table2-rows.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["label"] for row in rows] == [printable(f"{n}{HOSTILE}") for n in "12"]


def test_a_dollar_in_a_name_is_no_formula_of_a_figure(report: Path) -> None:
    drawn = (report / "figures" / "f.svg").read_text(encoding="utf-8")
    assert "<svg" in drawn
    from dgn_engine.experiments.report.mathematics import typeset

    assert typeset("$x^2$") == r"\$x^2\$"


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", 'x" onload="'])
def test_a_figure_whose_name_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    tree = json.loads(document.to_bytes(hostile_result()))
    tree["figures"][0]["name"] = name
    (tmp_path / "results.json").write_text(json.dumps(tree), encoding="utf-8")
    with refused("damaged"):
        document.read_document(tmp_path)


def test_what_goes_on_with_a_result_is_not_changed_by_escapes() -> None:
    made = hostile_result()
    assert made.command == ("reproduce", HOSTILE)
    assert made.units[0].trouble.startswith("Traceback\n")
    assert not hidden_characters(made.title)


@pytest.mark.parametrize(
    ("command", "goes_on"),
    [
        (("reproduce", "npf-table2", "--quick", "--seeds", "2", "--out", "HERE"), True),
        (("sweep", "x.toml", "--out", "HERE"), True),
        (("gate-information", "x.pt", "HERE/config.toml", "--seeds", "5", "--out", "HERE"), True),
        ((), False),
        (("kernels", "--model", "evil:make", "--out", "HERE"), False),
        (("runs", "delete", "HERE", "--yes", "--out", "HERE"), False),
        (("reproduce", "npf-table2", "--out", "HERE/other"), False),
        (("reproduce", "npf-table2", "--out", "HERE", "--out", "HERE"), False),
        (("reproduce", "npf-table2", "--out=HERE"), False),
        (("reproduce", "npf-table2", "--clu", "tcp://far:1", "--out", "HERE"), False),
        (("reproduce", "npf-table2", "--cluster=tcp://far:1", "--out", "HERE"), False),
        (("reproduce", "npf-table2", "--download", "--out", "HERE"), False),
        (("reproduce", "npf-table2", "--out"), False),
    ],
)
def test_only_a_command_that_makes_this_result_goes_on_with_it(
    command: tuple[str, ...], goes_on: bool, tmp_path: Path
) -> None:
    words = tuple(word.replace("HERE", str(tmp_path)) for word in command)
    assert document.can_resume_in(result(command=words), tmp_path) is goes_on


def test_a_report_of_a_network_goes_on_with_nothing(tmp_path: Path) -> None:
    words = ("reproduce", "npf-table2", "--out", str(tmp_path))
    report = replace(result(command=words), name="report")
    assert not document.can_resume_in(report, tmp_path)
