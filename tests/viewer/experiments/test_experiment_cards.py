"""The list of experiments: question, picture, state and cost; the filter; what they open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document, ReportUnit
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.experiments.report.reproduce_request import FoundResult
from dgn_engine.experiments.report.reproduction_progress import ReproductionProgress
from dgn_engine.experiments.report.result_state import NOT_RUN, describe_state
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.protocol.experiments import Claim, Figure
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.application import Viewer
from dgn_viewer.experiments.experiment_cards import ExperimentList
from dgn_viewer.experiments.result_sketch import ResultSketch, chart_of_result
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from tests.plugins import each
from tests.viewer.experiments.made_results import BOXES, DONE, FIGURE
from tests.viewer.gestures import LEFT
from tests.viewer.seen_charts import colours_in

QUESTIONS = {
    "npf-table2": "Do learnt gates beat random ones?",
    "npf-kernels": "Are they of one scale?",
    "npf-nu": "Does the kernel fit?",
    "noise": "Do noisy labels matter?",
}
ENTRIES = tuple(
    ExperimentEntry(
        name, name.title(), f"[NPF] {name}", "About.", (), "4 min", "2 h", (), (), asked
    )
    for name, asked in QUESTIONS.items()
)
ASKED = {entry.id: entry.question for entry in experiment_entries()}
TODAY = date(2026, 1, 9)
IMAGE = Figure("image", "", "", "", (), image=((0.0, 1.0), (1.0, 0.5)))
HELD = Claim("a", "s", "s", 1.0, 0.5, 2.0, 3, "held")


@pytest.fixture
def shown(qtbot: QtBot, tmp_path: Path) -> tuple[ExperimentList, dict[str, FoundResult]]:
    """Two results, the newer one of an experiment that comes later in the catalogue."""
    results = {}
    for name, made, change in (
        ("npf-table2", "2026-01-02T10:00:00+00:00", {}),
        ("npf-nu", "2026-01-01T10:00:00+00:00", {"claims": (HELD,)}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        result = replace(DONE, name=name, made=made, **change)  # type: ignore[arg-type]  # of its fields
        (folder / "results.json").write_bytes(document.to_bytes(result))
        results[name] = FoundResult(folder, made)
    made_list = ExperimentList()
    qtbot.addWidget(made_list)
    made_list.resize(440, 800)
    made_list.offer_experiments(ENTRIES)
    made_list.show()
    made_list.show_results(results)
    qtbot.waitUntil(lambda: not made_list._timer.isActive())
    return made_list, results


def order_of(listed: ExperimentList) -> list[str]:
    return sorted(listed.cards, key=lambda name: listed.cards[name].pos().y())


@pytest.mark.parametrize("name", each(ASKED))
def test_every_experiment_asks_a_question_without_symbols(name: str) -> None:
    question = ASKED[name]
    assert question.endswith("?")
    assert len(question) <= 75
    assert not set("[]_^νβΛ") & set(question)


def test_results_come_first_the_newest_before_the_others(
    shown: tuple[ExperimentList, dict[str, FoundResult]],
) -> None:
    listed, _ = shown
    assert order_of(listed)[:2] == ["npf-table2", "npf-nu"]
    assert set(listed.cards) == set(QUESTIONS)
    first, other = listed.cards["npf-nu"], listed.cards["npf-kernels"]
    assert first.state.text().startswith("quick result from 1 Jan")
    assert first.state.text().endswith(": 1 held at quick scale")
    assert first.sketch.chart is not None
    assert (other.state.text(), other.sketch.chart) == (NOT_RUN, None)
    assert (other.cost.text(), other.paper.text()) == ("about 4 min", "[NPF] npf-kernels")


def test_words_filter_the_cards_by_question_paper_and_state(
    shown: tuple[ExperimentList, dict[str, FoundResult]],
) -> None:
    listed, results = shown

    def found(words: str) -> set[str]:
        listed.query.setText(words)
        return {name for name, card in listed.cards.items() if not card.isHidden()}

    assert found("RESULT quick") == set(results)
    assert found("npf neural path features kernels") == {"npf-kernels"}
    assert found("noisy labels") == {"noise"}
    assert found("no such thing") == set()
    assert listed.none.isVisible()
    assert found("") == set(QUESTIONS)
    assert not listed.none.isVisible()


def test_what_runs_comes_first_and_says_how_far_it_is(
    shown: tuple[ExperimentList, dict[str, FoundResult]], qtbot: QtBot
) -> None:
    listed, results = shown
    listed.show_results(results, running="npf-kernels")
    qtbot.waitUntil(lambda: not listed._timer.isActive())
    assert order_of(listed)[0] == "npf-kernels"
    state = listed.cards["npf-kernels"].state
    now = ReproductionProgress("npf-kernels", "running", 6, 2, 0, 0.4, 30.0, 120.0)
    listed.show_progress(now)
    assert state.text() == "running, 40 %, 2 min left"
    listed.show_progress(replace(now, name="another", fraction=0.9))
    assert "40 %" in state.text()
    listed.show_results(results)
    assert state.text() == NOT_RUN


def test_a_damaged_result_is_named_and_the_others_are_shown(
    shown: tuple[ExperimentList, dict[str, FoundResult]], qtbot: QtBot
) -> None:
    listed, results = shown
    (results["npf-table2"].folder / "results.json").write_text("{")
    listed.show_results(results)
    qtbot.waitUntil(lambda: not listed._timer.isActive())
    assert "JSON" in listed.cards["npf-table2"].state.text()
    assert "held" in listed.cards["npf-nu"].state.text()


def test_a_list_that_is_hidden_reads_nothing(
    shown: tuple[ExperimentList, dict[str, FoundResult]],
) -> None:
    listed, results = shown
    listed.show_results(results)
    listed.hide()
    assert not listed._timer.isActive()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "quick result from 2 Jan: 1 held, 1 not held, 1 not decided at quick scale"),
        (
            {"claims": (HELD,), "scale": "reduced"},
            "reduced result from 2 Jan: 1 held at reduced scale",
        ),
        ({"claims": (), "scale": ""}, "result from 2 Jan"),
        ({"claims": (), "made": "2025-11-26T12:00:00+00:00"}, "quick result from 26 Nov 2025"),
        ({"state": "interrupted"}, "stopped, 1 of 2 done; can continue"),
        ({"state": "running"}, "stopped, 1 of 2 done; can continue"),
        ({"state": "failed"}, "failed, 1 of 2 done"),
    ],
)
def test_the_state_of_a_result_is_said_in_the_words_of_its_verdicts(
    changes: dict[str, object], words: str
) -> None:
    units = (*DONE.units, ReportUnit("b", "failed"))
    result: Document = replace(DONE, units=units, **changes)  # type: ignore[arg-type]  # of its fields
    assert describe_state(result, TODAY) == words


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_a_sketch_has_the_colours_of_the_figure_and_none_without_a_result(
    qtbot: QtBot, theme: Theme
) -> None:
    sketch = ResultSketch()
    qtbot.addWidget(sketch)
    sketch.set_theme(theme)
    sketch.show()
    series = {theme.role_colour(role) for role in ("value", "feature", "muted", "text")}
    assert not colours_in(sketch) & series
    for figure, role in ((FIGURE, "value"), (BOXES, "muted"), (IMAGE, None)):
        sketch.show_chart(chart_of_result(replace(DONE, figures=(figure,))))
        seen = colours_in(sketch)
        assert role is None or theme.role_colour(role) in seen  # type: ignore[arg-type]
        assert len(seen) > 3
    sketch.show_chart(chart_of_result(replace(DONE, figures=())))  # the rows instead
    assert theme.role_colour("value") in colours_in(sketch)
    assert chart_of_result(replace(DONE, figures=(), rows=())) is None


def test_a_card_opens_its_result_or_the_page_that_starts_it(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path / "results"))
    folder = tmp_path / "results" / "npf-nu-quick"
    folder.mkdir(parents=True)
    (folder / "results.json").write_bytes(document.to_bytes(DONE))
    window = make_viewer().window
    dock, panel = window.experiments.results, window.experiments.results.panel
    window.registry["experiments.show"].trigger()  # there is nothing else to show
    assert panel.list.isVisible()
    window.registry["experiments.list"].trigger()
    cards = panel.list.cards
    qtbot.waitUntil(lambda: cards["npf-nu"].state.text() != NOT_RUN)
    QTest.mouseClick(cards["npf-nu"], LEFT)
    assert not panel.is_showing_list
    assert panel.title.text() == DONE.title
    panel.again.click()
    page = window.inspector.page
    assert isinstance(page, ExperimentPage)
    assert page.entry.id == "npf-nu"
    window.inspector.close_page()
    panel.back.click()
    assert panel.list.isVisible()
    cards["npf-kernels"].setFocus()
    QTest.keyClick(cards["npf-kernels"], Qt.Key.Key_Space)
    assert isinstance(window.inspector.page, ExperimentPage)
    assert window.inspector.page.entry.id == "npf-kernels"
    dock.hide()
    window.registry["experiments.show"].trigger()  # the last result, not the list
    assert panel.title.isVisible()


def test_the_pointer_over_a_card_lights_it(
    shown: tuple[ExperimentList, dict[str, FoundResult]],
) -> None:
    card = shown[0].cards["npf-nu"]
    # Wherever a test before has left the pointer.
    card.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
    before = colours_in(card)
    card.setDown(True)
    card.event(QEvent(QEvent.Type.Enter))
    QApplication.processEvents()
    assert colours_in(card) != before
