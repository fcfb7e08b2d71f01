"""A process of units from its own side: what it is told and answers, and where it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.confinement import child_entry
from dgn_engine.sweep.unit import OnUpdate, UnitTask, UnitUpdate
from dgn_engine.sweep.workers import attempt, unit_child
from dgn_engine.sweep.workers.unit_child import STOP, serve_units
from tests.engine.sweep.small import small_training

IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class Parent:
    """The other end of a pipe, and the pipe: what the child is told, what it answers."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.answers: list[tuple[str, str]] = []
        self.gone = self.closed = False

    def tell(self, *seeds: int) -> None:
        tasks = [UnitTask(small_training(seed), Path("/sweep")).to_text() for seed in seeds]
        self.told.append(json.dumps(tasks).encode())

    def stop(self) -> None:
        self.told.append(STOP.encode())

    def poll(self, seconds: float = 0.0) -> bool:
        assert self.told or self.gone or not seconds, "the child would wait for ever"
        return bool(self.told) or self.gone

    def recv_bytes(self) -> bytes:
        if self.gone:
            raise EOFError
        assert self.told, "the child would wait for ever"
        return self.told.pop(0)

    def send_bytes(self, content: bytes) -> None:
        if self.gone:
            raise BrokenPipeError
        update = UnitUpdate.from_text(content.decode())
        self.answers.append((update.unit.removeprefix("FR-II-"), update.state))

    def close(self) -> None:
        self.closed = True

    @property
    def pipe(self) -> Any:
        return self


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parent]:
    """Of a child whose output stays where it is, and whose units are quick."""
    signals: list[object] = []
    redirected: list[Path] = []
    monkeypatch.setattr(unit_child, "_redirect_output", redirected.append)
    monkeypatch.setattr(signal, "signal", lambda *given: signals.append(given))
    monkeypatch.setattr(child_entry, "end_after_parent", lambda: None)
    monkeypatch.setattr(attempt, "attempt_unit", one)
    monkeypatch.setattr(attempt, "attempt_pack", several)
    monkeypatch.setenv("DGN_CHILD", "no")
    made = Parent()
    yield made
    assert made.closed
    *ignored, (term, _) = signals  # Ctrl-C and a closed terminal are for its parent
    assert ignored == [(one, signal.SIG_IGN) for one in IGNORED]
    assert term == signal.SIGTERM
    assert redirected == [Path("log.txt")]
    assert os.environ["DGN_CHILD"] == "yes"


def serve_from(parent: Parent) -> None:
    serve_units(parent.pipe, {"DGN_CHILD": "yes"}, "log.txt")


def one(task: UnitTask, on_update: OnUpdate, stopped: Callable[[], bool]) -> UnitUpdate:
    on_update(UnitUpdate(task.unit.id, "running"))
    return UnitUpdate(task.unit.id, "interrupted" if stopped() else "done")


def several(
    tasks: Sequence[UnitTask],
    on_update: Callable[[UnitUpdate], None],
    stopped: Callable[[], bool],
) -> list[UnitUpdate]:
    on_update(UnitUpdate(tasks[0].unit.id, "running"))
    state = "interrupted" if stopped() else "done"
    return [UnitUpdate(task.unit.id, state) for task in tasks]


def test_tasks_are_carried_out_in_turn_one_by_one_or_as_a_pack_until_it_is_told_to_stop(
    parent: Parent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_child, "EVERY", 1e9)  # so that nothing is read in between
    parent.tell(0)
    parent.tell(1, 2)
    parent.tell(3)
    parent.stop()
    parent.tell(4)
    serve_from(parent)
    assert parent.answers == [
        ("s0", "running"),
        ("s0", "done"),
        ("s1", "running"),
        ("s1", "done"),
        ("s2", "done"),
        ("s3", "running"),
        ("s3", "done"),
    ]


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_a_stop_that_comes_while_a_unit_runs_ends_the_process_after_it(
    parent: Parent, seeds: tuple[int, ...]
) -> None:
    parent.tell(*seeds)
    parent.stop()
    serve_from(parent)
    assert parent.answers[1:] == [(f"s{seed}", "interrupted") for seed in seeds]


