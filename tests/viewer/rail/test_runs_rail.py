"""The list of recorded runs: sorted, filtered, ticked, named, noted and deleted in a real view."""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QItemSelectionModel, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import (
    ContinueRun,
    CurvesRead,
    DeleteRun,
    NoteRun,
    ReadCurves,
    RecordedRun,
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
from dgn_viewer.rail.run_line import HEADING_ROW, ROW, RunLine
from dgn_viewer.rail.run_table import COLUMNS, LINE, NAME, NEWEST, describe_run, run_title
from dgn_viewer.rail.runs_rail import RunsRail, reason_not_continuable
from tests.faults import hostile_runs
from tests.viewer.rail.listed_rows import make_listed_run, show_every_cell

TITLES = [column.title for column in COLUMNS]


@pytest.fixture
def rail(qtbot: QtBot, sent: list[Command]) -> Iterator[RunsRail]:
    rail = RunsRail(sent.append, LIGHT)
    qtbot.addWidget(rail)
    rail.resize(760, 600)
    rail.show_form(wide=True)
    rail.show()
    yield rail
    rail.table.setFocus()  # notes are kept when their field is left, not when it goes


def cells(rail: RunsRail, title: str) -> list[str]:
    column = TITLES.index(title)
    rows = range(rail.runs.rowCount())
    return [str(rail.runs.index(row, column).data()) for row in rows]


def test_hostile_runs_are_rows_that_hide_no_other(rail: RunsRail, tmp_path: Path) -> None:
    hostile_runs.make_honest(tmp_path / "runs" / "honest")
    kinds = hostile_runs.kinds()
    chosen = random.Random(7).sample(sorted(kinds), 40)
    made = hostile_runs.make_all(tmp_path / "runs", {kind: kinds[kind] for kind in chosen})
    show_every_cell(rail, list_runs(str(tmp_path / "runs")))
    assert rail.runs.rowCount() == 1 + len(made)
    assert "honest" in {run.name for run in rail.runs.runs}


def test_a_list_of_before_says_so_until_the_engine_reads_it_anew(rail: RunsRail) -> None:
    rail.show_runs(RunsListed("runs", (make_listed_run("a", "running", step=0),)))
    rail.show_work("Reading mnist, 20 %")
    assert rail.message.text() == reason_not_continuable(
        make_listed_run("a", "running")
    )  # it is as new as can be
    rail.await_list("Reading mnist, 40 %")
    rail.search.setText("digits")  # what is chosen is of before, too
    assert "Reading mnist, 40 %" in rail.message.text()
    rail.show_runs(RunsListed("runs", (make_listed_run("a", step=378_855),)))
    assert "step 378,855" in rail.message.text()


def test_a_list_that_waits_for_the_engine_says_for_what(rail: RunsRail) -> None:
    assert rail.message.isVisible()
    rail.show_work("Reading mnist, 40 %")
    assert "Reading mnist, 40 %" in rail.message.text()
    rail.show_runs(RunsListed("runs", ()))
    assert "Reading mnist" not in rail.message.text()
    rail.show_work("Reading mnist, 60 %")  # the list is there
    assert "Reading mnist" not in rail.message.text()
    rail.await_list("Reading mnist, 60 %")  # it is read anew, and the engine may say nothing more
    assert "Reading mnist, 60 %" in rail.message.text()


def test_columns_are_sorted_by_what_they_mean(rail: RunsRail) -> None:
    runs = (
        make_listed_run("a", step=90, seconds=7200.0, best=0.5, bytes=9_000),
        make_listed_run("b", step=1200, seconds=70.0, best=float("nan"), bytes=2_000_000),
        make_listed_run("c", step=700, seconds=9.0, best=0.98, bytes=1_100_000_000),
    )
    rail.show_runs(RunsListed("runs", runs))
    orders = {"steps": "acb", "time": "cba", "best": "bac", "size": "abc", "name": "abc"}
    for title, order in orders.items():
        rail.table.sortByColumn(TITLES.index(title), Qt.SortOrder.AscendingOrder)
        assert "".join(cells(rail, "name")) == order, title
        rail.table.sortByColumn(TITLES.index(title), Qt.SortOrder.DescendingOrder)
        assert "".join(cells(rail, "name")) == order[::-1], title


def test_the_filter_wants_every_word_in_any_column(rail: RunsRail) -> None:
    runs = (
        make_listed_run("a", regime="FL", notes="wide batch"),
        make_listed_run("b", regime="FL", given_name="Wide"),
        make_listed_run("c", data="mnist"),
    )
    rail.show_runs(RunsListed("runs", runs))
    for text, names in (("WIDE fl", ["a", "Wide"]), ("mnist", ["c"]), ("fl mnist", []), ("", None)):
        QTest.keyClicks(rail.search, text) if text else rail.search.clear()
        assert cells(rail, "name") == (names if names is not None else ["a", "Wide", "c"])
        if not names and text:
            assert rail.message.text() not in ("", reason_not_continuable(runs[0]))
        rail.search.clear()


def test_the_rail_shows_and_continues_what_can_be(rail: RunsRail, sent: list[Command]) -> None:
    assert not rail.go_on.isEnabled()
    runs = (make_listed_run("a", "running"), make_listed_run("b"), make_listed_run("c", "damaged"))
    rail.show_runs(RunsListed("runs", runs))
    assert not rail.go_on.isEnabled()
    assert rail.message.text() == reason_not_continuable(runs[0])
    rail.table.choose_run("b")
    rail.show_run.click()
    rail.go_on.click()
    rail.compare.click()
    assert sent == [ShowRun("b"), ContinueRun("b"), CompareRun("b")]
    rail.table.choose_run("c")
    assert not rail.show_run.isEnabled()
    assert not rail.compare.isEnabled()
    assert rail.message.text() == reason_not_continuable(runs[2])
    rail.show_runs(RunsListed("nowhere", ()))
    assert "nowhere" in rail.message.text()
    rail.show_runs(RunsListed("", ()))
    assert rail.message.text()
    assert reason_not_continuable(runs[1]) == ""
    assert describe_run(runs[1], 4700.0) == (
        "DL · fc · digits · seed 0",
        "stopped at step 1,200 of 4,500 · best 96.1 % · 1 h ago",
    )


def test_the_filter_menu_opens_whatever_numbers_runs_have(rail: RunsRail) -> None:
    runs = (
        make_listed_run(str(index), settings={"lr": lr})
        for index, lr in enumerate((0.1, math.inf, -math.inf, math.nan))
    )
    rail.show_runs(RunsListed("runs", tuple(runs)))
    rail.terms_menu.aboutToShow.emit()
    assert rail.terms_menu.actions()


def test_a_name_is_typed_into_its_cell_and_shown_when_the_engine_has_it(
    rail: RunsRail, sent: list[Command], qtbot: QtBot
) -> None:
    run = make_listed_run("a", notes="kept")
    rail.show_runs(RunsListed("runs", (run,)))
    rail.table.edit(rail.runs.index(0, NAME))
    editor = rail.table.findChild(QLineEdit)
    assert isinstance(editor, QLineEdit)
    editor.selectAll()
    QTest.keyClicks(editor, "wide batch")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(sent))
    assert sent == [NoteRun("a", "wide batch", "kept")]
    assert cells(rail, "name") == ["a"]
    rail.show_runs(RunsListed("runs", (dataclasses.replace(run, given_name="wide batch"),)))
    assert cells(rail, "name") == ["wide batch"]


