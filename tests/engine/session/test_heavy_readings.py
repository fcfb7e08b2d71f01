"""Heavy readings of a session, with a real reading process; and other probe examples."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn_engine.config import NetConfig
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Refused
from dgn_engine.protocol.runs import ContinueRun
from dgn_engine.protocol.training import Reset, RunStarted, StartRun, SwapRegime, Undo
from dgn_engine.protocol.watching import (
    CancelReading,
    GoOnReading,
    ProbeRequest,
    ProbeScalars,
    ProbeSetChanged,
    SetProbeExamples,
    Watch,
)
from dgn_engine.training.readings import first_slices, probe_schedule, reading_sizes
from dgn_engine.training.readings.process_readings import ProcessReadings, ReadingProcess
from tests.engine.session.conftest import PATIENT, Desk, small_config, train_alone

KERNELS = Watch(tuple(ProbeRequest(name) for name in ("gates", "overlap", "npk", "ntk")))


@pytest.fixture
def all_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading that costs anything goes to the reading process, its first slice too."""
    monkeypatch.setattr(reading_sizes, "UNSURE", 0.0)
    monkeypatch.setattr(reading_sizes, "FIRST_LOOK", 0.0)
    monkeypatch.setattr(first_slices, "LONGEST_SLICE", -1.0)


def reading(desk: Desk, probe: str = "npk") -> Reading | None:
    return desk.frames[-1].readings.get(probe) if desk.frames else None


def shown(desk: Desk, probe: str = "npk") -> Reading:
    found = reading(desk, probe)
    assert found is not None
    return found


def exact(desk: Desk, probe: str = "npk") -> bool:
    found = reading(desk, probe)
    return found is not None and not found.absent and found.progress == 1.0 and not found.cancelled


def _processes(desk: Desk) -> ProcessReadings:
    executor = desk.engine.state.executors.executor
    assert isinstance(executor, ProcessReadings)
    return executor


def child_of(desk: Desk) -> ReadingProcess:
    child = _processes(desk)._process
    assert isinstance(child, ReadingProcess)
    return child