def test_a_process_whose_parent_is_gone_ends(parent: Parent) -> None:
    parent.gone = True
    serve_from(parent)


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(unit_child, "time", made)
    return made


def test_the_pipe_is_asked_ten_times_a_second_at_most_and_a_stop_is_not_forgotten(
    clock: Clock,
) -> None:
    parent = Parent()
    told = unit_child._Parent(parent.pipe)
    assert not told.wants_stop()
    parent.stop()
    clock.now += 0.09
    assert not told.wants_stop()
    clock.now += 0.02
    assert told.wants_stop()
    assert told.wants_stop()
    assert not parent.told


def test_what_is_not_a_stop_does_not_stop_and_a_parent_that_is_gone_does(clock: Clock) -> None:
    parent = Parent()
    told = unit_child._Parent(parent.pipe)
    parent.tell(0)
    assert not told.wants_stop()
    parent.gone = True
    clock.now += 1
    assert told.wants_stop()
    deaf = unit_child._Parent(parent.pipe)
    assert not deaf.stopped
    deaf.send_update(UnitUpdate("s0", "running"))
    assert deaf.stopped


PRINTS = """
import os, sys
from pathlib import Path
from dgn_engine.sweep.workers.unit_child import _redirect_output
print("before", flush=False)
print("wrong before", file=sys.stderr)
_redirect_output(Path(sys.argv[1]))
print("out")
print("err", file=sys.stderr)
sys.stdout.flush()
os.system("echo of a child")
"""


def test_all_that_is_printed_goes_into_a_fresh_log_to_the_last_word(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("of another process\n")
    done = subprocess.run(
        [sys.executable, "-c", PRINTS, str(log)], capture_output=True, text=True, check=True
    )
    assert sorted(log.read_text().splitlines()) == ["err", "of a child", "out"]
    assert (done.stdout, done.stderr) == ("before\n", "wrong before\n")
    assert log.stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


OF_A_SWEEP = """
import json, multiprocessing, sys, time
from multiprocessing.connection import Pipe
from pathlib import Path
from dgn_engine.confinement import parent_watch
from dgn_engine.sweep.unit import UnitUpdate
from dgn_engine.sweep.workers import unit_child

def calculate(tasks, parent):  # it asks nobody whether it should stop
    parent.send_update(UnitUpdate("task", "running"))
    time.sleep(3600)

def serve(pipe, log):
    parent_watch.LEAVE = 0.1
    unit_child._carry_out = calculate
    unit_child.serve_units(pipe, {}, log)

if __name__ == "__main__":
    ours, theirs = Pipe()
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=serve, args=(theirs, sys.argv[1]))
    child.start()
    theirs.close()
    if sys.argv[2] == "busy":
        ours.send_bytes(json.dumps(["task"]).encode())
        assert b"running" in ours.recv_bytes()
    print(child.pid, flush=True)
    time.sleep(3600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who lives")
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_process_ends_after_its_parent_was_killed_whatever_it_does(
    state: str, tmp_path: Path
) -> None:
    script = tmp_path / "sweep.py"
    script.write_text(OF_A_SWEEP)
    parent = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "log"), state],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 60.0
    while alive(child):
        assert time.monotonic() < until
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_sigterm_is_a_stop(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Callable[..., None]] = {}
    note = signal.signal

    def install(number: int, handler: Callable[..., None]) -> None:
        note(number, handler)
        handlers[number] = handler

    monkeypatch.setattr(signal, "signal", install)

    def interrupted(task: UnitTask, on_update: OnUpdate, stopped: Callable[[], bool]) -> UnitUpdate:
        handlers[signal.SIGTERM](signal.SIGTERM, None)
        return one(task, on_update, stopped)

    monkeypatch.setattr(attempt, "attempt_unit", interrupted)
    parent.tell(0)
    parent.tell(1)
    serve_from(parent)
    assert parent.answers == [("s0", "running"), ("s0", "interrupted")]
