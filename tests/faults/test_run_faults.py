"""Runs that are killed, starved, damaged and fought over: reopened, verified, gone on with, equal.

Each kind of fault adds a row to the table that is printed at the end.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load

from dgn_engine.errors import UserError
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.storage.atomic_write import find_leftovers
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.headless_run import HeadlessRun
from tests.faults.reference_runs import (
    Reference,
    assert_equal,
    assert_sound,
    continue_run,
    fill_disk,
)
from tests.faults.tables import Table
from tests.faults.victims import Victim, fork_dgn

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

KILLS = 200
SESSION_KILLS = 50
FURTHER = 20  # steps that a session's run is gone on with


def lost_steps(path: Path, at_kill: int) -> int:
    """Between the kill and the step at which the run then went on."""
    continued = [event for event in RunReader(path).events if isinstance(event, RunContinued)]
    return max(0, at_kill - continued[-1].step) if continued else 0


def test_sigkill_at_random_points(
    tmp_path: Path, quick_disk: Path, references: dict[str, Reference], table: Table
) -> None:
    row = table.row("SIGKILL while training and writing")
    chance = random.Random(20260101)
    writing = chains = 0
    while row.injected < KILLS:
        reference = references[chance.choice(list(references))]
        # A disk that is waited for is killed in the middle of its files more often.
        path = (tmp_path, quick_disk)[chains % 2] / str(chains)
        chains += 1
        done = 0
        for _ in range(5):
            victim = continue_run(path, reference)
            if chance.random() < 0.2:  # also while it starts and while it ends
                time.sleep(chance.random() * reference.seconds)
            else:
                victim.await_step(chance.randint(min(done + 1, reference.steps), reference.steps))
                time.sleep(0.02 * chance.random())
            victim.kill()
            if victim.wait() == 0:
                break  # it was quicker
            row.injected += 1
            at_kill = victim.last_step
            if not path.exists():
                row.survived += 1
                continue
            folders = (path, path / folder_layout.CHECKPOINTS, path / folder_layout.FRAMES)
            writing += any(find_leftovers(folder) for folder in folders)
            assert_sound(path)
            newest = RunReader(path).checkpoints[-1:]
            done = newest[0].step if newest else 0
            row.lost = max(row.lost, at_kill - done)
            row.survived += 1
        assert continue_run(path, reference).wait() == 0
        assert_equal(path, reference.path)
        shutil.rmtree(path)
    row.remark = f"{chains} runs, each ends equal; {writing} kills in the middle of a file"
    assert row.survived == row.injected >= KILLS


def test_a_kill_at_the_usual_cadence_loses_what_came_after_the_newest_checkpoint(
    tmp_path: Path, table: Table
) -> None:
    row = table.row("SIGKILL at the usual cadence")
    chance = random.Random(7)
    arguments = ["train", "--width", "16", "--depth", "4", "--epochs", "1000", "--quiet"]
    worst = 0.0
    for number in range(4):
        path = tmp_path / str(number)
        victim = fork_dgn(*arguments, "--out", path)
        time.sleep(6.0 + 8.0 * chance.random())
        killed = time.monotonic()
        victim.kill()
        victim.wait()
        row.injected += 1
        assert_sound(path)
        newest = RunReader(path).checkpoints[-1:]
        step = newest[0].step if newest else 0
        row.lost = max(row.lost, victim.last_step - step)
        worst = max(worst, killed - victim.time_of(step or 1))
        row.survived += 1
    row.seconds = worst  # at most ten on a machine that is not shared


def damaged(content: bytes, how: str) -> bytes:
    if how == "zeroed":
        return bytes(len(content))
    if how == "torn":
        return content[: len(content) // 2]
    if how == "empty":
        return b""
    place = len(content) // 3
    return content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]


@pytest.mark.parametrize("how", ["torn", "zeroed", "empty", "flipped", "missing"])
def test_damaged_newest_files(
    quick_disk: Path, references: dict[str, Reference], table: Table, how: str
) -> None:
    row = table.row(f"newest file {how}, then repair and resume")
    reference = references["SGD, frames"]
    before = quick_disk / "killed"
    victim = continue_run(before, reference)
    victim.await_step(reference.steps // 3)
    while len(list((before / folder_layout.CHECKPOINTS).glob("0*"))) < 2:
        time.sleep(0.001)
    victim.kill()
    assert victim.wait() < 0, "it was finished before it had written two checkpoints"
    newest = RunReader(before).checkpoints[-1].path.full_path.relative_to(before)
    frames = RunReader(before).frames
    targets = [
        newest / folder_layout.TENSORS,
        newest / folder_layout.STATE,
        newest / folder_layout.MANIFEST,
    ]
    targets += [Path(folder_layout.LOG), Path(folder_layout.RUN), Path(folder_layout.CONFIG)]
    targets += [frames[-1].path.full_path.relative_to(before)] if frames else []
    for number, target in enumerate(targets):
        path = quick_disk / str(number)
        shutil.copytree(before, path)
        content = (path / target).read_bytes()
        (path / target).unlink()
        if how != "missing":
            (path / target).write_bytes(damaged(content, how))
        row.injected += 1
        named = [one.path for one in find_damage(path)]
        frame_gone = how == "missing" and target.parts[0] == folder_layout.FRAMES
        if not frame_gone:  # a writer that was killed leaves no list of its frames
            assert any(target.parts[0] in name for name in named), (target, named)
        repair_run_folder(path)
        assert_sound(path)
        resumed = continue_run(path, reference)
        assert resumed.wait() == 0
        row.lost = max(row.lost, lost_steps(path, victim.last_step))
        assert_equal_but_for_lost_lines(
            path, reference.path, whole=target.name != folder_layout.LOG
        )
        row.survived += 1
    assert row.survived == row.injected


def assert_equal_but_for_lost_lines(path: Path, reference: Path, whole: bool) -> None:
    if whole:
        assert_equal(path, reference)
        return
    found, wanted = (load((p / folder_layout.WEIGHTS).read_bytes()) for p in (path, reference))
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    assert set(RunReader(path).measured_events) <= set(RunReader(reference).measured_events)


def limit_files(size: int) -> None:
    """No file of this process may grow over so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("limit", [200, 3_000, 8_000, 20_000])
