"""Mathematics in labels: runs of letters, plain text and HTML."""

from __future__ import annotations

import pytest

from dgn_engine.scene.typeset import TextRun, html, plain, runs


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("", ()),
        ("loss", (TextRun("loss"),)),
        (
            "tr $K^V$ now",
            (TextRun("tr "), TextRun("K", 0, True), TextRun("V", 1, True), TextRun(" now")),
        ),
        ("$τ_{12}$", (TextRun("τ", 0, True), TextRun("12", -1))),
        ("$DD^T_2$", (TextRun("DD", 0, True), TextRun("T", 1, True), TextRun("2", -1))),
        ("|$K^X$|", (TextRun("|"), TextRun("K", 0, True), TextRun("X", 1, True), TextRun("|"))),
        ("$2x$", (TextRun("2"), TextRun("x", 0, True))),
        ("$x_{ab}c$", (TextRun("x", 0, True), TextRun("ab", -1, True), TextRun("c", 0, True))),
        ("$x^{ab", (TextRun("x", 0, True), TextRun("ab", 1, True))),
        ("$x^", (TextRun("x", 0, True), TextRun("", 1))),
        (r"costs \$5 of $x$", (TextRun("costs $5 of "), TextRun("x", 0, True))),
        ("$x$$y$", (TextRun("x", 0, True), TextRun("y", 0, True))),
    ],
)
def test_a_label_becomes_runs(label: str, expected: tuple[TextRun, ...]) -> None:
    assert runs(label) == expected


def test_a_label_becomes_plain_text_and_html() -> None:
    assert plain("trace $K^{V}_1$") == "trace K^V_1"
    assert plain(r"{a} costs \$5 of $x_{12}$") == "{a} costs $5 of x_12"
    assert (
        html("a & $K^V$ of $x_1$") == "a &amp; <i>K</i><sup><i>V</i></sup> of <i>x</i><sub>1</sub>"
    )
