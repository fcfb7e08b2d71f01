"""Texts of fields that stand below each other begin at the same x."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.scene.theme import LIGHT
from dgn_viewer.inspector.pages.origin_field import OriginField
from dgn_viewer.style import appearance
from dgn_viewer.widgets.form_fields import ListField, PickBox
from dgn_viewer.widgets.layouts import column
from dgn_viewer.widgets.number_field import NumberField

TEXT = "HHHH"


def begins_at(field: QWidget) -> int:
    """Return the x of the first pixel of the text of a field."""
    picture = field.grab().toImage()
    middle = picture.height() // 2
    rows = range(middle - 5, middle + 5)
    background = picture.pixelColor(3, middle).lightness()
    return next(
        x
        for x in range(3, picture.width())
        if any(abs(picture.pixelColor(x, y).lightness() - background) > 60 for y in rows)
    )


def test_the_text_of_every_kind_of_field_begins_at_the_same_x(
    qapp: QApplication, qtbot: QtBot
) -> None:
    before = qapp.styleSheet()
    appearance.apply(qapp, LIGHT)
    try:
        window = QWidget()
        qtbot.addWidget(window)
        line, listed, origin, number = (
            QLineEdit(TEXT),
            ListField("list", ""),
            OriginField(),
            NumberField(0.0, 10.0),
        )
        listed.setText(TEXT)
        origin.setEditText(TEXT)
        number.lineEdit().setText(TEXT)
        fields = (line, listed, origin, number, PickBox([("", TEXT)]))
        column(*fields, into=window)
        window.resize(300, 300)
        window.show()
        assert len({begins_at(field) for field in fields}) == 1, [begins_at(f) for f in fields]
    finally:
        qapp.setStyleSheet(before)