def test_notes_are_kept_when_another_run_is_chosen(rail: RunsRail, sent: list[Command]) -> None:
    rail.show_runs(
        RunsListed(
            "runs", (make_listed_run("a", given_name="mine"), make_listed_run("b", notes="old"))
        )
    )
    rail.table.choose_run("a")
    assert rail.notes.toPlainText() == ""
    rail.notes.setPlainText("β = 4 was better")
    rail.table.choose_run("b")
    assert sent == [NoteRun("a", "mine", "β = 4 was better")]
    assert rail.notes.toPlainText() == "old"
    rail.prepare_to_close()
    assert len(sent) == 1  # nothing was changed


def test_a_name_and_notes_that_come_while_notes_are_written_are_not_lost(
    rail: RunsRail, sent: list[Command]
) -> None:
    def listed(name: str, notes: str) -> None:
        rail.show_runs(
            RunsListed(
                "runs", (make_listed_run("a", given_name=name, notes=notes), make_listed_run("b"))
            )
        )

    listed("mine", "")
    rail.table.choose_run("a")
    listed("mine", "by another")
    assert rail.notes.toPlainText() == "by another"
    rail.notes.setPlainText("β = 4 was better")
    listed("renamed", "by another")
    rail.table.choose_run("b")
    assert sent == [NoteRun("a", "renamed", "β = 4 was better")]


