"""A session saved in one window is the same picture in another; what was interrupted is offered."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import (
    ListRuns,
    NoteRun,
    RecordedRun,
    RunContinued,
    RunShown,
    RunsListed,
)
from dgn_engine.protocol.training import Pause, SwapRegime
from dgn_engine.scene.elements import Scene
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer
from dgn_viewer.shell.run_bin import RunBin
from dgn_viewer.window import Window
from tests.viewer.conftest import small_run
from tests.viewer.gestures import answer_dialog, drop_file, notices_about, press_notice_button
from tests.viewer.rail.listed_rows import make_listed_run

Open = Callable[..., Viewer]


def pictures(window: Window) -> dict[str, Any]:
    window.display.draw_now()
    shown = {
        name: window.docks.hosts[name].shown_content() for name in window.docks.visible_panels()
    }
    return {name: plain(scene) for name, scene in shown.items()}


def plain(value: Any) -> Any:
    """Comparable with ==, NaN included."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f for f in dataclasses.fields(value) if f.compare]  # not when it was seen
        named = {f.name: plain(getattr(value, f.name)) for f in fields}
        return (type(value).__name__, named)
    if isinstance(value, np.ndarray):
        return (value.shape, np.asarray(value, np.float64).tobytes())
    return tuple(plain(one) for one in value) if isinstance(value, tuple) else repr(value)


def arrangement(window: Window) -> Any:
    """The docks, with their shares of the room in twentieths: the row above them takes some."""

    def rounded(node: Any) -> Any:
        if isinstance(node, float):
            return round(20 * node)
        if isinstance(node, dict):
            return {key: rounded(value) for key, value in node.items()}
        return [rounded(value) for value in node] if isinstance(node, list) else node

    return rounded(window.docks.arrangement.current_layout())


def stand(window: Window, qtbot: QtBot) -> None:
    window.context.send(Pause())
    qtbot.waitUntil(lambda: window.run_state.phase == "paused")
    qtbot.waitUntil(lambda: all_read(window))


def all_read(window: Window) -> bool:
    hosts = [window.docks.hosts[name] for name in window.docks.visible_panels()]
    probes = {request.probe for host in hosts for request in host.drawn.probe_requests()}
    readings = window.history.readings
    return all(p in readings and readings[p].step == window.history.step for p in probes)


def chosen_in_dialog(window: Window, action: str, path: Path) -> None:
    window.registry[action].trigger()
    answer_dialog(window, path)


