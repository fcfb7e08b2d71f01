"""Numbers in the window are the same in every language of the system."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QLocale, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QTableWidgetItem
from pytestqt.qtbot import QtBot

from dgn_viewer.application import qt_application
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.number_field import NumberField


@pytest.fixture(params=["de_DE", "fa_IR", "hi_IN", "en_US"])
def language(request: pytest.FixtureRequest, qtbot: QtBot) -> Iterator[str]:
    before = QLocale()
    QLocale.setDefault(QLocale(request.param))
    qt_application()
    yield request.param
    QLocale.setDefault(before)


@pytest.mark.usefixtures("language")
def test_fields_show_plain_digits_and_a_point(qtbot: QtBot) -> None:
    whole, number = IntegerField(0, 10**6), NumberField(0.0, 10.0)
    qtbot.addWidget(whole)
    qtbot.addWidget(number)
    whole.setValue(123456)
    number.show_value(0.25)
    assert (whole.text(), number.text()) == ("123456", "0.25")
    assert QLocale().toString(1234.5, "f", 1) == "1234.5"
    item = QTableWidgetItem()
    item.setData(Qt.ItemDataRole.DisplayRole, 123456)
    assert item.text() == "123456"


@pytest.mark.wide
@pytest.mark.usefixtures("language")
@pytest.mark.parametrize(
    ("typed", "read"),
    [("0.5", 0.5), ("0,5", 0.5), ("3e-4", 3e-4), ("0,001", 0.001), ("1000", 1000.0), ("1,5", 1.5)],
)
def test_a_typed_number_is_read(typed: str, read: float, qtbot: QtBot) -> None:
    field = NumberField(0.0, 10_000.0)
    qtbot.addWidget(field)
    field.show_value(7.0)
    field.lineEdit().selectAll()
    QTest.keyClicks(field.lineEdit(), typed)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert field.value() == pytest.approx(read)
    assert "," not in field.text()


@pytest.mark.wide
@pytest.mark.usefixtures("language")
@pytest.mark.parametrize("typed", ["1,000", "1,000,000"])
def test_a_thousand_or_one_is_neither(typed: str, qtbot: QtBot) -> None:
    field = NumberField(0.0, 10_000.0)
    qtbot.addWidget(field)
    field.show_value(7.0)
    field.lineEdit().selectAll()
    QTest.keyClicks(field.lineEdit(), typed)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert field.value() == 7.0
    assert field.text() == typed
    assert field.problem
