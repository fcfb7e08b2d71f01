"""Tables to paste: the paper's grid and the long form, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.experiments.report.document import Document, ReportRow
from dgn_engine.experiments.report.html import render_html
from dgn_engine.experiments.report.latex import escape_latex, latex_grid, latex_rows
from dgn_engine.experiments.report.markdown import render_markdown
from dgn_engine.experiments.report.paper_table import paper_table
from dgn_engine.experiments.report.table_files import table_files
from dgn_engine.protocol.experiments import PRINTED_SPREAD, Printed
from tests.engine.experiments.documents import BARE, ROW, result
from tests.snapshots import Recorded

NAN = math.nan


def cell(row: str, column: str, *values: float, printed: Printed | None = None) -> ReportRow:
    mean = sum(values) / len(values) if values else NAN
    half = 0.25 if len(values) > 1 else NAN
    return ReportRow(f"{row} {column}", values, mean, half, printed, NAN, place=(row, column))


ROWS = (
    cell("FC_1", "ReLU", 98.0, 98.5, printed=Printed(97.85, 0.09)),
    cell("FC_1", "FR", 95.0, 96.0),
    cell("50 % & more", "ReLU", -1.0, 1.5),
)
MADE = result(rows=(*ROWS, BARE), columns=("FR", "ReLU", "DL"))


def test_the_grid_has_the_papers_columns_and_the_printed_numbers_below_ours() -> None:
    grid = paper_table(MADE)
    assert grid is not None
    assert grid.columns == ("FR", "ReLU"), "in the paper's order, without the empty one"
    assert [(line.label, line.cells, line.of_paper) for line in grid.lines()] == [
        ("FC_1", ("95.50 ± 0.25", "98.25 ± 0.25"), False),
        ("printed", ("–", "97.85 ± 0.09"), True),
        ("50 % & more", ("–", "0.25 ± 0.25"), False),
    ]
    said = " ".join(grid.notes())
    for part in ("Mean in %", "95 %", "n = 2 seeds", PRINTED_SPREAD, "quick, as-published"):
        assert part in said


def test_counts_that_differ_stand_in_the_cells_and_a_single_value_has_no_interval() -> None:
    other = replace(ROWS[1], values=(95.0,), half_width=NAN)
    grid = paper_table(result(rows=(ROWS[0], other)))
    assert grid is not None
    assert next(grid.lines()).cells == ("98.25 ± 0.25 (2 seeds)", "95.50 (1 seed)")
    assert "n values, n in brackets" in " ".join(grid.notes())
    alone = paper_table(result(rows=(replace(other, of="networks"),)))
    assert alone is not None
    assert next(alone.notes()).endswith(", n = 1 network.")
    bare = paper_table(result(rows=(replace(ROWS[0], printed=Printed(1.0)),)))
    assert bare is not None
    assert "±" not in list(bare.notes())[1]
    plain = paper_table(result(rows=(replace(ROWS[0], unit=""),)))
    assert plain is not None
    assert next(plain.notes()).startswith("Mean ± half-width")


def test_rows_without_places_make_no_grid() -> None:
    assert paper_table(result()) is None
    assert set(table_files(result())) == {
        "npf-table2-rows.md",
        "npf-table2-rows.csv",
        "npf-table2-rows.tex",
    }
    assert table_files(result(rows=())) == {}
    assert set(table_files(MADE)) >= {"npf-table2.md", "npf-table2.csv", "npf-table2.tex"}


def test_the_tables_of_a_result(recorded: Recorded) -> None:
    files = table_files(MADE)
    recorded({name: files[name].decode().splitlines() for name in sorted(files)})
    assert "siunitx" not in "".join(map(bytes.decode, files.values()))


def test_a_report_has_the_papers_table_before_its_rows() -> None:
    report = render_markdown(MADE)
    assert report.index("## In the layout of") < report.index("## Measured")
    assert f"A printed ± is {PRINTED_SPREAD}, not" in report
    page = render_html(MADE)
    assert '<tr class=printed><th scope="row">printed</th><td class="number">–</td>' in page
    assert '<th scope="row">50 % &amp; more</th>' in page
    assert "<code>tables/npf-table2.tex</code>" in page
    assert page.count("<h2>") == render_html(result()).count("<h2>") + 1


def read_csv(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(table_files(MADE)[name].decode())))


def test_csv_has_each_number_in_a_column_of_its_own_in_full() -> None:
    fr, relu, more = read_csv("npf-table2.csv")
    assert (relu["row"], relu["column"], relu["n"], relu["of"]) == ("FC_1", "ReLU", "2", "seeds")
    numbers = ("mean", "half_width", "sd", "printed", "printed_sd")
    assert [float(relu[name]) for name in numbers] == pytest.approx(
        [98.25, 0.25, 0.5 / math.sqrt(2), 97.85, 0.09]
    )
    assert [fr[name] for name in ("printed", "printed_sd", "difference")] == ["", "", ""]
    assert more["label"] == "50 % & more ReLU"
    third = table_files(result(rows=(replace(ROWS[0], mean=1 / 3),)))["npf-table2.csv"]
    assert b"0.3333333333333333" in third
    *_, bare = read_csv("npf-table2-rows.csv")
    assert (bare["label"], bare["row"], bare["mean"], bare["sd"]) == ("ν | of H", "", "1234.5", "")
    words = {"label", "row", "column", "unit", "of"}
    for row in read_csv("npf-table2-rows.csv"):
        for name in row.keys() - words:
            assert not row[name] or math.isfinite(float(row[name])), name


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (
            "50 % & a_b #1 {x} a~b\\c",
            r"50 \% \& a\_b \#1 \{x\} a\textasciitilde{}b"
            r"\textbackslash{}c",
        ),
        ("costs 3 $", r"costs 3 \$"),
        ("2 ± 1 − 3", r"2 $\pm$ 1 $-$ 3"),
        ("K^V_0 goes to βH", r"$K^{V}_{0}$ goes to $\beta H$"),
        ("x^v = 1", r"$x^{v} = 1$"),
        ("my^net", r"my\textasciicircum{}net"),
        ("ν of H, γ = 25 %", r"$\nu $ of H, $\gamma $ = 25 \%"),
        ("‖e‖²/‖e_0‖²", r"$\|e\|^{2}$/$\|e_{0}\|^{2}$"),
        ("é – 中 „“", "é -- U+4E2D U+201E``"),
        ("a\nb", "a b"),
    ],
)
def test_words_are_set_in_latex_letter_by_letter(words: str, wanted: str) -> None:
    assert escape_latex(words) == wanted


def test_numbers_in_cells_have_signs_powers_and_words_as_latex_has_them() -> None:
    small = replace(ROW, mean=-1.5e-7, half_width=2.5e7, unit="", difference=-0.25)
    made = latex_rows(result(rows=(small,)))
    assert r"$-1.5\times 10^{-7} \pm 2.5\times 10^{7}$" in made
    assert r"$-0.25$" in made


def test_long_heads_and_labels_are_stacked() -> None:
    long = cell("CNN (4 conv x128, 3x3, stride 1, GAP, dense)", "NPF trained, random labels", 1.0)
    made = latex_grid(result(), paper_table(result(rows=(long,))))  # type: ignore[arg-type]
    assert r"\shortstack[c]{NPF trained,\\random labels}" in made
    assert r"\shortstack[l]{CNN (4 conv x128, 3x3, stride 1,\\GAP, dense)}" in made


def test_a_wide_table_has_smaller_type_and_shorter_labels() -> None:
    columns = [f"column {n}" for n in range(7)]
    wide = tuple(cell("Arch-1 w=128 d=6 Adam MNIST", c, 97.0, 98.0) for c in columns)
    made = latex_grid(result(), paper_table(result(rows=wide)))  # type: ignore[arg-type]
    assert "\n  \\footnotesize\\setlength{\\tabcolsep}{3pt}\n  \\begin{tabular}" in made
    assert r"\shortstack[l]{Arch-1 w=128 d=6\\Adam MNIST}" in made
    assert "size" not in latex_grid(MADE, paper_table(MADE))  # type: ignore[arg-type]


def hostile() -> Document:
    label = 'a_b & 100 % of #1 {$x$} ~ \\ ^ <γ = 25 %> ‖e‖² K^V_0 – 中 é | "q"'
    rows = (cell(label, "ν & β", 1e-9, -2e9, printed=Printed(1.0, 0.5)), BARE, *ROWS)
    return result(rows=rows, title=label, name="a_b%c", command=("reproduce", "a\nb", "$%"))


def test_every_table_is_balanced_whatever_the_words_are() -> None:
    grid = paper_table(hostile())
    assert grid is not None
    for made in (latex_grid(hostile(), grid), latex_rows(hostile())):
        body = re.sub(r"\\.", "", "\n".join(made.splitlines()[2:]))
        assert body.count("{") == body.count("}")
        assert body.count("$") % 2 == 0
        assert not re.search("[^\x00-ſ]", body)
        lines = [x for x in made.splitlines() if x.endswith(r" \\")]
        assert len({line.replace(r"\&", "").count("&") for line in lines}) == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex")
def test_latex_sets_the_tables_with_booktabs_alone(tmp_path: Path) -> None:
    found = hostile()
    tables = [c.decode() for n, c in table_files(found).items() if n.endswith(".tex")]
    tables += [c.decode() for n, c in table_files(MADE).items() if n.endswith(".tex")]
    text = "\n".join(
        (
            r"\documentclass{article}",
            r"\usepackage{booktabs}",
            r"\begin{document}",
            *tables,
            r"\end{document}",
        )
    )
    (tmp_path / "paper.tex").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]
