"""Text of others is escaped on its way out; numbers are written in one style."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from dgn_engine.errors import MOST, UserError
from dgn_engine.experiments.report.markdown import escape_markdown
from dgn_engine.text.byte_counts import binary_size_in_words, bytes_in_words
from dgn_engine.text.printable import (
    csv_cell,
    make_console,
    print_line,
    printable,
    printable_json,
    printable_name,
)
from dgn_engine.text.written_numbers import (
    format_decimals,
    format_duration,
    format_number,
    format_percent,
    format_rate,
    plus_minus,
    time_left,
)
from tests.hostile_names import HOSTILE, hidden_characters
from tests.snapshots import Recorded


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
    assert not hidden_characters("".join(set(shown)))


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
        assert not hidden_characters(text.replace("\n", ""))
        assert json.loads(text) == tree
        assert "Λ" in text
    with pytest.raises(ValueError, match="JSON"):
        printable_json([float("nan")])


def test_a_refusal_is_one_printable_sentence_of_bounded_length() -> None:
    assert not hidden_characters(str(UserError(f"There is no '{HOSTILE}'.")))
    long = str(UserError("x" * 10**6 + " end."))
    assert len(long) == MOST
    assert long.endswith(" end.")
    assert str(UserError("x" * MOST)) == "x" * MOST
    assert "…" in str(UserError("x" * (MOST + 1)))


def test_a_console_prints_names_in_cells_and_sentences_as_they_are() -> None:
    from rich.table import Table

    stream = io.StringIO()
    out = make_console(stream, width=400, force_terminal=True)
    table = Table(HOSTILE, "n")
    table.add_row(HOSTILE, "[red]1[/red] :smile:")
    out.print(table)
    out.print(HOSTILE)
    said = stream.getvalue()
    assert "[red]1[/red] :smile:" in said
    assert "\x1b[31m" not in said
    assert not hidden_characters(said.replace("\n", "").replace("\x1b[", ""))


def test_a_terminal_without_greek_gets_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_line("ν = 1", stream=stream)
    stream.flush()
    assert stream.buffer.getvalue() == b"\\u03bd = 1\n"  # type: ignore[attr-defined]


def test_a_cell_of_a_csv_file_is_no_formula() -> None:
    row = ["=1+1", "+cmd|x", "-2", "@SUM(A1)", "a\nb", "−0.5", -3, 1e-5, "-1.5e-3"]
    text = io.StringIO()
    csv.writer(text).writerow([csv_cell(cell) for cell in row])
    [back] = csv.reader(io.StringIO(text.getvalue()))
    unchanged = ["−0.5", "-3", "1e-05", "-1.5e-3"]
    assert back == ["'=1+1", "'+cmd|x", "-2", "'@SUM(A1)", r"a\nb", *unchanged]


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
    assert escape_markdown(text) == shown


# Numbers, as they are written for people: reviewed in tests/recorded.


def test_a_number_has_few_figures_true_signs_and_powers_as_powers(recorded: Recorded) -> None:
    values = (0.01234567, 12480.0, 12345.678, 1234.567, 1234.5, -3.5e-7, 2e-9, 1e9, 1.234567e-9)
    figures = (0, 2, 3, 6)
    recorded({f"{value:.15g}": [format_number(value, few) for few in figures] for value in values})
    assert [format_number(value, 3) for value in (math.nan, -math.inf)] == ["–", "−∞"]
    assert [format_number(value, 3, signed=True) for value in (0.2, -0.2, 0.0)] == [
        "+0.2",
        "−0.2",
        "0",
    ]


def test_a_duration_has_two_figures_and_the_unit_that_suits(recorded: Recorded) -> None:
    day = 86400
    seconds = (0.0, 5e-5, 0.00212, 0.0334, 0.0996, 0.256, 9.96, 99.4, 99.6, 900.0, 5999, 6000)
    recorded(
        {str(one): format_duration(one) for one in (*seconds, 2 * day, 99.6 * day, 1461 * day)}
    )
    assert format_duration(math.nan) == format_duration(math.inf) == "–"


def test_bytes_are_said_in_three_digits_and_limits_as_they_are_typed(recorded: Recorded) -> None:
    counts = (0, 1, 999, 1000, 9_994, 9_996, 99_960, 999_400, 999_500, 7.64e6, 43e9, 2.1e15)
    limits = (0, 512, 1 << 20, 1000 << 20, 1.5 * 2**30, 1.25 * 2**30, 2 << 40)
    recorded(
        {
            "bytes": {str(one): bytes_in_words(one) for one in counts},
            "limits": {str(one): binary_size_in_words(one) for one in limits},
        }
    )


def test_percent_decimals_rates_and_errors_keep_one_style() -> None:
    shares = (
        format_percent(0.936),
        format_percent(0.5, 0),
        format_percent(-0.0025, 2),
        format_percent(0.0125, 2, signed=True),
    )
    assert shares == ("93.6 %", "50 %", "−0.25 %", "+1.25 %")
    assert [format_decimals(value, 1) for value in (1250.0, -0.25, 0.0)] == [
        "1,250.0",
        "−0.2",
        "0.0",
    ]
    assert [time_left(seconds) for seconds in (0.2, 41.6, 824.0)] == ["1 s", "42 s", "14 min"]
    rates = [format_rate(one).removesuffix(" steps/s") for one in (12_000.0, 812.4, 9.96, 3.0)]
    assert rates == ["12,000", "812", "10", "3.0"]
    pairs = [(0.41234, 0.0131), (-1250.4, 12.3), (0.41234, 0.0), (math.nan, 0.1)]
    errors = [plus_minus(value, error) for value, error in pairs]
    assert errors == ["0.412 ± 0.013", "−1,250 ± 12", "0.4123", "–"]
