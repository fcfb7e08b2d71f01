"""Files dragged over the window: what is shown, what is sent, what is refused."""

import itertools
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.messages import Command
from dgn_engine.scene.file_use_text import USES, FileUse
from dgn_engine.scene.theme import DARK
from dgn_viewer.shell.file_drops import DropTarget
from tests.viewer.window_contexts import make_context

CORNER = QPointF(5, 5)  # on no zone


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def target(qtbot: QtBot, sent: list[Command], said: list[str]) -> DropTarget:
    window = QMainWindow()
    qtbot.addWidget(window)
    window.setCentralWidget(QWidget())
    window.resize(640, 480)
    context = make_context(window, sent.append, lambda notice: said.append(notice.text))
    drop_target = DropTarget(context, lambda _path: None)
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


def drop(widget: QWidget, data: QMimeData, at: QPointF = CORNER) -> None:
    """A drop follows an enter, as the platform does it."""
    enter(widget, data)
    event = QDropEvent(
        at,
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


@pytest.mark.parametrize("use", USES, ids=lambda use: use.purpose)
def test_each_zone_says_what_it_does_and_opens_the_file_for_that(
    target: DropTarget, sent: list[Command], tmp_path: Path, use: FileUse
) -> None:
    window, path = window_of(target), tmp_path / "some.pt"
    enter(window, files(path))
    assert f"{use.title} {use.where}" in target.overlay.accessibleName()
    middle = target.overlay.room_of(use.purpose).center()
    target.overlay.light(middle.toPoint())
    assert target.overlay.lit == use.purpose
    drop(target.overlay, files(path), middle)
    assert sent == [OpenFile(str(path), use.purpose)]


def test_zones_do_not_overlap_and_fill_the_window(target: DropTarget, tmp_path: Path) -> None:
    enter(window_of(target), files(tmp_path / "some.pt"))
    rooms = [target.overlay.room_of(use.purpose) for use in USES]
    for one, other in itertools.combinations(rooms, 2):
        assert not one.intersects(other)
    covered = sum(room.width() * room.height() for room in rooms)
    assert covered > 0.6 * target.overlay.width() * target.overlay.height()


def test_a_recorded_run_can_only_be_compared_with(
    target: DropTarget, sent: list[Command], said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    gates = target.overlay.room_of("gates").center()
    drop(window_of(target), files(tmp_path), gates)
    assert sent == []
    assert said == [f"{tmp_path.name} is a recorded run: drop it on 'Compare'."]
    drop(window_of(target), files(tmp_path), target.overlay.room_of("compare").center())
    assert sent == [CompareRun(str(tmp_path))]


def test_several_files_are_refused_in_a_sentence(
    target: DropTarget, sent: list[Command], said: list[str], tmp_path: Path
) -> None:
    others: list[bool] = []
    target.other_dropped.connect(lambda: others.append(True))
    drop(window_of(target), files(tmp_path / "a.pt", tmp_path / "b.pt"))
    assert others  # the page of a file that was dropped before goes
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
    target.overlay.set_theme(DARK)
    window_of(target).resize(700, 500)
    assert target.overlay.size() == window_of(target).size()
    assert not target.overlay.grab().isNull()
    assert target.overlay.testAttribute(Qt.WidgetAttribute.WA_AcceptDrops)


def test_a_session_has_the_whole_window_for_a_zone(
    target: DropTarget, sent: list[Command], tmp_path: Path
) -> None:
    session = tmp_path / "a.dgn"
    session.touch()
    window = target.overlay.parentWidget()
    assert enter(window, files(session))
    assert target.overlay.accessibleName().startswith("Drop to open this session")
    drop(window, files(session))
    assert sent == [OpenFile(str(session))]


def test_a_closed_zone_is_neither_lit_nor_dropped_on(target: DropTarget, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    enter(window_of(target), files(tmp_path))
    overlay = target.overlay
    found = {
        use.purpose: overlay.purpose_at(overlay.room_of(use.purpose).center().toPoint())
        for use in USES
    }
    assert found == {"gates": "", "weights": "", "compare": "compare", "network": ""}
    overlay.light(overlay.room_of("gates").center().toPoint())
    assert overlay.lit == ""
    overlay.light(overlay.room_of("compare").center().toPoint())
    assert overlay.lit == "compare"
    overlay.light(overlay.room_of("gates").center().toPoint())
    assert overlay.lit == ""
    assert overlay.accessibleName() == (
        f"{tmp_path.name} (recorded run). Compare beside the current run. "
        "A recorded run can be compared with."
    )


def test_no_zone_is_open_where_nothing_can_be_taken(target: DropTarget, tmp_path: Path) -> None:
    enter(window_of(target), files(tmp_path))  # a folder that is no run
    overlay = target.overlay
    for use in USES:
        assert overlay.purpose_at(overlay.room_of(use.purpose).center().toPoint()) == ""
    assert overlay.accessibleName().startswith("This cannot be taken. ")


def test_three_zones_stand_side_by_side_over_a_low_one(target: DropTarget, tmp_path: Path) -> None:
    enter(window_of(target), files(tmp_path / "some.pt"))
    rooms = [target.overlay.room_of(use.purpose) for use in USES]
    # Of 640 by 480: 24 around, 56 above, 40 below, 12 between, 96 for the low one.
    width, height = 640 - 48, 480 - 48 - 56 - 40
    wide = (width - 24) / 3
    expected = [(24 + place * (wide + 12), 80, wide, height - 108) for place in range(3)]
    expected.append((24, 80 + height - 96, width, 96))
    for room, place in zip(rooms, expected, strict=True):
        assert room.getRect() == pytest.approx(place)
    between = rooms[0].topRight() + QPointF(6, 10)
    assert target.overlay.purpose_at(between.toPoint()) == ""
    assert target.overlay.purpose_at(QPoint(5, 5)) == ""