def test_files_may_not_grow(
    tmp_path: Path, references: dict[str, Reference], table: Table, limit: int
) -> None:
    row = table.row(f"no file may grow over {limit:,} bytes")
    reference = references["DL"]
    path = tmp_path / "run"
    row.injected += 1
    code = fork_dgn(*reference.arguments, "--out", path, first=partial(limit_files, limit)).wait()
    if limit > 5_000:
        assert code == 4  # trained to its end, but not all of it is on disk
        assert_sound(path)
    else:
        assert code == 2  # not even what the run is could be written
        assert not path.exists()
    assert continue_run(path, reference).wait() == 0
    assert_equal(path, reference.path)
    row.survived += 1


def test_a_disk_that_is_full_for_a_while(
    small_disk: Path, references: dict[str, Reference], table: Table
) -> None:
    row = table.row("disk full in mid-run, then room again")
    reference = references["DL"]
    path, ballast = small_disk / "run", small_disk / "ballast"
    row.injected += 1
    paced = [*reference.arguments, "--out", path]
    victim = fork_dgn(*paced)
    victim.await_step(reference.steps // 4)
    fill_disk(ballast)
    victim.await_step(reference.steps // 2)
    ballast.unlink()
    code = victim.wait()
    assert code == 0
    assert_equal(path, reference.path)
    names = [line.name for line in RunReader(path).log.lines]
    assert names.count("RecordingPaused") == names.count("RecordingResumed")
    row.remark = f"paused {names.count('RecordingPaused')} times, no line lost"
    row.survived += 1


def test_a_read_only_place_is_refused(
    small_disk: Path, references: dict[str, Reference], table: Table
) -> None:
    row = table.row("read-only file system at the start")
    row.injected += 1
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert fork_dgn(*references["DL"].arguments, "--out", small_disk / "run").wait() == 2
    row.survived += 1


def test_many_writers_at_once(
    tmp_path: Path, references: dict[str, Reference], table: Table
) -> None:
    row = table.row("eight writers for one run")
    reference = references["DL"]
    path = tmp_path / "run"
    victim = continue_run(path, reference)
    victim.await_step(reference.steps // 3)
    victim.kill()
    victim.wait()
    row.injected = 8
    codes = [other.wait() for other in [continue_run(path, reference) for _ in range(8)]]
    # One goes on; whoever came while it wrote was refused; who came later found it finished.
    assert codes.count(0) >= 1
    assert set(codes) <= {0, 2}
    assert_equal(path, reference.path)
    row.survived = 8
    row.remark = f"{codes.count(2)} were refused"


def test_sessions_are_killed(tmp_path: Path, table: Table) -> None:
    """What the viewer runs: a session in a thread, swapped and rewired, killed at any moment."""
    row = table.row("SIGKILL of a live session")
    chance = random.Random(3)
    for number in range(SESSION_KILLS):
        root = tmp_path / str(number)
        victim = Victim(lambda root=root: live(root))
        victim.await_step(chance.randint(1, 800))
        time.sleep(0.02 * chance.random())
        victim.kill()
        victim.wait()
        row.injected += 1
        for path in root.iterdir() if root.exists() else ():
            if path.name.endswith(".part"):
                continue  # a folder that was not a run yet
            assert_sound(path)
            newest = RunReader(path).checkpoints[-1:]
            row.lost = max(row.lost, victim.last_step - (newest[0].step if newest else 0))
            going_on(path)
        row.survived += 1
    assert row.survived == SESSION_KILLS


def live(root: Path) -> int:
    from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
    from dgn_engine.protocol.training import StartRun, SwapRegime
    from dgn_engine.protocol.watching import ProbeRequest, Watch
    from dgn_engine.session.thread_session import ThreadSession

    net = NetConfig(options=(("width", 16), ("depth", 4)))
    config = RunConfig(net=net, training=TrainingConfig(epochs=0), probe_examples=20)
    session = ThreadSession(runs_root=str(root))
    session.start()
    session.send(Watch((ProbeRequest("gates"), ProbeRequest("npk"))))
    session.send(StartRun(config))
    while True:
        for regime in ("FR-II", "FL", "DL", "ReLU"):
            session.send(SwapRegime(regime))
            time.sleep(0.1)
            session.drain_events()


class Counting:
    """Hears of every step."""

    steps = 0

    def on_step(self, step: int) -> None:
        self.steps += 1

    def on_event(self, event: object) -> None:
        pass


def going_on(path: Path) -> None:
    """The run can be taken up again and trained further."""
    folder, watcher = RunFolder(path), Counting()
    try:
        HeadlessRun(watcher, lambda: watcher.steps >= FURTHER).continue_folder(folder)
    except UserError as refusal:
        raise AssertionError(str(refusal)) from None
    assert watcher.steps == FURTHER
    assert_sound(path)
