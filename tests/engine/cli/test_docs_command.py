"""`dgn docs` shows the documents of the program: a topic, all topics, where they lie."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

from dgn_engine.cli import docs, main
from dgn_engine.text import documents


def test_a_topic_is_printed_as_it_is_where_no_terminal_reads_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["docs", "how-to/figure"]) == 0
    text = (documents.documents() / "how-to" / "figure.md").read_text("utf-8")
    assert capsys.readouterr().out.rstrip() == text.rstrip()
    assert main(["docs", "settings.md"]) == 0
    assert capsys.readouterr().out.startswith("# Settings")


def test_an_unknown_topic_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "setings"]) == 2
    assert "Did you mean 'settings'?" in capsys.readouterr().err
    assert main(["docs", "../pyproject"]) == 2


def test_topics_have_titles_and_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "User guide" in listed
    assert "start/first-ten-minutes" in listed
    assert main(["docs", "--where"]) == 0
    assert Path(capsys.readouterr().out.strip()).exists()


def test_the_site_is_opened_where_it_was_built_and_a_browser_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "site" / "index.html"
    page.parent.mkdir()
    page.write_text("<html></html>")
    monkeypatch.setattr(docs, "built_site", lambda: page)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    assert main(["docs"]) == 0
    assert opened == [page.as_uri()]
    assert capsys.readouterr().out.strip() == str(page)
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    assert main(["docs"]) == 0
    assert capsys.readouterr().out.startswith("# User guide")
