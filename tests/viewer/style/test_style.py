"""The look: readable in both themes, every icon drawn, every token filled in."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QLabel,
    QLineEdit,
    QPushButton,
    QStatusBar,
    QStyle,
    QStyleOptionButton,
    QWidget,
)
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import ChangesListed, ListedChange
from dgn_engine.scene.number_style import NUMBERS
from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.event_filter import EventFilter
from dgn_viewer.inspector.pages.changes_page import ChangesPage
from dgn_viewer.inspector.pages.origin_field import OriginField
from dgn_viewer.shell.statusbar import ChangingLabel
from dgn_viewer.style import appearance, stylesheet
from dgn_viewer.style.chosen_numbers import choose_numbers
from dgn_viewer.style.stylesheet import plain_tip, wrapping_tip
from dgn_viewer.widgets.elided_label import ElidedLabel
from dgn_viewer.widgets.form_fields import ListField, PickBox
from dgn_viewer.widgets.layouts import PlainLabel, make_column, plain_label, push_button
from dgn_viewer.widgets.number_field import NumberField
from tests.viewer.seen_charts import colours_in

THEMES = [LIGHT, DARK]
ICONS = sorted(p.name.removesuffix(".svg") for p in stylesheet._ICONS.iterdir())


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_every_text_is_readable_on_its_ground(theme: Theme) -> None:
    poor = [pair for pair in stylesheet.text_pairs(theme) if stylesheet.contrast_ratio(*pair) < 4.5]
    assert not poor


def test_contrast_is_that_of_black_on_white() -> None:
    assert stylesheet.contrast_ratio("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert stylesheet.contrast_ratio("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


def test_the_style_sheet_has_no_open_token_and_only_files_that_exist() -> None:
    sheet = stylesheet.application_stylesheet()
    assert "@" not in sheet
    paths = re.findall(r'url\("([^"]+)"\)', sheet)
    assert paths
    missing = [path for path in paths if path.split("/")[-1].removesuffix(".svg") not in ICONS]
    assert not missing


@pytest.mark.parametrize("name", ICONS)
def test_an_icon_is_drawn_in_the_colour_of_the_theme(qapp, name: str) -> None:
    for theme in THEMES:
        colours = colours_in(
            stylesheet.themed_icon(name, theme, 96).pixmap(QSize(96, 96)).toImage()
        )
        assert colours, "nothing was drawn"
        if "currentColor" in (stylesheet._ICONS / f"{name}.svg").read_text():
            assert theme.text in colours


def test_an_icon_is_rendered_for_dense_screens(qapp) -> None:
    pixmap = stylesheet.themed_icon("run", LIGHT, 16).pixmap(QSize(16, 16), 2.0)
    assert pixmap.size() == QSize(32, 32)


def test_a_sheet_that_a_widget_has_is_not_set_again(qtbot) -> None:
    sheets = []

    class Counted(QLabel):
        def setStyleSheet(self, sheet: str) -> None:
            sheets.append(sheet)
            super().setStyleSheet(sheet)

    label = Counted()
    qtbot.addWidget(label)
    for sheet in ("color: red;", "color: red;", "color: blue;"):
        stylesheet.set_sheet(label, sheet)
    assert sheets == ["color: red;", "color: blue;"]


def test_an_icon_is_rendered_for_the_screens_at_hand(qapp) -> None:
    ratios = {1.0, 2.0, *(screen.devicePixelRatio() for screen in qapp.screens())}
    sizes = stylesheet.themed_icon("run", LIGHT, 20).availableSizes()
    assert {size.width() for size in sizes} == {round(20 * ratio) for ratio in ratios}


@pytest.mark.parametrize("checked", [False, True])
def test_the_text_of_a_check_box_has_as_much_room_with_the_focus(qtbot, checked: bool) -> None:
    box = QCheckBox("with A")
    qtbot.addWidget(box)
    box.setStyleSheet(stylesheet.application_stylesheet())
    box.setChecked(checked)
    box.resize(box.sizeHint())
    rooms = []
    for focus in (QStyle.StateFlag.State_None, QStyle.StateFlag.State_HasFocus):
        option = QStyleOptionButton()
        box.initStyleOption(option)
        option.state |= focus
        part = QStyle.SubElement.SE_CheckBoxContents
        rooms.append(box.style().subElementRect(part, option, box))
    assert rooms[0] == rooms[1]


def test_another_theme_recolours_what_is_shown_and_what_is_hidden_but_moves_nothing(
    qtbot, qapp: QApplication
) -> None:
    window, bar, hidden = QWidget(), QStatusBar(), QWidget()
    for widget in (window, hidden):
        qtbot.addWidget(widget)
    button, said, later = QPushButton("Start run"), QLabel("a name"), QPushButton("later")
    button.setProperty("role", "primary")
    bar.addWidget(QPushButton("Details"))
    bar.addWidget(said)
    make_column(button, bar, into=window)
    make_column(later, into=hidden)
    before = qapp.palette()
    try:
        appearance.style_application(qapp, LIGHT)
        window.show()
        hidden.show()
        hidden.hide()
        places = [part.geometry() for part in window.findChildren(QWidget)]
        events = _EventKinds()
        button.installEventFilter(events)
        appearance.style_application(qapp, DARK)
        assert colours_in(button) >= {DARK.accent, stylesheet.on_accent(DARK)}
        assert colours_in(later) >= {DARK.panel, DARK.text}
        assert said.palette().windowText().color().name().upper() == DARK.muted
        in_bar = bar.findChild(QPushButton)
        assert in_bar is not None
        assert in_bar.palette().buttonText().color().name().upper() == DARK.text  # not its parent's
        assert [part.geometry() for part in window.findChildren(QWidget)] == places
        assert QEvent.Type.StyleChange not in events.kinds  # every widget would be laid out anew
    finally:
        qapp.setStyleSheet("")
        qapp.setPalette(before)


class _EventKinds(QObject):
    """Which kinds of events have come."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[QEvent.Type] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.kinds.append(event.type())
        return False


