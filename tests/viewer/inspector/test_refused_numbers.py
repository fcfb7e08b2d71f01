"""A number that a field cannot take stays as it was typed, is refused at the field, and starts
nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QHelpEvent, QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QCheckBox, QLabel, QLineEdit, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.config.setting import Setting
from dgn_engine.protocol.catalogue import ExperimentEntry
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.training import EstimateRun, RunEstimated
from dgn_engine.views.event_notices import Notice
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.inspector.pages.experiment_page import ExperimentPage
from dgn_viewer.inspector.pages.run_page import RunPage
from dgn_viewer.widgets.form_fields import (
    ListField,
    PairField,
    PickBox,
    field_for,
    problem_in,
    value_of,
)
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import make_column
from dgn_viewer.widgets.message_line import MessageLine
from dgn_viewer.widgets.number_entry import NumberEntry
from dgn_viewer.widgets.number_field import NumberField
from tests.refusals import refused
from tests.viewer.inspector.inspected import CATALOGUE, send_event


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
        *("200000", "1", "1.5", "abc", "1e99", "-3", "nan", "1,000"),
        *("inf", "1_000", "٦٤", "١,٠٠٠", "6 4", "0x40", "e3"),
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
    with refused("not-a-number", value=typed):
        value_of(width)
    fill(width, "64")
    assert (width.problem, told[-1], value_of(width)) == ("", "", 64)


def test_an_emptied_field_asks_for_a_number_and_escape_and_the_arrows_bring_it_back(
    width: IntegerField,
) -> None:
    width.lineEdit().selectAll()
    QTest.keyClick(width.lineEdit(), Qt.Key.Key_Delete)
    assert width.problem
    QTest.keyClick(width, Qt.Key.Key_Return)
    assert (width.text(), width.value()) == ("", 128)
    fill(width, "abc")
    QTest.keyClick(width, Qt.Key.Key_Escape)
    assert (width.text(), width.problem) == ("128", "")
    fill(width, "abc")
    QTest.keyClick(width, Qt.Key.Key_Up)
    assert (width.text(), width.problem) == ("129", "")


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
    with refused("not-a-number", value="1e6"):
        form.form.read_run_config()
    fill(lr, "0.01")
    assert form.start.isEnabled()
    assert not said[0].isVisibleTo(form)
    assert form.form.read_run_config().training.learning_rate == 0.01


def test_a_list_that_cannot_be_read_turns_start_off(form: RunPage) -> None:
    tiling = form.form.fields["gating.tiling"]
    assert isinstance(tiling, ListField)
    form.form.advanced.set_open(True)
    for typed in ("1,x", "1_0 2", "١ ٢"):
        tiling.setText(typed)
        assert not form.start.isEnabled()
        assert problem_in(form) == tiling.problem != ""
        tiling.setText("1 2")
        assert form.start.isEnabled()
        assert value_of(tiling) == (1, 2)


def test_a_field_that_is_disabled_does_not_matter(form: RunPage) -> None:
    pair = form.form.fields["data.binary"]
    assert isinstance(pair, PairField)
    pair.only.setChecked(True)
    fill(pair.first, "abc")
    assert not form.start.isEnabled()
    pair.only.setChecked(False)
    assert form.start.isEnabled()
    assert form.form.read_run_config().data.binary is None
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
    form.form.show_config(RunConfig())
    assert problem_in(form) == ""
    assert form.start.isEnabled()


def test_options_of_a_network_are_watched_also_after_another_was_chosen(form: RunPage) -> None:
    form.form.net.name.pick_value("cnn4")
    QApplication.processEvents()  # its fields are shown then
    channels = form.form.net.options.fields["channels"]
    assert isinstance(channels, IntegerField)
    fill(channels, "1.5")
    assert not form.start.isEnabled()
    form.form.net.name.pick_value("fc")
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
    form.form.show_config(RunConfig())
    form.ask_estimate()
    asked = [command for command in sent if isinstance(command, EstimateRun)]
    assert [command.config for command in asked] == [form.form.read_run_config()]
    answer = RunEstimated(150_016, 21 * 10**6, 8e-4, config=asked[0].config)
    send_event(inspector, answer)
    assert form.estimate.text() == answer.sentence
    assert form.estimate.isVisibleTo(form)
    send_event(
        inspector, RunEstimated(refusal="net.options.width is too much.", config=asked[0].config)
    )
    assert form.estimate.property("role") == "refused"
    other = RunConfig(seed=1)
    send_event(inspector, RunEstimated(1, 1, config=other))  # of what is filled in no more
    assert form.estimate.property("role") == "refused"


def test_nothing_is_asked_about_what_cannot_be_read(form: RunPage, sent: list[Command]) -> None:
    lr = form.form.fields["training.learning_rate"]
    assert isinstance(lr, NumberField)
    fill(lr, "1e6")
    form.ask_estimate()
    assert sent == []
    assert not form.estimate.isVisibleTo(form)


class LinesForm(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.number = QLineEdit(), IntegerField(0, 9)
        self.kind, self.box = PickBox([("a", "a"), ("b", "b")]), QCheckBox("box")
        self.line = MessageLine()
        make_column(self.word, self.number, self.kind, self.box, self.line, into=self)
        self.line.end_with_edits_in(self)


@pytest.fixture
def lines(qtbot: QtBot) -> LinesForm:
    lines = LinesForm()
    qtbot.addWidget(lines)
    lines.show()
    return lines


ENDS: dict[str, Callable[[LinesForm], object]] = {
    "success": lambda lines: lines.line.show_refusal(""),
    "a word is typed": lambda lines: QTest.keyClicks(lines.word, "1"),
    "a number is stepped": lambda lines: lines.number.stepUp(),
    "something else is picked": lambda lines: lines.kind.pick_value("b"),
    "a box is ticked": lambda lines: lines.box.click(),
    "its time is over": lambda lines: lines.line._timer.timeout.emit(),
    "the page is left": lambda lines: lines.hide(),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_refusal_ends_and_what_lasts_is_shown_again(lines: LinesForm, how: str) -> None:
    line = lines.line
    assert line.isHidden()
    line.show_message("3 files", "muted")
    line.show_refusal("There is no folder.")
    assert (line.text(), line.property("role")) == ("There is no folder.", "refused")
    assert line.isVisible()
    ENDS[how](lines)
    lines.show()
    assert (line.text(), line.property("role")) == ("3 files", "muted")
    assert line.refusal == ""
    assert not line._timer.isActive()


def test_a_refusal_below_a_form_lasts_as_long_as_one_in_the_status_bar(lines: LinesForm) -> None:
    lines.line.show_refusal("There is no folder.")
    assert lines.line._timer.isActive()
    assert lines.line._timer.interval() == 1000 * Notice("refused", "").display_seconds


def test_what_is_wrong_while_the_form_is_so_is_no_passing_refusal(lines: LinesForm) -> None:
    lines.line.show_message("No panel is chosen.", "refused")
    QTest.keyClicks(lines.word, "1")
    lines.hide()
    lines.show()
    assert lines.line.text() == "No panel is chosen."
    lines.line.show_message("")
    assert lines.line.isHidden()


ROWS = {
    f"{part}.{name}".lstrip("."): setting
    for part, settings in SETTINGS.items()
    for name, setting in settings.items()
    if setting.label and not setting.offered
}


def numeric(setting: Setting) -> bool:
    return isinstance(setting.default, (int, float)) and not isinstance(setting.default, bool)


@pytest.mark.parametrize("place", ROWS)
def test_a_field_shows_what_its_setting_declares(qtbot: QtBot, place: str) -> None:
    """Ends, arrows, units, choices, words for nothing."""
    setting, field = ROWS[place], field_for(ROWS[place])
    qtbot.addWidget(field)
    if setting.hint:
        line = field if isinstance(field, QLineEdit) else field.findChild(QLineEdit)
        assert isinstance(line, QLineEdit)
        assert line.placeholderText() == setting.hint
    if setting.choices:
        assert isinstance(field, PickBox)
        entries = [(field.itemData(n), field.itemText(n)) for n in range(field.count())]
        assert entries == [(one, setting.words.get(one, one)) for one in setting.choices]
    if isinstance(setting.default, bool):
        assert isinstance(field, QCheckBox)
        assert (field.text() != "", value_of(field)) == (True, setting.default)
    if not numeric(setting):
        return
    assert isinstance(field, (IntegerField, NumberField))
    low, high = setting.span or ((0, 1) if setting.share else (setting.least or 0, 10**9))
    assert (field.minimum(), field.maximum()) == (0 if setting.zero else low, high)
    if setting.zero:
        field.setValue(0)
        assert field.text() == setting.zero
    field.setValue(high)
    assert field.text().endswith(setting.unit if isinstance(field, NumberField) else "")
    if setting.rungs is not None:
        assert isinstance(field, NumberField)
        decade = 10.0 ** (0 if field.maximum() >= 10 else -1)
        field.show_value(setting.rungs[0] * decade)
        met = [field.value()]
        for _ in setting.rungs[1:]:
            field.stepBy(1)
            met.append(field.value())
        assert met == pytest.approx([rung * decade for rung in setting.rungs])
