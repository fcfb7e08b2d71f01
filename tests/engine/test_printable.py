"""Text of others is escaped on its way out, and nothing else of it is changed."""

from __future__ import annotations

import csv
import io
import json

import pytest

from dgn_engine.errors import MOST, UserError
from dgn_engine.experiments.report.markdown import words
from dgn_engine.text.printable import (
    console,
    csv_cell,
    printable,
    printable_json,
    printable_name,
    say,
)
from tests.hostile_names import HOSTILE, hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fc 64×5 · Λ ≥ ½, 数字, é", "fc 64×5 · Λ ≥ ½, 数字, é"),
        ("a\x1b[31mb\x07", r"a\x1b[31mb\x07"),
        ("two\nrows\tand\r", r"two\nrows\tand\r"),
        ("\u202egpj.exe\u2066", r"\u202egpj.exe\u2066"),
        ("a\u200bb\u200d\ufeff\u00ad", r"a\u200bb\u200d\ufeff\u00ad"),
        ("\udcff\ud800", r"\udcff\ud800"),
        ("\x7f\x9b", r"\x7f\u009b"),
        ("\u2028\u2029\x85", r"\u2028\u2029\u0085"),
        ("\u3164\u2800\ufe0f", r"\u3164\u2800\ufe0f"),
        ("o" + 6 * "\u0336", "o" + 4 * "\u0336" + r"\u0336\u0336"),
        ("non-breaking\u00a0space", "non-breaking\u00a0space"),
    ],
)
def test_what_is_no_visible_letter_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_every_letter_of_unicode_is_shown_or_escaped() -> None:
    shown = printable("".join(map(chr, range(0x110000))))
    shown.encode()
    assert not hidden(shown)


def test_lines_are_kept_where_they_are_asked_for_and_nothing_else() -> None:
    assert printable("a\n\tb\x1b\r", lines=True) == "a\n\tb" + r"\x1b\r"


def test_a_name_in_a_table_has_no_gap_that_passes_for_a_column() -> None:
    assert printable_name("run  done   12") == r"run \x20done \x20\x2012"
    assert printable_name("a \u00a0b") == r"a \x20b"
    assert printable_name("x" * 300, longest=10) == "xxxxxxxxx…"


def test_json_hides_nothing_and_reads_back_as_it_was() -> None:
    tree = {HOSTILE: [HOSTILE, 1.5, None, "Λ", "\U000e0101\udcff"]}
    for indent in (None, 1):
        text = printable_json(tree, indent=indent)
        assert not hidden(text.replace("\n", ""))
        assert json.loads(text) == tree
        assert "Λ" in text
    with pytest.raises(ValueError, match="JSON"):
        printable_json([float("nan")])


def test_a_refusal_is_one_printable_sentence_of_bounded_length() -> None:
    assert not hidden(str(UserError(f"There is no '{HOSTILE}'.")))
    long = str(UserError("x" * 10**6 + " end."))
    assert len(long) == MOST
    assert long.endswith(" end.")


def test_a_console_prints_names_in_cells_and_sentences_as_they_are() -> None:
    from rich.table import Table

    stream = io.StringIO()
    out = console(stream, width=400, force_terminal=True)
    table = Table(HOSTILE, "n")
    table.add_row(HOSTILE, "[red]1[/red] :smile:")
    out.print(table)
    out.print(HOSTILE)
    said = stream.getvalue()
    assert "[red]1[/red] :smile:" in said
    assert "\x1b[31m" not in said
    assert not hidden(said.replace("\n", "").replace("\x1b[", ""))


def test_a_terminal_without_greek_gets_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    say("ν = 1", stream=stream)
    stream.flush()
    assert stream.buffer.getvalue() == b"\\u03bd = 1\n"  # type: ignore[attr-defined]


def test_a_cell_of_a_csv_file_is_no_formula() -> None:
    row = ["=1+1", "+cmd|x", "-2", "@SUM(A1)", "a\nb", "−0.5", -3, 1e-5, "-1.5e-3"]
    text = io.StringIO()
    csv.writer(text).writerow([csv_cell(cell) for cell in row])
    [back] = csv.reader(io.StringIO(text.getvalue()))
    assert back == [
        "'=1+1",
        "'+cmd|x",
        "-2",
        "'@SUM(A1)",
        r"a\nb",
        "−0.5",
        "-3",
        "1e-05",
        "-1.5e-3",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a | b", r"a \| b"),
        ("[x](http://y)", r"[x\](http://y)"),
        ("![x][y]", r"![x\][y]"),
        ("<img src=x>", r"\<img src=x>"),
        ("p < 0.001 & n", "p < 0.001 & n"),
        ("&lt;b&gt;", r"\&lt;b\&gt;"),
        ("`rm` *x* _y_ K^V_0", r"\`rm\` \*x\* \_y\_ K^V_0"),
        ("$x^2$", r"\$x^2\$"),
        ("# head", r"\# head"),
        ("1. first", r"1\. first"),
        ("- − 0.5", r"\- − 0.5"),
        ("a\n# b", r"a\\n# b"),
    ],
)
def test_markdown_shows_plain_words_as_they_are(text: str, shown: str) -> None:
    assert words(text) == shown
