"""The look: readable in both themes, every icon drawn, every token filled in."""

import re

import pytest
from PySide6.QtCore import QEvent, QObject, QSize
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QLabel,
    QPushButton,
    QStatusBar,
    QStyle,
    QStyleOptionButton,
    QWidget,
)

from dgn_engine.scene.theme import DARK, LIGHT, Theme
from dgn_viewer.style import appearance, stylesheet
from dgn_viewer.widgets.layouts import column

THEMES = [LIGHT, DARK]
ICONS = sorted(p.name.removesuffix(".svg") for p in stylesheet._ICONS.iterdir())


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_every_text_is_readable_on_its_ground(theme: Theme) -> None:
    poor = [pair for pair in stylesheet.text_pairs(theme) if stylesheet.contrast(*pair) < 4.5]
    assert not poor


def test_contrast_is_that_of_black_on_white() -> None:
    assert stylesheet.contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert stylesheet.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


def test_the_style_sheet_has_no_open_token_and_only_files_that_exist() -> None:
    sheet = stylesheet.stylesheet()
    assert "@" not in sheet
    paths = re.findall(r'url\("([^"]+)"\)', sheet)
    assert paths
    missing = [path for path in paths if path.split("/")[-1].removesuffix(".svg") not in ICONS]
    assert not missing


@pytest.mark.parametrize("name", ICONS)
def test_an_icon_is_drawn_in_the_colour_of_the_theme(qapp, name: str) -> None:
    for theme in THEMES:
        image = stylesheet.icon(name, theme, 96).pixmap(QSize(96, 96)).toImage()
        colours = {
            image.pixelColor(x, y).name().upper()
            for x in range(96)
            for y in range(96)
            if image.pixelColor(x, y).alpha() == 255
        }
        assert colours, "nothing was drawn"
        if "currentColor" in (stylesheet._ICONS / f"{name}.svg").read_text():
            assert theme.text in colours


def test_an_icon_is_rendered_for_dense_screens(qapp) -> None:
    pixmap = stylesheet.icon("run", LIGHT, 16).pixmap(QSize(16, 16), 2.0)
    assert pixmap.size() == QSize(32, 32)


@pytest.mark.parametrize("checked", [False, True])
def test_the_text_of_a_check_box_has_as_much_room_with_the_focus(qtbot, checked: bool) -> None:
    box = QCheckBox("with A")
    qtbot.addWidget(box)
    box.setStyleSheet(stylesheet.stylesheet())
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
    column(button, bar, into=window)
    column(later, into=hidden)
    before = qapp.palette()
    try:
        appearance.apply(qapp, LIGHT)
        window.show()
        hidden.show()
        hidden.hide()
        places = [part.geometry() for part in window.findChildren(QWidget)]
        events = _EventKinds()
        button.installEventFilter(events)
        appearance.apply(qapp, DARK)
        assert colours_of(button) >= {DARK.accent, stylesheet.on_accent(DARK)}
        assert colours_of(later) >= {DARK.panel, DARK.text}
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


def colours_of(widget: QWidget) -> set[str]:
    image = widget.grab().toImage()
    return {
        image.pixelColor(x, y).name().upper()
        for x in range(image.width())
        for y in range(image.height())
    }
