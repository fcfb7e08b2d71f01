"""SIGINT, SIGTERM, SIGHUP and SIGUSR1: what runs is saved, the exit code is 128 + n."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dgn_engine.cli import ended_by_signal, main
from dgn_engine.config import DataConfig
from dgn_engine.data import Examples, Report
from dgn_engine.session import stop_signals
from dgn_engine.session.stop_signals import StopSignals
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training import run as run_module
from dgn_engine.training.trainer import Trainer
from tests.engine.confinement.living import open_files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
SMALL = ["--width", "8", "--depth", "3", "--epochs", "2", "--train-limit", "200", "--quiet"]


def signalled(number: int) -> Callable[[], float]:
    """A pace at which a signal comes while the run trains; after it there is a second for a step,
    in which whoever asks for signals has noticed it."""
    asked = iter(range(1_000_000))

    def pace() -> float:
        turn = next(asked)
        if turn == 5:
            os.kill(os.getpid(), number)
        return 0.0 if turn < 5 else 1.0

    return pace


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stopped."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    assert main(["train", *SMALL, "--out", str(path)]) == 0
    return path


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_run_that_a_signal_stopped_goes_on_bit_for_bit(
    number: signal.Signals, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice: a run that is gone on with is stopped by a signal, too."""
    stopped = tmp_path / "stopped"
    before = [signal.getsignal(one) for one in SIGNALS]
    first = ["train", *SMALL, "--out", str(stopped)]
    again = ["train", "--resume", str(stopped), "--quiet"]
    steps = [0]
    for words in (first, again):
        assert main(words, signalled(number)) == 128 + number
        assert [signal.getsignal(one) for one in SIGNALS] == before
        assert str(stopped) in capsys.readouterr().err
        steps.append(RunReader(stopped).checkpoints[-1].step)
        assert steps[-2] < steps[-1] < RunReader(whole).checkpoints[-1].step
        assert [str(one) for one in find_damage(stopped)] == []
        assert (stopped / "weights.safetensors").exists()
    assert main(again) == 0
    ends = [load_file(path / "weights.safetensors") for path in (whole, stopped)]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0] | ends[1])
    assert RunReader(whole).measured_events == RunReader(stopped).measured_events


def reading_for_ever(number: int) -> Callable[[DataConfig, Report], Examples]:
    def endless(_config: DataConfig, report: Report) -> Examples:
        os.kill(os.getpid(), number)
        while True:
            report("reading for ever", None)

    return endless


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_while_data_are_read_leaves_no_run_and_changes_none(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "load_examples", reading_for_ever(number))
        assert main(["train", *SMALL, "--out", str(path)]) == 128 + number
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert main(["train", *SMALL, "--out", str(path)], signalled(number)) == 128 + number
    before = {one: one.read_bytes() for one in path.rglob("*") if one.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "load_examples", reading_for_ever(number))
        assert main(["train", "--resume", str(path)]) == 128 + number
    assert {one: one.read_bytes() for one in path.rglob("*") if one.is_file()} == before
    assert main(["train", "--resume", str(path), "--quiet"]) == 0


SWEEP = """
[base]
device = "cpu"
data.train_limit = 200
net.options = {width = 8, depth = 3}
training.epochs = 2
[grid]
seed = [0, 1]
"""


def test_a_stopped_sweep_keeps_what_is_done_and_saves_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    command = ["sweep", str(tmp_path / "sweep.toml"), "--executor", "serial", "--quiet"]
    seen: list[Trainer] = []
    take, told = Trainer.step, threading.Event()

    def taken(trainer: Trainer) -> None:
        take(trainer)
        if trainer not in seen:
            seen.append(trainer)
        if len(seen) == 2 and trainer.step_count == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            told.wait(0.05)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", taken)
        assert main([*command, "--out", str(tmp_path / "out")]) == 128 + signal.SIGTERM
    assert capsys.readouterr().err.count("\n") == 1
    done, begun = (RunReader(tmp_path / "out" / "units" / f"seed={n}") for n in (0, 1))
    assert done.checkpoints[-1].finished
    assert 3 <= begun.checkpoints[-1].step < done.checkpoints[-1].step
    assert main([*command, "--out", str(tmp_path / "out")]) == 0


# A command that waits for ever, and what is sent to it.
WAITS = """
import os, signal, sys, time
from dgn_engine.session import stop_signals
stop_signals.SAME = float(sys.argv[1])
with stop_signals.StopSignals() as stop:
    print("ready", flush=True)
    while not stop.stop_requested():
        time.sleep(0.01)
    print("asked", flush=True)
    if len(sys.argv) > 2:
        time.sleep(float(sys.argv[2]))
        sys.exit(stop.exit_code)
    while True:
        sum(range(10**6))  # no time for signals in between
"""


@contextmanager
def waiting(*arguments: str, ignored: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that stays until signals end it, and does not outlive the test."""

    def ignore() -> None:
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)

    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=ignore,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_a_second_signal_ends_the_process_at_once() -> None:
    with waiting("0") as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 128 + signal.SIGHUP


def test_ctrl_c_is_a_second_signal_however_soon_it_comes() -> None:
    with waiting("3600") as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT


def test_a_storm_of_signals_within_a_moment_is_one_request() -> None:
    """A terminal that is closed sends SIGHUP twice; some supervisors send SIGTERM and SIGHUP."""
    with waiting("3600", "0.3") as process:
        for _ in range(50):
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (128 + signal.SIGHUP, 128 + signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.read() == "asked\n"


def test_what_is_ignored_stays_ignored_as_nohup_wants_it() -> None:
    with waiting("0", "0", ignored=signal.SIGHUP) as process:
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) == 128 + signal.SIGUSR1


def test_nothing_is_left_behind_whether_or_not_a_signal_came() -> None:
    before, woken = signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(woken)
    threads, files = threading.active_count(), open_files()
    for number in (None, signal.SIGTERM, signal.SIGHUP):
        noticed = threading.Event()
        with StopSignals(noticed.set) as stop:
            assert not stop.stop_requested()
            if number is not None:
                os.kill(os.getpid(), number)
                assert noticed.wait(60)
                assert stop.stop_requested()
            assert stop.exit_code == 128 + (number or signal.SIGINT)
        assert signal.getsignal(signal.SIGTERM) == before
        assert signal.set_wakeup_fd(woken) == woken
        assert (threading.active_count(), open_files()) == (threads, files)


def test_exit_codes_of_signals_are_told_from_others() -> None:
    assert [code for code in (0, 1, 3, 127, 128, 130, 143, 255) if ended_by_signal(code)] == [
        130,
        143,
    ]
    assert set(stop_signals.STOPPING) == {one.name for one in SIGNALS}
