"""The window with its engine in a process of its own: it fills, swaps, survives, and ends clean."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.scene.elements import Scene
from dgn_engine.session import restart
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer
from tests.viewer.rare_checkpoints import serve_with_rare_checkpoints


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Entered before `make_viewer`, hence left after it."""
    yield
    assert multiprocessing.active_children() == []
    assert "dgn-relay" not in {thread.name for thread in threading.enumerate()}


@pytest.fixture
def viewer(make_viewer: Callable[..., Viewer]) -> Viewer:
    return make_viewer(process=True)


def filled(viewer: Viewer) -> bool:
    docks = viewer.window.docks
    return all(isinstance(docks.hosts[name].shown(), Scene) for name in docks.visible())


def test_a_window_with_the_engine_in_a_process_fills_swaps_and_ends(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: filled(viewer))
    window.registry["regime.FR-II"].trigger()
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    step = window.history.step
    qtbot.waitUntil(lambda: window.history.step > step)


def test_a_dead_engine_process_leaves_the_window_alive_and_can_be_replaced(
    viewer: Viewer, qtbot: QtBot
) -> None:
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 0)
    (child,) = multiprocessing.active_children()
    child.kill()
    qtbot.waitUntil(lambda: window.run_state.phase == "stopped")
    assert any("engine process died" in notice.text for notice in window.notices.recent)
    again = window.registry["run.start_engine"]
    assert again.isEnabled()
    window.registry["run.start_engine"].trigger()
    qtbot.waitUntil(lambda: window.run_state.has_run)
    assert not again.isEnabled()
    assert window.run_state.step == 0
    window.registry["run.toggle"].trigger()
    qtbot.waitUntil(lambda: window.history.step > 5 and filled(viewer))


def test_a_dead_engine_process_is_replaced_and_the_recorded_run_goes_on_in_the_panels(
    make_viewer: Callable[..., Viewer],
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart, "AT_MOST_EVERY", 3600.0)  # the second death is soon after this one
    runs = tmp_path / "runs"
    engine = ProcessSession(runs_root=str(runs), serve=serve_with_rare_checkpoints)
    viewer = make_viewer(engine=engine)
    window = viewer.window
    qtbot.waitUntil(lambda: window.history.step > 20)
    window.registry["regime.FR-II"].trigger()  # a checkpoint is written before it
    qtbot.waitUntil(lambda: window.run_state.regime == "FR-II")
    (folder,) = (lock.parent for lock in runs.glob("*/lock"))  # an index lies there, too
    qtbot.waitUntil(lambda: len(RunReader(folder).checkpoints) > 0)
    (child,) = multiprocessing.active_children()
    child.kill()

    def restarted() -> list[str]:
        return [n.text for n in window.notices.recent if "started again" in n.text]

    qtbot.waitUntil(lambda: bool(restarted()))
    assert "The engine process died (signal 9) at step" in restarted()[0]
    assert "checkpoint of step" in restarted()[0]
    assert "To be changed again: regime FR-II." in restarted()[0]
    assert window.run_state.phase == "running"
    step = window.history.step
    qtbot.waitUntil(lambda: window.history.step > step + 5)
    qtbot.waitUntil(lambda: filled(viewer))
    (again,) = multiprocessing.active_children()
    again.kill()  # a second time within a minute
    qtbot.waitUntil(lambda: window.run_state.phase == "stopped")
    assert "is kept in" in window.notices.recent[-1].text
    assert window.registry["run.start_engine"].isEnabled()
