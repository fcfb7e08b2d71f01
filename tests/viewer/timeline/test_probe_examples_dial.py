"""The number of probe examples in the time bar: what is offered, asked for, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunShown
from dgn_engine.protocol.training import Paused
from dgn_viewer.timeline.probe_examples_dial import ProbeExamplesDial, offered_examples
from tests.engine.panels.pictures import started_run


def state_of(examples: int = 64, units: int = 2, train_examples: int = 1000) -> RunState:
    run = replace(started_run((units,)), train_examples=train_examples)
    return replace(RunState().after(run), probe_examples=examples)


@pytest.fixture
def dial(qtbot: QtBot) -> ProbeExamplesDial:
    made = ProbeExamplesDial()
    qtbot.addWidget(made)
    made.show_state(state_of(), past=False)
    return made


def test_the_dial_offers_what_the_data_has_and_asks_for_what_is_chosen(
    dial: ProbeExamplesDial, qtbot: QtBot
) -> None:
    assert dial.isVisible()
    assert dial.currentText() == "64 examples"
    assert dial.accessibleName()
    place = dial.findText("16 examples")
    with qtbot.waitSignal(dial.chosen) as asked:
        dial.activated.emit(dial.setCurrentIndex(place) or place)
    assert asked.args == [16]
    dial.showPopup()
    for _ in range(2):  # an open list is left in peace
        shown = dial.currentText()
        dial.on_event(Paused(3), state_of(32))
        assert dial.currentText() == (shown if dial.view().isVisible() else "32 examples")
        dial.hidePopup()


def test_the_examples_of_a_recorded_run_or_a_past_step_cannot_be_chosen(
    dial: ProbeExamplesDial,
) -> None:
    dial.show_state(state_of(32), past=True)
    assert (dial.isVisible(), dial.isEnabled(), dial.currentText()) == (True, False, "32 examples")
    dial.show_state(state_of(), past=False)
    assert dial.isEnabled()
    dial.show_state(replace(state_of(), recorded=RunShown("a", "finished", 5)), past=False)
    assert not dial.isVisible()


def test_a_narrow_dial_shows_its_number_alone(dial: ProbeExamplesDial) -> None:
    dial.resize(dial.sizeHint())
    assert dial.shown_text() == "64 examples"
    dial.resize(dial.minimumSizeHint())
    assert dial.shown_text() == "64"
    assert "64 examples" in dial.toolTip()


def test_the_dial_offers_no_more_than_there_is_room_for(dial: ProbeExamplesDial) -> None:
    dial.show_state(state_of(units=1 << 21, train_examples=10_000), past=False)
    assert dial.itemData(dial.count() - 1) == 128


@pytest.mark.parametrize(
    ("now", "there_are", "offered"),
    [
        (64, 100, (8, 16, 32, 64)),
        (20, 64, (8, 16, 20, 32, 64)),
        (64, 10**6, (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)),
        (64, 5, (8, 64)),
    ],
)
def test_doubled_numbers_of_examples(now: int, there_are: int, offered: tuple[int, ...]) -> None:
    assert offered_examples(now, there_are) == offered
