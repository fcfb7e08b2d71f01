"""The log in a window of its own, as the Help menu opens it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.storage.program_log import RotatingLog, log_path, program_log
from dgn_engine.views.event_notices import Notice
from dgn_viewer import __main__ as program
from dgn_viewer.notices import Notices
from dgn_viewer.shell.log_window import LogWindow


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DGN_HOME", str(tmp_path / "a stick ü"))


@pytest.fixture
def log_window(qtbot: QtBot) -> Iterator[LogWindow]:
    window = QWidget()
    qtbot.addWidget(window)
    log_window = LogWindow(window)
    yield log_window
    log_window.close()


def test_it_says_where_the_log_lies_and_that_there_is_none_yet(log_window: LogWindow) -> None:
    log_window.open()
    assert log_window.place.text() == str(log_path())
    assert log_window.text.toPlainText() == "There is no log yet."
    assert not log_window.folder.isEnabled()
    RotatingLog(log_path()).append("10 steps, λ = 0.5\n".encode())
    log_window.renew.click()
    assert log_window.text.toPlainText() == "10 steps, λ = 0.5"


def test_its_text_can_be_copied_and_its_folder_opened(
    log_window: LogWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    RotatingLog(log_path()).append(b"one\ntwo\n")
    log_window.open()
    log_window.copy.click()
    assert QGuiApplication.clipboard().text() == "one\ntwo"
    log_window.folder.click()
    assert [url.toLocalFile() for url in opened] == [str(log_path().parent)]


def test_every_notice_is_in_the_log_with_its_traceback(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    with program_log("dgn-viewer", []):
        Notices(parent).tell(Notice("failed", "A fault in the window: x", "Traceback\n  line 3"))
    assert (
        log_path()
        .read_text("utf-8")
        .endswith("INFO failed: A fault in the window: x\nTraceback\n  line 3\n")
    )


def test_a_program_that_refuses_says_so_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--steps", "3"]) == program.REFUSED
    said = capsys.readouterr().err
    begins, refused, ends = log_path().read_text("utf-8").splitlines()
    assert begins.endswith("; --steps 3")
    assert refused.partition("refused: ")[2] == said.strip().removeprefix("dgn-viewer: ")
    assert ends.endswith("dgn-viewer ends with code 2.")
