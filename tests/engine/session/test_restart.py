"""When an engine's process that died is started again, and with what."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import EngineRestarted, Event, Failed, Shutdown
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import ContinueRun, FramesRecorded, RunContinued
from dgn_engine.protocol.training import (
    Diverged,
    Finished,
    Measured,
    Pause,
    Paused,
    RegimeSwapped,
    Rewired,
    Running,
    SettingChanged,
    SwapRegime,
    Undo,
)
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars, ProbeSetChanged, Watch
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.session.restart import AT_MOST_EVERY, EngineRestart, changes_undone, poisons_cuda
from dgn_engine.storage import lock
from tests.engine.session.conftest import STARTED

DIALS = SettingChanged(0, 1e-3, 8.0, "image", 0.0)
WATCH = Watch((ProbeRequest("npk"),))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Written by process 77 of this machine, beside one of somebody else."""
    for name, pid in (("20260101-a", 5), ("20260101-b", 77), ("20260101-c", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
        inode = (tmp_path / name / "lock").stat().st_ino
        left = {"pid": pid, "host": platform.node(), "boot": lock.boot_id(), "inode": inode}
        (tmp_path / name / "lock").write_text(json.dumps(left))
    (tmp_path / "20260102-d").mkdir()
    return tmp_path / "20260101-b"


def training(restart: EngineRestart) -> None:
    restart.on_command(WATCH)
    restart.on_event(STARTED, 77)
    restart.on_event(DIALS, 77)
    restart.on_event(Measured(412, 1.0, 0.5, 0.5), 77)


@pytest.fixture
def restart(folder: Path) -> EngineRestart:
    """Of a process that trains, at step 412, with a clock that stands."""
    made = EngineRestart(str(folder.parent), Clock())
    training(made)
    return made


def test_the_run_that_the_dead_process_recorded_goes_on_with_what_was_watched(
    restart: EngineRestart, folder: Path
) -> None:
    assert restart.after_death("signal 9") == (WATCH, ContinueRun(str(folder), paused=False))
    other = replace(STARTED, regime="FR-II")
    assert restart.on_event(other, 78) is None
    assert restart.on_event(RunContinued(380, "", str(folder)), 78) is None
    restarted = restart.on_event(replace(DIALS, learning_rate=0.1), 78)
    undone = ("regime DL", "learning rate 0.001")
    assert restarted == EngineRestarted("signal 9", 412, 380, undone)
    for part in ("(signal 9)", "412", "380", "32 steps ", "DL, learning rate 0.001"):
        assert part in restarted.sentence
    bare = replace(restarted, died_at=1, step=0, undone=())
    assert "the last step is" in bare.sentence
    assert restart.on_event(DIALS, 78) is None  # it is said once


def test_a_run_that_stood_still_stands_still_again(folder: Path) -> None:
    for event in (Paused(5), Finished(5), Diverged(5), Failed("x", "y")):
        restart = EngineRestart(str(folder.parent), Clock())
        training(restart)
        restart.on_event(event, 77)
        assert restart.after_death("exit code 1")[-1] == ContinueRun(str(folder), paused=True)


def test_a_second_death_within_a_minute_is_the_last(folder: Path) -> None:
    clock = Clock()
    restart = EngineRestart(str(folder.parent), clock)
    training(restart)
    assert restart.after_death("signal 9")
    clock.now += AT_MOST_EVERY - 1
    assert restart.after_death("signal 9") == ()
    said = restart.final_failure("signal 9")
    for part in ("(signal 9)", "step 412", str(folder)):
        assert part in said.what
    clock.now += AT_MOST_EVERY + 1
    assert restart.after_death("signal 9")


def test_without_a_recorded_run_nothing_is_started_again(folder: Path) -> None:
    for root in ("", str(folder.parent / "nowhere")):
        restart = EngineRestart(root, Clock())
        training(restart)
        assert restart.after_death("signal 9") == ()
    other = EngineRestart(str(folder.parent), Clock())
    other.on_event(STARTED, 78)
    other.on_event(DIALS, 78)  # no folder is of process 78
    assert other.after_death("signal 9") == ()
    assert other.resumable_folder == ""


def test_an_unrecorded_run_does_not_go_on_in_the_folder_of_the_run_before_it(folder: Path) -> None:
    restart = EngineRestart(str(folder.parent), Clock())
    training(restart)
    restart.on_event(replace(STARTED, unrecorded=True), 77)
    restart.on_event(DIALS, 77)
    assert restart.after_death("signal 9") == ()
    kept = str(folder.parent / "20260102-d")
    restart = EngineRestart(str(folder.parent), Clock())
    restart.on_event(replace(STARTED, unrecorded=True), 77)
    restart.on_event(FramesRecorded(kept), 77)
    assert restart.after_death("signal 9") == (ContinueRun(kept, paused=False),)


def test_a_fault_of_cuda_is_told_from_one_of_ours() -> None:
    fault = "RuntimeError: CUDA error: device-side assert triggered"
    assert poisons_cuda(Failed(f"Training stopped by a fault: {fault}", ""))
    assert poisons_cuda(Failed("x: AcceleratorError: CUDA error: unspecified launch failure", ""))
    assert not poisons_cuda(Failed("x: OutOfMemoryError: CUDA out of memory.", ""))
    assert not poisons_cuda(Failed("x: ValueError: shapes differ", ""))
    assert not poisons_cuda(Paused(3))


def test_a_session_that_was_never_started_closes() -> None:
    assert ProcessSession().close(60.0)


def test_each_change_that_is_not_in_force_any_more_is_named() -> None:
    before = RunState().after(STARTED).after(DIALS)
    changes: list[tuple[Event, tuple[str, ...]]] = [
        (RegimeSwapped(5, "DL", "FL", (), (), (), ()), ("regime DL",)),
        (Rewired(5, (1, 0)), ("gate order",)),
        (replace(DIALS, learning_rate=0.5), ("learning rate 0.001",)),
        (replace(DIALS, beta=2.0), ("β 8",)),
        (replace(DIALS, value_input="ones"), ("value input image",)),
        (replace(DIALS, pace=60.0), ()),
        (ProbeSetChanged(5, 32, "digest"), ("64 probe examples",)),
        (Paused(9), ()),
    ]
    for event, undone in changes:
        assert changes_undone(before, before.after(event)) == undone
    assert changes_undone(RunState(), before) == ("regime ",)


def test_the_step_that_was_reached_is_the_last_that_was_heard_of(
    restart: EngineRestart, folder: Path
) -> None:
    heard: list[Event] = [
        Measured(500, 1.0, 0.5, 0.5),
        ProbeScalars(600, "npk", {}),
        Measured(550, 1.0, 0.5, 0.5),
    ]
    for event, step in zip(heard, (500, 600, 600), strict=True):
        restart.on_event(event, 77)
        assert f"at step {step:,}." in restart.final_failure("x").what
    restart.on_frame(Frame(1, 700, 0.0, 0.0, None))
    restart.on_frame(Frame(1, 650, 0.0, 0.0, None))
    assert "at step 700." in restart.final_failure("x").what
    assert restart.resumable_folder == str(folder)
    restart.on_event(STARTED, 77)  # another run, whose folder is not there yet
    assert restart.resumable_folder == ""
    assert "step 0." in restart.final_failure("x").what
    assert str(folder) not in restart.final_failure("x").what
    restart.on_event(RunContinued(41, "", "/elsewhere"), 77)
    assert restart.resumable_folder == "/elsewhere"
    assert "at step 41." in restart.final_failure("x").what


def test_a_run_that_goes_on_after_a_fault_trains_again_after_a_death(
    restart: EngineRestart, folder: Path
) -> None:
    restart.on_event(Failed("a fault of ours", ""), 77)
    restart.on_event(Running(5), 77)
    assert restart.after_death("signal 9")[-1] == ContinueRun(str(folder), paused=False)
    poisoned = EngineRestart(str(folder.parent), Clock())
    poisoned.on_event(STARTED, 77)
    poisoned.on_event(DIALS, 77)
    poisoned.on_event(Failed("x: CUDA error: y", ""), 77)
    # CUDA ended it, not the run; and nothing was watched
    assert poisoned.after_death("x") == (ContinueRun(str(folder), paused=False),)


def test_a_lock_from_before_the_machine_was_started_again_is_not_this_process(
    folder: Path,
) -> None:
    file = folder / "lock"
    file.write_text(json.dumps({**json.loads(file.read_text()), "boot": "another"}))
    restart = EngineRestart(str(folder.parent), Clock())
    training(restart)
    assert restart.resumable_folder == ""
    assert restart.after_death("signal 9") == ()


def test_what_the_dead_process_had_not_done_is_named_and_not_asked_again(
    restart: EngineRestart, folder: Path
) -> None:
    asked = [SwapRegime("FL"), WATCH, Pause(), Pause(), Shutdown()]
    assert restart.after_death("signal 9", asked) == (
        WATCH,
        ContinueRun(str(folder), paused=False),
    )
    restart.on_event(RunContinued(380, "", str(folder)), 78)
    restarted = restart.on_event(DIALS, 78)
    assert restarted is not None
    assert restarted.unanswered == ("swap to FL", "pause")
    assert ": swap to FL, pause." in restarted.sentence
    said = restart.final_failure("signal 9", [Undo()]).what
    assert ": undo." in said


def test_a_run_dies_and_goes_on_twice(folder: Path) -> None:
    clock = Clock()
    restart = EngineRestart(str(folder.parent), clock)
    training(restart)
    for died_at, step in ((412, 380), (500, 490)):
        assert restart.after_death("signal 9") == (WATCH, ContinueRun(str(folder), paused=False))
        restart.on_event(STARTED, 78)
        restart.on_event(RunContinued(step, "", str(folder)), 78)
        restarted = restart.on_event(DIALS, 78)
        assert restarted == EngineRestarted("signal 9", died_at, step)
        restart.on_event(Measured(500, 1.0, 0.5, 0.5), 78)
        clock.now += AT_MOST_EVERY


def test_a_death_is_forgotten_once_another_run_was_begun(restart: EngineRestart) -> None:
    assert restart.after_death("signal 9")
    restart.on_event(STARTED, 78)  # the one that died could not go on
    assert restart.on_event(DIALS, 78) is None
    restart.on_event(RunContinued(41, "", "/elsewhere"), 78)
    assert restart.on_event(DIALS, 78) is None
