"""The start card: what each way starts, its keys, and that opening the window records nothing."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.files import SaveWeights
from dgn_engine.protocol.runs import RecordedRun
from dgn_engine.protocol.training import StartRun
from dgn_viewer.application import Options, Viewer
from dgn_viewer.settings import STARTS, Settings
from dgn_viewer.shell.start_ways import (
    WATCH_LINES,
    WAYS,
    describe_last_run,
    find_last_run,
    first_run,
)
from tests.viewer.conftest import small_run
from tests.viewer.gestures import answer_dialog, drop_file

ROOT = Path(__file__).parents[3]
Open = Callable[..., Viewer]


@pytest.fixture
def open_window(make_viewer: Open, qtbot: QtBot, tmp_path: Path) -> Iterator[Callable[[], Viewer]]:
    """Opens the window as `dgn-viewer` does, with settings and runs of its own."""
    made: list[Viewer] = []

    def opened() -> Viewer:
        options = Options(
            small_run(),
            theme="light",
            size=(1440, 900),
            settings=tmp_path / "settings.ini",
            runs_root=str(tmp_path / "runs"),
            start="",
        )
        viewer = Viewer(options)
        made.append(viewer)
        viewer.start()
        return viewer

    yield opened
    assert all(viewer.close(60.0) for viewer in made)


def is_ready(viewer: Viewer) -> bool:
    """Whether the engine is ready and has listed the runs."""
    window = viewer.window
    return (
        window.run_state.is_ready
        and "Looking" not in window.start_card.pages.tiles["last"].about.text()
    )


def test_opening_the_window_shows_the_card_and_neither_trains_nor_records(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = open_window()
    window, card = viewer.window, viewer.window.start_card
    assert card.isVisible()
    assert card.pages.tiles["playground"].hasFocus()
    panels = [window.docks.hosts[name] for name in window.docks.visible_panels()]
    covered = card.geometry()
    for panel in panels:
        top_left = panel.mapTo(window, QPoint(0, 0))
        assert covered.contains(top_left)
    qtbot.waitUntil(lambda: is_ready(viewer))
    assert window.run_state.shows_nothing
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())
    assert not card.pages.tiles["last"].isEnabled()
    assert all(tile.isEnabled() for name, tile in card.pages.tiles.items() if name != "last")
    qtbot.keyClick(card.pages.tiles["playground"], Qt.Key.Key_Escape)
    assert not card.isVisible()
    window.display.draw_now()
    assert all(panel.panel_state() == "waiting" for panel in panels)


def test_keys_move_the_focus_and_choose(open_window: Callable[[], Viewer], qtbot: QtBot) -> None:
    viewer = open_window()
    window, card = viewer.window, viewer.window.start_card
    qtbot.waitUntil(lambda: is_ready(viewer))
    for key, expected in (
        (Qt.Key.Key_Down, "data"),
        (Qt.Key.Key_Right, "checkpoint"),
        (Qt.Key.Key_Down, "checkpoint"),  # there is no last run
        (Qt.Key.Key_Left, "data"),
        (Qt.Key.Key_Up, "playground"),
    ):
        qtbot.keyClick(window.focusWidget(), key)
        assert card.pages.tiles[expected].hasFocus(), key
    qtbot.keyClick(window.focusWidget(), Qt.Key.Key_7)
    assert window.inspector.page is window.inspector.run_page
    assert not card.isVisible()
    window.registry["file.new_run"].trigger()
    qtbot.keyClick(window.focusWidget(), Qt.Key.Key_2)
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert not card.isVisible()
    run = window.run_state.run
    assert run is not None
    assert run.config == first_run()


def test_a_choice_before_the_engine_is_ready_is_carried_out_once(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = open_window()
    window, card = viewer.window, viewer.window.start_card
    assert not window.run_state.is_ready
    card.pages.tiles["playground"].click()
    assert not any(tile.isEnabled() for tile in card.pages.tiles.values())
    qtbot.waitUntil(lambda: window.run_state.has_run)
    run = window.run_state.run
    assert run is not None
    assert run.config.data.name == "spirals"
    assert window.docks.arrangement.preset == "teach"
    assert not card.isVisible()
    assert run.run == 1
    assert not list((tmp_path / "runs").glob("*/run.json"))  # until it is kept
    window.registry["file.new_run"].trigger()
    card.pages.tiles["digits"].click()
    qtbot.waitUntil(lambda: not card.isVisible())
    assert window.docks.arrangement.preset == "overview"  # the panels of the plane are put away


def test_the_last_run_is_told_and_goes_on(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = open_window()
    viewer.pump.send(StartRun(small_run("FR-II")))
    qtbot.waitUntil(lambda: viewer.window.history.step > 40)
    assert viewer.close(60.0)
    viewer = open_window()
    window, tile = viewer.window, viewer.window.start_card.pages.tiles["last"]
    qtbot.waitUntil(lambda: "FR-II" in tile.about.text())
    assert "fc" in tile.about.text()
    tile.click()
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert window.run_state.regime == "FR-II"
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 1


def test_a_choice_that_is_refused_leaves_the_card_open(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = open_window()
    window, card = viewer.window, viewer.window.start_card
    qtbot.waitUntil(lambda: is_ready(viewer))
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    card.choose("data")
    answer_dialog(window, tmp_path / "empty")
    qtbot.waitUntil(lambda: any(one.kind == "refused" for one in window.notices.recent_notices))
    assert card.isVisible()
    assert card.pages.tiles["digits"].isEnabled()


def test_a_runs_folder_that_cannot_be_listed_leaves_the_other_ways(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("a file", encoding="utf-8")
    viewer = open_window()
    card = viewer.window.start_card
    qtbot.waitUntil(lambda: is_ready(viewer))
    assert [name for name, tile in card.pages.tiles.items() if not tile.isEnabled()] == ["last"]


def test_a_last_run_that_is_deleted_meanwhile_is_offered_no_more(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = open_window()
    viewer.pump.send(StartRun(small_run()))
    qtbot.waitUntil(lambda: viewer.window.history.step > 40)
    assert viewer.close(60.0)
    tile = (viewer := open_window()).window.start_card.pages.tiles["last"]
    qtbot.waitUntil(lambda: is_ready(viewer))
    assert tile.isEnabled()
    for run in (tmp_path / "runs").glob("*/run.json"):
        shutil.rmtree(run.parent)
    tile.click()
    others = viewer.window.start_card.pages.tiles["digits"]
    qtbot.waitUntil(lambda: others.isEnabled() and not tile.isEnabled())


def test_the_time_bar_of_a_comparison_is_not_shown_with_the_card(
    open_window: Callable[[], Viewer],
) -> None:
    first = open_window()
    first.window.time.compared_bar.show()  # as while a recorded run is compared
    assert first.close(60.0)
    assert open_window().window.time.compared_bar.isHidden()


def make_images(folder: Path) -> Path:
    for label in ("cats", "dogs"):
        (folder / label).mkdir(parents=True)
        for index in range(8):
            pixels = np.full((8, 8, 3), 40 if label == "cats" else 200, np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{index}.png")
    return folder


def test_a_folder_of_images_starts_a_run_chosen_or_dropped(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = open_window()
    window = viewer.window
    qtbot.waitUntil(lambda: is_ready(viewer))
    images = make_images(tmp_path / "pets")
    drop_file(window, images, QPoint(5, 5))
    qtbot.waitUntil(lambda: window.run_state.has_run)
    run = window.run_state.run
    assert run is not None
    assert run.config.data.name == f"folder:{images}"
    assert not window.start_card.isVisible()


def test_a_checkpoint_opens_on_its_own_without_a_run(
    open_window: Callable[[], Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = open_window()
    file = tmp_path / "mine.safetensors"
    viewer.pump.send(StartRun(small_run(), paused=True))
    viewer.pump.send(SaveWeights(str(file)))
    qtbot.waitUntil(file.exists)
    assert viewer.close(60.0)
    viewer = open_window()
    window = viewer.window
    window.start_card.choose("checkpoint")
    answer_dialog(window, file)
    qtbot.waitUntil(lambda: window.run_state.inspected_file == file.name)
    assert not window.start_card.isVisible()


def test_the_lines_of_a_training_loop_are_those_of_the_guide_and_are_copied(
    open_window: Callable[[], Viewer], qtbot: QtBot
) -> None:
    guide = (ROOT / "docs" / "watch.md").read_text(encoding="utf-8")
    for line in WATCH_LINES.splitlines():
        code = line.partition("...")[0].rstrip()
        assert not code or f"\n{code}\n" in guide, line
    card = open_window().window.start_card
    card.pages.tiles["loop"].click()
    card.pages.copy.click()
    assert QGuiApplication.clipboard().text() == WATCH_LINES
    qtbot.keyClick(card.pages.copy, Qt.Key.Key_Escape)
    assert card.isVisible()
    assert card.pages.tiles["loop"].isVisible()


@pytest.mark.parametrize("old", ["default", "none", "nonsense"])
def test_settings_of_earlier_versions_open_the_card(tmp_path: Path, old: str) -> None:
    settings = Settings(tmp_path / "settings.ini")
    settings.store.setValue("start/run", old)
    assert settings.start == "card" == STARTS[0]


def test_the_last_run_is_the_newest_that_can_go_on() -> None:
    def recorded(name: str, **facts: object) -> RecordedRun:
        usual = {
            "name": name, "folder": name, "status": "stopped", "step": 10, "total_steps": 0,
            "regime": "DL", "net": "fc", "data": "digits", "seed": 0, "best": 0.972,
            "resumable": True, "touched": 1000.0,
        }  # fmt: skip
        return RecordedRun(**(usual | facts))  # type: ignore[arg-type]

    live, bare = recorded("a", status="running"), recorded("b", resumable=False)
    assert find_last_run((live, bare, recorded("e", status="damaged"))) is None
    last = recorded("c", best=math.nan)
    assert find_last_run((live, bare, last, recorded("d"))) is last
    told = describe_last_run(recorded("d"), now=1000.0 + 2 * 3600)
    assert all(part in told for part in ("2 h ago", "DL", "fc", "97.2"))
    assert "%" not in describe_last_run(last, now=1000.0)
    assert len({way.id for way in WAYS}) == 6


def test_the_tour_of_the_papers_needs_no_run_and_is_not_replaced_by_the_other_tour(
    open_window: Callable[[], Viewer], qtbot: QtBot
) -> None:
    viewer = open_window()
    window, tour = viewer.window, viewer.window.guides.tour
    qtbot.waitUntil(lambda: is_ready(viewer))
    window.guides.offer_tour()
    window.registry["help.claims"].trigger()
    tour.callout.act.click()  # as on the start card: its run is the first
    qtbot.waitUntil(lambda: "overlap" in window.history.readings)
    assert not window.start_card.isVisible()
    assert tour.step_index == 0
    assert tour.callout.accessibleName() == "Tour, 1 of 8: Gates learn"
