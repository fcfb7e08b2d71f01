"""One attempt at a unit, or at a pack: every end that it can come to, as an update."""

from __future__ import annotations

import errno
import json
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.errors import UserError
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.storage.lock import Lock, LockHeldError, LockHolder
from dgn_engine.storage.runs.folder_layout import LOCK, RUN
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.unit import (
    Calculation,
    ProcessId,
    Training,
    UnitTask,
    UnitUpdate,
    unit_folder,
)
from dgn_engine.sweep.workers import attempt
from dgn_engine.sweep.workers.attempt import attempt_pack, attempt_unit
from dgn_engine.training import batched
from dgn_engine.training.batched import Job, JobProgress, JobResult
from dgn_engine.training.headless_run import Outcome
from tests.engine.sweep.small import (
    SMALL,
    never_stop,
    read_results,
    relu_and_fl_units,
    small_training,
)

UNIT = small_training(0)
STEEP = replace(SMALL.training, learning_rate=1e20, optimiser="sgd")
WILD = replace(UNIT, config=replace(SMALL, training=STEEP))


class Heard:
    """Updates; the unit is told to stop once it has sent so many of them."""

    def __init__(self, most: int = 10**9) -> None:
        self.all: list[UnitUpdate] = []
        self.most = most

    def __call__(self, update: UnitUpdate) -> None:
        self.all.append(update)

    def stopped(self) -> bool:
        return len(self.all) >= self.most


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates come at each step."""
    monkeypatch.setattr(attempt, "EVERY", 0.0)


def tried(unit: Any, root: Path, heard: Heard | None = None, *ended: ProcessId) -> UnitUpdate:
    heard = heard or Heard()
    return attempt_unit(UnitTask(unit, root, ended), heard, heard.stopped)


@pytest.mark.usefixtures("every_step")
def test_a_run_says_how_far_it_is_and_its_best_score(tmp_path: Path) -> None:
    heard = Heard()
    last = tried(UNIT, tmp_path, heard)
    scores = [e.test_accuracy for e in RunReader(unit_folder(tmp_path, UNIT.id)).measured_events]
    best = max(score for score in scores if score is not None)
    assert last == UnitUpdate(UNIT.id, "done", 1.0, best)
    first, *others = heard.all
    assert first == UnitUpdate(UNIT.id, "running")
    assert {update.state for update in others} == {"running"}
    fractions = [update.fraction for update in others]
    assert fractions == sorted(fractions)
    assert list(dict.fromkeys(fractions)) == [pytest.approx((n + 1) / 30) for n in range(30)]
    told = [update.score for update in others]
    assert told[0] is None
    known = [score for score in told if score is not None]
    assert known == sorted(known)
    assert known[-1] <= best


@pytest.mark.usefixtures("every_step")
def test_what_is_interrupted_goes_on_where_it_was(tmp_path: Path) -> None:
    heard = Heard(8)
    last = tried(UNIT, tmp_path, heard)
    assert (last.state, last.fraction) == ("interrupted", pytest.approx(7 / 30))
    again = Heard()
    assert tried(UNIT, tmp_path, again).state == "done"
    assert again.all[1].fraction == pytest.approx(8 / 30)
    assert RunReader(unit_folder(tmp_path, UNIT.id)).step == 30


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize("first", [8, 31], ids=["begun", "done"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_moved_folder_is_continued_with_the_gates_in_its_new_place(
    tmp_path: Path, first: int, packed: bool
) -> None:
    relu, fixed = relu_and_fl_units(0)
    old, new, whole = tmp_path / "old", tmp_path / "new", tmp_path / "whole"
    for root in (old, whole):
        assert tried(relu, root).state == "done"
    tried(fixed, old, Heard(first))
    old.rename(new)
    if packed:
        (last,) = attempt_pack([UnitTask(fixed, new)], Heard(), never_stop)
    else:
        last = tried(fixed, new)
    assert (last.state, last.trouble) == ("done", "")
    assert RunReader(unit_folder(new, fixed.id)).step == 30
    if not packed:  # a stack adds in another order
        assert tried(fixed, whole).state == "done"
        assert read_results([fixed], new) == read_results([fixed], whole)


def test_a_moved_run_without_a_checkpoint_starts_again(tmp_path: Path) -> None:
    relu, fixed = relu_and_fl_units(0)
    old, new = tmp_path / "old", tmp_path / "new"
    assert tried(relu, old).state == "done"
    assert isinstance(fixed, Training)
    RunFolder.create(unit_folder(old, fixed.id), fixed.resolve_paths(old)).close()
    old.rename(new)
    assert tried(fixed, new).state == "done"
    assert RunReader(unit_folder(new, fixed.id)).config == fixed.resolve_paths(new)


def test_what_is_over_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(UNIT, tmp_path / "a").state == "done"
    assert tried(WILD, tmp_path / "b").state == "diverged"
    monkeypatch.setattr(attempt, "_train_unit", pytest.fail)
    assert tried(UNIT, tmp_path / "a") == UnitUpdate(UNIT.id, "done")
    assert tried(WILD, tmp_path / "b") == UnitUpdate(UNIT.id, "diverged")


def test_a_run_that_is_told_to_stop_when_it_has_finished_is_done(tmp_path: Path) -> None:
    folder = unit_folder(tmp_path, UNIT.id)

    def stopped() -> bool:
        return (folder / RUN).exists() and RunReader(folder).outcome == "finished"

    assert attempt_unit(UnitTask(UNIT, tmp_path), Heard(), stopped).state == "done"


def test_a_run_that_is_told_to_stop_while_its_data_are_read_leaves_no_folder(
    tmp_path: Path,
) -> None:
    assert attempt_unit(UnitTask(UNIT, tmp_path), Heard(), lambda: True).state == "interrupted"
    assert not unit_folder(tmp_path, UNIT.id).exists()


def test_a_refusal_is_logged_and_leaves_no_folder(tmp_path: Path) -> None:
    config = replace(SMALL, gating=replace(SMALL.gating, wiring=(0, 1, 2, 3)))
    last = tried(replace(UNIT, config=config), tmp_path)
    assert last.state == "refused"
    assert "each of the" in last.trouble
    assert not unit_folder(tmp_path, UNIT.id).exists()
    log = (tmp_path / "logs" / f"{UNIT.id}.txt").read_text("utf-8")
    head, *said = log.splitlines()
    assert head.endswith(f" process {os.getpid()} on {platform.node()}")
    assert said == [last.trouble, ""]


@pytest.mark.parametrize(
    ("why", "state"),
    [("The disk is full.", "refused"), (f"Paused: {os.strerror(errno.EMFILE)}.", "failed")],
)
def test_a_run_that_could_not_be_written_is_tried_again_only_where_that_may_pass(
    why: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dgn_engine.training.headless_run.HeadlessRun.train", lambda *_: Outcome(unsaved=why)
    )
    last = tried(UNIT, tmp_path)
    assert (last.state, why in last.trouble) == (state, True)
    lock = unit_folder(tmp_path, UNIT.id) / LOCK
    assert not lock.exists() or lock.read_bytes() == b"", "its folder is given back"


def test_a_fault_is_logged_each_time_and_told_with_its_last_twenty_lines(tmp_path: Path) -> None:
    unit = Calculation("x", "dgn_engine.sweep.unit:no_such_function")
    for _ in range(2):
        last = tried(unit, tmp_path)
        assert last.state == "failed"
        assert last.trouble.splitlines()[-1].startswith("AttributeError")
    log = (tmp_path / "logs" / "x.txt").read_text("utf-8")
    assert log.count("Traceback") == 2
    assert log.count("\n\n") == 2
    long = "\n".join(str(n) for n in range(50)) + "\n\n"
    assert attempt.last_lines(long) == "\n".join(str(n) for n in range(30, 50))


def test_a_log_that_cannot_be_written_hides_no_fault(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    assert tried(Calculation("x", "dgn_engine.sweep.unit:no"), tmp_path).state == "failed"


def test_a_run_that_another_process_writes_is_held(tmp_path: Path) -> None:
    folder = RunFolder.create(unit_folder(tmp_path, UNIT.id), UNIT.config)
    try:
        last = tried(UNIT, tmp_path)
        assert last.state == "held"
        assert f"is being written by process {os.getpid()}" in last.trouble
        assert last.holder is None  # this machine sees whether it lives
        assert not (tmp_path / "logs").exists()
    finally:
        folder.close()


def test_a_run_that_another_machine_locked_is_held_until_that_process_is_known_to_be_dead(
    tmp_path: Path,
) -> None:
    RunFolder.create(unit_folder(tmp_path, UNIT.id), UNIT.config).close()
    path = unit_folder(tmp_path, UNIT.id) / LOCK
    left = {"pid": 7, "host": "elsewhere", "boot": "b", "inode": path.stat().st_ino}
    path.write_text(json.dumps(left))
    last = tried(UNIT, tmp_path)
    assert (last.state, last.holder) == ("held", ProcessId(7, "elsewhere"))
    others = (ProcessId(8, "elsewhere"), ProcessId(7, "nowhere"))
    assert tried(UNIT, tmp_path, None, *others).state == "held"
    assert tried(UNIT, tmp_path, None, others[0], ProcessId(7, "elsewhere")).state == "done"


# a pack


class Pack:
    """`train_pack` that is made up: what it was given, and what comes of each job."""

    def __init__(self, play: Callable[[list[Job], Callable[[JobProgress], None]], Any]) -> None:
        self.play = play
        self.given: list[tuple[list[Job], object, int]] = []

    def __call__(self, jobs: list[Job], on_progress: Any, stopped: Any, most: int) -> Any:
        self.given.append((jobs, stopped, most))
        return self.play(jobs, on_progress)


def packed(
    monkeypatch: pytest.MonkeyPatch, root: Path, play: Any, count: int = 4
) -> tuple[list[UnitUpdate], list[UnitUpdate], Pack]:
    """The last update of each unit, those on the way, and what was asked for."""
    pack, heard = Pack(play), Heard()
    monkeypatch.setattr(batched, "train_pack", pack)
    tasks = [UnitTask(small_training(seed), root) for seed in range(count)]
    return attempt_pack(tasks, heard, never_stop), heard.all, pack


def test_each_unit_of_a_pack_is_told_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    held = LockHeldError("held by x.", LockHolder(7, "elsewhere", "", 1))

    def play(jobs: list[Job], on_progress: Callable[[JobProgress], None]) -> list[JobResult]:
        on_progress(JobProgress(jobs[1], 15, 30, Outcome(best_accuracy=0.25)))
        on_progress(JobProgress(jobs[0], 31, 30, Outcome()))
        on_progress(JobProgress(jobs[2], 5, 20, Outcome()))
        return [
            JobResult(jobs[0], "finished", Outcome(best_accuracy=0.5)),
            JobResult(jobs[1], "diverged", Outcome()),
            JobResult(jobs[2], "stopped", Outcome(best_accuracy=0.75)),
            JobResult(jobs[3], "failed", Outcome(), UserError("no such net.")),
            JobResult(jobs[4], "failed", Outcome(), held),
        ]

    last, heard, pack = packed(monkeypatch, tmp_path, play, 5)
    ids = [small_training(seed).id for seed in range(5)]
    assert heard == [
        *(UnitUpdate(name, "running") for name in ids),
        UnitUpdate(ids[1], "running", 0.5, 0.25),
        UnitUpdate(ids[0], "running", 1.0),
        UnitUpdate(ids[2], "running", 0.25),
    ]
    assert last == [
        UnitUpdate(ids[0], "done", 1.0, 0.5),
        UnitUpdate(ids[1], "diverged", 1.0),
        UnitUpdate(ids[2], "interrupted", 0.25, 0.75),
        UnitUpdate(ids[3], "failed", trouble="no such net."),
        UnitUpdate(ids[4], "held", trouble="held by x.", holder=ProcessId(7, "elsewhere")),
    ]
    ((jobs, stopped, most),) = pack.given
    assert jobs == [Job(small_training(n).config, unit_folder(tmp_path, ids[n])) for n in range(5)]
    assert (stopped, most) == (never_stop, 5)
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [f"{ids[3]}.txt"]


@pytest.mark.parametrize(
    ("fault", "words"), [(UserError("no memory."), "no memory."), (KeyError("x"), "KeyError: 'x'")]
)
def test_a_fault_of_a_pack_is_that_of_each_unit_and_in_the_log_of_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Exception, words: str
) -> None:
    def play(*_: object) -> None:
        raise fault

    last, _, _ = packed(monkeypatch, tmp_path, play, 2)
    assert [(update.unit, update.state) for update in last] == [
        ("FR-II-s0", "failed"),
        ("FR-II-s1", "failed"),
    ]
    for update in last:
        assert update.trouble.splitlines()[-1] == words
        assert words in (tmp_path / "logs" / f"{update.unit}.txt").read_text("utf-8")


def test_locks_of_dead_processes_are_freed_for_each_unit_of_a_pack(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dead = ProcessId(7, "elsewhere")
    for seed in range(2):
        folder = unit_folder(tmp_path, small_training(seed).id)
        folder.mkdir(parents=True)
        lock = Lock(folder / LOCK)
        lock.acquire()
        lock.release()
        left = {"pid": 7, "host": "elsewhere", "boot": "b", "inode": 1}
        (folder / LOCK).write_text(json.dumps(left))
    monkeypatch.setattr(
        batched,
        "train_pack",
        lambda jobs, *_, **__: [JobResult(job, "finished", Outcome()) for job in jobs],
    )
    tasks = [UnitTask(small_training(seed), tmp_path, (dead,)) for seed in range(2)]
    assert [update.state for update in attempt_pack(tasks, Heard(), never_stop)] == ["done"] * 2
    for seed in range(2):
        assert (unit_folder(tmp_path, small_training(seed).id) / LOCK).read_bytes() == b""


# the score on the way


def test_a_score_is_the_best_since_the_last_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "EVERY", 1e9)
    watcher = attempt._UpdateWatcher("x", pytest.fail)
    assert watcher.fraction == 0.0
    for accuracy, score in ((0.5, 0.5), (0.25, 0.5), (None, 0.5), (0.75, 0.75)):
        watcher.on_event(Measured(1, 1.0, 0.5, 0.5, None, accuracy))
        assert watcher.score == score
    watcher.on_event(RegimeSwapped(6, "DL", "FL", (), (), (), ()))
    assert watcher.score is None
    watcher.on_event(Measured(1, 1.0, 0.5, 0.5, None, 0.25))
    assert watcher.score == 0.25
    watcher.on_step(5)  # updates are not sent at each step
