"""The widgets of a panel: where they are, what they are called, what a click on them does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QComboBox,
    QDockWidget,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QToolButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.chart_settings import ChartSettings
from dgn_engine.scene.elements import Axis, Chart, Fact, Scene, Shown
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, chosen_value
from dgn_engine.scene.theme import DARK, LIGHT
from dgn_viewer.docks.panel_dock import PanelDock
from dgn_viewer.docks.panel_frame import DockTitle
from dgn_viewer.docks.panel_message import PanelMessage
from dgn_viewer.docks.text_line import FactsLine, TextLine
from dgn_viewer.style.stylesheet import themed_icon
from tests.engine.panels.pictures import started_run
from tests.snapshots import Recorded

FACTS = (Fact("rank", "4", "How many."), Fact("ν", "12", "How hard."))
DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


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
    told.show_message("No reading", "words " * 50, offer="Compute")
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
    for label in (heading, sentence):
        assert label.textFormat() == Qt.TextFormat.PlainText
    assert sentence.textInteractionFlags() & Qt.TextInteractionFlag.TextSelectableByMouse
    told.show_message("Waiting", "For a frame.", offer="Compute")
    told.grab()
    offer = button(told, "Compute")
    assert told.displayed_text() == ("Waiting", "For a frame.", "")
    assert offer.isVisible()
    assert not any(button(told, text).isVisible() for text in ("Details", "Copy"))
    above, below = heading.geometry().top(), told.height() - offer.geometry().bottom()
    assert above == pytest.approx(below, abs=6)
    assert offer.geometry().center().x() == pytest.approx(200, abs=4)
    told.show_message("Waiting", "For a frame.")
    assert not offer.isVisible()


def test_details_stay_closed_until_they_are_asked_for_and_can_be_copied(told: PanelMessage) -> None:
    more, copy = button(told, "Details"), button(told, "Copy")
    told.show_message("A panel", "A sentence.", "line 1\nline 2")
    details = told.findChild(QPlainTextEdit)
    assert isinstance(details, QPlainTextEdit)
    assert (more.isVisible(), copy.isVisible(), details.isVisible()) == (True, True, False)
    more.click()
    assert details.isVisible()
    told.show_message("A panel", "A sentence.", "line 3")
    assert details.isVisible()  # it stays open
    assert details.toPlainText() == "line 3"
    copy.click()
    assert QGuiApplication.clipboard().text() == "line 3"
    told.show_message("Waiting", "A sentence.")
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
    return Scene((CHART,), FACTS, view.step, f"kind {chosen_value(view, KIND)}")


SPEC = PanelSpec("Panel", ("npk",), _draw, About("."), options=(KIND,))


@pytest.fixture
def make_panel(qtbot: QtBot) -> Callable[[], PanelDock]:
    def make() -> PanelDock:
        panel = PanelDock("p", SPEC, LIGHT, clock=lambda: 0.0)
        qtbot.addWidget(panel)
        panel.resize(500, 300)
        panel.show()
        assert panel.parts
        return panel

    return make


def seeing(step: int) -> View:
    return View(
        run=started_run((2,)), step=step, readings={"npk": Reading("npk", step, interval=0.5)}
    )


def test_the_parts_of_a_panel_have_names_and_their_own_places(
    make_panel: Callable[[], PanelDock], recorded: Recorded
) -> None:
    panel = make_panel()
    panel.show_view(seeing(3))
    panel.grab()
    facts, combo, footer = (panel.findChild(kind) for kind in (FactsLine, QComboBox, TextLine))
    assert isinstance(facts, FactsLine)
    assert isinstance(combo, QComboBox)
    assert isinstance(footer, TextLine)
    about, export = panel.findChildren(QToolButton, options=DIRECT)
    named = (panel, combo, about, export)
    recorded([(one.objectName(), one.accessibleName(), one.toolTip()) for one in named])
    row = (facts, combo, about, export)
    assert all(left.geometry().right() < right.x() for left, right in pairwise(row))
    picture = panel.charts.view
    place = picture.mapTo(panel, picture.rect().topLeft())
    assert max(one.geometry().bottom() for one in row) <= place.y()
    assert place.y() + picture.height() <= footer.y() < footer.geometry().bottom() < panel.height()
    assert picture.height() > 200


def test_a_panel_has_no_widgets_before_it_is_drawn_and_keeps_what_it_was_told(
    qtbot: QtBot,
) -> None:
    panel = PanelDock("p", SPEC, LIGHT)
    qtbot.addWidget(panel)
    asked: list[str] = []
    panel.choices_changed.connect(lambda: asked.append("chosen"))
    panel.set_choice("kind", "b")
    settings = {"c": ChartSettings(last=2)}
    panel.charts.apply_settings(settings)
    panel.set_theme(DARK)
    with pytest.raises(ValueError, match="no option"):
        panel.set_choice("size", "b")
    assert (panel.is_made, panel.findChildren(QWidget), asked) == (False, [], ["chosen"])
    assert panel.drawn.view.choices == {"kind": "b"}
    panel.show_view(seeing(3))
    combo = panel.findChild(QComboBox)
    assert isinstance(combo, QComboBox)
    assert (panel.is_made, combo.currentData(), panel.panel_state()) == (True, "b", "live")
    assert panel.charts.settings == settings


def test_buttons_have_quiet_icons_of_their_own_in_every_theme_that_follows(
    make_panel: Callable[[], PanelDock], qtbot: QtBot
) -> None:
    panel, dock = make_panel(), QDockWidget("Panel")
    qtbot.addWidget(dock)
    title = DockTitle(dock)
    buttons = (*panel.findChildren(QToolButton, options=DIRECT), *title.findChildren(QToolButton))
    names = ("about", "export", "maximise", "float", "close")
    for theme in (LIGHT, DARK, LIGHT):
        title.set_theme(theme)
        panel.set_theme(theme)
        for button, name in zip(buttons, names, strict=True):
            wanted = themed_icon(name, theme, colour=theme.muted)
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
    assert (combo.currentData(), panel.footer_text()) == ("a", "step 3 · every 0.5 s · kind a")
    panel.set_choice("kind", "b")
    assert (combo.currentData(), panel.footer_text()) == ("b", "step 3 · every 0.5 s · kind b")
    panel.show_view(seeing(0))  # 'b' cannot be chosen now …
    assert (combo.currentData(), panel.footer_text()) == ("a", "step 0 · every 0.5 s · kind a")
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
    first, second = panel.findChildren(QComboBox)
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
    assert (export.isEnabled(), facts.shown_facts()) == (True, ("rank", "ν"))
    with caplog.at_level(logging.ERROR):
        panel.show_view(seeing(13))
        panel.show_view(seeing(13))
        assert len(caplog.records) == 1
        assert (panel.panel_state(), panel.shown_content(), panel.footer_text()) == (
            "failed",
            None,
            "",
        )
        assert (export.isEnabled(), facts.shown_facts()) == (False, ())
        _, sentence, details = panel.parts.message.displayed_text()
        assert sentence.startswith("Panel ")
        assert " 13 (ValueError)" in sentence
        assert "by the test" in details
        assert not panel.charts.view.isVisible()
        panel.show_view(seeing(14))
        assert (panel.panel_state(), export.isEnabled()) == ("live", True)
        assert panel.charts.view.isVisible()
        panel.show_view(seeing(13))
        assert len(caplog.records) == 2
