"""The real viewer is killed at any moment: every run it wrote is sound, and goes on bit for bit."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

import pytest
import torch
from torch import Tensor

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.storage.atomic_write import PART, find_leftovers
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import continue_run
from dgn_engine.training.run import Run
from tests.faults.reference_runs import assert_sound
from tests.faults.tables import Table
from tests.faults.watched_viewer import STEPS, Order, times_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

KILLS = 50
AT_ONCE = 2
FURTHER = 25  # steps that a run is gone on with
STARTS = 600.0  # seconds that a viewer may take to its first step
CONFIG = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(learning_rate=1e-3, epochs=0, pace=300.0),
    probe_examples=20,
    device="cpu",
)


@dataclass
class Seen:
    """A viewer that was killed: how far it was, and the folder of its run, if it had begun one."""

    steps: int
    lost: int
    seconds: float
    writing: bool
    run: Path | None


def environment(place: Path, root: Path) -> dict[str, str]:
    """What a viewer without a display, with settings of its own, adds to ours."""
    return {
        "QT_QPA_PLATFORM": "offscreen",
        "DGN_RUNS_ROOT": str(root),
        "XDG_CONFIG_HOME": str(place / "settings"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }


class Nursery:
    """The process of which viewers are forked."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.watched_viewer"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._asked = Lock()

    def fork(self, order: Order) -> int:
        """The number of its process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._asked:
            print(order.to_line(), file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery()
    yield found
    found.close()


class Viewer:
    """`python -m dgn_viewer` on the offscreen platform, recording under `place`."""

    def __init__(self, place: Path, nursery: Nursery) -> None:
        self.root = place / "runs"
        self._times = place / "times"
        place.mkdir()
        with self._times.open("wb") as file:
            file.truncate(8 * STEPS)
        (place / "run.toml").write_text(CONFIG.to_toml(), "utf-8")
        words = ["--config", str(place / "run.toml")]
        added = environment(place, self.root)
        self._pid = nursery.fork(Order(words, added, str(self._times), str(place / "said")))

    @property
    def ended(self) -> bool:
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        return False

    def stop(self) -> None:
        """SIGKILL: no handler, no goodbye. Until it is gone."""
        while not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(0.001)

    def await_step(self) -> None:
        """Until it trains."""
        deadline = time.monotonic() + STARTS
        while not times_of(self._times):
            assert not self.ended, "the viewer ended by itself"
            assert time.monotonic() < deadline, "the viewer does not train"
            time.sleep(0.02)

    def await_writing(self, chance: random.Random) -> None:
        """Until a file or folder of a run is half written, or a while has passed."""
        deadline = time.monotonic() + 12.0
        while not self._half_written() and time.monotonic() < deadline:
            time.sleep(0.0002)
        time.sleep(chance.choice((0.0, 0.001, 0.003)))

    def kill(self) -> Seen:
        """How far it was, after it was stopped."""
        self.stop()
        killed = time.monotonic()
        times = times_of(self._times)
        run = next((p for p in self._folders() if not p.name.endswith(PART)), None)
        if run is None or not times:
            return Seen(len(times), 0, 0.0, self._half_written(), run)
        newest = RunReader(run).checkpoints[-1:]
        step = newest[0].step if newest else 0
        since = times[max(0, step - 1)]
        return Seen(len(times), len(times) - step, killed - since, self._half_written(), run)

    def _folders(self) -> list[Path]:
        return sorted(self.root.iterdir()) if self.root.exists() else []

    def _half_written(self) -> bool:
        with contextlib.suppress(FileNotFoundError):  # renamed while it was looked at
            return any(
                find_leftovers(place)
                for run in (self.root, *self._folders())
                for place in (run, run / folder_layout.CHECKPOINTS, run / folder_layout.FRAMES)
            )
        return False


def killed(nursery: Nursery, place: Path, moment: str, seed: int) -> Seen:
    """A viewer from its start to its end."""
    chance = random.Random(seed)
    viewer = Viewer(place, nursery)
    try:
        if moment == "starting":
            time.sleep(chance.random() * 6.0)
        else:
            viewer.await_step()
            time.sleep(chance.random() * (9.0 if moment == "training" else 4.0))
            if moment == "writing":
                viewer.await_writing(chance)
        return viewer.kill()
    finally:
        viewer.stop()


State = dict[str, Tensor]


def weights(run: Run) -> State:
    return {name: value.clone() for name, value in run.trainer.network.state_dict().items()}


def resumed(path: Path) -> tuple[int, State]:
    """Without a window, a few steps on: where that was, and the weights there."""
    folder = RunFolder(path)
    try:
        run, _ = continue_run(folder, 1, lambda _event: None, lambda *_: None, live=False)
        for _ in range(FURTHER):
            run.step()
        return run.step_count, weights(run)
    finally:
        folder.close()


def equal_to_an_undisturbed_run(found: list[tuple[int, State]]) -> int:
    """How many have the weights, bit for bit, of a run that nobody watched or killed."""
    run = Run(1, CONFIG, lambda _event: None, lambda *_: None, live=False)
    equal = 0
    for step, state in sorted(found, key=lambda pair: pair[0]):
        while run.step_count < step:
            run.step()
        wanted = weights(run)
        equal += state.keys() == wanted.keys() and all(
            torch.equal(state[name], value) for name, value in wanted.items()
        )
    return equal


def test_a_viewer_killed_at_any_moment_leaves_runs_that_go_on(
    tmp_path: Path, nursery: Nursery, table: Table
) -> None:
    row = table.row("SIGKILL of the viewer, the whole program")
    moments = ["starting"] * 10 + ["training"] * 20 + ["writing"] * 20
    places_ = [tmp_path / str(number) for number in range(KILLS)]
    with ThreadPoolExecutor(AT_ONCE) as together:
        all_seen = list(together.map(partial(killed, nursery), places_, moments, range(KILLS)))
    states = []
    for seen in all_seen:
        row.injected += 1
        if seen.run is not None:
            assert_sound(seen.run)
            states.append(resumed(seen.run))
            assert_sound(seen.run)
        row.lost = max(row.lost, seen.lost)
        row.seconds = max(row.seconds, seen.seconds)
        row.survived += 1
    equal = equal_to_an_undisturbed_run(states)
    row.remark = (
        f"{len(states)} had begun a run, {equal} of these go on bit for bit; "
        f"{sum(seen.writing for seen in all_seen)} killed in the middle of a file"
    )
    assert equal == len(states) > KILLS / 2


class Told:
    """A whole window that is told what to do, and what it says."""

    def __init__(self, place: Path, root: Path) -> None:
        place.mkdir()
        (place / "run.toml").write_text(CONFIG.to_toml(), "utf-8")
        self._said = place / "said"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-m", "tests.faults.told_viewer", str(place / "run.toml")],
                env={**os.environ, **environment(place, root)},
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def tell(self, *words: str | Path) -> None:
        assert self.process.stdin is not None
        print(*words, file=self.process.stdin, flush=True)

    def hear(self, pattern: str, count: int = 1) -> str:
        """The n-th line that has this."""
        deadline = time.monotonic() + STARTS
        while len(found := re.findall(f".*(?:{pattern}).*", self.said)) < count:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)
        return str(found[count - 1])

    @property
    def said(self) -> str:
        return self._said.read_text("utf-8", "replace")

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=STARTS)
        assert self.process.returncode == 128 + signal.SIGINT, self.said


def await_newer_checkpoint(run: Path) -> None:
    def newest() -> int:
        return RunReader(run).checkpoints[-1].step if RunReader(run).checkpoints else 0

    first, deadline = newest(), time.monotonic() + STARTS
    while newest() == first:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_of_two_viewers_on_one_run_one_writes_it_and_the_other_is_told_who(
    tmp_path: Path, table: Table
) -> None:
    row = table.row("two viewers on one run")
    root = tmp_path / "runs"
    root.mkdir()
    viewers = [Told(tmp_path / str(number), root) for number in range(2)]
    try:
        first, second = viewers
        first.tell("start")
        first.hear("RunStarted")
        while not (runs := [one for one in root.iterdir() if not one.name.endswith(PART)]):
            time.sleep(0.02)
        (run,) = runs
        await_newer_checkpoint(run)
        second.tell("show", run)  # whoever only looks is let in
        second.hear("RunShown")
        second.tell("continue", run)
        row.injected += 1
        assert f"process {first.process.pid}" in second.hear("Refused")
        await_newer_checkpoint(run)
        row.survived += 1
        first.process.kill()
        first.process.wait()
        third = Told(tmp_path / "2", root)
        viewers.append(third)
        third.tell("show", run)
        third.hear("RunShown")
        row.injected += 1
        for one in (second, third):
            one.tell("continue", run)
        third.hear("RunContinued|Refused")
        second.hear("RunContinued|Refused", 2)
        writer, other = sorted((second, third), key=lambda one: "RunContinued" not in one.said)
        assert "RunContinued" not in other.said
        assert f"process {writer.process.pid}" in other.said
        await_newer_checkpoint(run)
        writer.close()
        row.survived += 1
        row.injected += 1
        other.tell("continue", run)
        other.hear("RunContinued")
        await_newer_checkpoint(run)
        other.close()
        assert_sound(run)
        assert equal_to_an_undisturbed_run([resumed(run)]) == 1
        row.survived += 1
        row.remark = "one writes, the others may look; whoever goes on next ends bit for bit"
    finally:
        for one in viewers:
            one.process.kill()
            one.process.communicate()
