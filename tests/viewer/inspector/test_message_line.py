"""A refusal below a form ends; what is so for longer stays, and comes back after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QCheckBox, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from dgn_viewer.widgets.form_fields import PickBox
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import column
from dgn_viewer.widgets.message_line import MessageLine


class Form(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.word, self.number = QLineEdit(), IntegerField(0, 9)
        self.kind, self.box = PickBox([("a", "a"), ("b", "b")]), QCheckBox("box")
        self.line = MessageLine()
        column(self.word, self.number, self.kind, self.box, self.line, into=self)
        self.line.end_with_edits_in(self)


@pytest.fixture
def form(qtbot: QtBot) -> Form:
    form = Form()
    qtbot.addWidget(form)
    form.show()
    return form


ENDS: dict[str, Callable[[Form], object]] = {
    "success": lambda form: form.line.refuse(""),
    "a word is typed": lambda form: QTest.keyClicks(form.word, "1"),
    "a number is stepped": lambda form: form.number.stepUp(),
    "something else is picked": lambda form: form.kind.pick("b"),
    "a box is ticked": lambda form: form.box.click(),
    "its time is over": lambda form: form.line._timer.timeout.emit(),
    "the page is left": lambda form: form.hide(),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_refusal_ends_and_what_lasts_is_shown_again(form: Form, how: str) -> None:
    line = form.line
    assert line.isHidden()
    line.say("3 files", "muted")
    line.refuse("There is no folder.")
    assert (line.text(), line.property("role")) == ("There is no folder.", "refused")
    assert line.isVisible()
    ENDS[how](form)
    form.show()
    assert (line.text(), line.property("role")) == ("3 files", "muted")
    assert line.refusal == ""
    assert not line._timer.isActive()


def test_what_is_wrong_while_the_form_is_so_is_no_passing_refusal(form: Form) -> None:
    form.line.say("No panel is chosen.", "refused")
    QTest.keyClicks(form.word, "1")
    form.hide()
    form.show()
    assert form.line.text() == "No panel is chosen."
    form.line.say("")
    assert form.line.isHidden()