def test_ticked_runs_are_drawn_six_at_most_and_each_in_its_colour(
    rail: RunsRail, sent: list[Command]
) -> None:
    rail.show_runs(RunsListed("runs", tuple(make_listed_run(name) for name in "abcdefg")))
    for place in range(7):
        rail.table.setCurrentIndex(rail.runs.index(place, NAME))
        rail.table.toggle_current_tick()
    assert sent[-1] == ReadCurves(tuple("abcdef"))
    assert "At most 6 runs" in rail.message.text()
    colours = {
        rail.runs.index(row, NAME).data(Qt.ItemDataRole.ForegroundRole).name() for row in range(6)
    }
    assert colours == {LIGHT.role_colour(role).lower() for role in OVERLAYS}
    rail.show_runs(RunsListed("runs", tuple(make_listed_run(name) for name in "bc")))
    assert sent[-1] == ReadCurves(("b", "c"))
    rail.untick.click()
    assert sent[-1] == ReadCurves(())
    assert not rail.untick.isVisible()


def test_deleting_is_at_once_unless_a_run_is_being_recorded(
    rail: RunsRail, sent: list[Command]
) -> None:
    rail.show_runs(
        RunsListed(
            "runs", (make_listed_run("a"), make_listed_run("b", "running"), make_listed_run("c"))
        )
    )
    trashed: list[tuple[str, ...]] = []
    rail.trash_wanted.connect(trashed.append)
    rail.table.choose_run("a")
    rail.table.setFocus()
    QTest.keyClick(rail.table, Qt.Key.Key_Delete)
    assert trashed == [("a",)]
    rail.table.choose_run("c")
    rows = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
    rail.table.selectionModel().select(rail.runs.index(0, NAME), rows)
    rail.delete_selected()
    assert trashed[1:] == [("a", "c")]  # from the top
    rail.table.choose_run("b")
    rail.delete_selected()
    assert len(trashed) == 2
    assert rail.message.refusal
    assert sent == []


def test_deleting_what_has_no_trash_asks_in_place(rail: RunsRail, sent: list[Command]) -> None:
    rail.show_runs(RunsListed("runs", (make_listed_run("a"), make_listed_run("b", "running"))))
    rail.ask_to_delete_permanently(("a",))
    assert "2.4 MB" in rail.deletion.sentence.text()
    rail.deletion.no.click()
    assert not rail.deletion.sentence.isVisible()
    assert not sent
    rail.ask_to_delete_permanently(("a",))
    rail.deletion.yes.click()
    assert sent == [DeleteRun("a")]
    rail.ask_to_delete_permanently(("b",))
    assert not rail.deletion.sentence.isVisible()


def days_ago(days: int, clock: str = "22:03") -> str:
    """A time of recording, in local time, as a run states it."""
    at = datetime.combine(date.today() - timedelta(days), clock_time.fromisoformat(clock))
    return at.astimezone(UTC).isoformat()


