"""What a path is, by its content; and the dialog that opens files and folders."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PySide6.QtCore import Qt, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialogButtonBox, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import RunConfig
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import OpenSession, ShowRun
from dgn_engine.storage.session_file.archive_format import ABOUT
from dgn_engine.views.event_notices import Notice
from dgn_viewer.application import Viewer
from dgn_viewer.shell.open_dialog import OpenDialog
from dgn_viewer.shell.opened_paths import PathKind, PathOpener, path_kind
from tests.engine.views.begun_run import make_run_started
from tests.refusals import refused
from tests.viewer.window_contexts import make_context


def make_run(path: Path) -> Path:
    path.mkdir()
    (path / "run.json").write_text("{}", encoding="utf-8")
    return path


def make_result(path: Path) -> Path:
    path.mkdir()
    (path / "results.json").write_text("{}", encoding="utf-8")
    return path


def make_images(path: Path, below: str = "rose") -> Path:
    (path / below).mkdir(parents=True)
    (path / below / "1.PNG").touch()
    return path


def make_network(path: Path) -> Path:
    torch.save({"weight": torch.zeros(2)}, path)
    return path


def make_arrays(path: Path) -> Path:
    with path.open("wb") as file:
        np.savez(file, weight=np.zeros(2))
    return path


def make_session(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(ABOUT, "{}")
    return path


def make_zip(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("rose/1.png", b"")
    return path


def make_tar(path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        archive.add(make_images(path.parent / "packed"), "flowers")
    return path


def make_text(path: Path) -> Path:
    path.write_text(RunConfig().to_toml(), encoding="utf-8")
    return path


KNOWN: list[tuple[str, Callable[[Path], Path], PathKind]] = [
    ("a-run", make_run, "run"),
    ("table-2", make_result, "result"),
    ("flowers", make_images, "images"),
    ("split", lambda path: make_images(path, "train/rose"), "images"),
    ("around", lambda path: make_images(path, "all/train/rose"), "images"),
    ("net.pt", make_network, "checkpoint"),
    ("net.of-a-name", make_network, "checkpoint"),
    ("arrays.dat", make_arrays, "checkpoint"),
    ("s.dgn", make_session, "session"),
    ("renamed", make_session, "session"),
    ("run.toml", make_text, "configuration"),
    ("flowers.zip", make_zip, "images"),
    ("flowers", make_tar, "images"),
    ("model.index.json", make_text, "checkpoint"),
    ("results.json", make_text, "result"),
    ("run.json", make_text, "run"),
]


@pytest.mark.parametrize(("name", "make", "kind"), KNOWN, ids=lambda v: getattr(v, "__name__", v))
def test_a_path_is_known_by_what_it_is(
    tmp_path: Path, name: str, make: Callable[[Path], Path], kind: PathKind
) -> None:
    assert path_kind(make(tmp_path / name)) == kind


def test_what_is_nothing_known_is_refused(tmp_path: Path) -> None:
    with refused("unknown-folder", value=tmp_path.name):
        path_kind(tmp_path)
    (tmp_path / "picture.png").touch()  # not in a folder named after a class
    make_images(tmp_path / "flowers")
    (tmp_path / "runs").mkdir()
    with refused("unknown-folder", value=tmp_path.name):
        path_kind(tmp_path)
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    with refused("unknown-file", value="notes.txt"):
        path_kind(tmp_path / "notes.txt")
    with refused("no-file", value="gone.pt"):
        path_kind(tmp_path / "gone.pt")
    os.mkfifo(tmp_path / "pipe.pt")
    with refused("unknown-file"):
        path_kind(tmp_path / "pipe.pt")


def test_a_path_that_cannot_be_is_refused_as_any_other(tmp_path: Path) -> None:
    with refused("unreadable"):
        path_kind(tmp_path / ("x" * 5000))
    with refused("no-file"):
        path_kind(tmp_path / "a\0b.pt")
    with refused("unknown-folder", value="/"):
        path_kind(Path("/"))


def test_each_kind_of_path_is_opened_in_its_way(
    qtbot: QtBot, sent: list[Command], tmp_path: Path
) -> None:
    window, told = QWidget(), list[Notice]()
    qtbot.addWidget(window)
    others: list[tuple[str, Path]] = []
    state = [RunState(run=make_run_started())]
    context = make_context(window, sent.append, told.append, run_state=lambda: state[0])
    opener = PathOpener(context, lambda path: others.append(("toml", path)))
    opener.result_wanted.connect(lambda path: others.append(("result", path)))
    opener.images_wanted.connect(lambda path: others.append(("images", path)))
    run, result = make_run(tmp_path / "a"), make_result(tmp_path / "b")
    images, network = make_images(tmp_path / "c"), make_network(tmp_path / "n.pt")
    session, config = make_session(tmp_path / "s.dgn"), make_text(tmp_path / "r.toml")
    for path in (run, run / "run.json", result, result / "results.json", images, network, session):
        opener.open_path(path)
    opener.open_path(network, "gates")
    opener.open_path(config)
    assert sent == [
        ShowRun(str(run)),
        ShowRun(str(run)),
        OpenFile(str(network)),
        OpenSession(str(session)),
        OpenFile(str(network), "gates"),
    ]
    assert others == [("result", result), ("result", result), ("images", images), ("toml", config)]
    opener.open_path(tmp_path)
    assert [notice.about for notice in told] == ["unknown-folder"]
    state[0] = RunState()  # no run is shown that could use it
    opener.open_path(network)
    assert sent[-1] == OpenFile(str(network), "network")


@pytest.fixture
def opened() -> list[str]:
    return []


@pytest.fixture
def dialog(qtbot: QtBot, tmp_path: Path, opened: list[str]) -> Iterator[OpenDialog]:
    window = QWidget()
    qtbot.addWidget(window)
    made = OpenDialog(window, str(tmp_path), opened.append)
    made.open()
    yield made
    window.close()


def type_path(dialog: OpenDialog, text: str) -> None:
    dialog.path_line.setText(text)
    QTest.keyClick(dialog.path_line, Qt.Key.Key_Return)


def test_a_folder_is_opened_if_it_is_a_run_and_entered_if_not(
    dialog: OpenDialog, opened: list[str], tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    run = make_run(tmp_path / "below" / "a-run")
    assert not dialog.open_folder.isEnabled()
    type_path(dialog, "below")
    assert (dialog.isVisible(), dialog.directory().path()) == (True, str(tmp_path / "below"))
    buttons = dialog.findChild(QDialogButtonBox)
    assert isinstance(buttons, QDialogButtonBox)
    dialog.path_line.setText("a-run")
    assert "a-run" in dialog.said.text()
    buttons.button(QDialogButtonBox.StandardButton.Open).click()
    assert (dialog.isVisible(), opened) == (False, [str(run)])


def test_the_folder_that_is_entered_can_be_opened(
    dialog: OpenDialog, opened: list[str], tmp_path: Path
) -> None:
    images = make_images(tmp_path / "flowers")
    dialog.setDirectory(str(images))
    dialog.directoryEntered.emit(str(images))
    assert dialog.open_folder.isEnabled()
    dialog.open_folder.click()
    assert opened == [str(images)]


@pytest.mark.parametrize("pasted", ["{}", "file://{}", '"{}"', " {} "])
def test_a_path_is_pasted(
    dialog: OpenDialog, opened: list[str], tmp_path: Path, pasted: str
) -> None:
    file = make_network(tmp_path / "a b.pt")
    shown = QUrl.fromLocalFile(str(file)).toString() if "://" in pasted else pasted.format(file)
    type_path(dialog, shown)
    assert opened == [str(file)]


def test_what_cannot_be_opened_is_said_in_the_dialog_which_stays(
    dialog: OpenDialog, opened: list[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").touch()
    for name in ("notes.txt", "gone.pt"):
        type_path(dialog, name)
        assert name in dialog.said.refusal
        assert dialog.isVisible()
    assert not opened
    dialog.reject()


def test_images_are_trained_on_and_remembered(
    shared_viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = shared_viewer.window
    images = make_images(tmp_path / "flowers")
    before = window.run_state.run
    window.files.opener.open_path(images)
    qtbot.waitUntil(
        lambda: (
            window.run_state.run is not before
            or any(notice.kind == "refused" for notice in window.notices.recent_notices)
        )
    )
    assert window.files.recent.items[0].path == str(images)
