"""Help in the window: the guide with its contents, the page about the program, what is shipped."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.scene.theme import DARK, LIGHT
from dgn_engine.text.documents import PARTS
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.program_page import ProgramPage
from dgn_viewer.shell.help_window import GUIDE, Heading, HelpWindow, as_text, documents, headings

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\]\(([\w/.-]+\.md)")


@pytest.fixture
def help_window(qtbot: QtBot) -> Iterator[HelpWindow]:
    window = QWidget()
    qtbot.addWidget(window)
    help_window = HelpWindow(window, LIGHT)
    help_window.open()
    yield help_window
    help_window.close()


def titles(window: HelpWindow) -> list[str]:
    top = window.contents
    items = [top.topLevelItem(place) for place in range(top.topLevelItemCount())]
    found = []
    while items:
        item = items.pop(0)
        assert item is not None
        found.append(item.text(0))
        items = [item.child(place) for place in range(item.childCount())] + items
    return found


def test_headings_in_code_are_none() -> None:
    text = "# A\n```\n# not this\n```\n### B `c`\n#### too deep\n"
    assert list(headings(text)) == [Heading(1, "A"), Heading(3, "B c")]


def test_the_contents_are_the_headings_and_lead_to_them(help_window: HelpWindow) -> None:
    guide = (documents() / GUIDE).read_text(encoding="utf-8")
    assert titles(help_window) == [heading.text for heading in headings(guide)]
    shown = [block.text() for block in help_window._headed()]
    assert shown == titles(help_window)
    help_window.open("guide/window.md")
    item = help_window.contents.findItems("Events", Qt.MatchFlag.MatchRecursive)[0]
    help_window.contents.setCurrentItem(item)
    assert help_window.text.textCursor().block().text() == "Events"
    assert help_window.text.verticalScrollBar().value() > 100


def test_words_are_found_again_from_the_beginning(help_window: HelpWindow) -> None:
    QTest.keyClicks(help_window.search, "notch filter of nobody")
    assert not help_window.find_next()
    help_window.search.setText("first minute")
    assert help_window.find_next()
    while help_window.text.find("first minute"):
        pass
    assert help_window.find_next()


def test_links_to_our_documents_stay_and_others_go_to_the_browser(
    help_window: HelpWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    for link in ("file:///etc/passwd", "../LICENSE", "nowhere.md", "javascript:1", "ftp://a/b.md"):
        help_window._follow(QUrl(link))
    assert titles(help_window)[0] == "User guide"
    assert not opened
    help_window._follow(QUrl("start/first-ten-minutes.md"))
    assert titles(help_window)[0] == "First ten minutes"
    help_window._follow(QUrl("../concepts/index.md"))
    assert titles(help_window)[0] == "Concepts"
    help_window._follow(QUrl("../runs.md"))
    assert titles(help_window)[0] == "Run folders"
    help_window._follow(QUrl("guide/window.md#events"))
    assert titles(help_window)[0] == "The window"
    assert help_window.text.textCursor().block().text() == "Events"
    help_window._follow(QUrl("../runs.md"))
    help_window._follow(QUrl("https://arxiv.org/abs/2006.10529"))
    assert opened == ["https://arxiv.org/abs/2006.10529"]
    help_window.set_theme(DARK)
    assert titles(help_window)[0] == "Run folders"


def test_a_document_is_chosen_from_a_list_that_begins_with_the_guide(
    help_window: HelpWindow,
) -> None:
    pages = help_window.pages
    assert [pages.itemData(place) for place in (0, 1)] == [GUIDE, "guide/changing-a-run.md"]
    place = pages.findText("Sweeps")
    pages.setCurrentIndex(place)
    pages.activated.emit(place)
    assert titles(help_window)[0] == "Sweeps"
    help_window._follow(QUrl("../runs.md"))
    assert pages.currentText() == "Run folders"


def test_pictures_are_captions_and_formulas_code() -> None:
    text = 'A\n\n![The window](../images/a.png)\n\n$$\n\\nu = 1\n$$\n\n<div class="grid">\nB\n'
    assert as_text(text) == "A\n\n*(The window)*\n\n```\n\\nu = 1\n```\n\nB\n"


def test_every_document_for_users_and_every_one_that_the_guide_links_to_is_shipped() -> None:
    shipped = {
        Path(file.relative_path).as_posix(): Path(file.distribution_path).as_posix()
        for file in WheelBuilder(str(ROOT)).recurse_selected_project_files()
        if file.relative_path.startswith("docs")
    }
    assert all(place == f"dgn_resources/{source}" for source, place in shipped.items())
    assert not [source for source in shipped if not source.endswith(".md")]
    for folder in PARTS:
        for page in (ROOT / "docs" / folder).glob("*.md"):
            assert page.relative_to(ROOT).as_posix() in shipped
    pages = [ROOT / "docs" / GUIDE, *(ROOT / "docs" / "guide").glob("*.md")]
    linked = {
        (page.parent / link).resolve().relative_to(ROOT).as_posix()
        for page in pages
        for link in LINK.findall(page.read_text(encoding="utf-8"))
    }
    elsewhere = ("docs/reference", "docs/experiments", "docs/panels.md", "docs/decisions")
    ours = {path.relative_to(ROOT).as_posix() for path in pages}
    assert {name for name in linked | ours if not name.startswith(elsewhere)} <= set(shipped)


@pytest.mark.slow
def test_a_wheel_has_the_guide_in_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        guide = archive.read("dgn_resources/docs/guide.md")
    assert guide == (ROOT / "docs" / GUIDE).read_bytes()


def test_the_program_says_its_versions_papers_and_licences(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window
    window.registry["help.about"].trigger()
    page = window.inspector.page
    assert isinstance(page, ProgramPage)
    words = page.versions.text()
    for name in ("dgn-viewer ", "torch ", "Qt ", "numpy ", "Python "):
        assert name in words
    assert "being loaded" not in words
    page.copy.click()
    assert QGuiApplication.clipboard().text() == words
    window.registry["help.guide"].trigger()
    assert window.guides.help.isVisible()
    assert window.guides.help.windowTitle() == "User guide"
