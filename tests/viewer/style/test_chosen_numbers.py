"""The style of numbers that is chosen in the settings, in the texts of the window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import ChangesListed, ListedChange
from dgn_engine.scene.number_style import NUMBERS
from dgn_engine.scene.theme import LIGHT
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.shell.statusbar import ChangingLabel
from dgn_viewer.style.chosen_numbers import choose_numbers
from dgn_viewer.style.stylesheet import plain_tip, tip
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.layouts import PlainLabel, column, plain_label, push_button

TEXT, SPACED = "step 1,234 · 0.25 s", "step 1\N{NARROW NO-BREAK SPACE}234 · 0,25 s"


@pytest.fixture(autouse=True)
def _usual_style(qapp: QApplication) -> Iterator[None]:
    yield
    choose_numbers(qapp, NUMBERS[0])


def test_every_text_has_the_numbers_that_are_chosen(qapp: QApplication, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    plain, wrapped, elided = PlainLabel(TEXT), plain_label(TEXT), ElidedLabel(TEXT)
    changing, copied = ChangingLabel(Qt.AlignmentFlag.AlignLeft), plain_label(TEXT, selectable=True)
    changing.setText(TEXT)
    column(plain, wrapped, elided, changing, copied, into=window)

    def shown() -> set[str]:
        return {plain.text(), QLabel.text(wrapped), elided.shown(1000), changing.text()}

    assert shown() == {TEXT}
    choose_numbers(qapp, NUMBERS[1])  # what is shown is written anew
    assert shown() == {plain_tip(TEXT), push_button(TEXT, lambda: None).text()} == {SPACED}
    assert SPACED in tip(TEXT)
    assert QLabel.text(copied) == TEXT  # it would be copied so
    plain.setText(f"{TEXT} and 9,999")
    assert plain.text() == f"{SPACED} and 9\N{NARROW NO-BREAK SPACE}999"
    choose_numbers(qapp, NUMBERS[0])
    assert plain.text() == f"{TEXT} and 9,999"


def test_the_list_of_changes_follows_the_style(qapp: QApplication, qtbot: QtBot) -> None:
    page = ChangesPage(lambda _: None, lambda _: None)
    qtbot.addWidget(page)
    changes = ChangesListed((ListedChange(1390, "learning rate 0.01 → 1×10⁻⁴"),))
    page.on_event(changes, RunState(changes=changes))
    choose_numbers(qapp, NUMBERS[1])
    page.set_theme(replace(LIGHT, numbers=NUMBERS[1]))
    words = "step 1\N{NARROW NO-BREAK SPACE}390  learning rate 0,01 → 1×10⁻⁴"
    assert page.list.item(0).text() == words
