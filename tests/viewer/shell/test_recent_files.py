"""What was opened last, configurations that are opened or dropped, and the run at start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.config import RunConfig
from dgn_engine.protocol.files import OpenFile
from dgn_engine.protocol.runs import OpenSession, RunContinued, RunShown, SessionSaved, ShowRun
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Options, Viewer
from dgn_viewer.settings import RecentItem, Settings
from dgn_viewer.shell.recent_files import RecentFiles
from tests.viewer.conftest import small_run
from tests.viewer.gestures import answer_dialog, drop_file
from tests.viewer.window_contexts import make_context

Open = Callable[..., Viewer]


@pytest.fixture
def viewer(shared_viewer: Viewer) -> Viewer:
    return shared_viewer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "settings.ini")


def test_the_last_ten_are_kept_once_each_and_over_a_restart(
    qtbot: QtBot, settings: Settings, tmp_path: Path
) -> None:
    opened: list[Path] = []
    window = QWidget()
    qtbot.addWidget(window)
    context = make_context(window, settings=settings)
    recent = RecentFiles(context, opened.append)
    for place in range(12):
        recent.add_item("checkpoint", f"/models/{place}.pt")
    recent.add_item("checkpoint", "/models/7.pt")
    recent.on_event(SessionSaved(3, "/x/a.dgn"))
    recent.on_event(RunContinued(3, "", "/runs/b"))
    recent.on_command(OpenSession("/x/c.dgn"))
    recent.on_event(RunShown("c", "stopped", 3, "c.dgn"))
    recent.on_command(ShowRun("/runs/d"))
    recent.on_event(RunShown("d", "stopped", 3))
    assert [Path(item.path).name for item in recent.items[:5]] == [
        "d",
        "c.dgn",
        "b",
        "a.dgn",
        "7.pt",
    ]
    assert len(set(recent.items)) == len(recent.items) == 10
    settings.save()
    context = make_context(window, settings=Settings(tmp_path / "settings.ini"))
    again = RecentFiles(context, opened.append)
    assert again.items == recent.items
    for place in range(5):
        again.open_item(place)
    assert opened == [Path(item.path) for item in recent.items[:5]]
    assert again.last_folder() == "/runs"
    again.open_item(99)
    assert len(opened) == 5


def test_a_file_that_is_opened_again_is_missing_no_more(qtbot: QtBot, settings: Settings) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    recent = RecentFiles(make_context(window, settings=settings), lambda _: None)
    recent.add_item("checkpoint", "/nowhere/a.pt")
    recent.check_missing()
    assert not recent.is_on_disk(0)
    recent.add_item("checkpoint", "/nowhere/a.pt")
    assert recent.is_on_disk(0)


def test_a_missing_file_says_so_and_cannot_be_chosen(
    viewer: Viewer, qtbot: QtBot, saved_weights: Path
) -> None:
    window = viewer.window
    window.context.send(OpenFile(str(saved_weights)))
    qtbot.waitUntil(lambda: bool(window.files.recent.items))
    menus = [action.menu() for action in window.menuBar().actions()]
    file = next(menu for menu in menus if isinstance(menu, QMenu) and menu.title() == "File")
    file.aboutToShow.emit()
    action = window.registry["recent.1"]
    assert action.isVisible()
    assert action.isEnabled()
    assert action.text().startswith("early.safetensors · checkpoint in ")
    assert not window.registry["recent.2"].isVisible()
    saved_weights.unlink()
    file.aboutToShow.emit()
    assert not action.isEnabled()
    assert "early.safetensors (missing)" in action.text()


def test_a_configuration_begins_a_run_and_a_bad_one_is_one_sentence(
    viewer: Viewer, qtbot: QtBot, tmp_path: Path
) -> None:
    window = viewer.window
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(replace(small_run("FR-II"), seed=11).to_toml(), encoding="utf-8")
    bad.write_text("[net]\nname = 3\n", encoding="utf-8")
    before = window.run_state.run
    window.registry["file.open"].trigger()
    answer_dialog(window, bad)
    assert str(bad) in window.notices.recent_notices[-1].text
    assert window.run_state.run is before
    drop_file(window, good, QPoint(5, 5))
    qtbot.waitUntil(lambda: window.run_state.run is not before)
    run = window.run_state.run
    assert run is not None
    assert run.config.seed == 11
    assert window.run_state.regime == "FR-II"
    assert window.files.recent.items[0] == RecentItem("configuration", str(good))


def started(qtbot: QtBot, home: Path, start: str, config: RunConfig | None = None) -> Viewer:
    options = Options(
        config or small_run(),
        settings=home / "settings.ini",
        runs_root=str(home / "runs"),
        start="",
    )
    home.mkdir(exist_ok=True)
    settings = Settings(home / "settings.ini")
    settings.start = start
    settings.save()
    viewer = Viewer(options)
    viewer.start()
    return viewer


def test_the_window_goes_on_where_it_was_left(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    viewer = started(qtbot, home, "last")  # there is none: the default one begins
    qtbot.waitUntil(lambda: viewer.window.history.step > 40)
    assert viewer.close(60.0)
    (folder,) = [path for path in (home / "runs").iterdir() if path.is_dir()]
    step = RunReader(folder).checkpoints[-1].step
    viewer = started(qtbot, home, "last", small_run("FR-II"))
    qtbot.waitUntil(lambda: viewer.window.history.step > step)
    assert viewer.window.run_state.regime == "DL"
    assert RunReader(folder).status == "running"
    assert viewer.close(60.0)
