"""The engine's process is killed, or CUDA breaks in it: another goes on from the checkpoint."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.messages import (
    EngineAnswered,
    EngineRestarted,
    EngineSilent,
    Event,
    Failed,
    Stopped,
)
from dgn_engine.protocol.training import (
    Advance,
    Pause,
    Paused,
    RegimeSwapped,
    Resume,
    SetLearningRate,
    SettingChanged,
    StartRun,
    SwapRegime,
)
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.run import Run
from dgn_engine.training.run_snapshot import restore_run
from tests.engine.sweep.listeners import find_descendants
from tests.faults.faulty_engine import BREAKS_AT, serve_until_cuda_breaks
from tests.faults.reference_runs import assert_sound
from tests.faults.tables import Table
from tests.faults.victims import environment_with_path

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
STANDS = 60.0  # seconds
CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(learning_rate=1e-3, epochs=0, pace=100.0),
    probe_examples=20,
    device="cpu",
)
Some = TypeVar("Some")


class Heard:
    """A session and what it has said."""

    def __init__(self, session: ProcessSession) -> None:
        self.session = session
        self.events: list[Event] = []
        self.steps: list[int] = []

    def all_of(self, kind: type[Some]) -> list[Some]:
        self.events += self.session.drain_events()
        frame = self.session.take_latest_frame()
        if frame is not None:
            self.steps.append(frame.step)
        return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type[Some], count: int = 1) -> Some:
        deadline = time.monotonic() + 600.0
        while len(self.all_of(kind)) < count:
            assert time.monotonic() < deadline, self.events[-5:]
            time.sleep(0.005)
        return self.all_of(kind)[count - 1]

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + 600.0
        while self.all_of(Stopped) or not self.steps or self.steps[-1] < step:
            assert time.monotonic() < deadline, self.events[-5:]
            time.sleep(0.005)


@pytest.fixture
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Heard]:
    found = Heard(ProcessSession(runs_root=str(tmp_path), serve=request.param))
    found.session.start()
    yield found
    assert found.session.close()
    assert multiprocessing.active_children() == []


def begin(heard: Heard) -> None:
    """A run whose step 40 is kept in a checkpoint."""
    heard.session.send(Watch((ProbeRequest("gates"),)))
    heard.session.send(StartRun(CONFIG, paused=True))
    heard.session.send(Advance(40))
    heard.wait_for(Paused)
    heard.session.send(SwapRegime("FR-II"))  # before which a checkpoint is written
    heard.wait_for(RegimeSwapped)
    heard.session.send(Resume())


def kill() -> None:
    (child,) = multiprocessing.active_children()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)


def assert_undisturbed(heard: Heard, tmp_path: Path) -> None:
    """The run that went on is the one that was never interrupted, bit for bit."""
    heard.session.send(Pause())
    heard.wait_for(Paused, len(heard.all_of(Paused)) + 1)
    assert heard.session.close()
    (path,) = tmp_path.iterdir()
    assert_sound(path)
    reader = RunReader(path)
    step = reader.checkpoints[-1].step
    folder = RunFolder(path)
    snapshot = folder.newest_snapshot()
    folder.close()
    assert snapshot is not None
    runs = [Run(1, CONFIG, lambda _: None, lambda *_: None, live=False) for _ in range(2)]
    restore_run(runs[0], snapshot)
    while runs[1].step_count < step:  # the swap came after the checkpoint, and is undone
        runs[1].step()
    for name, tensor in runs[1].trainer.network.state_dict().items():
        assert torch.equal(runs[0].trainer.network.state_dict()[name], tensor), name


@pytest.mark.parametrize("heard", [None], indirect=True, ids=["real"])
def test_a_killed_engine_process_is_replaced_once_a_minute(
    heard: Heard, tmp_path: Path, table: Table
) -> None:
    row = table.row("SIGKILL of the engine's process (--process)")
    begin(heard)
    heard.wait_for_step(90)
    kill()
    row.injected += 1
    restarted = heard.wait_for(EngineRestarted)
    assert restarted.how == "signal 9"
    assert restarted.undone == ("regime FR-II",) or restarted.step > 40
    assert 40 <= restarted.step <= restarted.died_at
    row.lost = restarted.died_at - restarted.step
    heard.steps.clear()
    heard.wait_for_step(restarted.died_at + 20)
    assert not heard.all_of(Failed)
    row.survived += 1
    kill()
    row.injected += 1
    heard.wait_for(Stopped)
    (failed,) = heard.all_of(Failed)
    (folder,) = tmp_path.iterdir()
    assert f"kept in {folder}" in failed.what
    assert heard.session.resumable_folder == str(folder)
    assert_sound(folder)
    row.survived += 1
    row.remark = "the first goes on; a second within a minute stays down, with a notice"


@pytest.mark.parametrize("heard", [serve_until_cuda_breaks], indirect=True, ids=["cuda"])
def test_a_fault_of_cuda_costs_the_process_and_not_the_run(
    heard: Heard, tmp_path: Path, table: Table
) -> None:
    row = table.row("a CUDA fault in the engine's process")
    begin(heard)
    row.injected += 1
    restarted = heard.wait_for(EngineRestarted)
    assert restarted.how == "a CUDA fault"
    assert "device-side assert" in heard.wait_for(Failed).what
    row.lost = max(0, BREAKS_AT - restarted.step)
    heard.wait_for_step(BREAKS_AT + 40)
    assert_undisturbed(heard, tmp_path)
    row.survived += 1
    row.remark = "another process goes on from the checkpoint, bit for bit"


@pytest.mark.parametrize("heard", [None], indirect=True, ids=["real"])
def test_an_engine_that_stands_still_for_a_minute_goes_on_with_all_it_was_asked(
    heard: Heard, tmp_path: Path, table: Table
) -> None:
    row = table.row("SIGSTOP of the engine's process for a minute, then SIGCONT")
    begin(heard)
    heard.wait_for_step(60)
    (child,) = multiprocessing.active_children()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    row.injected += 1
    until = time.monotonic() + STANDS
    longest = 0.0  # that giving a command took
    for turn in range(500):  # more than a pipe holds
        before = time.monotonic()
        heard.session.send(SetLearningRate(1e-3 / (1 + turn)))
        longest = max(longest, time.monotonic() - before)
    heard.session.send(SwapRegime("DL"))
    heard.wait_for(EngineSilent)
    while time.monotonic() < until:
        heard.all_of(Event)
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGCONT)
    answered = heard.wait_for(EngineAnswered)
    assert answered.seconds > STANDS - 5.0
    swapped = heard.wait_for(RegimeSwapped, 2)
    assert swapped.after == "DL"
    assert heard.all_of(SettingChanged)[-1].learning_rate == pytest.approx(1e-3 / 500)
    heard.wait_for_step(swapped.step + 20)
    assert not heard.all_of(Failed)
    assert heard.session.close(60.0)
    (folder,) = tmp_path.iterdir()
    assert_sound(folder)
    row.survived += 1
    row.remark = (
        f"told after {heard.all_of(EngineSilent)[0].seconds:.0f} s; 501 commands given meanwhile "
        f"({longest * 1000:.0f} ms at most) are obeyed afterwards, none is lost"
    )


WINDOW = """
import sys, time
from dataclasses import replace
from dgn_engine.protocol.training import StartRun
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session.process_session import ProcessSession
from dgn_engine.config import NetConfig
from tests.faults.test_process_faults import CONFIG

