"""The toolbar under real clicks and keys: what it sends, and that the engine speaks last."""

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.messages import Command, EngineReady, Event, Refused
from dgn_engine.protocol.training import (
    LayerInfo,
    RegimeSwapped,
    RunStarted,
    SetBeta,
    SetLearningRate,
    SetPace,
    SettingChanged,
    SetValueInput,
    SwapRegime,
)
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.text.written_numbers import number
from dgn_viewer.shell.toolbar import RunToolbar
from dgn_viewer.style.stylesheet import stylesheet
from dgn_viewer.widgets.number_field import LADDER, next_rung, number_text

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
STARTED = RunStarted(
    run=1,
    config=RunConfig(
        data=DataConfig("mnist", binary=(4, 7)),
        net=NetConfig("fc"),
        gating=GatingConfig(beta=8.0),
        training=TrainingConfig(learning_rate=3e-4, pace=120),
    ),
    regime="DL",
    device="cpu",
    layers=tuple(LayerInfo(i, f"dense {i + 1}", "dense", (64,)) for i in range(4)),
    wiring=(0, 1, 2, 3),
    parameters_value=10_000,
    parameters_feature=11_450,
    train_examples=10,
    test_examples=10,
    classes=2,
    steps_per_epoch=5,
    total_steps=50,
    probe_set=ProbeSet((), (), (), ""),
    paused=False,
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
    assert hasattr(box, "showPopup")
    box.showPopup()
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


def test_buttons_stand_around_the_settings(qtbot: QtBot, qapp: QApplication) -> None:
    run, palette = QAction("Run"), QAction("Command palette…")
    toolbar = RunToolbar(lambda command: None, [run], [palette])
    qtbot.addWidget(toolbar)
    actions = toolbar.actions()
    assert (actions[0], actions[-1]) == (run, palette)
    assert [action for action in actions if action.text()] == [run, palette]


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


def test_going_to_fl_restarts_the_value_network_by_itself(
    live: RunToolbar, sent: list[Command]
) -> None:
    choose(live.regime, 1)
    assert sent == [SwapRegime("FL", restart_value=True)]


def test_a_feature_network_kept_aside_is_counted(live: RunToolbar) -> None:
    tell(live, RegimeSwapped(9, "DL", "ReLU", (), (), (), (), parameters_feature=11_450))
    assert "21,450 weights" in live.summary.text()
    assert "feature network 11,450 (kept aside)" in live.summary.toolTip()


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


def test_the_value_input_is_asked_for(live: RunToolbar, sent: list[Command]) -> None:
    choose(live.value_input, 1)
    assert sent == [SetValueInput("ones")]
    assert live.value_input.value == "image"


def test_a_learning_rate_may_be_typed_in_powers_of_ten(
    live: RunToolbar, sent: list[Command]
) -> None:
    field = live.learning_rate
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, "1.5e-3")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert sent == [SetLearningRate(1.5e-3)]


def test_nonsense_in_a_field_stays_and_changes_nothing(
    live: RunToolbar, sent: list[Command]
) -> None:
    field = live.learning_rate
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, "3e-e")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert sent == []
    assert (field.text(), field.value()) == ("3e-e", 3e-4)
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


@pytest.mark.parametrize(
    ("value", "text"), [(3e-4, "3e-4"), (0.001, "0.001"), (1000.0, "1000"), (1.25e-7, "1.25e-7")]
)
def test_numbers_are_short_and_exact(value: float, text: str) -> None:
    assert number_text(value) == text
    assert float(text) == value
    assert ("e" in text) == ("×" in number(value))  # a sentence has the same kind of number


def test_the_ladder_goes_through_every_decade() -> None:
    assert next_rung(3e-4, LADDER) == 5e-4
    assert next_rung(5e-4, LADDER) == 1e-3
    assert next_rung(1e-3, LADDER, up=False) == 5e-4
    assert next_rung(1.7, LADDER, up=False) == 1.0


def test_every_regime_fits_into_the_closed_box(
    live: RunToolbar, qapp: QApplication, qtbot: QtBot
) -> None:
    qapp.setStyleSheet(stylesheet())
    qtbot.waitUntil(lambda: live.regime.width() >= live.regime.sizeHint().width())
    for box in (live.regime, live.value_input):
        option = QStyleOptionComboBox()
        box.initStyleOption(option)
        part = QStyle.SubControl.SC_ComboBoxEditField
        kind = QStyle.ComplexControl.CC_ComboBox
        room = box.style().subControlRect(kind, option, part, box).width() - 2
        for text in box.short_texts():
            assert box.fontMetrics().horizontalAdvance(text) <= room, text
    qapp.setStyleSheet("")