# Texts of fields that stand below each other begin at the same x.

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
    appearance.style_application(qapp, LIGHT)
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
        make_column(*fields, into=window)
        window.resize(300, 300)
        window.show()
        assert len({begins_at(field) for field in fields}) == 1, [begins_at(f) for f in fields]
    finally:
        qapp.setStyleSheet(before)


# Facts of the event filter: which events its callbacks get, and when it ends.


class _Receiver(QObject):
    """Keeps the types of the events that reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[QEvent.Type] = []

    def event(self, event: QEvent) -> bool:
        self.received.append(event.type())
        return super().event(event)


def _send(receiver: QObject, kind: QEvent.Type) -> None:
    QCoreApplication.sendEvent(receiver, QEvent(kind))


def test_only_the_chosen_types_reach_the_callback(qtbot: QtBot) -> None:
    owner, watched = QObject(), _Receiver()
    seen: list[QEvent.Type] = []
    EventFilter(owner, {QEvent.Type.Show: lambda event: seen.append(event.type())}, watched)
    _send(watched, QEvent.Type.Hide)
    _send(watched, QEvent.Type.Show)
    assert seen == [QEvent.Type.Show]
    assert watched.received == [QEvent.Type.Hide, QEvent.Type.Show]


def test_an_event_is_kept_from_the_watched_object_where_the_callback_says_so(qtbot: QtBot) -> None:
    owner, watched = QObject(), _Receiver()
    EventFilter(owner, {QEvent.Type.Show: lambda _event: True}, watched)
    _send(watched, QEvent.Type.Show)
    assert watched.received == []


def test_several_objects_are_watched_until_it_is_stopped(qtbot: QtBot) -> None:
    owner, first, second = QObject(), QObject(), QObject()
    seen: list[QEvent.Type] = []
    watching = EventFilter(owner, {QEvent.Type.Show: lambda event: seen.append(event.type())})
    watching.watch_objects(first, second)
    _send(first, QEvent.Type.Show)
    _send(second, QEvent.Type.Show)
    assert len(seen) == 2
    shiboken6.delete(second)
    watching.stop_watching()
    _send(first, QEvent.Type.Show)
    assert len(seen) == 2
    watching.watch_objects(first)
    _send(first, QEvent.Type.Show)
    assert len(seen) == 3


def test_it_ends_with_its_owner(qtbot: QtBot) -> None:
    owner, watched = QObject(), QObject()
    seen: list[QEvent.Type] = []
    EventFilter(owner, {QEvent.Type.Show: lambda event: seen.append(event.type())}, watched)
    shiboken6.delete(owner)
    _send(watched, QEvent.Type.Show)
    assert seen == []


# The style of numbers that is chosen in the settings, in the texts of the window.

NUMBERED, SPACED = "step 1,234 · 0.25 s", "step 1\N{NARROW NO-BREAK SPACE}234 · 0,25 s"


@pytest.fixture(autouse=True)
def _usual_style(qapp: QApplication) -> Iterator[None]:
    yield
    choose_numbers(qapp, NUMBERS[0])


def test_every_text_has_the_numbers_that_are_chosen(qapp: QApplication, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    plain, wrapped, elided = PlainLabel(NUMBERED), plain_label(NUMBERED), ElidedLabel(NUMBERED)
    changing, copied = (
        ChangingLabel(Qt.AlignmentFlag.AlignLeft),
        plain_label(NUMBERED, selectable=True),
    )
    changing.setText(NUMBERED)
    make_column(plain, wrapped, elided, changing, copied, into=window)

    def shown() -> set[str]:
        return {plain.text(), QLabel.text(wrapped), elided.elided_text(1000), changing.text()}

    assert shown() == {NUMBERED}
    choose_numbers(qapp, NUMBERS[1])  # what is shown is written anew
    assert shown() == {plain_tip(NUMBERED), push_button(NUMBERED, lambda: None).text()} == {SPACED}
    assert SPACED in wrapping_tip(NUMBERED)
    assert QLabel.text(copied) == NUMBERED  # it would be copied so
    plain.setText(f"{NUMBERED} and 9,999")
    assert plain.text() == f"{SPACED} and 9\N{NARROW NO-BREAK SPACE}999"
    choose_numbers(qapp, NUMBERS[0])
    assert plain.text() == f"{NUMBERED} and 9,999"


def test_the_list_of_changes_follows_the_style(qapp: QApplication, qtbot: QtBot) -> None:
    page = ChangesPage(lambda _: None, lambda _: None)
    qtbot.addWidget(page)
    changes = ChangesListed((ListedChange(1390, "learning rate 0.01 → 1×10⁻⁴"),))
    page.on_event(changes, RunState(changes=changes))
    choose_numbers(qapp, NUMBERS[1])
    page.set_theme(replace(LIGHT, numbers=NUMBERS[1]))
    words = "step 1\N{NARROW NO-BREAK SPACE}390  learning rate 0,01 → 1×10⁻⁴"
    assert page.list.item(0).text() == words
