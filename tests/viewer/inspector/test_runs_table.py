"""The table of recorded runs: sorted, filtered, ticked, named and noted, with a real view."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import (
    ContinueRun,
    DeleteRun,
    NoteRun,
    ReadCurves,
    RunCurves,
    RunsListed,
    ShowRun,
)
from dgn_engine.scene.elements import OVERLAYS
from dgn_engine.scene.overlaid import (
    overlaid_runs,
    scalar_curves,
    short_name,
    spectrum_curves,
    spectrum_steps,
)
from dgn_engine.scene.theme import LIGHT
from dgn_engine.storage.runs.index import list_runs
from dgn_viewer.inspector.pages.run_table import COLUMNS, NAME, describe_run
from dgn_viewer.inspector.pages.runs_page import RunsPage, reason_not_continuable
from tests.faults import hostile_runs
from tests.viewer.inspector.listed_rows import make_listed_run, show_every_cell

TITLES = [column.title for column in COLUMNS]


@pytest.fixture
def page(qtbot: QtBot, sent: list[Command]) -> Iterator[RunsPage]:
    page = RunsPage(sent.append, LIGHT)
    qtbot.addWidget(page)
    page.resize(640, 500)
    page.show()
    yield page
    page.table.setFocus()  # notes are kept when their field is left, not when it goes


def cells(page: RunsPage, title: str) -> list[str]:
    column = TITLES.index(title)
    rows = range(page.table.shown.rowCount())
    return [str(page.table.shown.index(row, column).data()) for row in rows]


def test_hostile_runs_are_rows_that_hide_no_other(page: RunsPage, tmp_path: Path) -> None:
    hostile_runs.make_honest(tmp_path / "runs" / "honest")
    kinds = hostile_runs.kinds()
    chosen = random.Random(7).sample(sorted(kinds), 40)
    made = hostile_runs.make_all(tmp_path / "runs", {kind: kinds[kind] for kind in chosen})
    show_every_cell(page, list_runs(str(tmp_path / "runs")))
    assert page.runs.rowCount() == 1 + len(made)
    assert "honest" in {run.name for run in page.runs.runs}


def test_a_list_of_before_says_so_until_the_engine_reads_it_anew(page: RunsPage) -> None:
    page.show_runs(RunsListed("runs", (make_listed_run("a", "running", step=0),)))
    page.show_work("Reading mnist, 20 %")
    assert page.message.text() == reason_not_continuable(
        make_listed_run("a", "running")
    )  # it is as new as can be
    page.await_list("Reading mnist, 40 %")
    page.search.setText("digits")  # what is chosen is of before, too
    assert "Reading mnist, 40 %" in page.message.text()
    page.show_runs(RunsListed("runs", (make_listed_run("a", step=378_855),)))
    assert "step 378,855" in page.message.text()


def test_columns_are_sorted_by_what_they_mean(page: RunsPage) -> None:
    runs = (
        make_listed_run("a", step=90, seconds=7200.0, best=0.5, bytes=9_000),
        make_listed_run("b", step=1200, seconds=70.0, best=float("nan"), bytes=2_000_000),
        make_listed_run("c", step=700, seconds=9.0, best=0.98, bytes=1_100_000_000),
    )
    page.show_runs(RunsListed("runs", runs))
    orders = {"steps": "acb", "time": "cba", "best": "bac", "size": "abc", "name": "abc"}
    for title, order in orders.items():
        page.table.sortByColumn(TITLES.index(title), Qt.SortOrder.AscendingOrder)
        assert "".join(cells(page, "name")) == order, title
        page.table.sortByColumn(TITLES.index(title), Qt.SortOrder.DescendingOrder)
        assert "".join(cells(page, "name")) == order[::-1], title


def test_the_filter_wants_every_word_in_any_column(page: RunsPage) -> None:
    runs = (
        make_listed_run("a", regime="FL", notes="wide batch"),
        make_listed_run("b", regime="FL", given_name="Wide"),
        make_listed_run("c", data="mnist"),
    )
    page.show_runs(RunsListed("runs", runs))
    for text, names in (("WIDE fl", ["a", "Wide"]), ("mnist", ["c"]), ("fl mnist", []), ("", None)):
        QTest.keyClicks(page.search, text) if text else page.search.clear()
        assert cells(page, "name") == (names if names is not None else ["a", "Wide", "c"])
        if not names and text:
            assert page.message.text() not in ("", reason_not_continuable(runs[0]))
        page.search.clear()


def test_the_page_shows_and_continues_what_can_be(page: RunsPage, sent: list[Command]) -> None:
    assert not page.go_on.isEnabled()
    runs = (make_listed_run("a", "running"), make_listed_run("b"), make_listed_run("c", "damaged"))
    page.show_runs(RunsListed("runs", runs))
    assert not page.go_on.isEnabled()
    assert page.message.text() == reason_not_continuable(runs[0])
    page.table.choose_run("b")
    page.show_run.click()
    page.go_on.click()
    page.compare.click()
    assert sent == [ShowRun("b"), ContinueRun("b"), CompareRun("b")]
    page.table.choose_run("c")
    assert not page.show_run.isEnabled()
    assert not page.compare.isEnabled()
    assert page.message.text() == reason_not_continuable(runs[2])
    page.show_runs(RunsListed("nowhere", ()))
    assert "nowhere" in page.message.text()
    page.show_runs(RunsListed("", ()))
    assert page.message.text()
    assert reason_not_continuable(runs[1]) == ""
    assert describe_run(runs[1], 4700.0) == (
        "DL · fc · digits · seed 0",
        "stopped at step 1,200 of 4,500 · best 96.1 % · 1 h ago",
    )


def test_a_name_is_typed_into_its_cell_and_shown_when_the_engine_has_it(
    page: RunsPage, sent: list[Command], qtbot: QtBot
) -> None:
    run = make_listed_run("a", notes="kept")
    page.show_runs(RunsListed("runs", (run,)))
    page.table.edit(page.table.shown.index(0, NAME))
    editor = page.table.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    editor.selectAll()
    QTest.keyClicks(editor, "wide batch")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(sent))
    assert sent == [NoteRun("a", "wide batch", "kept")]
    assert cells(page, "name") == ["a"]
    page.show_runs(RunsListed("runs", (dataclasses.replace(run, given_name="wide batch"),)))
    assert cells(page, "name") == ["wide batch"]


def test_notes_are_kept_when_another_run_is_chosen(page: RunsPage, sent: list[Command]) -> None:
    page.show_runs(
        RunsListed(
            "runs", (make_listed_run("a", given_name="mine"), make_listed_run("b", notes="old"))
        )
    )
    page.table.choose_run("a")
    assert page.notes.toPlainText() == ""
    page.notes.setPlainText("β = 4 was better")
    page.table.choose_run("b")
    assert sent == [NoteRun("a", "mine", "β = 4 was better")]
    assert page.notes.toPlainText() == "old"
    page.prepare_to_close()
    assert len(sent) == 1  # nothing was changed


def test_a_name_and_notes_that_come_while_notes_are_written_are_not_lost(
    page: RunsPage, sent: list[Command]
) -> None:
    def listed(name: str, notes: str) -> None:
        page.show_runs(
            RunsListed(
                "runs", (make_listed_run("a", given_name=name, notes=notes), make_listed_run("b"))
            )
        )

    listed("mine", "")
    page.table.choose_run("a")
    listed("mine", "by another")
    assert page.notes.toPlainText() == "by another"
    page.notes.setPlainText("β = 4 was better")
    listed("renamed", "by another")
    page.table.choose_run("b")
    assert sent == [NoteRun("a", "renamed", "β = 4 was better")]


def test_ticked_runs_are_drawn_six_at_most_and_each_in_its_colour(
    page: RunsPage, sent: list[Command]
) -> None:
    page.show_runs(RunsListed("runs", tuple(make_listed_run(name) for name in "abcdefg")))
    for place in range(7):
        page.table.setCurrentIndex(page.table.shown.index(place, NAME))
        page.table.toggle_current_tick()
    assert sent[-1] == ReadCurves(tuple("abcdef"))
    assert "At most 6 runs" in page.message.text()
    colours = {
        page.table.shown.index(row, NAME).data(Qt.ItemDataRole.ForegroundRole).name()
        for row in range(6)
    }
    assert colours == {LIGHT.role_colour(role).lower() for role in OVERLAYS}
    page.show_runs(RunsListed("runs", tuple(make_listed_run(name) for name in "bc")))
    assert sent[-1] == ReadCurves(("b", "c"))
    page.untick.click()
    assert sent[-1] == ReadCurves(())
    assert not page.untick.isVisible()


def test_deleting_asks_in_place_and_takes_no_for_an_answer(
    page: RunsPage, sent: list[Command]
) -> None:
    page.show_runs(
        RunsListed(
            "runs", (make_listed_run("a"), make_listed_run("b", "running"), make_listed_run("c"))
        )
    )
    trashed: list[tuple[str, ...]] = []
    page.trash_wanted.connect(trashed.append)
    page.table.choose_run("a")
    page.table.setFocus()
    QTest.keyClick(page.table, Qt.Key.Key_Delete)
    assert page.deletion.sentence.text() == "Move a (2.4 MB) to the trash?"
    page.deletion.no.click()
    assert not page.deletion.sentence.isVisible()
    assert not trashed
    page.ask_to_delete()
    page.deletion.yes.click()
    assert trashed == [("a",)]
    page.ask_to_delete_permanently(("a",))
    page.deletion.yes.click()
    assert sent == [DeleteRun("a")]
    page.table.choose_run("c")
    rows = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
    page.table.selectionModel().select(page.table.shown.index(0, NAME), rows)
    assert [run.name for run in page.table.selected_runs()] == ["a", "c"]  # from the top
    page.table.choose_run("b")
    page.ask_to_delete()
    assert not page.deletion.sentence.isVisible()


def test_a_thousand_runs_keep_the_chosen_one_in_sight_of_a_new_list(page: RunsPage) -> None:
    runs = tuple(make_listed_run(f"run {place}", step=place) for place in range(1000))
    page.show_runs(RunsListed("runs", runs))
    page.table.choose_run("run 700")
    page.show_runs(RunsListed("runs", runs[1:]))
    chosen = page.table.current_run()
    assert chosen is not None
    assert chosen.name == "run 700"


def test_a_spectrum_that_is_drawn_over_another_says_how_exact_it_is() -> None:
    spectrum = {"eigenvalues": np.array([0.9, 0.1])}
    remark = "8 of 64 probe examples · ± 30 %"
    runs = overlaid_runs(
        (RunCurves("a", "a", {}, spectrum, 7, remark), RunCurves("b", "b", {}, spectrum, 1200))
    )
    assert spectrum_steps(runs) == f"Overlaid: a at step 7 ({remark}), b at step 1,200."


def test_overlaid_curves_have_names_colours_and_dashes_of_their_own() -> None:
    steps, values = np.array([1, 2]), np.array([0.5, 0.25])
    both = {("training", "train_loss"): (steps, values), ("training", "test_loss"): (steps, values)}
    only = {("training", "train_loss"): (steps, 2 * values)}
    spectrum = {"eigenvalues": np.array([0.9, 0.1])}
    runs = overlaid_runs(
        (
            RunCurves("a", "a very long name of a run", both, spectrum, 7),
            RunCurves("b", "a very long name of a run", only),
            RunCurves("c", "cost $5", {}),
        )
    )
    assert [run.name for run in runs] == ["a very l…f a run", "a very l…f a run 2", "cost _5"]
    assert short_name("20261129-101559-FL-cnn4-mnist") == "FL-cnn4 10:15"
    curves = list(scalar_curves(runs, "training", ("test_loss", "train_loss")))
    assert [curve.name for curve in curves] == [run.name for run in runs[:2]]
    assert curves[1].y.tolist() == [1.0, 0.5]
    assert len({(curve.role, curve.dash) for curve in curves}) == 2
    first = {("training", "train_loss"): (steps[:1], values[:1])}
    (point,) = scalar_curves(
        overlaid_runs((RunCurves("d", "d", first),)), "training", ("train_loss",)
    )
    assert [curve.marker for curve in (point, *curves)] == [True, False, False]
    (line,) = spectrum_curves(runs, "eigenvalues")
    assert line.x.tolist() == [1, 2]
