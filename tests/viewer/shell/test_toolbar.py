"""The toolbar under real clicks and keys: what it sends, and that the engine speaks last."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.messages import Command, EngineReady, Event, Refused
from dgn_engine.protocol.training import (
    RegimeSwapped,
    SetBeta,
    SetLearningRate,
    SetPace,
    SettingChanged,
    SwapRegime,
)
from dgn_viewer.shell.toolbar import RunToolbar
from dgn_viewer.widgets.grouped_box import GroupedBox
from tests.engine.views.begun_run import make_run_started

CATALOGUE = Catalogue(
    (
        RegimeEntry("DL", "DL", "", own_gates=False, soft=True, trains_feature=True),
        RegimeEntry("FL", "FL", "", False, False, trains_feature=False, for_copied_gates=True),
        RegimeEntry("FR-II", "FR-II", "", own_gates=False, soft=False, trains_feature=False),
        RegimeEntry("ReLU", "ReLU", "", own_gates=True, soft=False, trains_feature=False),
    ),
    (),
    (),
    (),
    ("cpu",),
)
STARTED = replace(
    make_run_started(gating=GatingConfig(beta=8.0)),
    config=RunConfig(
        data=DataConfig("mnist", binary=(4, 7)),
        net=NetConfig("fc"),
        gating=GatingConfig(beta=8.0),
        training=TrainingConfig(learning_rate=3e-4, pace=120),
    ),
    parameters_value=10_000,
    parameters_feature=11_450,
)


@pytest.fixture
def bar(qtbot: QtBot, sent: list[Command]) -> RunToolbar:
    toolbar = RunToolbar(sent.append)
    qtbot.addWidget(toolbar)
    toolbar.resize(1440, 40)
    toolbar.show()
    return toolbar


def tell(toolbar: RunToolbar, event: Event) -> None:
    """What the window does with an event."""
    toolbar.on_event(event, toolbar.state.after(event))


@pytest.fixture
def live(bar: RunToolbar) -> RunToolbar:
    tell(bar, EngineReady(CATALOGUE, "2.13"))
    tell(bar, STARTED)
    return bar


def choose(box: object, place: int) -> None:
    """Pick an entry of a combo box as a user does: open the list, press the row."""
    assert isinstance(box, GroupedBox)
    box.showPopup()
    if box.menus:
        listed = [action for menu in box.menus for action in menu.actions()]
        next(action for action in listed if action.data() == place).trigger()
        box.hidePopup()
        return
    view = box.view()
    QTest.qWait(20)
    index = view.model().index(place, 0)
    QTest.mouseClick(
        view.viewport(), Qt.MouseButton.LeftButton, pos=view.visualRect(index).center()
    )


def test_before_the_engine_is_ready_it_says_what_is_awaited(bar: RunToolbar) -> None:
    assert bar.summary.text() == "loading torch…"
    fields = (bar.regime, bar.value_input, bar.beta, bar.learning_rate, bar.pace)
    assert not any(field.isEnabled() for field in fields)
    assert bar.beta.text() == "–"


def test_a_run_is_summed_up_in_a_few_words(live: RunToolbar) -> None:
    assert live.summary.text() == "mnist 4|7 · fc 64×5 · 21,450 weights"
    assert live.regime.value == "DL"
    assert live.pace.text() == "120 steps/s"
    assert live.learning_rate.text() == "3e-4"


def test_choosing_a_regime_asks_for_it_and_shows_it_when_it_is_so(
    live: RunToolbar, sent: list[Command]
) -> None:
    choose(live.regime, 3)
    assert sent == [SwapRegime("FR-II", restart_value=True)]
    assert live.regime.currentText() == "DL"
    tell(live, RegimeSwapped(9, "DL", "FR-II", (), (), (), ()))
    assert live.regime.currentText() == "FR-II"


def test_going_to_fl_may_keep_the_value_network(
    live: RunToolbar, sent: list[Command], qtbot: QtBot
) -> None:
    assert live.regime.itemText(2) == "FL, value network kept"
    choose(live.regime, 2)
    assert sent == [SwapRegime("FL", restart_value=False)]
    tell(live, RegimeSwapped(9, "DL", "FL", (), (), (), ()))
    assert live.regime.value == live.regime.currentText() == "FL"


def test_a_feature_network_kept_aside_is_counted(live: RunToolbar) -> None:
    tell(live, RegimeSwapped(9, "DL", "ReLU", (), (), (), (), parameters_feature=11_450))
    assert "21,450 weights" in live.summary.text()
    assert "feature network 11,450 (not in use)" in live.summary.toolTip()


def test_arrows_and_the_wheel_choose_no_regime(live: RunToolbar, sent: list[Command]) -> None:
    live.regime.setFocus()
    QTest.keyClick(live.regime, Qt.Key.Key_Down)
    live.regime.hidePopup()
    for field in (live.regime, live.beta, live.learning_rate):
        field.clearFocus()
        at = QPointF(field.rect().center())
        wheel = QWheelEvent(
            at,
            QPointF(field.mapToGlobal(field.rect().center())),
            QPoint(0, 0),
            QPoint(0, 120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(field, wheel)
    assert sent == []


def test_beta_is_only_for_soft_gates_and_value_input_only_for_given_gates(
    live: RunToolbar,
) -> None:
    assert live.beta.isEnabled()
    assert live.value_input.isEnabled()
    tell(live, RegimeSwapped(9, "DL", "FR-II", (), (), (), ()))
    assert not live.beta.isEnabled()
    tell(live, RegimeSwapped(9, "FR-II", "ReLU", (), (), (), ()))
    assert not live.value_input.isEnabled()
    assert "10,000 weights" in live.summary.text()


@pytest.mark.parametrize(("typed", "sent_rate"), [("1.5e-3", 1.5e-3), ("3e-e", None)])
def test_a_learning_rate_is_typed_and_nonsense_stays_and_changes_nothing(
    live: RunToolbar, sent: list[Command], typed: str, sent_rate: float | None
) -> None:
    field = live.learning_rate
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, typed)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert sent == ([] if sent_rate is None else [SetLearningRate(sent_rate)])
    if sent_rate is None:
        assert (field.text(), field.value()) == (typed, 3e-4)
        assert field.problem
        QTest.keyClick(field, Qt.Key.Key_Escape)
        assert (field.text(), field.problem) == ("3e-4", "")


def test_a_rate_above_what_the_field_offers_is_shown_as_it_is(live: RunToolbar) -> None:
    tell(live, SettingChanged(1, 250.0, 8.0, "image", 0.0))
    assert live.learning_rate.text() == "250"
    tell(live, SettingChanged(1, 3e-4, 8.0, "image", 0.0))
    assert (live.learning_rate.text(), live.learning_rate.maximum()) == ("3e-4", 100.0)


def test_arrow_keys_step_along_the_ladder(live: RunToolbar, sent: list[Command]) -> None:
    QTest.keyClick(live.learning_rate, Qt.Key.Key_Up)
    QTest.keyClick(live.beta, Qt.Key.Key_Up)
    assert sent == [SetLearningRate(5e-4), SetBeta(10.0)]


def test_full_speed_stands_above_the_highest_pace(live: RunToolbar, sent: list[Command]) -> None:
    tell(live, SettingChanged(1, 3e-4, 8.0, "image", 5000.0))
    QTest.keyClick(live.pace, Qt.Key.Key_Up)
    assert sent == [SetPace(0.0)]
    tell(live, SettingChanged(1, 3e-4, 8.0, "image", 0.0))
    assert live.pace.text() == "full speed"
    QTest.keyClick(live.pace, Qt.Key.Key_Down)
    assert sent[-1] == SetPace(5000.0)


def test_a_refusal_shows_the_engines_value_again(live: RunToolbar) -> None:
    QTest.keyClick(live.beta, Qt.Key.Key_Up)
    assert live.beta.value() == 10.0
    tell(live, Refused("β", "No."))
    assert live.beta.value() == 8.0
