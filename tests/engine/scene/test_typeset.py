"""Mathematics in labels: runs of letters, plain text and HTML."""

from __future__ import annotations

from dgn_engine.scene.typeset import html, plain, runs
from tests.snapshots import Recorded

LABELS = (
    *("", "loss", "tr $K^V$ now", "$τ_{12}$", "$DD^T_2$", "|$K^X$|", "$2x$", "$x_{ab}c$"),
    *("$x^{ab", "$x^", r"costs \$5 of $x$", "$x$$y$"),
)


def test_a_label_becomes_runs(recorded: Recorded) -> None:
    recorded({label: [(r.text, r.level, r.italic) for r in runs(label)] for label in LABELS})


def test_a_label_becomes_plain_text_and_html() -> None:
    assert plain("trace $K^{V}_1$") == "trace K^V_1"
    assert plain(r"{a} costs \$5 of $x_{12}$") == "{a} costs $5 of x_12"
    assert (
        html("a & $K^V$ of $x_1$") == "a &amp; <i>K</i><sup><i>V</i></sup> of <i>x</i><sub>1</sub>"
    )
