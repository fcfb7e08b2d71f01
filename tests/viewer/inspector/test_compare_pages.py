"""The pages of branches and of changes: what they send and what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.change_list import ChangesListed, ListedChange, UndoMany
from dgn_engine.protocol.commands import Command, CompareRun, UndoSetting
from dgn_engine.protocol.events import ComparisonOpened, Diverged, EngineReady, Refused
from dgn_engine.protocol.run_branches import (
    BranchChanges,
    BranchStatus,
    CheckpointsListed,
    ListCheckpoints,
    StartBranch,
    StopBranch,
)
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.inspector.pages.compare_page import ComparePage
from dgn_viewer.scene.panel_spec import ComparedRun, View
from dgn_viewer.style.theme import DARK
from tests.viewer.inspector.inspected import CATALOGUE, STARTED
from tests.viewer.panels.pictures import series

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
    page = ComparePage(sent.append, lambda: seen["view"])
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
    page.origin.pick("3")
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


def test_a_checkpoint_that_went_is_not_exchanged_for_now_in_silence(page: ComparePage) -> None:
    bench = Bench(page)
    bench.tell(CheckpointsListed(1, ((3, "before FL"), (7, "")), "/runs/p"))
    page.origin.pick("7")
    bench.tell(CheckpointsListed(1, ((3, "before FL"), (9, "")), "/runs/p"))
    assert page.origin.value() == ""
    assert "The checkpoint of step 7 is gone" in page.message.text()


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
