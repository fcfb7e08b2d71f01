"""The pages of branches and of changes: what they send and what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import (
    BranchChanges,
    BranchStatus,
    CheckpointsListed,
    CompareRun,
    ComparisonClosed,
    ComparisonOpened,
    HoldCheckpoint,
    ListCheckpoints,
    StartBranch,
    StopBranch,
)
from dgn_engine.protocol.messages import Command, EngineReady, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import (
    ChangesListed,
    Diverged,
    ListedChange,
    UndoChanged,
    UndoMany,
    UndoSetting,
)
from dgn_engine.scene.differences import Difference, Differences
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.inspector.pages.compare_page import LIST, ComparePage
from dgn_viewer.inspector.pages.difference_table import DifferenceTable
from dgn_viewer.style.chosen_numbers import choose_numbers
from tests.engine.panels.pictures import make_series
from tests.viewer.inspector.inspected import CATALOGUE, STARTED

LEFT = Qt.MouseButton.LeftButton
CHANGES = BranchChanges(regime="FL", learning_rate=0.01)
BRANCH = BranchStatus("starting", "b", "/runs/b", "p", 7, CHANGES, 7, "low priority", "dgn train")


class Bench:
    """A page with the state that events make."""

    def __init__(self, page: ComparePage | ChangesPage) -> None:
        self.page, self.state = page, RunState()
        self.tell(EngineReady(CATALOGUE, "2.13"), STARTED)

    def tell(self, *events: object) -> None:
        for event in events:
            self.state = self.state.after(event)  # type: ignore[arg-type]
            self.page.on_event(event, self.state)  # type: ignore[arg-type]


@pytest.fixture
def seen() -> dict[str, View]:
    return {"view": View()}


@pytest.fixture
def page(qtbot: QtBot, sent: list[Command], seen: dict[str, View]) -> ComparePage:
    page = ComparePage(sent.append, lambda: seen["view"], lambda: seen["view"].step)
    qtbot.addWidget(page)
    return page


def test_a_branch_is_sent_as_it_is_filled_in(page: ComparePage, sent: list[Command]) -> None:
    bench = Bench(page)
    bench.tell(CheckpointsListed(1, ((3, "before FL"), (7, "")), "/runs/p"))
    assert [page.origin.itemText(i) for i in range(3)] == ["now", "step 7", "step 3, before FL"]
    page.regime.pick_value("FL")
    page.order.setText("2 1")
    page.rate.setText("0,01")
    page.seed.setText("4")
    page.origin.setCurrentIndex(2)
    QTest.mouseClick(page.start, LEFT)
    asked = BranchChanges(regime="FL", wiring=(1, 0), learning_rate=0.01, seed=4)
    assert sent[-1] == StartBranch(asked, 3)
    assert "3" in page.compare_step.text()
    QTest.mouseClick(page.compare_step, LEFT)
    assert sent[-1] == CompareRun("/runs/p", 3)
    page.rate.setText("fast")
    QTest.mouseClick(page.start, LEFT)
    assert sent[-1] == CompareRun("/runs/p", 3)
    assert "'fast'" in page.message.refusal
    page.rate.setText("0.1")  # what was wrong is edited
    assert page.message.isHidden()


def test_any_step_can_be_typed_and_what_it_begins_with_is_said(
    page: ComparePage, sent: list[Command], seen: dict[str, View]
) -> None:
    bench = Bench(page)
    marks = (Mark(3.0, "FL"), Mark(2.0, "lr 0.01", "dial"), Mark(2.0, "branch", "run"))
    seen["view"] = View(step=12000, marks=marks)
    listed = CheckpointsListed(1, ((3, "before FL"), (10_000, "")), "/runs/p", 0.013)
    bench.tell(listed)
    line = page.origin.line
    words = {}
    for text in ("10,154", "10000", "2", "12,000", "now", "step 3, before FL", "12001", "soon"):
        line.selectAll()
        QTest.keyClicks(line, text)
        words[text] = page.origin_words.text()
        assert page.start.isEnabled() == (text not in ("12001", "soon"))
        assert page.compare_step.isEnabled() == (text in ("10000", "step 3, before FL"))
    told = {
        "10,154": ("10,154", "10,000", "154 steps", "2 s"),
        "10000": ("10,000",),
        "2": ("2 steps", "lr 0.01"),
        "step 3, before FL": ("Step 3", "FL"),
        "12001": ("0 to 12,000",),
        "soon": ("'soon'",),
    }
    for text, parts in told.items():
        assert all(part in words[text] for part in parts), words[text]
    assert words["12,000"] == words["now"] != ""
    line.selectAll()
    QTest.keyClicks(line, "10154")
    page.pace.pick_value("full")
    bench.tell(CheckpointsListed(1, ((10_100, ""), (11_990, "")), "/runs/p"))
    assert line.text() == "10154"  # what was typed stays when the list is another one
    QTest.mouseClick(page.start, LEFT)
    assert sent[-1] == StartBranch(BranchChanges(), 10_154, full_speed=True)


def test_it_begins_at_the_step_that_is_looked_back_at_and_holds_its_checkpoint(
    qtbot: QtBot, sent: list[Command]
) -> None:
    cursor: list[int | None] = [None]
    page = ComparePage(sent.append, lambda: View(step=12), lambda: 12, lambda: cursor[0])
    qtbot.addWidget(page)
    bench = Bench(page)
    bench.tell(CheckpointsListed(1, ((3, ""), (7, "")), "/runs/p"))
    page.show()
    assert page.origin.chosen_step() is None
    cursor[0] = 7
    page.update_numbers()
    assert page.origin.chosen_step() == 7
    page.origin.line.selectAll()
    QTest.keyClicks(page.origin.line, "5")
    cursor[0] = 11
    page.update_numbers()
    assert page.origin.chosen_step() == 5  # somebody has chosen
    bench.tell(replace(STARTED, run=2))  # another run, whose checkpoint is to be held too
    page.update_numbers()
    page.hide()
    held = [command.step for command in sent if isinstance(command, HoldCheckpoint)]
    assert held == [7, 5, 5, None]


def test_now_is_the_step_that_the_run_has_reached_while_an_earlier_one_is_on_show(
    qtbot: QtBot, sent: list[Command]
) -> None:
    page = ComparePage(sent.append, lambda: View(step=30, cursor=30), lambda: 100, lambda: 30)
    qtbot.addWidget(page)
    bench = Bench(page)
    bench.tell(CheckpointsListed(1, (), "/runs/p"))
    page.on_event(UndoChanged(), bench.state.moved_to_step(30))
    page.show()
    page.update_numbers()
    assert page.origin_words.text() == "Step 30: 30 steps repeated from the start."
    QTest.mouseClick(page.start, LEFT)
    assert sent[-1] == StartBranch(BranchChanges(), 30)
    for text, possible in (("75", True), ("101", False)):
        page.origin.line.selectAll()
        QTest.keyClicks(page.origin.line, text)
        assert page.start.isEnabled() == possible


def test_a_step_is_written_and_typed_in_the_chosen_style_of_numbers(
    qtbot: QtBot, sent: list[Command], qapp: QApplication
) -> None:
    cursor: list[int | None] = [12_345]
    page = ComparePage(sent.append, lambda: View(step=20_000), lambda: 20_000, lambda: cursor[0])
    qtbot.addWidget(page)
    choose_numbers(qapp, "1 234,5")
    try:
        Bench(page).tell(CheckpointsListed(1, ((10_000, "before FL"),), "/runs/p"))
        page.update_numbers()
        shown = page.origin.currentText(), page.origin.itemText(1)
        assert shown == ("12\u202f345", "step 10\u202f000, before FL")
        for text in (*shown, "3 314", "3,314", "3314"):
            page.origin.line.setText(text)
            assert page.origin.chosen_step() == int("".join(filter(str.isdigit, text)))
    finally:
        choose_numbers(qapp, "1,234.5")


def test_checkpoints_are_listed_again_while_the_page_is_seen(
    page: ComparePage, sent: list[Command]
) -> None:
    bench = Bench(page)
    assert not page._timer.isActive()
    page.show()
    assert page._timer.isActive()
    before = sent.count(ListCheckpoints())
    for _ in range(2 * LIST):
        page._timer.timeout.emit()
    assert sent.count(ListCheckpoints()) == before + 2
    bench.tell(CheckpointsListed(1, ((9, ""),), "/runs/p"))
    assert page.origin.count() == 2
    page.hide()
    assert not page._timer.isActive()


def test_the_page_follows_the_branch(page: ComparePage, sent: list[Command]) -> None:
    bench = Bench(page)
    assert page.start.isEnabled()
    assert not page.stop.isEnabled()
    bench.tell(BRANCH)
    assert sent == [ListCheckpoints()]
    assert not page.compare.isEnabled()  # nothing of it is there
    assert page.stop.isEnabled()
    assert not page.start.isEnabled()
    assert "regime FL, learning rate 0.01 · starting" in page.status.text()
    assert page.sharing.text()
    QTest.mouseClick(page.stop, LEFT)
    assert sent[-1] == StopBranch()
    for phase in ("training", "finished"):  # whatever is chosen under 'from'
        bench.tell(replace(BRANCH, phase=phase), CheckpointsListed(1, ((3, ""),), "/runs/p"))
        page.origin.pick_value("3")
        QTest.mouseClick(page.compare, LEFT)
        assert sent[-1] == CompareRun("/runs/b")
    second = replace(BRANCH, folder="/runs/c", from_step=9, phase="training", step=11)
    bench.tell(replace(second, phase="starting"), second)  # another one after it
    assert "step 9" in page.status.text()
    QTest.mouseClick(page.compare, LEFT)
    assert sent[-1] == CompareRun("/runs/c")
    assert (page.stop.isEnabled(), page.start.isEnabled()) == (True, False)
    bench.tell(Refused(StartBranch.title, "Not recorded."))
    assert page.message.refusal == "Not recorded."
    bench.tell(replace(second, phase="starting"))
    assert page.message.refusal == ""


def test_differences_are_those_of_the_b_that_is_there_now(
    page: ComparePage, seen: dict[str, View]
) -> None:
    bench = Bench(page)
    page.update_numbers()
    assert page.table.isHidden()
    assert not page.nothing.isHidden()
    key = ("training", "train_loss")
    ours = {key: make_series([1, 4, 9], [1.0, 0.5, 0.25])}
    for name, step, value, row in (
        ("b", 4, 0.75, ("train loss", "0.5", "0.75", "+0.25")),
        ("c", 9, 1.0, ("train loss", "0.25", "1", "+0.75")),
    ):
        bench.tell(ComparisonOpened(name, "", "FL", ()))
        theirs = {key: make_series([step], [value])}
        seen["view"] = View(series=ours, compared=ComparedRun(name, series=theirs))
        page.update_numbers()
        assert page.table.row_texts() == [(f"Scores · step {step}",), row]
        assert page.sides.text().splitlines()[1] == f"B: {name}"
        page.set_theme(DARK)
        assert page.nothing.isHidden()
    bench.tell(ComparisonClosed())
    page.update_numbers()
    assert page.table.isHidden()


def test_changes_are_listed_and_undone_back_to_one(qtbot: QtBot, sent: list[Command]) -> None:
    steps: list[int] = []
    page = ChangesPage(sent.append, steps.append)
    qtbot.addWidget(page)
    bench = Bench(page)
    assert page.list.isHidden()
    done = (ListedChange(3, "regime DL → FL"), ListedChange(8, "β 8 → 4"))
    bench.tell(ChangesListed(done, (ListedChange(9, "value input image → ones"),)))
    texts = [page.list.item(place).text() for place in range(page.list.count())]
    assert texts == [
        "step 9  value input image → ones (undone)",
        "step 8  β 8 → 4",
        "step 3  regime DL → FL",
    ]
    page.list.itemClicked.emit(page.list.item(2))
    assert steps == [3]
    page.list.setCurrentRow(2)
    QTest.mouseClick(page.back, LEFT)
    assert sent == [UndoMany(2)]
    page.list.setCurrentRow(0)
    QTest.mouseClick(page.back, LEFT)
    assert sent[-1] == UndoMany(-1)
    assert page.only.isHidden()  # the newest is no setting
    bench.tell(ChangesListed((*done[:1], ListedChange(8, "β 8 → 4", "β"))))
    assert page.only.text() == "Revert β only"
    QTest.mouseClick(page.only, LEFT)
    assert sent[-1] == UndoSetting()
    bench.tell(Diverged(9))
    assert page.only.isHidden()


def test_the_order_of_many_gate_layers_leaves_room_for_the_other_columns(qtbot: QtBot) -> None:
    table = DifferenceTable(LIGHT)
    qtbot.addWidget(table)
    table.resize(340, 300)
    table.show()
    order = " ".join(map(str, range(12, 0, -1)))
    scores = (Difference("train loss", "3.563e-06", "3.998e-05", "+3.64e−05", "step 3"),)
    table.show_differences(Differences((Difference("gate layers", "in order", order),), scores))
    header = table.horizontalHeader()
    assert header.length() <= table.viewport().width()
    assert header.sectionSize(0) > header.sectionSize(1)
    assert table.rowHeight(1) > table.rowHeight(3)
    assert table.row_texts()[1] == ("gate layers", "in order", order, "")


def test_steps_stand_in_each_row_where_they_differ_and_a_reason_once_below_the_group(
    qtbot: QtBot,
) -> None:
    table = DifferenceTable(LIGHT)
    qtbot.addWidget(table)
    why = "B was not measured up to step 3."
    scores = (
        Difference("train loss", "0.5", "0.75", "+0.25", "step 3"),
        Difference("test loss", "0.5", "–", "", "A 9", why=why),
        Difference("test accuracy", "90.00 %", "–", "", "A 9", why=why),
    )
    table.show_differences(Differences(scores=scores))
    rows = table.row_texts()
    assert [row[0].splitlines()[1:] for row in rows[1:4]] == [["step 3"], ["A 9"], ["A 9"]]
    assert rows[4:] == [(why,)]
    table.show_differences(Differences(scores=scores[1:]))
    assert [row[0] for row in table.row_texts()] == [
        *("Scores · A 9", "test loss", "test accuracy", why)
    ]


def test_the_step_of_the_best_test_accuracy_can_be_chosen(
    page: ComparePage, sent: list[Command], seen: dict[str, View]
) -> None:
    scores = make_series([2, 4, 6], [0.5, 0.9, 0.9])
    seen["view"] = View(step=6, series={("training", "test_accuracy"): scores})
    Bench(page).tell(CheckpointsListed(1, (), "/runs/p"))
    page.origin.setCurrentIndex(1)
    QTest.mouseClick(page.start, LEFT)
    assert sent[-1] == StartBranch(BranchChanges(), 4)