@pytest.mark.parametrize("held", [Qt.Key.Key_Control, Qt.Key.Key_Shift])
def test_a_run_is_chosen_whichever_keys_are_held(rail: RunsRail, held: Qt.Key) -> None:
    rail.show_runs(RunsListed("runs", tuple(make_listed_run(name) for name in "abc")))
    rail.table.choose_run("a")
    modifiers = {
        Qt.Key.Key_Control: Qt.KeyboardModifier.ControlModifier,
        Qt.Key.Key_Shift: Qt.KeyboardModifier.ShiftModifier,
    }
    QTest.keyPress(rail.table, held, modifiers[held])
    try:
        for folder in ("b", "a", "c"):
            rail.table.choose_run(folder)
            assert [run.folder for run in rail.table.selected_runs()] == [folder]
    finally:
        QTest.keyRelease(rail.table, held)


@pytest.fixture
def narrow(rail: RunsRail) -> RunsRail:
    rail.show_form(wide=False)
    rail.resize(220, 600)
    return rail


def row_centre(rail: RunsRail, folder: str) -> QPoint:
    return rail.table.visualRect(rail.runs.index(rail.runs.row_of(folder), LINE)).center()


def tick_centre(rail: RunsRail, folder: str) -> QPoint:
    return RunLine.tick_box(
        rail.table.visualRect(rail.runs.index(rail.runs.row_of(folder), LINE))
    ).center()


def test_a_run_in_the_place_of_a_heading_has_the_height_of_a_run(narrow: RunsRail) -> None:
    runs = tuple(make_listed_run(name, created=days_ago(day)) for day, name in enumerate("abcd"))
    for listed in (runs, tuple(make_listed_run(name, created=days_ago(0)) for name in "efgh")):
        narrow.show_runs(RunsListed("runs", listed))
    table = narrow.table
    heights = [table.rowHeight(row) for row in range(table.runs.rowCount())]
    assert heights == [HEADING_ROW, ROW, ROW, ROW, ROW]


def test_the_list_is_headed_by_days_and_sorted_by_what_is_chosen(narrow: RunsRail) -> None:
    runs = (
        make_listed_run("a", created=days_ago(1, "09:30"), best=0.9),
        make_listed_run("b", created=days_ago(0, "00:01"), best=0.5),
        make_listed_run("c", created=days_ago(1, "22:03"), best=0.7),
        make_listed_run("d", created="2021-03-05T12:00:00+00:00"),
    )
    narrow.show_runs(RunsListed("runs", runs))
    shown = [narrow.runs.index(row, LINE).data() for row in range(narrow.runs.rowCount())]
    assert shown == ["Today", "b", "Yesterday", "c", "a", "5 Mar 2021", "d"]
    assert not narrow.runs.flags(narrow.runs.index(0, LINE))
    narrow.table.choose_run("c")
    narrow.table.sort_by("best")
    assert [run.name for run in narrow.runs.shown] == ["d", "a", "c", "b"]
    assert narrow.runs.rowCount() == 4
    assert narrow.table.current_run() == runs[2]
    narrow.table.sort_by(NEWEST)
    assert narrow.runs.rowCount() == 7


def test_a_click_on_the_box_ticks_and_a_double_click_on_the_row_opens(
    narrow: RunsRail, sent: list[Command]
) -> None:
    narrow.show_runs(RunsListed("runs", tuple(make_listed_run(name) for name in "ab")))
    left, place = Qt.MouseButton.LeftButton, tick_centre(narrow, "b")
    view = narrow.table.viewport()
    QTest.mouseClick(view, left, pos=place)
    assert sent == [ReadCurves(("b",))]
    QTest.mouseDClick(view, left, pos=place)
    assert sent[1:] == [ReadCurves(())]
    QTest.mouseDClick(view, left, pos=row_centre(narrow, "a"))
    assert sent[2:] == [ShowRun("a")]
    QTest.keyClick(narrow.table, Qt.Key.Key_Space)
    assert sent[3:] == [ReadCurves(("a",))]
    QTest.keyClick(narrow.table, Qt.Key.Key_Return)
    assert sent[4:] == [ShowRun("a")]


