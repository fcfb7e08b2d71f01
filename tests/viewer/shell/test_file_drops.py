"""Files dragged over the window: what is shown, what is sent, what is refused."""

import itertools
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.catalogue import Catalogue
from dgn_engine.protocol.files import OpenFile, Purpose
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import OpenSession, ShowRun
from dgn_engine.scene.file_use_text import USES
from dgn_engine.scene.theme import DARK
from dgn_engine.views.event_notices import Notice
from dgn_viewer.shell.drop_zones import PROMISE
from dgn_viewer.shell.file_drops import ALONE, HEADLINES, SHOWN, DropTarget
from dgn_viewer.shell.opened_paths import PathOpener
from tests.engine.views.begun_run import make_run_started
from tests.viewer.window_contexts import make_context

CORNER = QPointF(5, 5)  # on no zone


NAMES = ["gates.pt", "a b.safetensors", "weights.npz"]


@pytest.fixture
def told() -> list[Notice]:
    return []


@pytest.fixture
def state() -> list[RunState]:
    """The state of the run, which a test may replace."""
    return [RunState(run=make_run_started())]


@pytest.fixture
def images() -> list[Path]:
    """What a run was started on."""
    return []


@pytest.fixture
def target(
    qtbot: QtBot,
    sent: list[Command],
    told: list[Notice],
    state: list[RunState],
    images: list[Path],
) -> DropTarget:
    window = QMainWindow()
    qtbot.addWidget(window)
    window.setCentralWidget(QWidget())
    window.resize(640, 480)
    context = make_context(window, sent.append, told.append, run_state=lambda: state[0])
    opener = PathOpener(context, lambda _path: None)
    opener.images_wanted.connect(images.append)
    drop_target = DropTarget(context, opener.open_path)
    window.show()
    return drop_target


@pytest.fixture
def recorded_run(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    return tmp_path


def files(*urls: str | Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(u)) if isinstance(u, Path) else QUrl(u) for u in urls])
    return data


def enter(widget: QWidget, data: QMimeData) -> bool:
    copy, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    none = Qt.KeyboardModifier.NoModifier
    event = QDragEnterEvent(QPoint(5, 5), copy, data, left, none)
    event.ignore()
    QApplication.sendEvent(widget, event)
    return event.isAccepted()


def drop(widget: QWidget, data: QMimeData, at: QPointF = CORNER) -> None:
    """A drop follows an enter, as the platform does it."""
    enter(widget, data)
    copy, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    QApplication.sendEvent(widget, QDropEvent(at, copy, data, left, Qt.KeyboardModifier.NoModifier))


def window_of(target: DropTarget) -> QMainWindow:
    window = target.parent()
    assert isinstance(window, QMainWindow)
    return window


@pytest.mark.parametrize("name", NAMES)
def test_one_file_dropped_anywhere_is_opened(
    target: DropTarget, sent: list[Command], tmp_path: Path, name: str
) -> None:
    window, path = window_of(target), tmp_path / name
    path.touch()
    assert enter(window, files(path))
    assert target.overlay.isVisible()
    assert target.overlay.geometry() == window.rect()
    assert name in target.overlay.accessibleName()
    assert PROMISE in target.overlay.accessibleName()
    drop(target.overlay, files(path))
    assert sent == [OpenFile(str(path))]
    assert not target.overlay.isVisible()


def test_each_zone_opens_for_its_use_and_a_second_file_of_the_same_name_is_another(
    target: DropTarget, sent: list[Command], tmp_path: Path
) -> None:
    """Three stand side by side over a low one."""
    window, asked = window_of(target), list[Command]()
    for use, folder in itertools.product(USES, ("first", "second")):
        path = tmp_path / folder / "some.pt"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        enter(window, files(path))
        assert f"{use.title} {use.where}" in target.overlay.accessibleName()
        middle = target.overlay.zone_rect(use.purpose).center()
        target.overlay.highlight_at(middle.toPoint())
        assert target.overlay.lit == use.purpose
        drop(target.overlay, files(path), middle)
        asked.append(OpenFile(str(path), use.purpose))
    assert sent == asked
    enter(window, files(path))
    assert target.overlay.lit == ""
    rooms = [target.overlay.zone_rect(use.purpose) for use in USES]
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


