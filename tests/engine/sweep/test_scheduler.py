"""How a sweep is driven: what its workers are given and when, and how it ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dgn_engine.protocol.training import Finished, Measured
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.folder_layout import CHECKPOINTS, LOG
from dgn_engine.sweep import scheduler, stack_time
from dgn_engine.sweep.schedule import UnitProgress
from dgn_engine.sweep.scheduler import Executor, StaleLock, Workers
from dgn_engine.sweep.unit import (
    Calculation,
    OnUpdate,
    ProcessId,
    Stopped,
    Unit,
    UnitTask,
    UnitUpdate,
    unit_folder,
)
from dgn_engine.sweep.workers.serial import SerialExecutor
from tests.engine.sweep.small import (
    ProgressLog,
    never_stop,
    relu_and_fl_units,
    run_units,
    small_training,
    write_run_log,
)
from tests.refusals import refused

# seconds, as users know them
AGAIN, GRACE, SILENT = 1.0, 60.0, 120.0


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(scheduler, "time", made)
    return made


@dataclass
class Scripted:
    """Workers that begin all they are given; each poll plays the next scene."""

    clock: Clock
    scenes: list[Callable[[], None]]
    room: int = 9
    given: list[list[UnitTask]] = field(default_factory=list)
    interrupts: int = 0
    log: list[str] = field(default_factory=list)
    on_update: OnUpdate = lambda _: None

    @contextmanager
    def start(self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped) -> Iterator[None]:
        self.on_update = on_update
        self.log.append(f"start {len(units)}")
        yield
        self.log.append("end")

    def submit(self, ready: Sequence[UnitTask]) -> Sequence[UnitTask]:
        assert ready
        self.given.append(list(ready))
        return ready[: self.room]

    def poll(self, seconds: float) -> None:
        assert 0 < seconds <= 1  # or Ctrl-C is noticed late
        self.clock.now += seconds
        if self.scenes:
            self.scenes.pop(0)()

    def interrupt(self) -> None:
        self.interrupts += 1

    @property
    def ids(self) -> list[list[str]]:
        return [[task.unit.id for task in tasks] for tasks in self.given]


class ScriptedExecutor(Executor):
    def __init__(self, workers: Scripted) -> None:
        self.workers = workers

    def workers_in(self, root: Path) -> Workers:
        assert root.is_absolute()
        return self.workers


def test_units_are_given_in_order_as_their_needs_are_done_and_as_there_is_room(
    clock: Clock, tmp_path: Path, progress_log: ProgressLog
) -> None:
    def say(*updates: UnitUpdate) -> Callable[[], None]:
        return lambda: [workers.on_update(one) for one in updates] and None

    workers = Scripted(
        clock,
        [
            say(UnitUpdate("FR-II-s1", "running", 0.5, 0.25)),
            say(UnitUpdate("FR-II-s1", "done", 1.0, 0.5)),
            say(UnitUpdate("ReLU-s0", "done", 1.0, 0.75)),
            say(UnitUpdate("FL-s0", "done", 1.0)),
        ],
        room=1,
    )
    states = run_units(
        ScriptedExecutor(workers),
        [small_training(1), *relu_and_fl_units(0)],
        tmp_path,
        progress_log,
    )
    assert workers.ids == [["FR-II-s1", "ReLU-s0"], ["ReLU-s0"], ["FL-s0"]]
    assert set(states.values()) == {"done"}
    assert [(one.unit, one.state, one.score) for one in progress_log.all] == [
        ("FR-II-s1", "running", 0.25),
        ("FR-II-s1", "done", 0.5),
        ("ReLU-s0", "done", 0.75),
        ("FL-s0", "done", None),
    ]
    assert workers.log == ["start 3", "end"]
    assert workers.interrupts == 0
    assert all(task.root == tmp_path for tasks in workers.given for task in tasks)


def test_a_run_that_is_held_is_tried_again_after_a_second_and_others_meanwhile(
    clock: Clock, tmp_path: Path
) -> None:
    held = UnitUpdate("FR-II-s0", "held", trouble="held")
    tried: list[float] = []
    workers = Scripted(clock, [])

    def play() -> None:
        if len(workers.given) > len(tried):
            tried.append(clock.now)
            for seed in (0, 1) if len(tried) == 3 else ():
                workers.on_update(UnitUpdate(f"FR-II-s{seed}", "done"))
            workers.on_update(held)

    workers.scenes = [play] * 40
    assert set(
        run_units(
            ScriptedExecutor(workers), [small_training(0), small_training(1)], tmp_path
        ).values()
    ) == {"done"}
    assert workers.ids == [["FR-II-s0", "FR-II-s1"], ["FR-II-s0"], ["FR-II-s0"]]
    assert all(later - sooner >= AGAIN for sooner, later in itertools.pairwise(tried))


def test_a_sweep_that_is_stopped_asks_what_runs_to_save_itself_and_waits_for_it(
    clock: Clock, tmp_path: Path, progress_log: ProgressLog
) -> None:
    stop: list[bool] = []
    workers = Scripted(clock, [])
    workers.scenes = [
        lambda: workers.on_update(UnitUpdate("ReLU-s0", "running", 0.5)),
        lambda: stop.append(True),
        lambda: workers.on_update(UnitUpdate("ReLU-s0", "interrupted", 0.6, 0.2)),
        lambda: pytest.fail("nothing runs any more"),
    ]
    states = run_units(
        ScriptedExecutor(workers), relu_and_fl_units(0), tmp_path, progress_log, lambda: bool(stop)
    )
    assert states == {"ReLU-s0": "interrupted", "FL-s0": "queued"}
    assert progress_log.all[1:] == [UnitProgress("ReLU-s0", "interrupted", 0.6, 0.2)]
    assert workers.interrupts == 1
    assert workers.log[-1] == "end"


def test_what_does_not_save_itself_within_a_minute_is_given_up(
    clock: Clock, tmp_path: Path, progress_log: ProgressLog
) -> None:
    workers = Scripted(clock, [])
    workers.scenes = [lambda: workers.on_update(UnitUpdate("FR-II-s0", "running", 0.5))]
    asked = iter([False] * 2)
    states = run_units(
        ScriptedExecutor(workers),
        [small_training(0)],
        tmp_path,
        progress_log,
        lambda: next(asked, True),
    )
    assert states == {"FR-II-s0": "interrupted"}
    assert progress_log.all[-1] == UnitProgress("FR-II-s0", "interrupted", 0.5)
    assert 50 + GRACE <= clock.now <= 50 + GRACE + 5


def test_what_is_lost_while_a_sweep_stops_is_not_begun_again(clock: Clock, tmp_path: Path) -> None:
    workers = Scripted(clock, [])
    workers.scenes = [lambda: workers.on_update(UnitUpdate("FR-II-s0", "lost", trouble="killed"))]
    stopped = iter([False])  # then it is, and the update comes between two questions
    executor = ScriptedExecutor(workers)
    states = run_units(executor, [small_training(0)], tmp_path, stopped=lambda: next(stopped, True))
    assert states == {"FR-II-s0": "interrupted"}


def test_a_sweep_that_is_stopped_before_it_began_interrupts_nothing(
    clock: Clock, tmp_path: Path
) -> None:
    workers = Scripted(clock, [])
    states = run_units(
        ScriptedExecutor(workers), [small_training(0)], tmp_path, stopped=lambda: True
    )
    assert states == {"FR-II-s0": "queued"}
    assert (workers.given, workers.interrupts) == ([], 0)


def test_the_lock_of_a_machine_that_has_long_been_silent_does_not_count(
    clock: Clock, tmp_path: Path
) -> None:
    holder = ProcessId(7, "elsewhere")
    held = UnitUpdate("FR-II-s0", "held", trouble="held", holder=holder)
    workers = Scripted(clock, [])

    def play() -> None:
        if workers.given[-1][0].ended:
            workers.on_update(UnitUpdate("FR-II-s0", "done"))
        else:
            workers.on_update(held)
            clock.now += 10

    workers.scenes = [play] * 40
    run_units(ScriptedExecutor(workers), [small_training(0)], tmp_path)
    assert workers.given[-1][0].ended == (holder,)
    assert all(tasks[0].ended == () for tasks in workers.given[:-1])
    assert SILENT <= clock.now - 50 <= SILENT + 30


def test_a_run_that_is_written_is_never_silent(clock: Clock, tmp_path: Path) -> None:
    folder, holder = unit_folder(tmp_path, "a"), ProcessId(7, "elsewhere")
    (folder / CHECKPOINTS).mkdir(parents=True)
    (folder / LOG).write_bytes(b"")
    stale = StaleLock(tmp_path)
    assert not stale.is_stale("a", holder)
    changes: list[Callable[[], object]] = [
        lambda: (folder / LOG).write_bytes(b"a line"),
        lambda: (folder / CHECKPOINTS / "000000001").mkdir(),
        lambda: (folder / CHECKPOINTS / "000000001").rename(folder / CHECKPOINTS / "000000002"),
    ]
    for change in changes:
        clock.now += SILENT - 1
        change()
        assert not stale.is_stale("a", holder)
        clock.now += SILENT - 1
        assert not stale.is_stale("a", holder)
    clock.now += 1
    assert not stale.is_stale("a", ProcessId(8, "elsewhere"))  # another writer has begun
    clock.now += SILENT
    assert stale.is_stale("a", ProcessId(8, "elsewhere"))
    assert not stale.is_stale("b", holder)  # each run by itself


def test_a_run_without_files_is_silent_as_well(clock: Clock, tmp_path: Path) -> None:
    stale, holder = StaleLock(tmp_path), ProcessId(7, "elsewhere")
    assert not stale.is_stale("a", holder)
    clock.now += SILENT
    assert stale.is_stale("a", holder)


def test_a_calculation_that_is_done_has_no_score(tmp_path: Path, progress_log: ProgressLog) -> None:
    unit = Calculation(
        "limit",
        "dgn_engine.experiments.theory_infinite_width:distances",
        {"widths": [4], "seed": 0, "draws": 1},
    )
    assert run_units(SerialExecutor(), [unit], tmp_path, progress_log) == {"limit": "done"}
    assert run_units(SerialExecutor(), [unit], tmp_path, progress_log) == {"limit": "skipped"}
    assert progress_log.all[-1] == UnitProgress("limit", "skipped", 1.0)


def test_a_run_without_scores_is_skipped_without_one(
    tmp_path: Path, progress_log: ProgressLog
) -> None:
    write_run_log(tmp_path, (1.0, Measured(10, 1.0, 0.5, 0.5, None, None)), (2.0, Finished(30)))
    run_units(SerialExecutor(), [small_training(0)], tmp_path, progress_log)
    assert progress_log.all == [UnitProgress("FR-II-s0", "skipped", 1.0)]


def test_a_sweep_that_goes_on_looks_for_its_stacks_once(
    tmp_path: Path, progress_log: ProgressLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each of its runs: of a thousand that would be a million logs."""
    units: list[Unit] = [small_training(seed) for seed in range(3)]
    for unit in units:
        folder = write_run_log(tmp_path, (1.0, Finished(30)), unit=unit)  # type: ignore[arg-type]
        run_info.write_run_info(folder, run_info.add_stack(run_info.read_run_info(folder), "a"))
    looked: list[int] = []
    share = stack_time.shared_seconds
    monkeypatch.setattr(
        stack_time, "shared_seconds", lambda traces: looked.append(len(traces)) or share(traces)
    )
    states = run_units(SerialExecutor(), units, tmp_path, progress_log)
    assert set(states.values()) == {"skipped"}
    assert looked == [3]


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with refused("not-writable"):
        run_units(SerialExecutor(), [small_training(0)], tmp_path / "file" / "sweep")


@pytest.mark.parametrize(
    ("units", "kind", "value"),
    [
        ([small_training(0), small_training(0)], "no-name", "FR-II-s0"),
        ([Calculation("../x", "dgn_engine.x:f")], "no-name", "../x"),
        ([Calculation("x y", "dgn_engine.x:f")], "no-name", "x y"),
        (relu_and_fl_units(0)[::-1], "wrong-order", "ReLU-s0"),
        ([Calculation("x", "dgn_engine.x:f", needs=("x",))], "wrong-order", "x"),
    ],
)
def test_units_without_names_of_their_own_or_out_of_order_are_refused(
    tmp_path: Path, units: list[Unit], kind: str, value: str
) -> None:
    with refused(kind, value=value):
        run_units(SerialExecutor(), units, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_sweep_gives_its_folder_back(tmp_path: Path) -> None:
    for _ in range(2):
        assert run_units(SerialExecutor(), [small_training(0)], tmp_path, stopped=never_stop)