HEAVY = replace(CONFIG, net=NetConfig(options=(("width", 256), ("depth", 6))), probe_examples=300)

if __name__ == "__main__":
    session = ProcessSession(runs_root=sys.argv[1])
    session.start()
    session.send(Watch(tuple(map(ProbeRequest, ("gates", "npk", "ntk")))))
    session.send(StartRun(HEAVY))
    while (frame := session.take_latest_frame()) is None or frame.step < 50:
        session.drain_events()
        time.sleep(0.01)
    print("trains", flush=True)
    time.sleep(3600)
"""


def test_engine_and_reading_process_end_after_a_killed_window_and_the_run_is_saved(
    tmp_path: Path, table: Table
) -> None:
    row = table.row("SIGKILL of the window's process (--process)")
    (tmp_path / "window.py").write_text(WINDOW)
    (tmp_path / "runs").mkdir()
    window = subprocess.Popen(
        [sys.executable, str(tmp_path / "window.py"), str(tmp_path / "runs")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment_with_path(),
    )
    try:
        assert window.stdout is not None
        assert window.stdout.readline() == "trains\n"
        begun = time.monotonic()
        while (
            len(children := find_descendants(window.pid)) < 3
        ):  # engine, reading process, Python's own
            assert time.monotonic() - begun < 600.0
            time.sleep(0.05)
    finally:
        window.kill()
        window.communicate()
    row.injected += 1
    killed = time.monotonic()
    while left := [one for one in children if Path(f"/proc/{one}").exists()]:
        assert time.monotonic() - killed < 600.0, left
        time.sleep(0.05)
    (folder,) = (lock.parent for lock in (tmp_path / "runs").glob("*/lock"))
    assert_sound(folder)
    reader = RunReader(folder)
    row.lost = max(0, reader.measured_events[-1].step - reader.checkpoints[-1].step)
    row.survived += 1
    row.remark = f"{len(children)} processes end by themselves, the engine saves its run"