def test_ticks_follow_what_could_be_read(rail: RunsRail, sent: list[Command]) -> None:
    rail.show_runs(RunsListed("runs", tuple(make_listed_run(name) for name in "abc")))
    for name in "abc":
        rail.table.choose_run(name)
        rail.table.toggle_current_tick()
    curves = {
        name: RunCurves(name, name, {}, {"eigenvalues": np.ones(1)} if name == "a" else {})
        for name in "ac"
    }
    rail.show_read(CurvesRead((curves["a"],), ("a", "b")))  # of ticks that have changed since
    assert rail.runs.ticked == ("a", "b", "c")
    rail.show_read(CurvesRead(tuple(curves.values()), ("a", "b", "c")))
    assert rail.runs.ticked == ("a", "c")
    assert len(sent) == 3  # nothing is read again
    assert rail.runs.without_spectrum == {"c"}
    tips = [str(rail.runs.index(row, LINE).data(Qt.ItemDataRole.ToolTipRole)) for row in (0, 2)]
    assert ["NPK" in tip for tip in tips] == [False, True]


def test_a_line_says_what_tells_a_run_from_its_like(narrow: RunsRail) -> None:
    runs = (
        make_listed_run("20261126-220300-DL-fc-digits", created=days_ago(0), net="fc 32×5",
                        best=0.936, seed=3, notes="good #paper"),
        make_listed_run("20261126-220400-DL-fc-digits", created=days_ago(0), net="fc 32×5",
                        seed=4, given_name="mine"),
        make_listed_run("named", "failed", net="cnn4 32", best=float("nan")),
    )  # fmt: skip
    narrow.show_runs(RunsListed("runs", runs))
    line = narrow.table.itemDelegateForColumn(LINE)
    assert isinstance(line, RunLine)
    texts = [line.shown_texts(run, 400) for run in runs]
    assert texts[0][:4] == ("22:03", "DL · fc 32×5", "93.6 %", "#paper · seed 3")
    assert texts[1][3] == "mine · seed 4"
    assert texts[2][1:4] == ("DL · cnn4 32", "", "failed · named · digits")
    assert run_title(runs[1]) == "mine"
    assert run_title(runs[0]) == "Today 22:03"


@pytest.mark.parametrize("width", [220, 252])
def test_no_number_of_a_line_is_cut(narrow: RunsRail, width: int) -> None:
    runs = tuple(
        make_listed_run(f"{regime}{net}{best}", regime=regime, net=net, best=best, seed=123_456,
                        created=days_ago(0), trend="." * 22 + "0z",
                        given_name="lr 0.00035 with 128 units", settings={"lr": 0.00035})
        for regime in ("DL", "FR-II", "soft-ReLU", "unknown regime")
        for net in ("fc 1024×12", "resnet50-imagenet-v2.pth", "cnn4 32")
        for best in (1.0, 0.936)
    )  # fmt: skip
    narrow.show_runs(RunsListed("runs", runs))
    line = narrow.table.itemDelegateForColumn(LINE)
    assert isinstance(line, RunLine)
    for run in runs:
        clock, title, accuracy, detail, _ = line.shown_texts(run, width - 10)  # of the scroll bar
        assert (clock, accuracy) == ("22:03", "100.0 %" if run.best == 1.0 else "93.6 %")
        numbers = re.findall(NUMBERS, f"{title} {detail}")
        assert set(re.findall(NUMBERS, run.net)) <= set(numbers)
        own = f"{run.net} {run.given_name} lr {run.settings['lr']} seed {run.seed}"
        assert set(numbers) <= set(re.findall(NUMBERS, own))
        metrics = line._metrics
        taken = sum(map(metrics.horizontalAdvance, (clock, title, accuracy)))
        assert taken <= width - 10 - 2 * 8 - 14 - 8