def test_a_session_is_the_same_picture_in_another_window_and_goes_on_there(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    first = make_viewer(home="first").window
    qtbot.waitUntil(lambda: first.history.step > 60)
    first.context.send(SwapRegime("FR-II"))
    qtbot.waitUntil(lambda: first.run_state.regime == "FR-II")
    first.docks.toggle_panel("overlap")
    first.tabifyDockWidget(first.docks._docks["ntk"], first.docks._docks["training"])
    first.docks.hosts["gate_maps"].set_choice("layer", "1")
    first.context.theme.select_theme("dark")
    stand(first, qtbot)
    file = tmp_path / "saved.dgn"
    chosen_in_dialog(first, "file.save_session", file)
    qtbot.waitUntil(lambda: bool(notices_about(first, "session-saved")))
    step = first.history.step

    second = make_viewer(home="second").window
    qtbot.waitUntil(lambda: second.history.step > 5)
    drop_file(second, file, second.rect().center())
    qtbot.waitUntil(lambda: second.run_state.recorded is not None)
    qtbot.waitUntil(lambda: second.history.step == step)
    qtbot.waitUntil(lambda: arrangement(second) == arrangement(first))
    assert second.context.theme.now.name == "dark"
    assert second.context.settings.theme == "system"  # a stranger's is worn, not kept
    assert not second.docks.arrangement.is_open("overlap")
    assert second.docks.hosts["gate_maps"].drawn.choices == {"layer": "1"}
    before, after = pictures(first), pictures(second)
    assert before.keys() == after.keys()
    assert [name for name, scene in before.items() if scene != after[name]] == []
    scenes = [
        h.shown_content()
        for n, h in second.docks.hosts.items()
        if n in second.docks.visible_panels()
    ]
    assert sum(isinstance(scene, Scene) for scene in scenes) >= 3
    (words,) = notices_about(second, "run-shown")
    assert all(part in words for part in ("saved.dgn", f"step {step:,}"))
    assert second.run_views.banners[1].isVisible()
    assert second.registry["run.toggle"].text() == "Continue"

    press_notice_button(second, "Continue")
    qtbot.waitUntil(lambda: second.run_state.is_running)
    assert second.run_state.recorded is None
    assert not second.run_views.banners[1].isVisible()
    qtbot.waitUntil(lambda: second.history.step > step + 20)
    assert second.run_state.regime == "FR-II"
    assert any(mark.label == "FR-II" for mark in second.history.view({}).marks)
    drop_file(second, file, second.rect().center())  # the same session once more
    qtbot.waitUntil(lambda: second.run_state.recorded is not None)
    qtbot.waitUntil(lambda: second.history.step == step)
    qtbot.waitUntil(lambda: {n: s for n, s in pictures(second).items() if s != before[n]} == {})
    assert len(notices_about(second, "run-shown")) == 2
    press_notice_button(second, "Continue")
    qtbot.waitUntil(lambda: second.history.step > step + 20)
    folders = [path for path in (tmp_path / "second" / "runs").iterdir() if path.is_dir()]
    assert sorted(RunReader(path).status for path in folders) == ["running", "stopped", "stopped"]


def test_a_run_that_is_not_recorded_is_not_ended_by_a_session_without_a_question(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    first = make_viewer(home="first").window
    qtbot.waitUntil(lambda: first.history.step > 20)
    stand(first, qtbot)
    file = tmp_path / "saved.dgn"
    chosen_in_dialog(first, "file.save_session", file)
    qtbot.waitUntil(lambda: bool(notices_about(first, "session-saved")))

    window = make_viewer().window  # it records nothing
    qtbot.waitUntil(lambda: window.history.step > 5)
    run = window.run_state.run

    def asked(count: int) -> None:
        drop_file(window, file, window.rect().center())
        qtbot.waitUntil(lambda: len(notices_about(window, "not-recorded")) == count)

    asked(1)
    there = window.history.step
    qtbot.waitUntil(lambda: window.history.step > there + 5)  # it trains until there is an answer
    press_notice_button(window, "Keep run")
    assert window.run_state.run is run
    asked(2)  # the question that was answered is asked again
    press_notice_button(window, "Save weights…")
    dialog = window.findChild(QFileDialog)
    assert isinstance(dialog, QFileDialog)
    dialog.reject()
    asked(3)
    window.notice_views.question.answer_buttons()[2].click()
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    assert window.run_state.run is not run


LAYOUTS = (
    "[]",
    '{"theme": "<b>", "size": ["a", -1], "layout": [], "panels": []}',
    '{"size": [true, 99999999999999999999], "layout": {"tree": {"tabs": ["nobody", 3]}}}',
    '{"panels": {"gate_maps": {"layer": "99", "no": "x", "map": 4}, "ghost": {"a": "b"}}}',
    '{"layout": {"tree": {"across": 1, "shares": [0, 1e300], "parts": [{}, {"tabs": []}]}}}',
    '{"layout": {"tree": ' + '{"shares": [1], "parts": [' * 60 + "]}" * 60 + "}}",
)


def test_a_layout_that_makes_no_sense_is_ignored(opened_viewer: Viewer, qtbot: QtBot) -> None:
    window = opened_viewer.window
    qtbot.wait(50)
    before = arrangement(window)
    for look in LAYOUTS:
        json.loads(look)
        window.recorded.on_event(RunShown("x", "saved", 3, "x.dgn", window=look))
        qtbot.wait(20)
        assert arrangement(window) == before
        assert window.context.theme.now.name == "light"
    window.recorded.on_event(RunShown("x", "saved", 3, window='{"size": [1, 1]}'))
    assert window.width() >= 800


def crashed(folder: Path) -> Path:
    """As a kill leaves it: without its last words, and locked by nobody."""
    copy = folder.with_name("crashed")
    shutil.copytree(folder, copy)
    log = copy / folder_layout.LOG
    lines = [line for line in log.read_bytes().splitlines(True) if b'"Closed"' not in line]
    log.write_bytes(b"".join(lines))
    return copy


def test_after_a_crash_the_next_start_offers_the_run(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = make_viewer(home="home")
    qtbot.waitUntil(lambda: viewer.window.history.step > 40)
    assert viewer.close()
    (folder,) = [path for path in (tmp_path / "home" / "runs").iterdir() if path.is_dir()]
    assert not viewer.window.notices.recent_notices  # there was nothing to offer
    lost = crashed(folder)
    step = RunReader(lost).checkpoints[-1].step

    window = make_viewer(home="home").window
    qtbot.waitUntil(lambda: bool(notices_about(window, "interrupted")))
    assert window.run_state.is_running  # nothing waits for the answer
    press_notice_button(window, "Show")
    qtbot.waitUntil(lambda: window.run_state.recorded is not None)
    window.registry["run.toggle"].trigger()
    qtbot.waitUntil(lambda: window.run_state.is_running)
    qtbot.waitUntil(lambda: window.history.step > step + 10)
    assert RunReader(lost).status == "running"


def listed(*runs: RecordedRun) -> RunsListed:
    return RunsListed("runs", runs)


def test_a_run_that_was_dismissed_is_not_offered_again(opened_viewer: Viewer) -> None:
    window = opened_viewer.window
    asked = window.recorded

    def offered(*runs: RecordedRun) -> bool:
        window.notices.entries.clear()
        asked._offered = False
        asked.on_event(listed(*runs))
        return bool(window.notices.entries)

    assert not offered()
    assert not offered(
        make_listed_run("a", "stopped"), make_listed_run("b", "interrupted", resumable=False)
    )
    assert offered(make_listed_run("a", "interrupted"), make_listed_run("b", "interrupted"))
    words = window.notices.recent_notices[-1].text
    assert all(part in words for part in ("run a ", "step 1,200", "1 more"))
    press_notice_button(window, "Dismiss")
    assert not offered(make_listed_run("a", "interrupted"), make_listed_run("b", "interrupted"))
    assert offered(make_listed_run("c", "interrupted"), make_listed_run("a", "interrupted"))


def test_a_run_that_is_continued_elsewhere_is_no_longer_offered(opened_viewer: Viewer) -> None:
    window = opened_viewer.window
    lost, other = (make_listed_run(name, "interrupted") for name in ("d", "e"))
    window.recorded._offered = False
    window.recorded.on_event(listed(lost))
    for run, still_offered in ((other, True), (lost, False)):  # as the start card continues it
        window.recorded.on_event(RunContinued(1_200, folder=run.folder))
        window.notices.close_stale_offers()
        texts = [entry.notice.text for entry in window.notices.open_entries]
        assert any(text.startswith("The run d ") for text in texts) == still_offered


def test_runs_are_named_drawn_over_the_current_one_and_put_into_the_trash(
    make_viewer: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    viewer = make_viewer(home="home")
    qtbot.waitUntil(lambda: viewer.window.history.step > 40)
    assert viewer.close()
    (folder,) = [path for path in (tmp_path / "home" / "runs").iterdir() if path.is_dir()]
    viewer = make_viewer(home="home")
    window = viewer.window
    window.registry["file.open_run"].trigger()
    page = window.runs.rail
    qtbot.waitUntil(lambda: len(page.runs.runs) == 2)
    page.table.choose_run(str(folder))
    window.context.send(NoteRun(str(folder), "the first", ""))
    qtbot.waitUntil(lambda: page.runs.runs[-1].shown_name == "the first")
    page.table.toggle_current_tick()
    qtbot.waitUntil(lambda: bool(window.history.view({}).overlaid))
    qtbot.waitUntil(lambda: window.history.step > 20)

    def curves(panel: str) -> list[str]:
        window.display.draw_now()
        shown = window.docks.hosts[panel].shown_content()
        assert isinstance(shown, Scene)
        return [curve.name for chart in shown.charts for curve in chart.curves]

    qtbot.waitUntil(lambda: "the first" in curves("training"))
    qtbot.waitUntil(lambda: "the first $K^V$" in curves("ntk"))
    qtbot.waitUntil(lambda: "the first" in curves("spectrum"))
    assert curves("training")[0] == "the first"  # behind those of the run
    window.runs.fold()
    assert "the first" in curves("training")

    def into_bin(folder: str) -> str:
        return str(shutil.move(folder, tmp_path / "bin"))

    def chosen() -> list[tuple[str, str]]:
        page.table.choose_run(str(folder))
        return [(run.folder, run.status) for run in page.table.selected_runs()]

    window.recorded.bin.move_to_trash = into_bin
    window.registry["file.open_run"].trigger()
    qtbot.waitUntil(lambda: chosen() == [(str(folder), "stopped")])
    page.delete_selected()
    assert not folder.exists(), [notice.text for notice in window.notices.recent_notices]
    qtbot.waitUntil(lambda: len(page.runs.runs) == 1)
    press_notice_button(window, "Undo")
    qtbot.waitUntil(lambda: len(page.runs.runs) == 2)
    assert RunReader(folder).status == "stopped"
    page.table.choose_run(str(folder))
    page.delete_selected()
    page.table.setFocus()
    QTest.keyClick(page.table, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert folder.is_dir()
    assert not window.recorded.bin.can_undo
    qtbot.waitUntil(lambda: len(page.runs.runs) == 2)

    window.recorded.bin.move_to_trash = lambda _folder: None
    page.table.choose_run(str(folder))
    page.delete_selected()
    assert "the first" in page.deletion.sentence.text()
    assert folder.is_dir()
    page.deletion.yes.click()
    qtbot.waitUntil(lambda: len(page.runs.runs) == 1)
    assert not folder.exists()
    qtbot.waitUntil(lambda: not window.history.view({}).overlaid)
    page.table.choose_run(page.runs.runs[0].folder)
    page.delete_selected()
    assert page.message.refusal
    assert not page.deletion.sentence.isVisible()
    assert window.run_state.is_running


def test_what_cannot_be_restored_is_left_in_the_trash(
    opened_viewer: Viewer, tmp_path: Path
) -> None:
    window = opened_viewer.window
    folder, binned = tmp_path / "run", tmp_path / "binned"
    RunFolder.create(folder, small_run()).close()

    def into_bin(folder: str) -> str:
        return str(shutil.move(folder, binned))

    window.recorded.bin.move_to_trash = into_bin
    shown = RunState(recorded=RunShown("run", "stopped", 3))
    RunBin(dataclasses.replace(window.context, run_state=lambda: shown)).delete_runs((str(folder),))
    assert notices_about(window, "in-use")  # it is on show
    assert folder.is_dir()
    window.recorded.bin.delete_runs((str(folder),))
    folder.mkdir()
    window.recorded.bin.undo_last()
    assert binned.is_dir()
    assert not any(folder.iterdir())
    assert notices_about(window, "trash")
    window.recorded.bin.undo_last()  # there is nothing left to undo
    assert len(notices_about(window, "trash")) == 1


def test_the_list_stays_as_it_was_left_and_gives_way_to_a_page(
    make_viewer: Open, qtbot: QtBot
) -> None:
    first = make_viewer(home="home")
    assert first.close()
    second = make_viewer(home="home")
    bar = second.window.runs
    qtbot.waitUntil(lambda: bar.isVisible() and bar.is_open)  # roomy, and there is a run to see
    bar.make_wide()
    width = second.window.width()
    assert bar.rail.table.wide
    qtbot.waitUntil(lambda: bar.width() > 252)
    second.window.pages.open_settings()
    assert not bar.rail.table.wide
    assert bar.is_open  # at this width there is room for the list beside the page
    second.window.inspector.close_page()
    assert second.window.width() == width
    bar.make_narrower()
    assert not bar.is_open
    assert second.close()
    third = make_viewer(home="home")
    bar = third.window.runs
    qtbot.waitUntil(lambda: bar.isVisible())
    assert not bar.is_open
    bar.strip.click()
    assert bar.is_open
    assert bar.rail.search.hasFocus()


def test_a_window_that_records_nothing_has_no_list(opened_viewer: Viewer, qtbot: QtBot) -> None:
    window = opened_viewer.window
    assert not window.runs.isVisible()
    window.registry["file.open_run"].trigger()  # asked for, it says why it is empty
    qtbot.waitUntil(lambda: bool(window.runs.rail.message.text()))
    assert window.runs.isVisible()
    window.runs.fold()
    window.context.send(ListRuns())
    qtbot.waitUntil(lambda: not window.runs.isVisible())
