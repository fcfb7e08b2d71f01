"""What a user does: start a program, drop a file, answer a dialog, open a file's page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import OpenFile, Purpose, SayReading
from dgn_engine.protocol.messages import Command
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.file_page import FilePage
from dgn_viewer.shell.export_dialog import ExportDialog
from dgn_viewer.window import Window

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def drop_file(window: QWidget, path: Path, at: QPoint) -> None:
    """Drag the file over the window and let it go at this place."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    copy = Qt.DropAction.CopyAction
    QApplication.sendEvent(window, QDragEnterEvent(at, copy, data, LEFT, NONE))
    QApplication.sendEvent(
        window, QDropEvent(QPointF(at), copy, data, LEFT, NONE, QEvent.Type.Drop)
    )


def answer_dialog(window: Window, path: Path) -> None:
    """Choose this path in the open file dialog."""
    dialog = window.findChild(QFileDialog)
    assert isinstance(dialog, QFileDialog)
    dialog.fileSelected.emit(str(path))
    dialog.reject()
    dialog.setParent(None)  # type: ignore[call-overload]  # stub: None is allowed
    dialog.deleteLater()


def save_export(window: Window, path: Path, qtbot: QtBot) -> None:
    """Save from the open export dialog under this name, and close it."""
    dialog = window.findChild(ExportDialog)
    assert isinstance(dialog, ExportDialog)
    asked = dialog.save()
    assert asked is not None
    asked.fileSelected.emit(str(path))
    asked.close()
    qtbot.waitUntil(lambda: " saved in " in dialog.said.text())
    dialog.close()


def press_notice_button(window: Window, text: str) -> None:
    """Press the button of a notice, where it is shown."""
    buttons = [
        *window.notice_views.line.offer_buttons(),
        *window.notice_views.question.answer_buttons(),
    ]
    next(button for button in buttons if button.text() == text).click()


def tap_commands(viewer: Viewer) -> list[Command]:
    """The commands that go to the engine from now on; they still arrive there."""
    sent: list[Command] = []
    forward = viewer.engine.send

    def send(command: Command) -> None:
        sent.append(command)
        forward(command)

    viewer.engine.send = send  # type: ignore[method-assign]  # a wire tap
    return sent


def notices_about(window: Window, about: str) -> list[str]:
    """What the window has told of this kind of thing, the newest last."""
    return [notice.text for notice in window.notices.recent_notices if notice.about == about]


def open_file_page(
    viewer: Viewer,
    qtbot: QtBot,
    path: Path,
    purpose: Purpose,
    reading: FileReading | None = None,
) -> FilePage:
    """The inspector's page of a file that the engine has listed, and has read as is said."""
    window = viewer.window
    before = window.inspector.page
    window.context.send(OpenFile(str(path), purpose))
    qtbot.waitUntil(
        lambda: window.inspector.page is not before and isinstance(window.inspector.page, FilePage)
    )
    page = window.inspector.page
    assert isinstance(page, FilePage)
    if reading is not None:
        window.context.send(SayReading(page.listed.ticket, reading))
        qtbot.waitUntil(lambda: page.listed.reading == reading)
    return page


def start_python(*command: str, folder: Path) -> subprocess.Popen[str]:
    """Python with these arguments, at home in the folder and without a display."""
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join(str(root / part) for part in (".", "app", "resources"))
    own = {"PYTHONPATH": paths, "HOME": str(folder), "DGN_RUNS_ROOT": str(folder / "runs")}
    return subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **own, "QT_QPA_PLATFORM": "offscreen", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