NUMBERS = r"\d[\d.,×]*"


def test_a_term_of_the_menu_filters_and_escape_clears(narrow: RunsRail) -> None:
    runs = tuple(make_listed_run(regime, regime=regime) for regime in ("DL", "DLN", "ReLU"))
    narrow.show_runs(RunsListed("runs", runs))
    narrow.terms_menu.aboutToShow.emit()
    menus = [action.menu() for action in narrow.terms_menu.actions() if action.menu()]
    (regimes,) = [menu for menu in menus if menu.title() == "regime"]
    assert [action.text() for action in regimes.actions()] == ["DL", "DLN", "ReLU"]
    regimes.actions()[0].trigger()
    assert [run.name for run in narrow.runs.shown] == ["DL"]
    regimes.actions()[2].trigger()  # another value of the same setting
    assert [run.name for run in narrow.runs.shown] == ["ReLU"]
    assert "1 of 3" in narrow.count.text()
    QTest.keyClick(narrow.search, Qt.Key.Key_Escape)
    assert len(narrow.runs.shown) == 3


def test_a_thousand_runs_keep_the_chosen_one_in_sight_of_a_new_list(rail: RunsRail) -> None:
    runs = tuple(make_listed_run(f"run {place}", step=place) for place in range(1000))
    rail.show_runs(RunsListed("runs", runs))
    rail.table.choose_run("run 700")
    rail.show_runs(RunsListed("runs", runs[1:]))
    chosen = rail.table.current_run()
    assert chosen is not None
    assert chosen.name == "run 700"


def test_after_a_deletion_the_next_run_is_chosen(narrow: RunsRail) -> None:
    runs = tuple(make_listed_run(name, created=days_ago(0)) for name in "abcd")
    narrow.show_runs(RunsListed("runs", runs))
    narrow.table.choose_run("c")
    narrow.show_runs(RunsListed("runs", runs[:2] + runs[3:]))
    assert narrow.table.current_run() == runs[3]
    narrow.show_runs(RunsListed("runs", runs[:2]))
    assert narrow.table.current_run() == runs[1]
    narrow.show_runs(RunsListed("runs", ()))
    assert narrow.table.current_run() is None


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
    assert short_name("20261129-101559-FL-cnn4-mnist") == "10:15 · FL"
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


def test_each_row_is_as_high_as_its_kind_after_a_filter_and_another_order(
    narrow: RunsRail,
) -> None:
    runs = (
        make_listed_run("a", created=days_ago(0), regime="ReLU"),
        make_listed_run("b", created=days_ago(1), best=0.5),
        make_listed_run("c", created=days_ago(1), best=0.7),
        make_listed_run("d", created=days_ago(3)),
    )
    narrow.show_runs(RunsListed("runs", runs))
    header = narrow.table.verticalHeader()
    for change in (
        lambda: narrow.search.setText("regime:DL"),
        lambda: narrow.table.sort_by("best"),
        lambda: narrow.search.clear(),
        lambda: narrow.table.sort_by(NEWEST),
    ):
        change()
        headings = narrow.runs.heading_rows()
        for row in range(narrow.runs.rowCount()):
            expected = HEADING_ROW if row in headings else ROW
            assert header.sectionSize(row) == expected


def test_a_run_is_branched_at_its_best_step_from_its_menu(narrow: RunsRail) -> None:
    runs = make_listed_run("a", best=0.9, best_step=40), make_listed_run("b", best=math.nan)
    narrow.show_runs(RunsListed("runs", runs))
    wanted: list[RecordedRun] = []
    narrow.branch_wanted.connect(wanted.append)
    narrow.table.choose_run("b")
    assert not narrow.branch.isEnabled()  # it was never tested
    narrow.table.choose_run("a")
    narrow.branch.trigger()
    assert wanted == [runs[0]]
