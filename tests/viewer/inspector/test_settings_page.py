"""The page of settings in the real window: what is changed holds at once, and at the next start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QKeySequence, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.probe_choice import ProbeChoice, pack_pixels
from dgn_engine.protocol.runs import RunsListed, ThinRuns
from dgn_engine.protocol.watching import ProbeExamples, SetWatchShare
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.folder_layout import LIMITS
from dgn_engine.storage.runs.storage_limits import StorageLimits, read_limits
from dgn_viewer.actions.registry import Actions
from dgn_viewer.application import Viewer
from dgn_viewer.inspector.pages.examples_page import ExamplesPage
from dgn_viewer.inspector.pages.settings_page import SettingsPage
from dgn_viewer.inspector.pages.storage_section import StorageSection
from dgn_viewer.settings import DEFAULT_BUDGET, Settings
from dgn_viewer.widgets.drawing_canvas import DrawingCanvas
from dgn_viewer.widgets.example_grid import ExampleGrid
from dgn_viewer.window import Window
from tests.engine.panels.pictures import started_run
from tests.viewer.actions.action_bench import Bench, Desk
from tests.viewer.gestures import press_notice_button, tap_commands
from tests.viewer.rail.listed_rows import make_listed_run

Open = Callable[..., Viewer]


@pytest.fixture
def actions(qtbot: QtBot) -> Actions:
    return Bench(qtbot, Desk()).actions


@pytest.fixture
def page(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, actions: Actions
) -> SettingsPage:
    """Without a window: beside actions with keys."""
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "mine"))
    settings = Settings(tmp_path / "settings.ini")
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731
    made = SettingsPage(settings, actions.keys, nothing, nothing, nothing, "light", nothing)
    qtbot.addWidget(made)
    made.show()
    return made


def opened(viewer: Viewer) -> SettingsPage:
    viewer.window.registry["edit.settings"].trigger()
    page = viewer.window.inspector.page
    assert isinstance(page, SettingsPage)
    return page


def assign(page: SettingsPage, keys: str) -> None:
    page.keys.setKeySequence(QKeySequence(keys))
    page.keys.editingFinished.emit()


def test_other_keys_act_and_stand_in_tips_the_list_and_the_next_start(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    file = tmp_path / "home" / "settings.ini"
    file.parent.mkdir()
    kept = {"run.step": "Ctrl+J", "run.epoch": "", "regime.FL": "Ctrl+Alt+F"}
    Settings(file).shortcuts = kept  # by an earlier start
    viewer = make_viewer(home="home", paused=True)
    window, page = viewer.window, opened(viewer)
    assert window.registry["run.step"].shortcut() == QKeySequence("Ctrl+J")
    assert window.registry["run.epoch"].shortcuts() == []
    later = window.registry["regime.FL"]  # which the engine has named after the window began
    assert later.shortcut() == QKeySequence("Ctrl+Alt+F")
    page.all_own.click()
    assert window.registry["run.step"].shortcut() == QKeySequence(".")
    assert window.context.settings.shortcuts == {}

    page.select_action("run.step")
    assign(page, "Ctrl+T")
    assert page.message.isHidden()
    assert window.registry["run.step"].toolTip().endswith("(Ctrl+T)")
    assert ("Ctrl+T", "One step") in window.action_views.sheet.shortcut_rows()
    step = window.run_state.step
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: window.run_state.step == step + 1)
    page.select_action("run.epoch")
    page.no_keys.click()
    assert window.registry["run.epoch"].shortcuts() == []
    assert viewer.close()
    assert Settings(file).shortcuts == {"run.step": "Ctrl+T", "run.epoch": ""}


def test_keys_of_another_action_and_keys_that_move_are_refused_in_a_sentence(
    actions: Actions, page: SettingsPage
) -> None:
    page.select_action("run.step")
    assign(page, "Ctrl+E")
    assert all(part in page.message.text() for part in ("Ctrl+E", "'Export panel'"))
    assign(page, "Esc")
    assert "Esc" in page.message.text()
    assert actions["run.step"].shortcut() == QKeySequence(".")
    assert actions.keys.user_keys == {}
    assign(page, "Ctrl+T")
    page.select_action("run.epoch")
    assign(page, ".")  # free now
    assert page.message.isHidden()
    page.select_action("run.step")
    page.own_keys.click()
    assert "'One epoch'" in page.message.text()
    page.select_action("run.epoch")
    page.own_keys.click()
    page.select_action("run.step")
    page.own_keys.click()
    assert actions.keys.user_keys == {}


def test_theme_start_budget_and_the_style_of_numbers_hold_at_once_and_too_large_runs_are_said(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window, asked, page = viewer.window, tap_commands(viewer), opened(viewer)
    settings = window.context.settings
    assert page.budget.value() == DEFAULT_BUDGET
    assert "%" in page.budget.text()
    for theme, start, budget in (("dark", "last", 20), ("light", "digits", 30)):
        page.theme.pick_value(theme)
        assert (window.context.theme.now.name, settings.theme) == (theme, theme)
        page.start.pick_value(start)
        assert settings.start == start
        page.budget.setValue(budget)
        assert settings.budget == budget
    shares = [one.share for one in asked if isinstance(one, SetWatchShare)]
    assert shares == [0.2, 0.3]

    page.numbers.pick_value("1 234,5")
    assert settings.numbers == "1 234,5"
    assert window.context.theme.now.numbers == "1 234,5"
    qtbot.waitUntil(lambda: "epoch" in window.run_views.status.field_text("epoch"))
    window.run_views.status.write_now()
    said = window.run_views.status.field_text("epoch").removeprefix("epoch ")
    labels = [label.text() for label in window.run_views.status.findChildren(QLabel)]
    assert any(f"epoch {said.replace('.', ',')}" in text for text in labels)
    page.numbers.pick_value("1,234.5")
    assert window.context.theme.now.numbers == "1,234.5"
    window.inspector.close_page()
    assert_said_once_that_all_runs_take_too_much(window, asked)


GIB = 1 << 30


@pytest.fixture
def changes() -> list[StorageLimits]:
    return []


@pytest.fixture
def section(qtbot: QtBot, tmp_path: Path, changes: list[StorageLimits]) -> StorageSection:
    made = StorageSection(tmp_path, lambda: changes.append(read_limits(tmp_path)))
    qtbot.addWidget(made)
    return made


def test_a_limit_holds_at_once_for_dgn_too(
    section: StorageSection, tmp_path: Path, changes: list[StorageLimits]
) -> None:
    section.run.setValue(1000)
    section.all.setValue(1.5)
    assert read_limits(tmp_path) == StorageLimits(run=1000 << 20, all=3 * GIB // 2)
    assert changes[-1] == read_limits(tmp_path)
    assert len(changes) == 2


def test_a_limit_that_cannot_be_is_refused_and_the_one_that_holds_is_shown(
    section: StorageSection, tmp_path: Path, changes: list[StorageLimits]
) -> None:
    section.all.setValue(0.25)
    assert "256 MiB" in section.message.text()
    assert section.all.text() == "20 GiB"
    assert not (tmp_path / LIMITS).exists()
    assert changes == []
    section.all.setValue(30)
    assert section.message.isHidden()
    assert read_limits(tmp_path).all == 30 * GIB


def test_a_damaged_file_of_limits_is_said_and_a_change_writes_it_anew(
    qtbot: QtBot, tmp_path: Path
) -> None:
    (tmp_path / LIMITS).write_text("run = \x1b[31m")
    section = StorageSection(tmp_path, lambda: None)
    qtbot.addWidget(section)
    assert "is damaged" in section.message.text()
    assert section.run.text() == "512 MiB"
    section.run.setValue(600)
    assert section.message.isHidden()
    assert read_limits(tmp_path).run == 600 << 20


def test_a_folder_that_takes_no_limits_is_said(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    section = StorageSection(tmp_path / "file", lambda: None)
    qtbot.addWidget(section)
    section.run.setValue(600)
    assert "cannot be" in section.message.text()
    assert section.run.text() == "512 MiB"


def listed(size: int, limit: int = 20 * GIB) -> RunsListed:
    return RunsListed("runs", (make_listed_run("a", bytes=size),), limit)


def assert_said_once_that_all_runs_take_too_much(window: Window, sent: list[Command]) -> None:
    """With what helps: to thin runs out, or other limits."""
    entries = window.notices.entries
    entries.clear()
    window.recorded.on_event(listed(19 * GIB))
    assert not entries
    for _ in range(2):
        window.recorded.on_event(listed(21 * GIB))
    (entry,) = entries
    assert entry.notice.about == "too-large"
    assert all(part in entry.notice.text for part in ("21 GiB", "20 GiB"))
    thin, settings = entry.notice.offers
    press_notice_button(window, thin.text)
    assert ThinRuns() in sent
    window.recorded.on_event(listed(18 * GIB))
    window.recorded.on_event(listed(21 * GIB))
    assert len(entries) == 2
    press_notice_button(window, settings.text)
    assert isinstance(window.inspector.page, SettingsPage)


def test_the_page_of_settings_has_the_limits_of_the_users_runs(page: SettingsPage) -> None:
    page.limits.run.setValue(700)
    assert read_limits(folder_layout.runs_root()).run == 700 << 20


LEFT, RIGHT = Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton


def stroke(canvas: DrawingCanvas, *places: tuple[float, float], button: Qt.MouseButton) -> None:
    """From place to place, in shares of the canvas."""
    none, plain = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    points = [QPointF(x * canvas.width(), y * canvas.height()) for x, y in places]
    steps = [(QEvent.Type.MouseButtonPress, points[0], button, button)]
    steps += [(QEvent.Type.MouseMove, point, none, button) for point in points[1:]]
    steps += [(QEvent.Type.MouseButtonRelease, points[-1], button, none)]
    for kind, point, which, held in steps:
        there = canvas.mapToGlobal(point)
        QApplication.sendEvent(canvas, QMouseEvent(kind, point, there, which, held, plain))


@pytest.fixture
def canvas(qtbot: QtBot) -> DrawingCanvas:
    made = DrawingCanvas(8, 8)
    qtbot.addWidget(made)
    made.show()
    return made


def test_a_stroke_draws_where_the_mouse_was_and_the_right_button_erases(
    canvas: DrawingCanvas, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(canvas.drawn):
        stroke(canvas, (0.06, 0.56), (0.94, 0.56), button=LEFT)
    drawn = canvas.pixels()
    assert (drawn[4] == 255).all()  # the middle of the fifth row lies at 0.5625
    assert not drawn[0].any()
    assert not drawn[7].any()
    stroke(canvas, (0.06, 0.56), (0.5, 0.56), button=RIGHT)
    assert not canvas.pixels()[4, :4].any()
    assert canvas.pixels()[4, 6] == 255


def test_the_keyboard_draws_pixel_by_pixel(canvas: DrawingCanvas, qtbot: QtBot) -> None:
    qtbot.keyClick(canvas, Qt.Key.Key_Up)
    qtbot.keyClick(canvas, Qt.Key.Key_Left)
    with qtbot.waitSignal(canvas.drawn):
        qtbot.keyClick(canvas, Qt.Key.Key_Space)
    assert np.argwhere(canvas.pixels()).tolist() == [[3, 3]]
    assert "row 4, column 4" in canvas.accessibleName()
    qtbot.keyClick(canvas, Qt.Key.Key_Delete)
    assert not canvas.pixels().any()


def test_pictures_are_chosen_by_a_click_and_by_keys(qtbot: QtBot) -> None:
    grid = ExampleGrid()
    qtbot.addWidget(grid)
    pixels = np.zeros((5, 2, 2), np.uint8)
    grid.show_examples(ProbeExamples(started_run((4,)).probe_set, pixels.shape, pixels.tobytes()))
    grid.show()
    toggled: list[int] = []
    grid.toggled.connect(toggled.append)
    qtbot.mouseClick(grid, LEFT, pos=grid.example_rect(1).center().toPoint())
    qtbot.mouseClick(grid, LEFT, pos=QPoint(0, 0))  # between two
    grid.outline_rows(frozenset({8}))
    assert all(part in grid.accessibleName() for part in ("training example 8", "cat", "selected"))
    qtbot.keyClick(grid, Qt.Key.Key_Right)
    qtbot.keyClick(grid, Qt.Key.Key_Space)
    assert toggled == [8, 0]
    assert not grid.grab().isNull()


def test_what_is_chosen_in_the_window_is_what_the_panels_show(viewer: Viewer, qtbot: QtBot) -> None:
    window = viewer.window

    def shown() -> ProbeExamples:
        found = window.history.view({}).pictures
        assert found is not None
        return found

    qtbot.waitUntil(lambda: window.history.view({}).pictures is not None)
    before = shown().probe_set
    window.registry["edit.examples"].trigger()
    page = window.inspector.page
    assert isinstance(page, ExamplesPage)
    assert page.words.text().startswith("20 examples")

    page.classes["3"].click()
    qtbot.waitUntil(lambda: window.run_state.probe_set == "classes 3")
    qtbot.waitUntil(lambda: set(shown().probe_set.labels) == {3})
    assert page.classes["3"].isChecked()

    assert page.canvas is not None
    stroke(page.canvas, (0.5, 0.1), (0.5, 0.9), button=LEFT)
    drawn = pack_pixels(page.canvas.pixels()[None])
    qtbot.waitUntil(lambda: window.run_state.probe_set == f"classes 3; drawn {drawn}")
    qtbot.waitUntil(lambda: shown().probe_set.drawn == 1)
    last = len(shown().probe_set.indices) - 1
    qtbot.waitUntil(lambda: window.docks.linked.lit.examples == (last,))
    images = shown().images
    assert images is not None
    np.testing.assert_array_equal(images[-1], page.canvas.pixels())

    def in_the_maps() -> bool:
        view = window.docks.hosts["gate_maps"].drawn.view
        reading = view.readings.get("gates")
        return reading is not None and int(reading.arrays["labels"][-1]) == 10

    qtbot.waitUntil(in_the_maps)

    qtbot.waitUntil(lambda: page.place.text().startswith("1 to 30"))
    page.grid.toggled.emit(0)  # the first training example, in or out
    qtbot.waitUntil(lambda: bool(ProbeChoice.parse(window.run_state.probe_set).rows))
    page.clear.click()
    qtbot.waitUntil(lambda: not ProbeChoice.parse(window.run_state.probe_set).drawn)
    again = next(b for b in page.findChildren(type(page.clear)) if b.text() == "Balanced set")
    again.click()
    qtbot.waitUntil(lambda: shown().probe_set == before)
