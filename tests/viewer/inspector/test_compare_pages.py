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
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.scene.theme import DARK
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.style.chosen_numbers import choose_numbers
from tests.engine.panels.pictures import series
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
    page.regime.pick("FL")
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
    assert page.message.text() == "The learning rate is 'fast'; it must be a number."
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
        words[text] = page.origin_words.text(), page.start.isEnabled()
        assert page.compare_step.isEnabled() == (text in ("10000", "step 3, before FL"))
    assert words == {
        "10,154": ("Step 10,154: checkpoint of step 10,000 and 154 steps again, about 2 s.", True),
        "10000": ("Step 10,000: exactly a checkpoint.", True),
        "2": (
            "Step 2: 2 steps again from the beginning, less than 1 s, "
            "before lr 0.01 was set there.",
            True,
        ),
        "12,000": ("Now: the run as it is when the branch starts.", True),
        "now": ("Now: the run as it is when the branch starts.", True),
        "step 3, before FL": ("Step 3: exactly a checkpoint, before FL was chosen there.", True),
        "12001": ("The run has steps 0 to 12,000.", False),
        "soon": ("'soon' is no step; type its number, or 'now'.", False),
    }
    line.selectAll()
    QTest.keyClicks(line, "10154")
    page.pace.pick("full")
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
    assert page.origin.step() is None
    cursor[0] = 7
    page.renew()
    assert page.origin.step() == 7
    page.origin.line.selectAll()
    QTest.keyClicks(page.origin.line, "5")
    cursor[0] = 11
    page.renew()
    assert page.origin.step() == 5  # somebody has chosen
    page.hide()
    held = [command.step for command in sent if isinstance(command, HoldCheckpoint)]
    assert held == [7, 5, None]


def test_now_is_the_step_that_the_run_has_reached_while_an_earlier_one_is_on_show(
    qtbot: QtBot, sent: list[Command]
) -> None:
    page = ComparePage(sent.append, lambda: View(step=30, cursor=30), lambda: 100, lambda: 30)
    qtbot.addWidget(page)
    bench = Bench(page)
    bench.tell(CheckpointsListed(1, (), "/runs/p"))
    page.on_event(UndoChanged(), bench.state.at(30))
    page.show()
    page.renew()
    assert page.origin_words.text() == "Step 30: 30 steps again from the beginning."
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
        page.renew()
        shown = page.origin.currentText(), page.origin.itemText(1)
        assert shown == ("12\u202f345", "step 10\u202f000, before FL")
        for text in (*shown, "3 314", "3,314", "3314"):
            page.origin.line.setText(text)
            assert page.origin.step() == int("".join(filter(str.isdigit, text)))
    finally:
        choose_numbers(qapp, "1,234.5")


def test_checkpoints_are_listed_again_while_the_page_is_seen(
    page: ComparePage, sent: list[Command], qtbot: QtBot
) -> None:
    bench = Bench(page)
    page.show()
    before = sent.count(ListCheckpoints())
    qtbot.waitUntil(lambda: sent.count(ListCheckpoints()) > before)
    bench.tell(CheckpointsListed(1, ((9, ""),), "/runs/p"))
    assert page.origin.count() == 2


def test_the_page_follows_the_branch(page: ComparePage, sent: list[Command]) -> None:
    bench = Bench(page)
    assert page.start.isEnabled()
    assert not page.stop.isEnabled()
    bench.tell(BRANCH)
    assert sent == [ListCheckpoints()]
    assert not page.compare.isEnabled()  # nothing of it is there
    assert page.stop.isEnabled()
    assert not page.start.isEnabled()
    assert "regime FL, learning rate 0.01 · starts" in page.status.text()
    assert page.sharing.text() == "Low priority."
    QTest.mouseClick(page.stop, LEFT)
    assert sent[-1] == StopBranch()
    for phase in ("training", "finished"):  # whatever is chosen under 'from'
        bench.tell(replace(BRANCH, phase=phase), CheckpointsListed(1, ((3, ""),), "/runs/p"))
        page.origin.pick("3")
        QTest.mouseClick(page.compare, LEFT)
        assert sent[-1] == CompareRun("/runs/b")
    bench.tell(Refused(StartBranch.title, "This run is not recorded."))
    assert page.message.text() == "This run is not recorded."


def test_differences_are_shown_under_headings(page: ComparePage, seen: dict[str, View]) -> None:
    bench = Bench(page)
    page.renew()
    assert page.table.isHidden()
    assert not page.nothing.isHidden()
    bench.tell(ComparisonOpened("b", "", "FL", ()))
    key = ("training", "train_loss")
    seen["view"] = View(
        series={key: series([1, 4], [1.0, 0.5])},
        compared=ComparedRun("b", series={key: series([4], [0.75])}),
    )
    page.renew()
    assert page.table.texts() == [
        ("Scores · step 4",),
        ("train loss", "0.5", "0.75", "+0.25"),
    ]
    page.set_theme(DARK)
    assert page.nothing.isHidden()


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
    assert (
        page.list.horizontalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff
    )  # it wraps
    page.list.itemClicked.emit(page.list.item(2))
    assert steps == [3]
    page.list.setCurrentRow(2)
    QTest.mouseClick(page.back, LEFT)
    assert sent == [UndoMany(2)]
    page.list.setCurrentRow(0)
    assert page.back.text() == "Do again up to it"
    QTest.mouseClick(page.back, LEFT)
    assert sent[-1] == UndoMany(-1)
    assert page.only.isHidden()  # the newest is no setting
    bench.tell(ChangesListed((*done[:1], ListedChange(8, "β 8 → 4", "β"))))
    assert page.only.text() == "Put only β back"
    QTest.mouseClick(page.only, LEFT)
    assert sent[-1] == UndoSetting()
    bench.tell(Diverged(9))
    assert page.only.isHidden()
