"""A field of the form shows what its setting declares: ends, arrows, units, words for nothing."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QCheckBox, QLineEdit
from pytestqt.qtbot import QtBot

from dgn_engine.config import SETTINGS
from dgn_engine.config.setting import Setting
from dgn_viewer.widgets.form_fields import PickBox, field_for, value_of
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.number_field import NumberField

ROWS = {
    f"{part}.{name}".lstrip("."): setting
    for part, settings in SETTINGS.items()
    for name, setting in settings.items()
    if setting.label and not setting.offered
}


def having(*names: str) -> list[str]:
    return [place for place, row in ROWS.items() if any(getattr(row, name) for name in names)]


def numeric(setting: Setting) -> bool:
    whole = isinstance(setting.default, (int, float))
    return whole and not isinstance(setting.default, bool)


@pytest.mark.parametrize("place", having("hint"))
def test_an_empty_field_shows_its_hint(qtbot: QtBot, place: str) -> None:
    field = field_for(ROWS[place])
    qtbot.addWidget(field)
    line = field if isinstance(field, QLineEdit) else field.findChild(QLineEdit)
    assert isinstance(line, QLineEdit)
    assert line.placeholderText() == ROWS[place].hint


@pytest.mark.parametrize("place", [place for place in ROWS if numeric(ROWS[place])])
def test_a_field_of_numbers_has_the_ends_and_words_of_its_setting(qtbot: QtBot, place: str) -> None:
    setting, field = ROWS[place], field_for(ROWS[place])
    qtbot.addWidget(field)
    assert isinstance(field, (IntegerField, NumberField))
    low, high = setting.span or ((0, 1) if setting.share else (setting.least or 0, 10**9))
    assert field.maximum() == high
    assert field.minimum() == (0 if setting.zero else low)
    if setting.zero:
        field.setValue(0)
        assert field.text() == setting.zero
    field.setValue(high)
    assert field.text().endswith(setting.unit if isinstance(field, NumberField) else "")


@pytest.mark.parametrize("place", having("rungs"))
def test_the_arrows_step_through_the_numbers_of_the_setting(qtbot: QtBot, place: str) -> None:
    setting, field = ROWS[place], field_for(ROWS[place])
    qtbot.addWidget(field)
    assert isinstance(field, NumberField)
    assert setting.rungs is not None
    decade = 10.0 ** (0 if field.maximum() >= 10 else -1)
    field.show_value(setting.rungs[0] * decade)
    met = [field.value()]
    for _ in setting.rungs[1:]:
        field.stepBy(1)
        met.append(field.value())
    assert met == pytest.approx([rung * decade for rung in setting.rungs])


def test_choices_stand_in_their_own_words(qtbot: QtBot) -> None:
    for setting in ROWS.values():
        if setting.choices:
            field = field_for(setting)
            qtbot.addWidget(field)
            assert isinstance(field, PickBox)
            shown = [field.itemText(place) for place in range(field.count())]
            assert shown == [setting.words.get(choice, choice) for choice in setting.choices]
            assert [field.itemData(place) for place in range(field.count())] == list(
                setting.choices
            )


def test_a_setting_that_is_on_or_off_is_a_box_with_its_label(qtbot: QtBot) -> None:
    field = field_for(ROWS["net.bias"])
    qtbot.addWidget(field)
    assert isinstance(field, QCheckBox)
    assert field.text() == "with biases"
    assert value_of(field) is False