def gone(pid: int) -> bool:
    """No process has this number, or only one that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + PATIENT
    while not gone(pid):
        assert time.monotonic() < end
        time.sleep(0.01)


def traced(desk: Desk) -> set[str]:
    """Probes whose scalars of step 0 were told."""
    return {e.probe for e in desk.events if isinstance(e, ProbeScalars) if e.step == 0}


@pytest.mark.usefixtures("all_heavy")
def test_a_reading_process_reads_what_would_be_read_here_and_training_does_not_notice(
    desk: Desk,
) -> None:
    desk.handle(KERNELS, StartRun(small_config(), paused=True))
    desk.advance_until(lambda: all(exact(desk, probe) for probe in ("overlap", "npk", "ntk")))
    run = desk.run
    for name in ("overlap", "npk", "ntk"):
        found = shown(desk, name)
        assert (found.step, found.error, found.examples) == (0, 0.0, 0)
        assert found.remark == "20 probe examples, exact"
        here = probe_schedule.all_probes()[name].read(run.probed.probe_context(), {}, None)
        assert set(here.arrays) <= set(found.arrays)
        for key, array in here.arrays.items():
            np.testing.assert_allclose(found.arrays[key], array, rtol=1e-4, atol=1e-5)
    desk.advance_until(lambda: {"npk", "ntk"} <= traced(desk))  # told when the job is over
    desk.train(5)
    desk.handle(SetProbeExamples(30))
    desk.train(15)
    assert all(
        map(
            torch.equal,
            desk.copy_value_weights(),
            train_alone(small_config(), 20).trainer.network.value.weights,
        )
    )
    pid = child_of(desk).pid
    desk.engine.close()
    assert gone(pid)


@pytest.mark.usefixtures("all_heavy")
def test_a_cancelled_reading_goes_on_and_one_whose_process_is_killed_is_a_sentence(
    desk: Desk,
) -> None:
    desk.handle(Watch((ProbeRequest("npk"),)), StartRun(small_config(), paused=True))
    desk.advance_until(lambda: exact(desk))
    for regime in ("FR-II", "FR-DI"):
        child = child_of(desk)
        os.kill(child.pid, signal.SIGSTOP)  # it must not be quicker than we are
        desk.handle(SwapRegime(regime))
        assert reading(desk) is None, "nothing of the old network is shown, from this moment on"
        desk.advance(1)
        assert shown(desk).pending
        if regime == "FR-II":
            desk.handle(CancelReading(("npk",)))
            desk.advance(1)
            assert (shown(desk).cancelled, shown(desk).pending) == (True, False)
            os.kill(child.pid, signal.SIGCONT)
            desk.handle(GoOnReading(("npk",)))
            desk.advance_until(lambda: exact(desk))
            desk.train(3)
    child._process.kill()
    desk.advance_until(lambda: shown(desk).facts.get("fault") == "no picture")
    assert "memory" in shown(desk).absent
    assert shown(desk).cancelled
    desk.train(2)
    desk.handle(GoOnReading(("npk",)))
    desk.advance_until(lambda: exact(desk))
    assert shown(desk).step == 5
    child = child_of(desk)
    child._process.stdin.close()  # as when its parent is killed
    wait_until_gone(child.pid)


@pytest.mark.usefixtures("all_heavy")
def test_before_the_first_step_there_is_a_picture_even_if_the_process_is_not_ready(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_slices, "LONGEST_SLICE", 1.0)
    desk.handle(KERNELS, StartRun(small_config(), paused=True))
    os.kill(child_of(desk).pid, signal.SIGSTOP)
    try:
        desk.train(3)
        for name in ("overlap", "npk", "ntk"):
            found = shown(desk, name)
            assert (found.step, found.absent) == (0, "")
            assert found.progress < 1.0
        alone = train_alone(small_config(), 3).trainer.network.value.weights
        assert all(map(torch.equal, desk.copy_value_weights(), alone))
    finally:
        os.kill(child_of(desk).pid, signal.SIGCONT)


def test_the_process_is_there_before_a_network_that_will_need_it_and_not_beside_a_small_one(
    desk: Desk,
) -> None:
    worker = _processes(desk)
    desk.handle(StartRun(small_config(), paused=True))
    assert worker._process is None
    desk.engine._heavy.prepare_executor(replace(small_config(), net=NetConfig("cnn4")))
    assert worker._process is not None
    desk.handle(StartRun(small_config(), paused=True))
    assert worker._process is None
    desk.engine._heavy.prepare_executor(small_config())
    assert worker._process is None


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="kill -9 and /proc")
def test_a_reading_process_does_not_outlive_a_parent_that_is_killed() -> None:
    script = (
        "import time\n"
        "from dgn_engine.training.readings.process_readings import ReadingProcess\n"
        "child = ReadingProcess()\n"
        "while not child.take_answers(): time.sleep(0.01)\n"  # it is ready
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
    finally:
        parent.kill()
        parent.communicate()
    wait_until_gone(pid)


# other probe examples


def test_other_probe_examples_are_those_that_a_run_with_this_number_begins_with(
    desk: Desk,
) -> None:
    desk.handle(KERNELS, StartRun(small_config(), paused=True))
    desk.train(2)
    desk.handle(SetProbeExamples(40))
    run = desk.run
    other = Desk()
    other.handle(StartRun(replace(small_config(), probe_examples=40), paused=True))
    twin = other.run
    assert run.probed.probe_set == twin.probed.probe_set
    assert torch.equal(run.probed.probe_context().x, twin.probed.probe_context().x)
    other.engine.close()
    changed = desk.last_event(ProbeSetChanged)
    assert changed == ProbeSetChanged(2, 40, run.probed.probe_set.digest)
    desk.advance_until(lambda: exact(desk))
    assert shown(desk).arrays["npk"].shape == (40, 40)
    scalars = [e for e in desk.events if isinstance(e, ProbeScalars) if e.probe == "npk"]
    assert (scalars[0].examples, scalars[-1].examples) == (0, 40)
    told_so_far = len(desk.events)
    desk.handle(SetProbeExamples(40))
    again = desk.events[told_so_far:]
    assert not any(isinstance(event, ProbeSetChanged) for event in again)
    desk.handle(SetProbeExamples(1))
    assert isinstance(desk.events[-1], Refused)
    desk.handle(SetProbeExamples(20))
    desk.advance_until(lambda: exact(desk))
    scalars = [e for e in desk.events if isinstance(e, ProbeScalars) if e.probe == "npk"]
    assert scalars[-1].examples == 0


def test_chosen_probe_examples_outlive_reset_undo_and_resume(recording_desk: Desk) -> None:
    recording_desk.handle(StartRun(small_config(), paused=True))
    recording_desk.train(3)
    recording_desk.handle(SetProbeExamples(30), SwapRegime("FR-II"), Undo())
    assert len(recording_desk.run.probed.probe_set.indices) == 30
    digest = recording_desk.run.probed.probe_set.digest
    recording_desk.train(2)
    folder = recording_desk.recording.path
    recording_desk.handle(
        StartRun(small_config(), paused=True), ContinueRun(str(folder), paused=True)
    )
    run = recording_desk.run
    assert (run.config.probe_examples, run.probed.probe_set.digest) == (30, digest)
    started = recording_desk.last_event(RunStarted)
    assert (started.config.probe_examples, started.began_with) == (30, 20)
    recording_desk.handle(Reset())
    assert recording_desk.run.probed.probe_set.digest == digest
    recording_desk.handle(SetProbeExamples(20), Reset())
    started = recording_desk.last_event(RunStarted)
    assert (len(started.probe_set.indices), started.began_with) == (20, 0)
