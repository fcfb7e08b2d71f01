"""Notices: one line in the status bar, a question in a row of its own, and a list of the last."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QCursor, QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.files import WeightsSaved, WeightsTaken
from dgn_engine.protocol.messages import Event, Failed, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RecordingPaused, RecordingResumed
from dgn_engine.protocol.training import (
    ChangesListed,
    Diverged,
    GoBack,
    ListedChange,
    Measured,
    Paused,
    Redo,
    RegimeSwapped,
    SettingChanged,
    Undo,
    UndoChanged,
)
from dgn_engine.scene.theme import DARK
from dgn_engine.views.event_notices import Notice, NoticeButton, describe_refusal
from dgn_viewer.notices import Notices
from dgn_viewer.shell.banner import QuestionRow
from dgn_viewer.shell.notice_line import NoticeLine
from dgn_viewer.shell.notice_list import NoticeList
from dgn_viewer.shell.statusbar import StatusBar
from tests.engine.views.begun_run import make_run_started

BEGUN = make_run_started()
SWAP = RegimeSwapped(120, "DL", "FL", ("value weights",), (), (), ())
LEFT = Qt.MouseButton.LeftButton


class Bench:
    """The parts that show notices, in a window of their own, and a state that tests set."""

    def __init__(self, qtbot: QtBot) -> None:
        self.state = RunState()
        self.done: list[str] = []
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.window.resize(1024, 700)
        self.notices = Notices(
            self.window,
            lambda: self.state,
            lambda command: self.done.append({Undo: "undo", Redo: "redo"}[type(command)]),
        )
        self.status = StatusBar(self.window)
        self.status.setGeometry(0, 670, 1024, 30)
        self.heard: list[tuple[str, bool]] = []
        hear = self.heard.append
        self.line = NoticeLine(self.notices, lambda _, words, urgent: hear((words, urgent)))
        self.status.add_notice_widget(self.line, lambda: self.line.entry is not None)
        self.notices.changed.connect(self.status.share_room)
        self.list = NoticeList(self.notices, self.window, self.status)
        self.notices.list_wanted.connect(self.list.open_at)
        self.question = QuestionRow(self.notices, self.window)  # type: ignore[arg-type]  # any widget
        self.window.show()

    def tell(self, kind: str, text: str, *offers: str, asks: bool = False) -> None:
        buttons = tuple(NoticeButton(name, lambda n=name: self.done.append(n)) for name in offers)  # type: ignore[misc]  # the name as it is now
        self.notices.add_notice(Notice(kind, text, offers=buttons, asks=asks))  # type: ignore[arg-type]  # a kind

    def shown(self) -> str:
        return "" if self.line.entry is None else self.line.entry.notice.text

    def wait(self, seconds: float) -> None:
        """Let the notices grow so much older."""
        for _ in range(round(seconds / 0.5)):
            self.notices.age_notices()

    def open_texts(self) -> str:
        """What waits in the line, the newest first: each is closed and told again."""
        return "|".join(entry.notice.text for entry in self.notices.open_entries)


@pytest.fixture
def bench(qtbot: QtBot) -> Iterator[Bench]:
    bench = Bench(qtbot)
    yield bench
    for entry in bench.notices.open_entries:
        bench.notices.close_notice(entry)
    bench.wait(0.5)  # nothing is left that could grow older


def test_before_the_first_notice_the_line_has_only_the_button_of_the_list(bench: Bench) -> None:
    line = bench.line
    parts = (line.sentence, line.more, line.details, line.close_button)
    assert all(part.isHidden() for part in parts)
    assert not line.list_button.isHidden()
    bench.notices.show_recent()
    assert bench.list.notice_rows() == []


@pytest.mark.parametrize(("kind", "seconds"), [("info", 12.0), ("refused", 30.0)])
def test_what_is_told_goes_after_its_time_stays_in_the_list_and_may_be_told_again(
    bench: Bench, kind: str, seconds: float
) -> None:
    for count in (1, 2):
        bench.tell(kind, "saved")
        bench.wait(seconds - 0.5)
        assert bench.shown() == "saved"
        bench.tell(kind, "saved")  # its time begins anew
        assert (bench.notices.count_hidden(), bench.line.more.isVisible()) == (0, False)
        bench.wait(seconds - 0.5)
        assert bench.shown() == "saved"
        bench.wait(0.5)
        assert bench.shown() == ""
        assert not bench.notices.has_ageing_notices
        assert [notice.text for notice in bench.notices.recent_notices] == 2 * count * ["saved"]


def test_under_the_pointer_none_goes(bench: Bench) -> None:
    bench.tell("info", "saved")
    bench.notices.held = lambda: True
    bench.wait(60)
    assert bench.shown() == "saved"
    bench.notices.held = lambda: False
    bench.wait(12)
    assert bench.shown() == ""


def test_a_line_that_the_pointer_left_unseen_does_not_hold_its_notice(bench: Bench) -> None:
    bench.tell("info", "saved")
    bench.line.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)  # as Qt leaves it after × twice
    QCursor.setPos(bench.line.mapToGlobal(bench.line.rect().center()))
    assert bench.notices.held()
    QCursor.setPos(bench.line.mapToGlobal(QPoint(20, -200)))
    assert not bench.notices.held()


def test_a_failure_stays_until_it_is_closed_also_the_second_one(bench: Bench) -> None:
    for _ in range(2):
        bench.tell("failed", "trouble")
        bench.wait(600)
        assert bench.shown() == "trouble"
        assert not bench.notices.has_ageing_notices
        bench.line.close_button.click()
        assert bench.shown() == ""


def test_a_refusal_goes_with_the_next_success(bench: Bench) -> None:
    bench.notices.on_event(Refused("open x.pt", "It is a letter."))
    bench.tell("failed", "broken")
    bench.tell("refused", "offers", "Do it")
    bench.notices.on_event(Paused(3))  # nothing that the refusal could have been about
    assert bench.notices.count_hidden() == 2
    bench.notices.on_event(WeightsSaved(3, "/w.safetensors"))
    assert bench.notices.count_hidden() == 2  # what was saved is told, too
    assert "letter" not in bench.open_texts()
    assert {"broken", "offers"} <= set(bench.open_texts().split("|"))


def test_what_lasts_is_said_until_it_is_over(bench: Bench) -> None:
    for _ in range(2):
        bench.notices.on_event(RecordingPaused("The disk is full.", 5))
        bench.wait(600)
        bench.notices.on_event(WeightsSaved(3, "/w.safetensors"))
        assert "disk" in bench.open_texts()
        bench.notices.on_event(RecordingResumed(9, 0))
        assert "disk" not in bench.open_texts()


@pytest.mark.parametrize(
    ("what", "reason", "said"),
    [
        ("open letter.pt", "letter.pt is text.", "letter.pt is text."),
        ("open /a/my letter.pt", "my letter.pt is text.", "my letter.pt is text."),
        ("start a run", "No run's room.", "Cannot start a run: No run's room."),
        ("open x.pt", "It is text.", "Cannot open x.pt: It is text."),
        ("", "No run.", "No run."),
    ],
)
def test_a_refusal_names_a_file_once(what: str, reason: str, said: str) -> None:
    assert describe_refusal(what, reason) == said


def test_newer_trouble_stands_before_older_with_a_count(bench: Bench) -> None:
    for number in range(3):
        bench.tell("refused", f"trouble {number}")
    assert (bench.shown(), bench.line.more.text()) == ("trouble 2", "2 more")
    bench.line.close_button.click()  # and what was told before it
    assert bench.shown() == ""
    assert len(bench.notices.recent_notices) == 3


@pytest.mark.parametrize(("told", "kept"), [(49, range(49)), (50, range(50)), (51, range(1, 51))])
def test_fifty_are_kept_and_the_next_one_takes_the_place_of_the_oldest(
    bench: Bench, told: int, kept: range
) -> None:
    for number in range(told):
        bench.tell("info" if number % 2 else "refused", f"notice {number}")
    assert bench.shown() == f"notice {told - 1}"
    assert bench.line.more.text() == f"{told - 1} more"
    assert [n.text for n in bench.notices.recent_notices] == [f"notice {n}" for n in kept]
    bench.notices.show_recent()
    rows = [row.entry.notice.text for row in bench.list.notice_rows()]
    assert rows == [f"notice {n}" for n in reversed(kept)]


def test_an_offer_is_tinted_comes_back_and_stays_until_it_is_answered(bench: Bench) -> None:
    bench.tell("info", "quiet")
    plain = bench.line.styleSheet()
    bench.tell("info", "The run was interrupted.", "Continue", "Dismiss")
    assert bench.line.styleSheet() != plain  # the accent
    assert [button.text() for button in bench.line.offer_buttons()] == ["Continue", "Dismiss"]
    bench.tell("info", "over it")
    assert bench.shown() == "over it"
    bench.wait(4.0)  # not twelve seconds: an offer waits
    assert bench.shown() == "The run was interrupted."
    bench.wait(600)
    bench.tell("refused", "trouble")
    bench.line.close_button.click()  # does not close the offer behind it
    assert bench.shown() == "The run was interrupted."
    bench.line.offer_buttons()[0].click()
    assert bench.done == ["Continue"]
    assert bench.shown() == ""
    bench.notices.show_recent()
    assert all(
        "Continue" not in row.buttons_by_text() for row in bench.list.notice_rows()
    )  # it is answered


def test_an_offer_that_is_no_longer_possible_goes(bench: Bench) -> None:
    possible = [True]
    go_on = NoticeButton("Go on", lambda: None, lambda: possible[0])
    bench.notices.add_notice(Notice("info", "It is shown.", offers=(go_on,)))
    bench.notices.on_event(Measured(1, 0.1, 1.0, 0.5))
    assert bench.shown() == "It is shown."
    possible[0] = False
    bench.notices.on_event(Measured(2, 0.1, 1.0, 0.5))
    assert bench.shown() == ""


def test_a_question_stands_in_a_row_of_its_own_until_it_is_answered_and_can_be_asked_again(
    bench: Bench,
) -> None:
    for count in (1, 2):
        bench.tell("refused", "The run would be lost.", "Keep it", "Lose it", asks=True)
        assert bench.question.isVisible()
        assert bench.question.sentence.text() == "The run would be lost."
        assert bench.shown() == ""  # not twice
        bench.wait(600)
        bench.tell("refused", "trouble")
        assert bench.question.isVisible()
        assert [button.text() for button in bench.question.answer_buttons()] == [
            "Keep it",
            "Lose it",
        ]
        bench.question.answer_buttons()[1].click()
        assert bench.done == count * ["Lose it"]
        assert bench.question.isHidden()
        bench.line.close_button.click()
    again = NoticeButton("Yes", lambda: bench.done.append("again"))
    for _ in range(2):  # asked once more before it is answered
        bench.notices.add_notice(Notice("refused", "again?", offers=(again,), asks=True))
    bench.question.answer_buttons()[0].click()
    assert bench.done.pop() == "again"
    assert bench.question.isHidden()
    bench.tell("refused", "first?", "Yes", asks=True)
    bench.tell("refused", "second?", "No", asks=True)
    assert bench.question.sentence.text() == "second?"
    bench.question.answer_buttons()[0].click()
    assert bench.question.sentence.text() == "first?"
    bench.question.answer_buttons()[0].click()
    assert bench.done[2:] == ["No", "Yes"]
    assert bench.question.isHidden()


def test_a_swap_offers_undo_while_it_is_the_last_change(bench: Bench) -> None:
    def names() -> list[str]:
        return [button.text() for button in bench.line.offer_buttons()]

    bench.state = RunState().after(BEGUN)
    bench.notices.on_event(SWAP)
    assert names() == []
    bench.state = bench.state.after(UndoChanged("regime FL"))
    bench.notices.on_event(UndoChanged("regime FL"))
    assert names() == ["Undo"]
    bench.notices.on_event(UndoChanged("β 4"))  # another change came after it
    assert names() == []
    bench.notices.on_event(WeightsTaken(130, "x.pt", 2))
    bench.notices.on_event(UndoChanged("weights of x.pt"))
    assert names() == ["Undo"]
    bench.line.offer_buttons()[0].click()
    assert bench.done == ["undo"]
    undone = RegimeSwapped(130, "FL", "DL", (), (), (), (), undone="Undo regime FL")
    bench.notices.on_event(undone)
    bench.state = bench.state.after(UndoChanged("", "regime FL"))
    bench.notices.on_event(UndoChanged("", "regime FL"))
    assert names() == ["Redo"]
    redone = RegimeSwapped(130, "DL", "DL", (), (), (), (), undone="Redo β")
    bench.notices.on_event(redone)
    bench.notices.on_event(SettingChanged(130, 1e-3, 4.0, "image", 0.0))  # it belongs to that
    listed = ChangesListed((ListedChange(130, "β 8 → 4", "β"),))
    for event in (listed, UndoChanged("β", "")):
        bench.state = bench.state.after(event)
        bench.notices.on_event(event)
    assert names() == ["Undo", "Revert β only"]
    bench.notices.on_event(BEGUN)  # a new run has nothing to redo
    assert names() == []


def test_every_change_has_one_line_with_undo_also_where_no_event_says_it(bench: Bench) -> None:
    order, rate = ListedChange(9, "order 1 2 3 → 1 3 2", "the order"), "learning rate 0.1 → "
    bench.state = RunState().after(BEGUN)

    def change(done: tuple[ListedChange, ...], undone: tuple[ListedChange, ...] = ()) -> list[str]:
        names = [changes[-1].what if changes else "" for changes in (done, undone)]
        for event in (ChangesListed(done, undone), UndoChanged(*names)):
            bench.state = bench.state.after(event)
            bench.notices.on_event(event)
        return [notice.text for notice in bench.notices.recent_notices]

    def offered() -> list[str]:
        return [button.text for button in bench.notices.buttons_for(bench.notices.entries[-1])]

    first = "Order 1 2 3 → 1 3 2 at step 9."
    assert change((order,)) == [first]
    assert offered() == ["Undo", "Revert the order only"]
    for value in ("0.2", "0.3"):  # the dial is still moved
        moved = ListedChange(12, f"{rate}{value}", "the learning rate")
        assert change((order, moved)) == [first, f"Learning rate 0.1 → {value} at step 12."]
    assert offered() == ["Undo", "Revert the learning rate only"]
    undone = change((order,), (moved,))  # put back alone: no swap says so
    assert len(undone) == 3
    assert undone[2].startswith("Undo learning rate 0.1 → 0.3 of step 12 only;")
    assert offered() == ["Redo"]
    weights = ListedChange(20, "weights of x.pt, regime DL → DL")
    bench.notices.on_event(WeightsTaken(20, "x.pt", 2))
    bench.notices.on_event(Measured(20, 1.0, 1.0, 0.5))  # another event may come between
    assert len(change((order, weights))) == 4  # what the event says
    assert offered() == ["Undo"]
    bench.notices.on_event(SWAP)  # by itself, no change of the user
    bench.notices.on_event(Measured(121, 1.0, 1.0, 0.5))
    assert len(change((order, weights, moved))) == 6
    assert offered() == ["Undo", "Revert the learning rate only"]
    bench.notices.on_event(BEGUN)
    assert len(change((order,))) == 7, "that of another run"
    bench.notices.on_event(BEGUN)
    assert len(change(())) == 7


def test_a_swap_by_itself_offers_no_undo_of_a_later_change(bench: Bench) -> None:
    bench.state = RunState().after(BEGUN).after(UndoChanged("β 4"))
    bench.notices.on_event(SWAP)  # pre-training is over
    bench.notices.on_event(Measured(125, 1.0, 1.0, 0.5))
    bench.notices.on_event(UndoChanged("β 4"))
    assert bench.line.offer_buttons() == []


def test_the_list_says_time_step_and_kind_and_leads_to_the_step(bench: Bench, qtbot: QtBot) -> None:
    bench.state = RunState().after(BEGUN).moved_to_step(1234)
    bench.tell("refused", "trouble")
    bench.notices.show_recent()
    (row,) = bench.list.notice_rows()
    assert "refused: trouble" in row.accessibleName()
    with qtbot.waitSignal(bench.notices.step_wanted) as wanted:
        row.buttons_by_text()["Go to step"].click()
    assert wanted.args == [1234]
    bench.state = RunState().after(dataclasses.replace(BEGUN, run=2))
    bench.notices.on_event(Measured(1, 0.1, 1.0, 0.5))
    bench.tell("info", "of the new run")
    newest, older = bench.list.notice_rows()
    assert "Go to step" in newest.buttons_by_text()
    assert "Go to step" not in older.buttons_by_text()  # its run is gone


def test_a_traceback_is_one_click_away_and_can_be_copied(bench: Bench, qtbot: QtBot) -> None:
    bench.notices.on_event(Failed("A fault", "line 1\nline 2"))
    assert bench.line.details.isVisible()
    bench.line.details.click()
    (row,) = bench.list.notice_rows()
    assert not row.details.isHidden()
    row.buttons_by_text()["Copy"].click()
    assert QGuiApplication.clipboard().text() == "A fault\n\nline 1\nline 2"
    row.buttons_by_text()["Details"].click()
    assert row.details.isHidden()


def test_a_click_on_the_line_opens_the_list_and_escape_closes_it(
    bench: Bench, qtbot: QtBot
) -> None:
    bench.tell("refused", "words " * 60)
    assert "words words" in bench.line.sentence.toolTip()
    qtbot.mouseClick(bench.line.sentence, LEFT)
    assert bench.list.isVisible()
    qtbot.keyClick(bench.list, Qt.Key.Key_Escape)
    assert bench.list.isHidden()
    bench.line.list_button.click()
    assert bench.list.isVisible()
    bench.line.list_button.click()
    assert bench.list.isHidden()


@pytest.mark.parametrize("size", [(1024, 700), (1440, 900), (640, 400)])
def test_the_list_stays_inside_the_window_and_above_the_status_bar(
    bench: Bench, size: tuple[int, int]
) -> None:
    for number in range(20):
        bench.tell("refused", f"{number} blocks.0.attention.projection.{'name_' * 30}")
    bench.notices.show_recent()
    bench.status.setGeometry(0, size[1] - 30, size[0], 30)
    bench.window.resize(*size)
    assert bench.window.rect().contains(bench.list.geometry())
    assert bench.list.geometry().bottom() < bench.status.y()
    row = bench.list.notice_rows()[0]
    assert row.minimumSizeHint().width() <= bench.list.width()


def test_beside_a_notice_a_narrow_bar_says_only_what_changes(bench: Bench, qtbot: QtBot) -> None:
    bench.state = RunState().after(BEGUN)
    bench.status.show_state(bench.state)
    bench.status.write_now()
    for _ in range(2):
        assert bench.status.end_texts()[0] == f"cpu · {bench.state.regime}"
        bench.tell("refused", "trouble " * 40)
        assert bench.status.end_texts()[0] == bench.state.regime
        qtbot.waitUntil(lambda: bench.line.sentence.width() > 400)
        bench.line.close_button.click()
    assert bench.status.end_texts()[0] == f"cpu · {bench.state.regime}"


def test_a_screen_reader_hears_each_notice_and_trouble_at_once(bench: Bench) -> None:
    bench.tell("info", "saved")
    bench.tell("failed", "a fault")
    assert bench.heard == [("Notice: saved", False), ("Failed: a fault", True)]
    assert bench.line.sentence.accessibleName() == "Failed: a fault"


def test_the_parts_take_another_theme(bench: Bench) -> None:
    bench.tell("info", "The run was interrupted.", "Continue")
    bench.notices.show_recent()
    light = bench.line.grab().toImage(), bench.list.grab().toImage()
    for part in (bench.line, bench.list, bench.question):
        part.set_theme(DARK)
    assert bench.line.grab().toImage() != light[0]
    assert bench.list.grab().toImage() != light[1]


BACK = RegimeSwapped(7, "DL", "DL", (), (), (), (), undone="Back from divergence", of_step=5)


def test_a_diverged_run_offers_its_way_back_until_it_is_taken(qapp: object) -> None:
    owner, states, taken = QObject(), [RunState().after(make_run_started())], []
    notices = Notices(owner, lambda: states[-1], taken.append)

    def tell(event: Event) -> None:
        states.append(states[-1].after(event))
        notices.on_event(event)

    tell(Diverged(7, "loss", 6, back_to=5))
    entry = notices.notice_on_show()
    assert entry is not None
    assert entry.stays_open
    (button,) = notices.buttons_for(entry)
    assert button.text.endswith(" step 5")
    for number in ("step 7", "step 6", "step 5"):
        assert number in entry.notice.text
    button.do()
    assert taken == [GoBack()]
    tell(BACK)
    assert notices.buttons_for(entry) == ()
    tell(Diverged(9, "weights", 9))
    entry = notices.notice_on_show()
    assert entry is not None
    assert notices.buttons_for(entry) == ()  # no state is kept
