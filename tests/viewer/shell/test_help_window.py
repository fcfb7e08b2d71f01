"""Help in the window: the guide with its contents, the page about the program, what is shipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.scene.theme import DARK, LIGHT
from dgn_engine.storage.program_log import RotatingLog, log_path, program_log
from dgn_engine.text.documents import PARTS
from dgn_engine.views.event_notices import Notice
from dgn_viewer import __main__ as program
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.program_page import ProgramPage
from dgn_viewer.notices import Notices
from dgn_viewer.shell.help_window import (
    GUIDE,
    Heading,
    HelpWindow,
    documents_folder,
    iter_headings,
    without_site_markup,
)
from dgn_viewer.shell.log_window import LogWindow

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\]\(([\w/.-]+\.md)")


@pytest.fixture
def browsed() -> list[QUrl]:
    """What the browser was to open."""
    return []


@pytest.fixture
def help_window(qtbot: QtBot, browsed: list[QUrl]) -> Iterator[HelpWindow]:
    window = QWidget()
    qtbot.addWidget(window)
    help_window = HelpWindow(window, LIGHT, browsed.append)
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
    assert list(iter_headings(text)) == [Heading(1, "A"), Heading(3, "B c")]


def test_the_contents_are_the_headings_and_lead_to_them(help_window: HelpWindow) -> None:
    guide = (documents_folder() / GUIDE).read_text(encoding="utf-8")
    assert titles(help_window) == [heading.text for heading in iter_headings(guide)]
    shown = [block.text() for block in help_window.heading_blocks()]
    assert shown == titles(help_window)
    help_window.open("guide/window.md")
    item = help_window.contents.findItems("Events", Qt.MatchFlag.MatchRecursive)[0]
    help_window.contents.setCurrentItem(item)
    assert help_window.text.textCursor().block().text() == "Events"
    assert help_window.text.verticalScrollBar().value() > 100


def test_words_are_found_again_from_the_beginning(help_window: HelpWindow) -> None:
    QTest.keyClicks(help_window.search, "notch filter of nobody")
    assert not help_window.find_next()
    help_window.search.setText("run")
    assert help_window.find_next()
    while help_window.text.find("run"):
        pass
    assert help_window.find_next()


def test_links_to_our_documents_stay_and_others_go_to_the_browser(
    help_window: HelpWindow, browsed: list[QUrl]
) -> None:
    for link in ("file:///etc/passwd", "../LICENSE", "nowhere.md", "javascript:1", "ftp://a/b.md"):
        help_window.follow_link(QUrl(link))
    assert titles(help_window)[0] == "User guide"
    assert not browsed
    help_window.follow_link(QUrl("start/first-ten-minutes.md"))
    assert titles(help_window)[0] == "First ten minutes"
    help_window.follow_link(QUrl("../concepts/index.md"))
    assert titles(help_window)[0] == "Concepts"
    help_window.follow_link(QUrl("../run-format.md"))
    assert titles(help_window)[0] == "The format of a run"
    help_window.follow_link(QUrl("guide/window.md#events"))
    assert titles(help_window)[0] == "Use the window"
    assert help_window.text.textCursor().block().text() == "Events"
    help_window.follow_link(QUrl("../run-format.md"))
    help_window.follow_link(QUrl("https://arxiv.org/abs/2006.10529"))
    assert browsed == [QUrl("https://arxiv.org/abs/2006.10529")]
    help_window.set_theme(DARK)
    assert titles(help_window)[0] == "The format of a run"


def test_links_to_generated_pages_go_to_the_site_if_it_has_been_built(
    help_window: HelpWindow, browsed: list[QUrl], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    help_window.open("guide/figures.md")
    monkeypatch.setattr("dgn_viewer.shell.help_window.built_site", lambda: None)
    help_window.follow_link(QUrl("../panels.md"))
    site = tmp_path / "site"
    site.mkdir()
    for page in (site / "index.html", site / "panels.html", tmp_path / "outside.html"):
        page.write_text("<p>", "utf-8")
    monkeypatch.setattr("dgn_viewer.shell.help_window.built_site", lambda: site / "index.html")
    help_window.follow_link(QUrl("../../outside.md"))
    assert not browsed
    help_window.follow_link(QUrl("../panels.md"))
    assert [url.toLocalFile() for url in browsed] == [str(site / "panels.html")]
    assert titles(help_window)[0] == "Export a figure"


def test_a_document_is_chosen_from_a_list_that_begins_with_the_guide(
    help_window: HelpWindow,
) -> None:
    pages = help_window.pages
    assert [pages.itemData(place) for place in (0, 1)] == [GUIDE, "guide/changing-a-run.md"]
    place = pages.findData("guide/sweeps.md")
    pages.setCurrentIndex(place)
    pages.activated.emit(place)
    assert titles(help_window)[0] == pages.itemText(place)
    help_window.follow_link(QUrl("../run-format.md"))
    assert pages.currentText() == "The format of a run"


def test_pictures_are_captions_and_formulas_code() -> None:
    text = 'A\n\n![The window](../images/a.png)\n\n$$\n\\nu = 1\n$$\n\n<div class="grid">\nB\n'
    assert without_site_markup(text) == "A\n\n*(The window)*\n\n```\n\\nu = 1\n```\n\nB\n"


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


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DGN_HOME", str(tmp_path / "a stick ü"))


@pytest.fixture
def log_window(qtbot: QtBot, browsed: list[QUrl]) -> Iterator[LogWindow]:
    window = QWidget()
    qtbot.addWidget(window)
    log_window = LogWindow(window, browsed.append)
    yield log_window
    log_window.close()


def test_it_says_where_the_log_lies_and_that_there_is_none_yet(log_window: LogWindow) -> None:
    log_window.open()
    assert log_window.place.text() == str(log_path())
    assert log_window.text.toPlainText()
    assert not log_window.folder.isEnabled()
    for text in ("10 steps, λ = 0.5", "10 steps, λ = 0.5\nmore"):
        RotatingLog(log_path()).append_entry(f"{text.splitlines()[-1]}\n".encode())
        log_window.renew.click()
        assert log_window.text.toPlainText() == text


def test_its_text_can_be_copied_and_its_folder_opened(
    log_window: LogWindow, browsed: list[QUrl]
) -> None:
    RotatingLog(log_path()).append_entry(b"one\ntwo\n")
    log_window.open()
    log_window.copy.click()
    assert QGuiApplication.clipboard().text() == "one\ntwo"
    log_window.folder.click()
    assert [url.toLocalFile() for url in browsed] == [str(log_path().parent)]


def test_every_notice_is_in_the_log_with_its_traceback(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    with program_log("dgn-viewer", []):
        Notices(parent).add_notice(Notice("failed", "A fault: x", "Traceback\n  line 3"))
    assert log_path().read_text("utf-8").endswith("INFO failed: A fault: x\nTraceback\n  line 3\n")


def test_a_program_that_refuses_says_so_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--steps", "3"]) == program.REFUSED
    said = capsys.readouterr().err
    begins, refused, ends = log_path().read_text("utf-8").splitlines()
    assert begins.endswith("; --steps 3")
    assert refused.partition("refused: ")[2] == said.strip().removeprefix("dgn-viewer: ")
    assert ends.endswith("dgn-viewer exits with code 2.")
