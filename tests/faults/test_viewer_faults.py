"""The real viewer is killed at any moment: every run it wrote is sound, and goes on bit for bit."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.storage.atomic_write import PART, find_leftovers
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.recording import continue_run
from dgn_engine.training.run import Run
from tests.faults.tables import Table
from tests.faults.watched_viewer import STEPS, times_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

KILLS = 50
AT_ONCE = 2
FURTHER = 25  # steps that a run is gone on with
STARTS = 180.0  # seconds that a viewer may take to its first step
SECONDS = 10.0  # the most that may be lost
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


class Viewer:
    """`python -m dgn_viewer` on the offscreen platform, recording under `place`."""

    def __init__(self, place: Path) -> None:
        self.root = place / "runs"
        self._times = place / "times"
        place.mkdir()
        with self._times.open("wb") as file:
            file.truncate(8 * STEPS)
        (place / "run.toml").write_text(CONFIG.to_toml(), "utf-8")
        environment = {
            **os.environ,
            "QT_QPA_PLATFORM": "offscreen",
            "DGN_RUNS_ROOT": str(self.root),
            "XDG_CONFIG_HOME": str(place / "settings"),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        worker = [sys.executable, "-m", "tests.faults.watched_viewer", str(self._times)]
        with (place / "said").open("wb") as said:
            self.process = subprocess.Popen(
                [*worker, "--config", str(place / "run.toml")],
                env=environment,
                stdout=said,
                stderr=said,
            )

    def await_step(self) -> None:
        """Until it trains."""
        deadline = time.monotonic() + STARTS
        while not times_of(self._times):
            assert self.process.poll() is None, "the viewer ended by itself"
            assert time.monotonic() < deadline, "the viewer does not train"
            time.sleep(0.02)

    def await_writing(self, chance: random.Random) -> None:
        """Until a file or folder of a run is half written, or a while has passed."""
        deadline = time.monotonic() + 12.0
        while not self._half_written() and time.monotonic() < deadline:
            time.sleep(0.0002)
        time.sleep(chance.choice((0.0, 0.001, 0.003)))

    def kill(self) -> Seen:
        """SIGKILL: no handler, no goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
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


def killed(place: Path, moment: str, seed: int) -> Seen:
    """A viewer from its start to its end."""
    chance = random.Random(seed)
    viewer = Viewer(place)
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
        viewer.process.kill()
        viewer.process.wait()


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


def test_a_viewer_killed_at_any_moment_leaves_runs_that_go_on(tmp_path: Path, table: Table) -> None:
    row = table.row("SIGKILL of the viewer, the whole program")
    moments = ["starting"] * 10 + ["training"] * 20 + ["writing"] * 20
    places_ = [tmp_path / str(number) for number in range(KILLS)]
    with ThreadPoolExecutor(AT_ONCE) as together:
        all_seen = list(together.map(killed, places_, moments, range(KILLS)))
    states = []
    for seen in all_seen:
        row.injected += 1
        if seen.run is not None:
            assert [str(one) for one in verify(seen.run) if not one.harmless] == []
            states.append(resumed(seen.run))
            assert [str(one) for one in verify(seen.run) if not one.harmless] == []
        row.lost = max(row.lost, seen.lost)
        row.seconds = max(row.seconds, seen.seconds)
        row.survived += 1
    equal = equal_to_an_undisturbed_run(states)
    row.remark = (
        f"{len(states)} had begun a run, {equal} of these go on bit for bit; "
        f"{sum(seen.writing for seen in all_seen)} killed in the middle of a file"
    )
    assert equal == len(states) > KILLS / 2
    assert row.seconds <= SECONDS
