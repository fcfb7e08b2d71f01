"""Files dragged over the window: what is shown, what is sent, what is refused."""

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.commands import Command, OpenFile
from dgn_viewer.shell.drops import DropTarget
from dgn_viewer.theme import DARK


@pytest.fixture
def sent() -> list[Command]:
    return []


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def target(qtbot: QtBot, sent: list[Command], said: list[str]) -> DropTarget:
    window = QMainWindow()
    qtbot.addWidget(window)
    window.setCentralWidget(QWidget())
    window.resize(640, 480)
    drop_target = DropTarget(window, sent.append, said.append)
    window.show()
    return drop_target


def files(*urls: str | Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(u)) if isinstance(u, Path) else QUrl(u) for u in urls])
    return data


def enter(widget: QWidget, data: QMimeData) -> bool:
    event = QDragEnterEvent(
        QPoint(5, 5),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    event.ignore()
    QApplication.sendEvent(widget, event)
    return event.isAccepted()


def drop(widget: QWidget, data: QMimeData) -> None:
    """A drop follows an enter, as the platform does it."""
    enter(widget, data)
    event = QDropEvent(
        QPointF(5, 5),
        Qt.DropAction.CopyAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(widget, event)


def window_of(target: DropTarget) -> QMainWindow:
    window = target.parent()
    assert isinstance(window, QMainWindow)
    return window


@pytest.mark.parametrize("name", ["gates.pt", "a b.safetensors", "weights.npz", "no-suffix"])
def test_one_file_dropped_anywhere_is_opened(
    target: DropTarget, sent: list[Command], tmp_path: Path, name: str
) -> None:
    window, path = window_of(target), tmp_path / name
    assert enter(window, files(path))
    assert target.overlay.isVisible()
    assert target.overlay.geometry() == window.rect()
    assert name in target.overlay.accessibleName()
    assert "Nothing changes before you confirm" in target.overlay.accessibleName()
    drop(target.overlay, files(path))
    assert sent == [OpenFile(str(path))]
    assert not target.overlay.isVisible()


def test_several_files_are_refused_in_a_sentence(
    target: DropTarget, sent: list[Command], said: list[str], tmp_path: Path
) -> None:
    drop(window_of(target), files(tmp_path / "a.pt", tmp_path / "b.pt"))
    assert sent == []
    assert said == ["2 files at once: drop one checkpoint at a time."]


def test_a_link_and_a_folder_are_refused_in_a_sentence(
    target: DropTarget, sent: list[Command], said: list[str], tmp_path: Path
) -> None:
    drop(window_of(target), files("https://example.org/a.pt"))
    drop(window_of(target), files(tmp_path))
    assert sent == []
    assert "https://example.org/a.pt is not a file on this computer" in said[0]
    assert f"{tmp_path.name} is a folder" in said[1]


def test_the_overlay_goes_when_the_drag_leaves(
    target: DropTarget, tmp_path: Path, qtbot: QtBot
) -> None:
    enter(window_of(target), files(tmp_path / "a.pt"))
    QApplication.sendEvent(target.overlay, QDragLeaveEvent())
    qtbot.waitUntil(lambda: not target.overlay.isVisible())


def test_the_overlay_stays_when_the_drag_passes_from_window_to_overlay(
    target: DropTarget, tmp_path: Path, qtbot: QtBot
) -> None:
    enter(window_of(target), files(tmp_path / "a.pt"))
    QApplication.sendEvent(window_of(target), QDragLeaveEvent())
    enter(target.overlay, files(tmp_path / "a.pt"))
    qtbot.wait(200)
    assert target.overlay.isVisible()


def test_dragged_text_is_not_its_business(target: DropTarget) -> None:
    data = QMimeData()
    data.setText("hello")
    assert not enter(window_of(target), data)
    assert not target.overlay.isVisible()


def test_the_overlay_covers_a_window_that_is_resized(target: DropTarget, tmp_path: Path) -> None:
    enter(window_of(target), files(tmp_path / "a.pt"))
    target.set_theme(DARK)
    window_of(target).resize(700, 500)
    assert target.overlay.size() == window_of(target).size()
    assert not target.overlay.grab().isNull()
    assert target.overlay.testAttribute(Qt.WidgetAttribute.WA_AcceptDrops)
