"""A result in a notebook: verdicts and rows in the words of the report, nothing as markup."""

from __future__ import annotations

from pathlib import Path

import pytest

import dgn_engine as dgn
from dgn_engine.errors import UserError
from dgn_engine.experiments.report import formatting
from dgn_engine.experiments.report.document import to_bytes
from dgn_engine.experiments.report.result_layout import RESULTS
from tests.engine.experiments.documents import result


def test_a_result_is_shown_in_the_words_of_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = result()
    folder = tmp_path / "results" / "mine"
    folder.mkdir(parents=True)
    (folder / RESULTS).write_bytes(to_bytes(made))
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path / "results"))
    found = dgn.open_report("mine")
    assert repr(dgn.open_report(folder)) == repr(found)
    assert repr(found).startswith(f"<report npf-table2: done, {len(made.rows)} rows; ")
    assert found.verdicts == formatting.count_verdicts(made)
    assert (found.rows, found.claims) == (found.document.rows, found.document.claims)
    shown = found._repr_html_()
    assert "Gates &amp; &lt;regimes&gt;" in shown
    for claim in made.claims:
        assert formatting.format_verdict(claim, made.scale) in shown
    for row in made.rows:
        assert formatting.format_measured(row) in shown
    assert shown.count("<table>") == 2


def test_results_of_the_documents_are_opened_by_their_files() -> None:
    page = Path(__file__).parents[3] / "docs" / "results"
    for path in sorted(page.glob("theory-*.json"))[:2]:
        assert "<table>" in dgn.open_report(path)._repr_html_()


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=tmp_path.name):
        dgn.open_report(tmp_path)
