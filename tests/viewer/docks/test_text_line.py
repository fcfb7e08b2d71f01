"""The lines of text and of facts in a panel: what they say aloud, and what has room."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Fact
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.docks.text_line import FactsLine, TextLine

FACTS = (Fact("$ρ$ max", "0.5", "The largest."), Fact("rank", "4", "How many."))


def test_a_line_is_whole_in_its_tooltip_and_for_screen_readers(qtbot: QtBot) -> None:
    line = TextLine(LIGHT)
    qtbot.addWidget(line)
    line.set_text("$K^V$ & more")
    assert line.text() == "$K^V$ & more"
    assert line.toolTip() == "<i>K</i><sup><i>V</i></sup> &amp; more"
    assert line.accessibleName() == "K^V & more"
    line.set_theme(DARK)
    line.resize(line.sizeHint())
    assert line.sizeHint().width() == 120
    assert not line.grab().isNull()


def colours(line: QWidget) -> set[str]:
    image = line.grab().toImage()
    return {
        image.pixelColor(x, y).name().upper()
        for x in range(image.width())
        for y in range(image.height())
    }


def test_names_are_muted_and_values_are_not_in_every_theme_that_follows(qtbot: QtBot) -> None:
    note, facts = TextLine(LIGHT), FactsLine(LIGHT)
    for line in (note, facts):
        qtbot.addWidget(line)
        line.resize(600, 24)
    note.set_text("a note, HHH")
    noted: list[set[str]] = []
    for theme, other in ((LIGHT, DARK), (DARK, LIGHT), (LIGHT, DARK)):
        note.set_theme(theme)
        facts.set_theme(theme)
        noted.append(colours(note))
        assert theme.text not in noted[-1]
        for value in ("", "HHH"):
            facts.set_facts((Fact("HHH", value),))
            assert (theme.text in colours(facts)) == bool(value)
            assert other.text not in colours(facts)
    assert noted[0] == noted[2] != noted[1]
    note.resize(30, 24)
    assert note.toolTip() == "a note, HHH"


def test_facts_are_shown_first_things_first_as_far_as_there_is_room(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.resize(600, 24)
    line.set_facts(FACTS)
    assert line.accessibleName() == "ρ max 0.5, rank 4"
    assert line.shown() == ("$ρ$ max", "rank")
    (_, left, right), (_, next_left, end) = line._places()
    assert left == 0.0
    assert next_left == right + 16
    line.resize(int(end) + 1, 24)
    assert line.shown() == ("$ρ$ max", "rank")
    line.resize(int(end) - 1, 24)
    assert line.shown() == ("$ρ$ max",)
    line.resize(10, 24)
    assert line.shown() == ()
    line.set_theme(DARK)
    assert not line.grab().isNull()


def test_behind_a_fact_that_has_no_room_there_is_none(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.set_facts((FACTS[1], Fact("a name that is far too long", "1,234,567"), FACTS[1]))
    line.resize(120, 24)
    assert line.shown() == ("rank",)  # the third would have room, and would seem to be the second
    line.resize(1200, 24)
    assert len(line.shown()) == 3


def test_a_fact_under_the_cursor_is_explained(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.resize(600, 24)
    line.set_facts(FACTS)
    line.show()
    _, left, _ = line._places()[1]

    def tip(x: float) -> str:
        at = QPoint(round(x), 10)
        QApplication.sendEvent(line, QHelpEvent(QEvent.Type.ToolTip, at, line.mapToGlobal(at)))
        return QToolTip.text()

    assert tip(left + 3) == "How many."
    assert tip(3) == "The largest."
    QToolTip.hideText()


def test_facts_without_room_are_in_the_tip_behind_an_ellipsis(qtbot: QtBot) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    line.set_facts(FACTS)
    line.resize(600, 24)
    assert line.rest() == ""
    (_, _, first), (_, _, end) = line._places()
    line.resize(int(end) - 1, 24)
    assert line.rest() == "rank <b>4</b>"
    place = QPoint(int(first) + 12, 12)
    QApplication.sendEvent(line, QHelpEvent(QEvent.Type.ToolTip, place, line.mapToGlobal(place)))
    assert QToolTip.text() == "rank <b>4</b>"
    pixels = line.grab().toImage()
    assert any(
        pixels.pixelColor(x, y) != pixels.pixelColor(int(end) - 3, 1)
        for x in range(int(first) + 6, int(end) - 4)
        for y in range(24)
    )
    QToolTip.hideText()
