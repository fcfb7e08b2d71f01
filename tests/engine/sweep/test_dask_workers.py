"""Which Dask worker is given which unit, and what becomes of it: a client without a cluster."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dgn_engine import __version__
from dgn_engine.sweep.cluster_tls import ClusterTls
from dgn_engine.sweep.unit import OnUpdate, ProcessId, UnitTask, UnitUpdate
from dgn_engine.sweep.workers import dask_workers
from dgn_engine.sweep.workers.dask_workers import DaskExecutor
from tests.engine.sweep.small import never_stop, small_training
from tests.refusals import refused

dask_task = pytest.importorskip(
    "dgn_engine.sweep.workers.dask_task",
    reason="Dask is not installed (it comes with the extra 'cluster')",
    exc_type=ImportError,
)


REFRESH, PATIENCE = 1.0, 30.0  # seconds that a user waits


def introduction(pid: int, version: str = __version__, sees: bool = True) -> str:
    return json.dumps({"pid": pid, "host": f"node{pid}", "version": version, "sees": sees})


@dataclass
class Job:
    """A future of Dask, as far as it is asked."""

    text: str
    options: dict[str, Any]
    status: str = "pending"
    answer: Any = None
    released: bool = False

    def cancel(self) -> None:
        self.status = "cancelled"

    def cancelled(self) -> bool:
        return self.status == "cancelled"

    def result(self) -> Any:
        return self.answer

    def exception(self) -> Any:
        return self.answer

    def release(self) -> None:
        self.released = True

    @property
    def task(self) -> UnitTask:
        return UnitTask.from_text(self.text)

    def end(self, status: str, answer: Any) -> None:
        self.status, self.answer = status, answer


@dataclass
class Client:
    """A client of Dask; `there`: what each worker says when it is asked who it is."""

    there: dict[str, Any]
    jobs: list[Job] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    handlers: dict[str, Callable[[tuple[float, str]], None]] = field(default_factory=dict)
    fault: Exception | None = None
    cluster: Any = None

    def nthreads(self) -> dict[str, int]:
        if self.fault is not None:
            raise self.fault
        return dict.fromkeys(self.there, 1)

    def run(self, function: object, root: str, workers: list[str], on_error: str) -> dict[str, Any]:
        assert (function, on_error) == (dask_task.describe_worker, "return")
        assert Path(root).is_absolute()
        self.asked.append(workers)
        return {address: self.there[address] for address in workers}

    def submit(self, function: object, text: str, topic: str, **options: Any) -> Job:
        assert function is dask_task.carry_out_here
        assert list(self.handlers) == [topic]
        self.jobs.append(Job(text, options))
        return self.jobs[-1]

    def subscribe_topic(self, topic: str, handler: Callable[[tuple[float, str]], None]) -> None:
        self.handlers[topic] = handler

    def unsubscribe_topic(self, topic: str) -> None:
        del self.handlers[topic]

    def say(self, update: UnitUpdate) -> None:
        (handler,) = self.handlers.values()
        handler((0.0, update.to_text()))


class Clock:
    """Stands still unless it is put on; while it `ticks`, time passes each time it is read."""

    def __init__(self) -> None:
        self.now, self.ticks = 1000.0, False

    def monotonic(self) -> float:
        self.now += 0.1 * self.ticks
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(dask_workers, "time", made)
    monkeypatch.setattr(dask_workers, "SLICE", 0.0)
    return made


class Bench:
    """Workers of a client that is made up, with what they said."""

    def __init__(self, client: Client, clock: Clock, root: Path, cluster: str) -> None:
        self.client, self.clock, self.root = client, clock, root
        self.workers = DaskExecutor(
            cluster, 3, ClusterTls(off=cluster.startswith("tcp"))
        ).workers_in(root)
        self.updates: list[UnitUpdate] = []

    def submit(self, *seeds: int) -> list[str]:
        self.clock.now += REFRESH
        tasks = [UnitTask(small_training(seed), self.root) for seed in seeds]
        return [task.unit.id for task in self.workers.submit(tasks)]

    def poll(self, seconds: float = 0.5) -> list[UnitUpdate]:
        told, self.clock.ticks = len(self.updates), True
        self.workers.poll(seconds)
        self.clock.ticks = False
        return self.updates[told:]


@pytest.fixture
def begin(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, tmp_path: Path
) -> Iterator[Callable[..., Bench]]:
    contexts = []

    def begun(there: dict[str, Any], cluster: str = "tcp://host:1", slow: float = 0.0) -> Bench:
        client = Client(there)
        used = ClusterTls(off=cluster.startswith("tcp"))

        @contextmanager
        def connected(name: str, limit: int, tls: ClusterTls, root: Path) -> Iterator[Client]:
            assert (name, limit, tls, root) == (cluster, 3, used, tmp_path)
            clock.now += slow
            yield client

        monkeypatch.setattr(dask_workers, "connect_client", connected)
        bench = Bench(client, clock, tmp_path, cluster)
        context = bench.workers.start([], bench.updates.append, never_stop)
        context.__enter__()
        contexts.append((context, client))
        return bench

    yield begun
    for context, client in contexts:
        context.__exit__(None, None, None)
        assert client.handlers == {}


TWO = {"tcp://a": introduction(1), "tcp://b": introduction(2)}


def test_each_free_worker_is_given_one_unit_and_no_other_may_take_it(
    begin: Callable[..., Bench],
) -> None:
    bench = begin(TWO)
    assert bench.submit(0, 1, 2) == ["FR-II-s0", "FR-II-s1"]
    assert bench.submit(2) == []
    first, second = bench.client.jobs
    assert [job.task.unit for job in (first, second)] == [small_training(0), small_training(1)]
    assert first.task.root == bench.root
    keys = [job.options.pop("key") for job in (first, second)]
    assert keys[0].startswith("dgn-FR-II-s0-")
    assert first.options == {
        "workers": ["tcp://a"],
        "allow_other_workers": False,
        "retries": 0,
        "pure": False,
    }
    assert second.options["workers"] == ["tcp://b"]
    first.end("finished", UnitUpdate("FR-II-s0", "done").to_text())
    bench.poll()
    assert bench.submit(0) == ["FR-II-s0"]  # another time it is another task of Dask
    assert bench.client.jobs[2].options["key"] != keys[0]
    assert bench.client.jobs[2].options["workers"] == ["tcp://a"]


def test_what_a_task_answers_and_what_is_said_on_the_way_are_passed_on(
    begin: Callable[..., Bench],
) -> None:
    bench = begin(TWO)
    bench.submit(0, 1)
    running, done = UnitUpdate("FR-II-s0", "running", 0.5, 0.25), UnitUpdate("FR-II-s0", "done")
    bench.client.say(running)
    assert bench.poll() == [running]
    bench.client.say(UnitUpdate("somebody-else", "running"))
    bench.client.say(done)  # it comes as the answer too, and counts once
    assert bench.poll() == []
    assert bench.client.jobs[0].status == "pending"
    bench.client.jobs[0].end("finished", done.to_text())
    assert bench.poll() == [done]
    assert [job.released for job in bench.client.jobs] == [True, False]


def test_a_task_that_ends_in_a_fault_is_lost_with_its_words(begin: Callable[..., Bench]) -> None:
    bench = begin(TWO)
    bench.submit(0, 1)
    bench.client.jobs[0].end("error", ValueError("no such function"))
    bench.client.jobs[1].end("lost", None)
    assert bench.poll() == [
        UnitUpdate("FR-II-s0", "lost", trouble="tcp://a: no such function"),
        UnitUpdate("FR-II-s1", "lost", trouble="tcp://b: lost"),
    ]
    assert len(bench.submit(2, 3)) == 2, "both workers are free again"


def test_polling_ends_as_soon_as_something_is_over(begin: Callable[..., Bench]) -> None:
    bench = begin(TWO)
    bench.submit(0, 1)
    bench.client.jobs[0].end("finished", UnitUpdate("FR-II-s0", "done").to_text())
    before = bench.clock.now
    assert len(bench.poll(1e6)) == 1
    assert bench.clock.now < before + 100


def test_a_cancelled_unit_is_over_when_it_says_so_itself(begin: Callable[..., Bench]) -> None:
    bench = begin(TWO)
    bench.submit(0, 1)
    bench.workers.interrupt()
    assert [job.status for job in bench.client.jobs] == ["cancelled"] * 2
    assert bench.poll() == []
    left = UnitUpdate("FR-II-s1", "interrupted", 0.3)
    bench.client.say(left)
    assert bench.poll() == [left]
    assert [job.released for job in bench.client.jobs] == [False, True]


def test_units_of_a_worker_that_is_gone_are_lost_and_its_locks_do_not_count_any_more(
    begin: Callable[..., Bench],
) -> None:
    bench = begin(dict(TWO))
    bench.submit(0, 1)
    del bench.client.there["tcp://a"]
    bench.clock.now += REFRESH
    bench.poll()
    (lost,) = bench.updates
    assert (lost.unit, lost.state) == ("FR-II-s0", "lost")
    assert "tcp://a" in lost.trouble
    assert bench.client.jobs[0].status == "cancelled"
    assert bench.client.jobs[1].status == "pending"
    assert bench.submit(2) == []
    bench.client.there["tcp://c"] = introduction(3)
    assert bench.submit(0) == ["FR-II-s0"]
    again = bench.client.jobs[2]
    assert again.options["workers"] == ["tcp://c"]
    assert again.task.ended == (ProcessId(1, "node1"),)
    assert bench.client.asked == [["tcp://a", "tcp://b"], ["tcp://c"]]  # each once


def test_a_worker_with_the_number_of_one_that_is_gone_keeps_its_locks(
    begin: Callable[..., Bench],
) -> None:
    bench = begin(dict(TWO))
    bench.submit(0)
    for name in ("tcp://a", "tcp://b"):
        del bench.client.there[name]
    bench.client.there["tcp://c"] = introduction(1)  # in another container, say
    bench.clock.now += REFRESH
    bench.poll()
    assert bench.submit(0) == ["FR-II-s0"]
    assert bench.client.jobs[1].task.ended == (ProcessId(2, "node2"),)


def test_workers_are_asked_for_once_a_second_at_most(begin: Callable[..., Bench]) -> None:
    bench = begin(dict(TWO))
    bench.submit(0)
    bench.client.there["tcp://c"] = introduction(3)
    tasks = [UnitTask(small_training(seed), bench.root) for seed in (1, 2)]
    bench.clock.now += REFRESH / 2
    assert len(bench.workers.submit(tasks)) == 1
    bench.clock.now += REFRESH / 2
    assert len(bench.workers.submit(tasks[1:])) == 1


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (introduction(9, version="0.0"), f"0.0, but this is {__version__}"),
        (introduction(9, sees=False), "ROOT"),
        (ImportError("no module named dgn_engine"), "no module named dgn_engine"),
    ],
)
def test_a_worker_that_will_not_do_is_given_nothing_and_named_where_there_is_no_other(
    begin: Callable[..., Bench], said: Any, words: str
) -> None:
    bench = begin({"tcp://a": said, "tcp://b": introduction(2)})
    assert bench.submit(0, 1) == ["FR-II-s0"]
    assert bench.client.jobs[0].options["workers"] == ["tcp://b"]
    bench.submit(1)
    assert len(bench.client.asked) == 1  # it is not asked again
    del bench.client.there["tcp://b"]
    with refused("unfit") as found:
        bench.submit(1)
    for part in ("tcp://a", words.replace("ROOT", str(bench.root))):
        assert part in str(found.error)


def test_a_worker_that_begins_anew_where_one_would_not_do_is_asked_anew(
    begin: Callable[..., Bench],
) -> None:
    bench = begin({"tcp://a": introduction(9, version="0.0"), "tcp://b": introduction(2)})
    assert bench.submit(0, 1) == ["FR-II-s0"]
    del bench.client.there["tcp://a"]
    assert bench.submit(1) == []
    bench.client.there["tcp://a"] = introduction(9)
    assert bench.submit(1) == ["FR-II-s1"]


def test_a_scheduler_that_is_gone_is_told(begin: Callable[..., Bench]) -> None:
    bench = begin(TWO)
    bench.client.fault = OSError("Timed out")
    with refused("no-answer", value="tcp://host:1") as found:
        bench.submit(0)
    assert "(Timed out)" in str(found.error)


@pytest.mark.parametrize("cluster", ["tcp://host:1", "local", "slurm", "slurm:jobs=2"])
def test_a_cluster_without_workers_is_given_time_and_jobs_of_slurm_as_long_as_they_wait(
    begin: Callable[..., Bench], cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_workers, "replace_ended_jobs", lambda *_: 1)
    bench = begin({}, cluster)
    assert bench.submit(0) == []
    bench.clock.now += PATIENCE - 2 * REFRESH
    assert bench.submit(0) == []
    bench.client.there["tcp://a"] = introduction(1)
    assert bench.submit(0) == ["FR-II-s0"]
    bench.client.there.clear()
    bench.clock.now += PATIENCE - 2 * REFRESH  # counted from when there was one
    assert bench.submit(0) == []
    bench.clock.now += 3 * REFRESH
    if cluster.startswith("slurm"):
        assert bench.submit(0) == []
        return
    with refused("no-workers"):
        bench.poll()


@dataclass
class Slurm:
    """Jobs that are counted: how many there are, and how many were wanted at each question."""

    there: int | None
    refusal: str = ""
    wanted: list[int] = field(default_factory=list)

    @property
    def job_cls(self) -> Slurm:
        return self

    def replace(self, _: object, wanted: int) -> int | None:
        self.wanted.append(wanted)
        return self.there


REPLACE = 15.0


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    made = Slurm(1)
    monkeypatch.setattr(dask_workers, "replace_ended_jobs", made.replace)
    return made


def test_jobs_are_submitted_again_while_units_wait_and_no_more_than_are_of_use(
    begin: Callable[..., Bench], jobs: Slurm
) -> None:
    bench = begin(dict(TWO), "slurm:jobs=5")
    bench.client.cluster = jobs
    bench.clock.now += REPLACE
    bench.submit(0, 1)
    assert jobs.wanted == []  # nothing waits
    bench.submit(2, 3)
    assert jobs.wanted == [4]
    bench.submit(2, 3)
    assert jobs.wanted == [4]  # asked a moment ago
    bench.clock.now += REPLACE
    bench.submit(2, 3, 4, 5, 6)
    assert jobs.wanted == [4, 5]


@pytest.mark.parametrize(("refusal", "rounds"), [("", 4), ("sbatch: error: no such queue", 2)])
def test_a_sweep_whose_jobs_all_end_at_once_ends_in_a_sentence(
    begin: Callable[..., Bench], jobs: Slurm, refusal: str, rounds: int
) -> None:
    jobs.there, jobs.refusal = 0, refusal
    bench = begin({}, "slurm:jobs=2")
    bench.client.cluster = jobs
    for _ in range(rounds - 1):
        bench.clock.now += REPLACE
        assert bench.submit(0) == []
    bench.clock.now += REPLACE
    with refused("no-workers"):
        bench.submit(0)
    assert jobs.wanted == [1] * rounds


def test_jobs_that_ended_before_a_worker_came_count_no_more(
    begin: Callable[..., Bench], jobs: Slurm
) -> None:
    jobs.there = 0
    bench = begin({}, "slurm:jobs=2")
    bench.client.cluster = jobs
    for place in range(7):
        bench.client.there = {"tcp://a": introduction(1)} if place == 3 else {}
        bench.clock.now += REPLACE
        bench.submit(0, 1)
    bench.clock.now += REPLACE
    with refused("no-workers"):
        bench.submit(0, 1)


def test_a_job_that_waits_or_a_slurm_that_does_not_answer_ends_no_sweep(
    begin: Callable[..., Bench], jobs: Slurm
) -> None:
    bench = begin({}, "slurm:jobs=2")
    bench.client.cluster = jobs
    for there in (1, None) * 5:
        jobs.there = there
        bench.clock.now += REPLACE
        assert bench.submit(0) == []


def test_a_cluster_that_took_long_to_connect_has_its_time_all_the_same(
    begin: Callable[..., Bench],
) -> None:
    bench = begin({}, slow=2 * PATIENCE)
    assert bench.submit(0) == []


def test_what_runs_when_a_sweep_ends_is_cancelled_once(begin: Callable[..., Bench]) -> None:
    bench = begin(TWO)
    bench.submit(0, 1)
    bench.client.jobs[0].cancel = pytest.fail  # type: ignore[method-assign,assignment]
    bench.client.jobs[0].status = "cancelled"
    bench.workers.interrupt()
    assert bench.client.jobs[1].status == "cancelled"


# on the worker


def test_a_worker_says_who_it_is_and_whether_it_sees_the_folder(tmp_path: Path) -> None:
    said = json.loads(dask_task.describe_worker(str(tmp_path)))
    assert said == {
        "pid": os.getpid(),
        "host": platform.node(),
        "version": __version__,
        "sees": False,
    }
    (tmp_path / "lock").touch()
    assert json.loads(dask_task.describe_worker(str(tmp_path)))["sees"] is True


class Status:
    name = "running"


class Worker:
    """A Dask worker within one of its tasks, whose `states` it goes through."""

    def __init__(self, states: list[str | None]) -> None:
        self.states, self.status, self.logged = states, Status(), list[tuple[str, str]]()
        self.state = self

    @property
    def tasks(self) -> dict[str, Any]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        task = Status()
        task.state = state  # type: ignore[attr-defined]
        return {} if state is None else {"key": task}

    def get_current_task(self) -> str:
        return "key"

    def log_event(self, topic: str, update: str) -> None:
        self.logged.append((topic, update))


@pytest.mark.parametrize(
    ("states", "status", "heard"),
    [
        (["executing"], "running", False),
        (["long-running"], "paused", False),
        (["executing", "cancelled"], "running", True),
        ([None], "running", True),
        (["executing"], "closing", True),
    ],
)
def test_the_last_update_of_a_task_that_nobody_waits_for_goes_the_way_of_its_progress(
    monkeypatch: pytest.MonkeyPatch, states: list[str | None], status: str, heard: bool
) -> None:
    task, last = UnitTask(small_training(0), Path("root")), UnitUpdate("s0", "done")
    first = UnitUpdate("s0", "running")
    at_once = bool(heard) and len(states) == 1
    worker = Worker(states)
    worker.status.name = status
    asked: list[bool] = []

    def attempt(given: UnitTask, send: OnUpdate, unwanted: Callable[[], bool]) -> UnitUpdate:
        assert given == task
        send(first)
        asked.append(unwanted())
        return last

    monkeypatch.setattr(dask_task, "get_worker", lambda: worker)
    monkeypatch.setattr("dgn_engine.sweep.workers.attempt.attempt_unit", attempt)
    assert dask_task.carry_out_here(task.to_text(), "topic") == last.to_text()
    assert worker.logged == [("topic", one.to_text()) for one in (first, *([last] * heard))]
    assert asked == [at_once]
