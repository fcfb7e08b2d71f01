"""A number that a field cannot take stays as it was typed, is refused at the field, and starts
nothing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent, QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QToolTip
from pytestqt.qtbot import QtBot

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import EstimateRun, RunEstimated
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.inspector.pages.run_page import RunPage
from dgn_viewer.widgets.form_fields import ListField, PairField, problem_in, value_of
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.number_entry import NumberEntry
from dgn_viewer.widgets.number_field import NumberField
from tests.viewer.inspector.inspected import CATALOGUE, tell


def fill(field: NumberEntry, text: str) -> None:
    field.lineEdit().selectAll()
    for letter in text:  # QTest.keyClicks ends the process at a letter that is not ASCII
        pressed = QKeyEvent(QEvent.Type.KeyPress, 0, Qt.KeyboardModifier.NoModifier, letter)
        QApplication.sendEvent(field.lineEdit(), pressed)
    QTest.keyClick(field, Qt.Key.Key_Return)


@pytest.fixture
def width(qtbot: QtBot) -> IntegerField:
    field = IntegerField(2, 65_536)
    qtbot.addWidget(field)
    field.setAccessibleName("width")
    field.show()
    field.setValue(128)
    return field


@pytest.fixture
def rate(qtbot: QtBot) -> NumberField:
    field = NumberField(1.0, 5000.0, unit="steps/s", no_limit="full speed")
    qtbot.addWidget(field)
    field.show()
    field.show_value(0.0)
    return field


def test_a_field_in_red_says_why_at_enter_and_under_the_pointer(rate: NumberField) -> None:
    rate.setToolTip("At most this many steps a second")
    fill(rate, "1e9")
    said = []
    for field in (rate, rate.lineEdit()):
        QToolTip.showText(QPoint(), "the tip of another control")
        asked = QHelpEvent(QEvent.Type.ToolTip, QPoint(5, 5), rate.mapToGlobal(QPoint(5, 5)))
        QApplication.sendEvent(field, asked)
        said.append(QToolTip.text())
    QToolTip.showText(QPoint(), "the tip of another control")
    QTest.keyClick(rate, Qt.Key.Key_Return)
    assert [*said, QToolTip.text()] == 3 * [rate.problem]
    fill(rate, "40")
    QApplication.sendEvent(rate, asked)
    assert QToolTip.text() == "At most this many steps a second"


@pytest.mark.parametrize(
    "typed",
    [
        "200000",
        "1",
        "1.5",
        "abc",
        "1e99",
        "-3",
        "nan",
        "1,000",
        "inf",
        "1_000",
        "٦٤",
        "١,٠٠٠",
        "6 4",
        "0x40",
        "e3",
    ],
)
def test_what_cannot_be_taken_stays_and_is_refused(width: IntegerField, typed: str) -> None:
    width.setKeyboardTracking(False)  # 2 of 200000 would be taken on the way
    told: list[str] = []
    width.refused.connect(told.append)
    fill(width, typed)
    assert (width.text(), width.value()) == (typed, 128)
    assert width.problem
    assert told[-1] == width.problem
    with pytest.raises(UserError):
        value_of(width)
    fill(width, "64")
    assert (width.problem, told[-1], value_of(width)) == ("", "", 64)


def test_what_is_refused_stays_when_the_field_is_left(width: IntegerField) -> None:
    width.setFocus()
    width.lineEdit().selectAll()
    QTest.keyClicks(width.lineEdit(), "200000")
    width.clearFocus()
    assert width.text() == "200000"


def test_an_emptied_field_asks_for_a_number(width: IntegerField) -> None:
    width.lineEdit().selectAll()
    QTest.keyClick(width.lineEdit(), Qt.Key.Key_Delete)
    assert width.problem
    QTest.keyClick(width, Qt.Key.Key_Return)
    assert (width.text(), width.value()) == ("", 128)


def test_whole_numbers_are_read_in_every_form(width: IntegerField) -> None:
    for typed, number in (("1e3", 1000), ("64.0", 64), (" 7 ", 7)):
        fill(width, typed)
        assert value_of(width) == number


def test_escape_and_the_arrows_bring_the_number_back(width: IntegerField) -> None:
    fill(width, "abc")
    QTest.keyClick(width, Qt.Key.Key_Escape)
    assert (width.text(), width.problem) == ("128", "")
    fill(width, "abc")
    QTest.keyClick(width, Qt.Key.Key_Up)
    assert (width.text(), width.problem) == ("129", "")


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        ("", "unreadable"),
        ("abc", "unreadable"),
        ("1,000", "ambiguous"),
        ("1", "too small"),
        ("70000", "too large"),
        ("2.5", "other"),
    ],
)
def test_each_problem_has_its_kind(width: IntegerField, typed: str, kind: str) -> None:
    problem = width._typing.read(typed, width.value())[1]
    assert problem is not None
    assert problem.kind == kind


def test_a_number_that_is_being_typed_is_not_refused_yet(rate: NumberField) -> None:
    told: list[str] = []
    rate.refused.connect(told.append)
    rate.lineEdit().selectAll()
    QTest.keyClicks(rate.lineEdit(), "0.5")
    assert told == []
    assert rate.problem
    QTest.keyClick(rate, Qt.Key.Key_Return)
    assert told == [rate.problem]


def test_the_word_for_zero_can_be_typed_and_units_are_left(rate: NumberField) -> None:
    fill(rate, "100")
    assert (rate.text(), rate.value()) == ("100 steps/s", 100.0)
    fill(rate, "1e6")
    assert (rate.text(), rate.value()) == ("1e6", 100.0)
    fill(rate, "full speed")
    assert (rate.text(), rate.value()) == ("full speed", 0.0)


def test_a_value_of_the_engine_beyond_the_ends_is_shown_as_it_is(width: IntegerField) -> None:
    width.show_value(10**12)
    assert (value_of(width), width.text()) == (10**12, str(10**12))


def test_the_form_says_it_below_the_field_and_start_is_off(form: RunPage) -> None:
    lr = form.form.fields["training.learning_rate"]
    assert isinstance(lr, NumberField)
    fill(lr, "1e6")
    assert not form.start.isEnabled()
    said = [label for label in form.form.findChildren(QLabel) if label.text() == lr.problem]
    assert [label.isVisibleTo(form) for label in said] == [True]
    with pytest.raises(UserError, match="learning rate"):
        form.form.config()
    fill(lr, "0.01")
    assert form.start.isEnabled()
    assert not said[0].isVisibleTo(form)
    assert form.form.config().training.learning_rate == 0.01


def test_a_list_that_cannot_be_read_turns_start_off(form: RunPage) -> None:
    tiling = form.form.fields["gating.tiling"]
    assert isinstance(tiling, ListField)
    form.form.advanced.open(True)
    for typed in ("1,x", "1_0 2", "١ ٢"):
        tiling.setText(typed)
        assert not form.start.isEnabled()
        assert problem_in(form) == tiling.problem != ""
        tiling.setText("1 2")
        assert form.start.isEnabled()
        assert value_of(tiling) == (1, 2)


def test_a_refusal_of_several_lines_is_seen_whole(form: RunPage) -> None:
    tiling = form.form.fields["gating.tiling"]
    assert isinstance(tiling, ListField)
    form.form.advanced.open(True)
    tiling.setText("1,x")
    (below,) = [each for each in form.findChildren(QLabel) if each.text() == tiling.problem]
    for width in range(320, 500, 10):  # the rows of a form ask for no height of a width
        form.resize(width, 600)
        QApplication.processEvents()
        assert below.minimumHeight() >= below.heightForWidth(below.width()), width


def test_a_field_that_is_disabled_does_not_matter(form: RunPage) -> None:
    pair = form.form.fields["data.binary"]
    assert isinstance(pair, PairField)
    pair.only.setChecked(True)
    fill(pair.first, "abc")
    assert not form.start.isEnabled()
    pair.only.setChecked(False)
    assert form.start.isEnabled()
    assert form.form.config().data.binary is None
    assert pair.first.text() == "4"  # as it was before: what was typed could not be mended there
    width = IntegerField(2, 9)
    width.setParent(form.form)
    width.show()
    fill(width, "1")
    assert problem_in(form.form) == width.problem != ""
    width.setEnabled(False)
    assert problem_in(form.form) == ""


def test_as_now_puts_numbers_in_the_place_of_what_was_refused(form: RunPage) -> None:
    lr = form.form.fields["training.learning_rate"]
    assert isinstance(lr, NumberField)
    fill(lr, "1e6")
    form.form.fill(RunConfig())
    assert problem_in(form) == ""
    assert form.start.isEnabled()


def test_options_of_a_network_are_watched_also_after_another_was_chosen(form: RunPage) -> None:
    form.form.net.name.pick("cnn4")
    QApplication.processEvents()  # its fields are shown then
    channels = form.form.net.options.fields["channels"]
    assert isinstance(channels, IntegerField)
    fill(channels, "1.5")
    assert not form.start.isEnabled()
    form.form.net.name.pick("fc")
    assert form.start.isEnabled()


def test_an_experiment_does_not_start_either(experiment: ExperimentPage) -> None:
    fill(experiment.seeds, "5000")
    assert not experiment.begin.isEnabled()
    fill(experiment.seeds, "5")
    assert experiment.begin.isEnabled()


@pytest.fixture
def experiment(qtbot: QtBot) -> ExperimentPage:
    entry = ExperimentEntry("e", "E", "p", "about", ("paper",), "1 s", "1 h")
    page = ExperimentPage(entry, CATALOGUE, lambda *_: "", "")
    qtbot.addWidget(page)
    page.show()
    return page


# what a run would take


def test_the_form_asks_what_it_takes_and_says_the_answer(
    form: RunPage, inspector: Inspector, sent: list[Command]
) -> None:
    form.form.fill(RunConfig())
    form._ask_estimate()
    asked = [command for command in sent if isinstance(command, EstimateRun)]
    assert [command.config for command in asked] == [form.form.config()]
    answer = RunEstimated(150_016, 21 * 10**6, 8e-4, config=asked[0].config)
    tell(inspector, answer)
    assert form.estimate.text() == answer.sentence
    assert form.estimate.isVisibleTo(form)
    tell(inspector, RunEstimated(refusal="net.options.width is too much.", config=asked[0].config))
    assert form.estimate.property("role") == "refused"
    other = RunConfig(seed=1)
    tell(inspector, RunEstimated(1, 1, config=other))  # of what is filled in no more
    assert form.estimate.property("role") == "refused"


def test_nothing_is_asked_about_what_cannot_be_read(form: RunPage, sent: list[Command]) -> None:
    lr = form.form.fields["training.learning_rate"]
    assert isinstance(lr, NumberField)
    fill(lr, "1e6")
    form._ask_estimate()
    assert sent == []
    assert not form.estimate.isVisibleTo(form)
