"""The widgets of a panel: where they are, what they are called, what a click on them does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtWidgets import (
    QComboBox,
    QDockWidget,
    QLabel,
    QMainWindow,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import Axis, Chart, Fact, Scene, Shown
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, choice
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_frame import DockTitle
from dgn_viewer.docks.panel_message import PanelMessage
from dgn_viewer.docks.text_line import FactsLine, TextLine
from dgn_viewer.plots.rich_text import TextStyle
from dgn_viewer.style.stylesheet import icon
from tests.engine.panels.pictures import run

DIRECT = Qt.FindChildOption.FindDirectChildrenOnly
FACTS = (Fact("rank", "4", "How many."), Fact("ν", "12", "How hard."))
IGNORED, FIXED = QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float, str, str]]:
    """(x, y, text, colour) of every text that a line paints."""
    found: list[tuple[float, float, str, str]] = []

    def paint(_: TextStyle, painter: Any, base: QPointF, text: str, colour: QColor) -> None:
        found.append((base.x(), base.y(), text, colour.name()))

    monkeypatch.setattr(TextStyle, "paint", paint)
    return found


def policy(widget: QWidget) -> tuple[QSizePolicy.Policy, QSizePolicy.Policy]:
    return widget.sizePolicy().horizontalPolicy(), widget.sizePolicy().verticalPolicy()


def test_a_line_is_muted_and_stands_in_the_middle_of_its_height(
    qtbot: QtBot, painted: list[tuple[float, float, str, str]]
) -> None:
    line = TextLine(LIGHT)
    qtbot.addWidget(line)
    style = TextStyle(line.font().family(), 11)
    assert policy(line) == (IGNORED, FIXED)
    assert line.sizeHint().height() == round(style.height) + 4
    line.resize(200, 40)
    line.set_text("a note")
    line.grab()
    below = 20 - style.height / 2 + style.ascent
    ((x, y, text, colour),) = painted
    assert (x, text, colour) == (0.0, "a note", QColor(LIGHT.muted).name())
    assert y == pytest.approx(below)
    line.set_theme(DARK)
    line.grab()
    assert painted[-1][3] == QColor(DARK.muted).name()
    line.resize(30, 40)
    line.set_text("a note that is far too long for it")
    line.grab()
    assert painted[-1][2].endswith("…")


def test_names_of_facts_are_muted_and_their_values_stand_behind_them(
    qtbot: QtBot, painted: list[tuple[float, float, str, str]]
) -> None:
    line = FactsLine(LIGHT)
    qtbot.addWidget(line)
    assert policy(line) == (IGNORED, FIXED)
    assert (line.sizeHint().width(), line.sizeHint().height()) == (120, 24)
    line.resize(400, 40)
    line.set_facts(FACTS)
    line.grab()
    family = line.font().family()
    bold = TextStyle(family, 13, bold=True, numbers=LIGHT.numbers)
    names, values = TextStyle(family, 12), bold
    assert line._types() == (names, values)
    second = names.width("rank") + 5 + values.width("4") + 16
    below = 20 - values.height / 2 + values.ascent
    muted, text = QColor(LIGHT.muted).name(), QColor(LIGHT.text).name()
    places = [0.0, names.width("rank") + 5, second, second + names.width("ν") + 5]
    assert [x for x, _, _, _ in painted] == pytest.approx(places)
    assert [words for _, _, words, _ in painted] == ["rank", "4", "ν", "12"]
    assert [colour for _, _, _, colour in painted] == [muted, text, muted, text]
    assert [y for _, y, _, _ in painted] == pytest.approx([below] * 4)


def button(widget: QWidget, text: str) -> QPushButton:
    return next(one for one in widget.findChildren(QPushButton) if one.text() == text)


@pytest.fixture
def told(qtbot: QtBot) -> PanelMessage:
    message = PanelMessage()
    qtbot.addWidget(message)
    message.resize(400, 300)
    message.show()
    return message


def test_a_message_that_has_no_room_scrolls_and_is_not_cut(told: PanelMessage) -> None:
    area, sentence = told.findChild(QScrollArea), told.findChildren(QLabel)[1]
    assert isinstance(area, QScrollArea)
    told.say("No reading", "This network has no such layer. " * 8, offer="Compute")
    told.resize(400, 80)
    told.grab()
    assert sentence.height() >= sentence.heightForWidth(sentence.width())
    assert area.verticalScrollBar().maximum() > 0
    assert area.horizontalScrollBar().maximum() == 0
    told.resize(400, 300)
    told.grab()
    assert area.verticalScrollBar().maximum() == 0


def test_a_message_stands_in_the_middle_with_what_it_has(told: PanelMessage) -> None:
    heading, sentence = told.findChildren(QLabel)[:2]
    details = told.findChild(QPlainTextEdit)
    assert isinstance(details, QPlainTextEdit)
    assert (heading.property("role"), sentence.property("role")) == ("heading", "muted")
    for label in (heading, sentence):
        assert label.alignment() == Qt.AlignmentFlag.AlignCenter
        assert label.textFormat() == Qt.TextFormat.PlainText
    assert (heading.wordWrap(), sentence.wordWrap()) == (False, True)
    assert sentence.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
    assert details.isReadOnly()
    assert details.lineWrapMode() == QPlainTextEdit.LineWrapMode.NoWrap
    told.say("Waiting", "With the first frame.", offer="Compute")
    told.grab()
    offer = button(told, "Compute")
    assert told.words() == ("Waiting", "With the first frame.", "")
    assert offer.isVisible()
    assert not any(button(told, text).isVisible() for text in ("Details", "Copy"))
    above, below = heading.geometry().top(), told.height() - offer.geometry().bottom()
    assert above == pytest.approx(below, abs=6)
    assert above > 80
    assert heading.geometry().left() == 16
    assert heading.geometry().right() == 383
    assert sentence.geometry().top() == heading.geometry().bottom() + 1 + 4
    assert offer.geometry().center().x() == pytest.approx(200, abs=4)
    told.say("Waiting", "With the first frame.")
    assert not offer.isVisible()


def test_details_stay_closed_until_they_are_asked_for_and_can_be_copied(
    told: PanelMessage,
) -> None:
    details = told.findChild(QPlainTextEdit)
    assert isinstance(details, QPlainTextEdit)
    more, copy = button(told, "Details"), button(told, "Copy")
    assert (more.property("role"), copy.property("role")) == ("small", "small")
    told.say("This panel failed", "A sentence.", "line 1\nline 2")
    assert (more.isVisible(), copy.isVisible(), details.isVisible()) == (True, True, False)
    more.click()
    assert details.isVisible()
    told.say("This panel failed", "A sentence.", "line 3")
    assert details.isVisible()  # it stays open
    assert details.toPlainText() == "line 3"
    copy.click()
    assert QGuiApplication.clipboard().text() == "line 3"
    told.say("Waiting", "A sentence.")
    assert not any(widget.isVisible() for widget in (more, copy, details))
    more.click()
    assert not more.isChecked()


# A panel with two options, one of which is hidden while it has one value.


def _kinds(view: View) -> tuple[tuple[str, str], ...]:
    return (("a", "first"), ("b", "second")) if view.step else (("a", "first"),)


KIND = Option("kind", "Kind", _kinds)
CHART = Chart("c", "Chart", Axis("step"), Axis())


def _draw(view: View) -> Shown:
    if view.step == 13:
        raise ValueError("by the test")
    return Scene((CHART,), FACTS, view.step, f"kind {choice(view, KIND)}")


SPEC = PanelSpec("Panel", ("npk",), _draw, About("."), options=(KIND,))


@pytest.fixture
def make_panel(qtbot: QtBot) -> Callable[[], PanelDock]:
    def make() -> PanelDock:
        panel = PanelDock("p", SPEC, LIGHT, clock=lambda: 0.0)
        qtbot.addWidget(panel)
        panel.resize(500, 300)
        panel.show()
        return panel

    return make


def seeing(step: int) -> View:
    return View(run=run((2,)), step=step, readings={"npk": Reading("npk", step, interval=0.5)})


def test_the_parts_of_a_panel_have_their_places_and_names(
    make_panel: Callable[[], PanelDock],
) -> None:
    panel = make_panel()
    panel.show_view(seeing(3))
    panel.grab()
    facts, combo = panel.findChild(FactsLine), panel.findChild(QComboBox)
    assert isinstance(facts, FactsLine)
    assert isinstance(combo, QComboBox)
    about, export = panel.findChildren(QToolButton, options=DIRECT)
    assert (panel.objectName(), panel.accessibleName()) == ("panel_p", "Panel")
    assert (combo.objectName(), combo.toolTip(), combo.accessibleName()) == (
        "kind",
        "<span>Kind: first</span>",
        "Panel: Kind",
    )
    assert (about.toolTip(), about.accessibleName()) == (
        "What am I seeing?",
        "What am I seeing? (Panel)",
    )
    assert export.toolTip() == "Export this panel"
    assert about.autoRaise()
    assert export.autoRaise()
    assert policy(combo) == (QSizePolicy.Policy.Maximum, FIXED)
    assert combo.maxVisibleItems() == 16
    assert combo.sizeAdjustPolicy() == QComboBox.SizeAdjustPolicy.AdjustToContents
    row = (facts, combo, about, export)
    for left, right in pairwise(row):
        assert right.x() - left.geometry().right() - 1 == 4
    assert (facts.x(), export.geometry().right()) == (8, 491)
    footer = panel.findChild(TextLine)
    assert isinstance(footer, TextLine)
    picture = panel.charts.view
    place = picture.mapTo(panel, picture.rect().topLeft())
    assert place.x() == 8
    assert footer.geometry().bottom() == 297
    assert footer.y() == place.y() + picture.height()
    assert picture.height() > 200
    assert min(widget.y() for widget in row) == 2
    assert panel.palette().color(panel.backgroundRole()) == QColor(LIGHT.panel)
    assert panel.autoFillBackground()
    panel.set_theme(DARK)
    assert panel.palette().color(panel.backgroundRole()) == QColor(DARK.panel)
    assert not about.icon().isNull()
    assert not export.icon().isNull()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_buttons_have_quiet_icons_of_their_own_in_both_themes(
    make_panel: Callable[[], PanelDock], qtbot: QtBot, theme: Theme
) -> None:
    panel, dock = make_panel(), QDockWidget("Panel")
    qtbot.addWidget(dock)
    title = DockTitle(dock)
    title.set_theme(theme)
    panel.set_theme(theme)
    buttons = (*panel.findChildren(QToolButton, options=DIRECT), *title.findChildren(QToolButton))
    for button, name in zip(
        buttons, ("about", "export", "maximise", "float", "close"), strict=True
    ):
        wanted = icon(name, theme, colour=theme.muted)
        assert button.icon().pixmap(16).toImage() == wanted.pixmap(16).toImage(), name


def test_an_option_with_one_value_is_hidden_and_the_chosen_one_is_kept(
    make_panel: Callable[[], PanelDock],
) -> None:
    panel = make_panel()
    combo = panel.findChild(QComboBox)
    assert isinstance(combo, QComboBox)
    panel.show_view(seeing(0))
    assert not combo.isVisible()
    panel.show_view(seeing(3))
    assert combo.isVisible()
    assert (combo.currentData(), panel.footer()) == ("a", "step 3 · every 0.5 s · kind a")
    panel.set_choice("kind", "b")
    assert (combo.currentData(), panel.footer()) == ("b", "step 3 · every 0.5 s · kind b")
    panel.show_view(seeing(0))  # 'b' cannot be chosen now …
    assert (combo.currentData(), panel.footer()) == ("a", "step 0 · every 0.5 s · kind a")
    panel.show_view(seeing(5))  # … and is chosen again when it can
    assert combo.currentData() == "b"
    assert panel.drawn.view.choices == {"kind": "b"}


def test_an_open_list_is_left_in_peace_and_the_others_follow(qtbot: QtBot) -> None:
    def offers(view: View) -> tuple[tuple[str, str], ...]:
        return tuple((str(n), f"layer {n}") for n in range(view.step))

    options = (Option("first", "First", offers), Option("second", "Second", offers))
    panel = PanelDock("p", replace(SPEC, options=options, draw=lambda _: Scene(())), LIGHT)
    qtbot.addWidget(panel)
    panel.resize(500, 300)
    panel.show()
    panel.show_view(seeing(2))
    first, second = [c for c in panel.findChildren(QComboBox) if c.objectName() != "probe_examples"]
    first.showPopup()
    panel.show_view(seeing(3))
    assert (first.count(), second.count()) == (2, 3)
    first.hidePopup()
    panel.show_view(seeing(3))
    assert (first.count(), second.count()) == (3, 3)


def test_a_fault_is_said_and_logged_once_until_the_panel_was_drawn_again(
    make_panel: Callable[[], PanelDock], caplog: pytest.LogCaptureFixture
) -> None:
    panel = make_panel()
    _, export = panel.findChildren(QToolButton, options=DIRECT)
    facts = panel.findChild(FactsLine)
    assert isinstance(facts, FactsLine)
    panel.show_view(seeing(3))
    assert (export.isEnabled(), facts.shown()) == (True, ("rank", "ν"))
    with caplog.at_level(logging.ERROR):
        panel.show_view(seeing(13))
        panel.show_view(seeing(13))
        assert len(caplog.records) == 1
        assert (panel.state(), panel.shown(), panel.footer()) == ("failed", None, "")
        assert (export.isEnabled(), facts.shown()) == (False, ())
        assert panel.message.words()[:2] == (
            "This panel failed",
            "Panel could not be drawn at step 13 (ValueError). The next frame tries again.",
        )
        assert not panel.charts.view.isVisible()
        panel.show_view(seeing(14))
        assert (panel.state(), export.isEnabled()) == ("live", True)
        assert panel.charts.view.isVisible()
        panel.show_view(seeing(13))
        assert len(caplog.records) == 2


def test_the_title_of_a_dock_floats_and_closes_it(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    dock = QDockWidget("Panel", window)
    window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
    title = DockTitle(dock)
    dock.setTitleBarWidget(title)
    title.set_theme(LIGHT)
    window.resize(400, 300)
    window.show()
    name = title.findChild(QLabel)
    assert isinstance(name, QLabel)
    assert (name.text(), name.property("role")) == ("Panel", "heading")
    assert (title.objectName(), title.height()) == ("dock_title", 20)
    larger, floating, closing = title.findChildren(QToolButton)
    assert larger.toolTip() == "Maximise Panel, or back (double click)"
    assert (floating.toolTip(), floating.accessibleName()) == (
        "Float Panel, or dock it again",
        "Float Panel, or dock it again",
    )
    assert closing.toolTip() == "Close Panel"
    for one in (larger, floating, closing):
        assert (one.iconSize().width(), one.iconSize().height()) == (12, 12)
        assert not one.icon().isNull()
    title.grab()
    assert name.x() == 8
    assert closing.geometry().right() == title.width() - 5
    assert closing.x() == floating.geometry().right() + 1 + 4
    floating.click()
    assert dock.isFloating()
    floating.click()
    assert not dock.isFloating()
    closing.click()
    assert dock.isHidden()