def test_a_recorded_run_is_shown_or_compared_with(
    target: DropTarget, sent: list[Command], recorded_run: Path
) -> None:
    overlay = target.overlay

    def middle(purpose: Purpose) -> QPointF:
        return overlay.zone_rect(purpose).center()

    enter(window_of(target), files(recorded_run))
    assert recorded_run.name in overlay.accessibleName()
    for use in USES:
        found = overlay.purpose_at(middle(use.purpose).toPoint())
        assert found == (use.purpose if use.purpose == "compare" else "")
    for purpose in ("gates", "compare", "gates"):
        overlay.highlight_at(middle(purpose).toPoint())
        assert overlay.lit == ("compare" if purpose == "compare" else "")
    drop(window_of(target), files(recorded_run), middle("gates"))
    assert sent == [ShowRun(str(recorded_run))]
    drop(window_of(target), files(recorded_run), middle("compare"))
    assert sent[1:] == [CompareRun(str(recorded_run))]


def test_what_is_no_single_file_is_refused_and_ends_the_page_of_one_before(
    target: DropTarget, sent: list[Command], told: list[Notice], tmp_path: Path
) -> None:
    others: list[bool] = []
    target.other_dropped.connect(lambda: others.append(True))
    link = "https://example.org/a.pt"
    drop(window_of(target), files(tmp_path / "a.pt", tmp_path / "b.pt"))
    drop(window_of(target), files(link))
    drop(window_of(target), files(tmp_path))
    assert len(others) == 3
    assert sent == []
    assert [one.about for one in told] == ["several", "no-file", "unknown-folder"]
    for one, quoted in zip(told, ("2", link, tmp_path.name), strict=True):
        assert one.text.startswith(quoted)
    enter(window_of(target), files(tmp_path))
    for use in USES:
        place = target.overlay.zone_rect(use.purpose).center().toPoint()
        assert target.overlay.purpose_at(place) == ""


def test_the_overlay_goes_when_the_drag_leaves_the_window_and_not_when_it_meets_the_overlay(
    target: DropTarget, tmp_path: Path, qtbot: QtBot
) -> None:
    (tmp_path / "a.pt").touch()
    enter(window_of(target), files(tmp_path / "a.pt"))
    QApplication.sendEvent(window_of(target), QDragLeaveEvent())
    enter(target.overlay, files(tmp_path / "a.pt"))
    qtbot.wait(200)
    assert target.overlay.isVisible()
    target.overlay.set_theme(DARK)
    window_of(target).resize(700, 500)
    assert target.overlay.size() == window_of(target).size()
    assert not target.overlay.grab().isNull()
    assert target.overlay.testAttribute(Qt.WidgetAttribute.WA_AcceptDrops)
    QApplication.sendEvent(target.overlay, QDragLeaveEvent())
    qtbot.waitUntil(lambda: not target.overlay.isVisible())


def test_dragged_text_is_not_its_business(target: DropTarget) -> None:
    data = QMimeData()
    data.setText("hello")
    assert not enter(window_of(target), data)
    assert not target.overlay.isVisible()


def test_a_session_has_the_whole_window_for_a_zone(
    target: DropTarget, sent: list[Command], tmp_path: Path
) -> None:
    session = tmp_path / "a.dgn"
    session.touch()
    window = window_of(target)
    assert enter(window, files(session))
    assert target.overlay.accessibleName().startswith(HEADLINES["session"])
    drop(window, files(session))
    assert sent == [OpenSession(str(session))]


def test_without_a_run_a_network_opens_on_its_own_and_a_recorded_run_is_shown(
    target: DropTarget,
    sent: list[Command],
    state: list[RunState],
    recorded_run: Path,
    tmp_path: Path,
) -> None:
    state[0] = RunState(phase="idle", catalogue=Catalogue((), (), (), (), ()))
    (tmp_path / "net.pt").touch()
    for path, headline in ((tmp_path / "net.pt", ALONE), (recorded_run, SHOWN)):
        enter(window_of(target), files(path))
        assert headline in target.overlay.accessibleName()
        drop(target.overlay, files(path))
    assert sent == [OpenFile(str(tmp_path / "net.pt"), "network"), ShowRun(str(recorded_run))]


def test_images_are_trained_on(
    target: DropTarget, sent: list[Command], images: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "pets" / "cats").mkdir(parents=True)
    (tmp_path / "pets" / "cats" / "1.png").touch()
    (tmp_path / "pets.tar.gz").touch()
    (tmp_path / "PETS.ZIP").touch()
    for path in (tmp_path / "pets", tmp_path / "pets.tar.gz", tmp_path / "PETS.ZIP"):
        enter(window_of(target), files(path))
        assert HEADLINES["images"] in target.overlay.accessibleName()
        drop(target.overlay, files(path))
        assert images[-1] == path
    assert sent == []
