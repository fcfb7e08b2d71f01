"""The step of B, where its frames are held in memory."""

from __future__ import annotations

from collections.abc import Callable

from pytestqt.qtbot import QtBot

from dgn_engine.protocol.branches import ComparedFrames, CompareHeld, CompareRun
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.panel_spec import View
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.views.frame_source import Source
from dgn_engine.views.history import History
from dgn_viewer.timeline.compared_cursor import ComparedCursor, compare_with_step
from dgn_viewer.timeline.step_cursor import StepCursor
from tests.engine.views.past_frames import frame


def test_steps_of_an_unrecorded_run_are_shown_as_b(
    qtbot: QtBot, make_view: Callable[..., View]
) -> None:
    run = make_view("fc").run
    assert run is not None
    held = HeldFrames()
    for step in (2, 5, 9):
        held.add(frame(step))
    cursor = ComparedCursor(History(), ("gates",), lambda _: None, lambda: Source(held=held))
    cursor.on_event(ComparedFrames("this run", "", run, (), 5), RunState())
    qtbot.waitUntil(lambda: cursor.steps == (2, 5, 9))
    assert (cursor.step, cursor.name, cursor.has_network) == (5, "this run", False)
    cursor.move(1)
    qtbot.waitUntil(lambda: cursor.step == 9)
    cursor.close()


def test_a_step_becomes_b_from_its_folder_or_from_memory(qtbot: QtBot) -> None:
    asked: list[Command] = []
    a = StepCursor(History(), ("gates",), lambda _: None, lambda: True)
    compare_with_step(a, asked.append)
    assert asked == []  # it is live
    for source, command in (
        (Source(held=HeldFrames()), CompareHeld(4)),
        (Source("runs/first"), CompareRun("runs/first", 4)),
    ):
        a.source, a._wanted.step = source, 4
        compare_with_step(a, asked.append)
        assert asked[-1] == command
        assert a.step is None
    a.close()
