"""The look: readable in both themes, every icon drawn, every token filled in."""

import re

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QPushButton

from dgn_viewer.style import stylesheet
from dgn_viewer.style.theme import DARK, LIGHT, Theme

THEMES = [LIGHT, DARK]
ICONS = sorted(p.name.removesuffix(".svg") for p in stylesheet._ICONS.iterdir())


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_every_text_is_readable_on_its_ground(theme: Theme) -> None:
    poor = [pair for pair in stylesheet.text_pairs(theme) if stylesheet.contrast(*pair) < 4.5]
    assert not poor


def test_contrast_is_that_of_black_on_white() -> None:
    assert stylesheet.contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert stylesheet.contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_the_style_sheet_has_no_open_token_and_only_files_that_exist(theme: Theme) -> None:
    sheet = stylesheet.stylesheet(theme)
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


def test_the_style_sheet_is_understood_by_qt(qtbot) -> None:
    button = QPushButton("Start run")
    qtbot.addWidget(button)
    button.setProperty("role", "primary")
    button.setStyleSheet(stylesheet.stylesheet(LIGHT))
    button.show()
    assert not button.grab().isNull()
