"""How a result is shown: numbers, cells, facts, tables in Markdown, HTML and on a terminal."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from dgn_engine.experiments.report import document, formatting
from dgn_engine.experiments.report.html import render_html
from dgn_engine.experiments.report.markdown import render_markdown
from dgn_engine.experiments.report.terminal import print_document
from dgn_engine.protocol.experiments import Figure, Outlier, Printed
from tests.engine.experiments.documents import BARE, CLAIM, EXACT, MISSED, OPEN, ROW, result
from tests.refusals import refused
from tests.snapshots import Recorded

SIZES = (
    97.614, -0.444, 999.94, 1000.0, -1000.0, 12345.0, 999999.0, 1e6, -1e6, 0.001, 0.00099, 0.123456,
    0.0, math.inf, math.nan,
)  # fmt: skip


def test_numbers_are_shown_as_recorded(recorded: Recorded) -> None:
    """As percents, plain, and plain with their sign."""
    kinds = (("%", False), ("", False), ("", True))
    recorded({size: [formatting.format_number(size, *kind) for kind in kinds] for size in SIZES})


def test_epochs_are_short_and_nothing_where_nothing_is_trained() -> None:
    assert [formatting.format_epochs(v) for v in (40.0, 0.0, 2.5, math.nan)] == [
        "40",
        "0",
        "2.5",
        "–",
    ]


def test_cells_and_facts_of_a_result(recorded: Recorded) -> None:
    above = replace(ROW, difference=0.5, printed=Printed(3.0))
    rows = [
        formatting.row_cells(result(), ROW),
        formatting.row_cells(result(scale="full", protocol="as-in-code"), BARE),
        formatting.row_cells(result(), above),
        formatting.row_cells(result(), replace(ROW, mean=math.nan)),
    ]
    claims = [formatting.claim_cells(claim) for claim in (CLAIM, EXACT, OPEN)]
    half = replace(CLAIM, high=math.nan), replace(CLAIM, low=math.inf)
    assert {formatting.format_interval(claim) for claim in half} == {"–"}
    recorded({"rows": rows, "claims": claims, "facts": dict(formatting.report_facts(result()))})


@pytest.mark.parametrize("wall", [None, 0.5, 1.0])
def test_facts_leave_out_what_nobody_asked_or_measured(wall: float | None) -> None:
    machine = {"wall_seconds": wall}
    plain = result(request={"seeds": 0}, units=(), command=(), machine=machine)
    found = dict(formatting.report_facts(plain))
    assert not {"requested options", "last session", "created by"} & set(found)
    assert found["state"] == "done"


def test_verdicts_are_counted() -> None:
    full, quick = result(scale="full"), result(scale="quick")
    assert formatting.count_verdicts(full) == {"held": 2, "not decided": 1, "not held": 1}
    assert formatting.list_verdicts(full) == "1 held, 1 not held, 1 not decided, 1 exact held"
    assert formatting.list_verdicts(quick).startswith("1 held, 1 not held, 1 not decided at quick")
    assert formatting.list_verdicts(result(claims=())) == ""


def test_the_headline_counts_each_claim_once_and_exact_ones_apart() -> None:
    fails = replace(CLAIM, verdict="not held", outlier=Outlier(2, 91.2, 14.0))
    claims = (CLAIM, CLAIM, fails, OPEN, replace(OPEN, verdict="held"), MISSED, EXACT, EXACT)
    assert formatting.summarize_verdicts(claims, "quick") == (
        "Statistical claims at quick scale: 2 not held, 1 not decided "
        "(6 verdicts on 3 claims, 1 with an outlier). "
        "Exact claims: 1 held (2 verdicts on 1 claim)."
    )
    alone = formatting.summarize_verdicts((CLAIM,))
    assert alone == "Statistical claims: 1 held (1 verdict on 1 claim)."
    assert formatting.summarize_verdicts(()) == ""


def test_an_outlier_is_named_beside_its_row_and_its_claim() -> None:
    far = Outlier(12, 91.2, 14.0)
    said = "seed 12 is an outlier: 91.2, 14 standard deviations from the others"
    row, claim = replace(ROW, outlier=far), replace(CLAIM, outlier=far, flip_low=2.0, flip_high=2.5)
    made = result(rows=(row,), claims=(claim,), scale="full")
    assert formatting.row_cells(made, row)[-1] == f"so; {said}"
    cells = dict(zip(formatting.CLAIM_HEADS, formatting.claim_cells(claim), strict=True))
    assert said in cells["remark"]
    assert cells["sign-flip interval"] == "[2, 2.5]"
    assert cells["verdict"] == "held with an outlier"
    assert 'class="verdict held">held with an outlier<' in render_html(made)
    stream = io.StringIO()
    print_document(made, Path("/there"), stream)
    assert stream.getvalue().count(said) == 2


def test_curves_differ_and_neighbours_also_in_grey_print() -> None:
    seen = [formatting.series_of(index) for index in range(16)]
    assert len(set(seen[:15])) == 15
    assert seen[0] == seen[15] == ("value", "solid")
    assert all(one[1] != next_[1] for one, next_ in pairwise(seen))


def test_claims_are_grouped_by_statement_and_sentences_are_no_columns() -> None:
    first, *_ = result().claims
    twice = (replace(first, remark="why"), replace(first, statistic="other", remark="why"))
    heads, groups = formatting.claim_groups(result(claims=(*twice, OPEN)))
    assert heads[0] == "statistic"
    assert not {"claim", "remark"} & set(heads)
    same, other = groups
    ((rows, remark),) = same.parts
    assert [row[0] for row in rows] == [first.statistic, "other"]
    assert "why" in remark
    assert other.statement != same.statement
    page = render_html(result(rows=(), claims=twice))
    assert page.count("<tr class=claim>") == page.count("<tr class=remark>") == 1


def test_a_statement_is_shown_once_however_its_verdicts_are_ordered() -> None:
    _, groups = formatting.claim_groups(result(claims=(CLAIM, OPEN, CLAIM, OPEN)))
    assert len(groups) == 2
    assert [len(rows) for group in groups for rows, _ in group.parts] == [2, 2]


def test_units_belong_to_numbers_and_rounding_errors_are_zero() -> None:
    missing = replace(ROW, values=(), mean=math.nan, half_width=math.nan)
    assert formatting.format_measured_with_unit(missing) == formatting.NOTHING
    noise = replace(CLAIM, value=-2.84e-15, low=-2.9, high=2.9)
    assert "0" in formatting.claim_cells(noise)
    assert "0" not in formatting.claim_cells(replace(noise, low=-3e-15, high=3e-15))


def test_markdown_holds_every_part_in_its_order(recorded: Recorded) -> None:
    figure = Figure("curve", "A | curve", "x", "y", (), note="What a point is.")
    recorded(render_markdown(result(figures=(figure,))).splitlines())


def test_markdown_without_rows_and_claims_has_no_empty_tables() -> None:
    bare = render_markdown(result(rows=(), claims=(), remarks=(), units=()))
    assert "|" not in bare
    assert [line for line in bare.splitlines() if line.startswith("##")] == [
        "## Differences from the paper's scale",
        "## Choices made here",
    ]


def test_html_says_each_cell_and_leaves_out_columns_without_content() -> None:
    page = render_html(result())
    assert "<title>Gates &amp; &lt;regimes&gt;</title>" in page
    assert "<h1>Gates &amp; &lt;regimes&gt;</h1><p>Where it sits.</p>" in page
    assert '<tr><td class="words">DL</td><td class="number">97.50 ± 6.35 %</td>' in page
    assert '<th class="number">printed</th>' in page
    assert '<td class="verdict held">held</td>' in page
    for verdict, kind in (("held", "held"), ("not held", "failed"), ("not decided", "open")):
        assert f'<td class="verdict {kind}">{verdict} at quick scale</td>' in page
    assert "<th>verdict</th>" in page
    assert page.count("<tr class=claim>") == len({claim.id for claim in result().claims})
    assert "<summary>b</summary><pre>Trace\n  last &lt;line&gt;</pre>" in page
    assert "<summary>a</summary>" not in page
    assert "<dt>device</dt><dd>cpu</dd>" in page
    assert "<li>A remark.</li>" in page
    bare = render_html(result(rows=(BARE,), claims=(OPEN,), units=(), remarks=(), scaled_down=()))
    for head in ("printed", "difference", "remark", "epochs", "95 % interval"):
        assert f">{head}</th>" not in bare, head
    assert "<th>scale</th>" in bare
    for title in ("Failed runs", "Remarks", "Differences from the paper's scale"):
        assert f"<h2>{title}</h2>" not in bare
    assert "<h2>Choices made here</h2>" in bare


def test_html_without_rows_and_claims_has_no_tables() -> None:
    page = render_html(result(rows=(), claims=()))
    assert "<table" not in page
    assert "Measured and printed" not in page
    assert "<h2>Claims</h2>" not in page


def test_a_terminal_shows_rows_claims_and_what_failed(recorded: Recorded) -> None:
    stream, short = io.StringIO(), io.StringIO()
    print_document(result(), Path("/there"), stream)
    recorded([" ".join(line.split()) for line in stream.getvalue().splitlines()])
    print_document(result(rows=(), claims=(), units=()), Path("/there"), short)
    assert short.getvalue() == "done: /there/report.html\n"


def test_a_table_on_a_terminal_has_words_at_the_left_and_signed_numbers_at_the_right() -> None:
    rows = (replace(ROW, difference=0.5), replace(BARE, label="x" * 90))
    stream = io.StringIO()
    made = result(rows=rows, claims=(), units=(), scale="full")
    print_document(made, Path("/there"), stream)
    heads, first, second, _ = stream.getvalue().splitlines()
    assert second.startswith("x" * 90), "in one line: 180 letters are there for a file"
    assert first.startswith("DL" + " " * 88)
    assert "+0.50" in first
    for head, cell in (
        ("measured", "97.50 ± 6.35 %"),
        ("printed", "98.22 ± 0.05"),
        ("time", "83 s"),
    ):
        assert heads.index(head) + len(head) == first.index(cell) + len(cell)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_breaks_no_number_and_no_head(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    labels = "FC(w=128,d=6)/Adam/MNIST FRNPF(II)", "fixed gates, w = 256: ‖e − predicted‖"
    rows = tuple(replace(ROW, label=label) for label in labels)
    stream = Terminal()
    print_document(result(rows=rows, claims=(), units=(), scale="full"), Path("/d"), stream)
    lines = re.sub("\x1b[^m]*m", "", stream.getvalue()).splitlines()
    assert "measured" in lines[0]
    assert "difference" in lines[0]
    assert sum("97.50 ± 6.35 %" in line for line in lines) == 2
    if width > 60:  # six columns need 72 letters
        assert max(map(len, lines)) <= width
        assert any(labels[0] in line for line in lines)


def test_a_document_survives_its_file_and_nan_is_null(tmp_path: Path) -> None:
    placed = replace(BARE, place=("line", "column"))
    content = document.to_bytes(result(rows=(ROW, placed), columns=("column", "none")))
    assert b"NaN" not in content
    assert b'"half_width": null' in content
    assert "ν | of H".encode() in content
    assert content.startswith(b'{\n "name": "npf-table2",\n')
    assert content.endswith(b"}\n")
    (tmp_path / "results.json").write_bytes(content)
    for place in (tmp_path, tmp_path / "results.json"):
        found = document.read_document(place)
        assert document.to_bytes(found) == content
        assert ([row.place for row in found.rows], found.columns) == (
            [None, placed.place],
            ("column", "none"),
        )


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (None, "no-file"),
        (b"{", "damaged"),
        (b"[]", "wrong-file"),
        (b'{"format": "dgn-viewer result 9"}', "wrong-file"),
        (b'{"format": "dgn-viewer result 1"}', "damaged"),
    ],
)
def test_a_file_that_is_no_result_is_refused(
    content: bytes | None, kind: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "results.json").write_bytes(content)
    with refused(kind):
        document.read_document(tmp_path)
