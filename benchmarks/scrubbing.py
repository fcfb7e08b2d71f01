"""Scrubbing: `python -m benchmarks.scrubbing RUN [--moves N] [--pairs N] [--process]`.

Prints JSON. RUN is the folder of a recorded run; `--make` only records one of 10,000 steps there
(minutes). The run is opened in the real window, 1440 × 900 in the default layout, and the step
cursor jumps to random steps.
`milliseconds`: from the request until every visible panel shows the step and is painted.
`resident`: MiB of this process before and after. Then a copy of the run continues training at full
speed, in alternating blocks without and with four jumps per second; `ratio` is that of their steps
per second over pairs of consecutive blocks: median, minimum, maximum. `--process` runs the engine
in its own process. `--soak MINUTES` only continues training at up to 100 steps per second with
four jumps per second, and prints the memory of this process at the start and every five minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PySide6.QtCore import QEventLoop, QTimer

from benchmarks.machine import describe_processor, read_load
from benchmarks.memory import read_resident_bytes
from dgn_engine.config import RunConfig
from dgn_engine.confinement.child_process import python_command, python_environment
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.runs import ContinueRun, ShowRun
from dgn_engine.protocol.training import Resume, SetPace
from dgn_viewer.application import Options, Viewer

EPOCHS = 223  # of digits in batches of 32: 10,035 steps
MAKE = (
    "--data",
    "digits",
    "--regime",
    "DL",
    "--net",
    "fc",
    "--epochs",
    str(EPOCHS),
    "--record",
    "gates,npk,ntk,overlap",
    "--record-every",
    "40",
)
BLOCK, PAIRS, SETTLE = 5.0, 8, 2.0  # seconds of a block, pairs of blocks, seconds before the first
BETWEEN = 0.25  # seconds between two jumps
PATIENCE = 60.0  # seconds
PACE = 100.0  # steps a second of a soak
LOOK = 300.0  # seconds between two memory readings of a soak


class Scrubber:
    """A window that shows a recorded run. The caller closes its viewer."""

    def __init__(self, run: Path, own: Path, process: bool) -> None:
        config = RunConfig()
        self.viewer = Viewer(
            Options(
                config,
                size=(1440, 900),
                settings=own / "settings.ini",
                start="none",
                process=process,
                runs_root=str(own / "runs"),
            )
        )
        self.window = self.viewer.window
        self._seen: list[tuple[float, int]] = []  # when frames arrived, and their steps
        self.viewer.pump.frame_arrived.connect(self._record_frame)
        self.viewer.start()
        self.wait_until(lambda: self.window.run_state.is_ready)
        self.window.inspector.close_page()
        self.window.context.send(ShowRun(str(run)))
        self.wait_until(lambda: not self.window.time.cursor.reason_not_available)
        self.wait_until(lambda: not self.window.display.stale_panels())

    def show_step(self, step: int) -> float:
        """Go to a step; return the seconds until all panels show it."""
        began, cursor = time.perf_counter(), self.window.time.cursor
        cursor.go_to(step)
        self.wait_until(lambda: self._is_shown(step))
        self.viewer.application.processEvents()  # what was drawn is painted
        return time.perf_counter() - began

    def continue_training(self, run: Path) -> None:
        self.window.context.send(ContinueRun(str(run), discard=True))
        self.wait_until(lambda: self.window.run_state.recorded is None)
        self.window.context.send(Resume())
        self.wait_until(lambda: self.window.run_state.is_running)
        self.wait(SETTLE)

    def measure_rate(self, seconds: float, scrubbing: bool, steps: random.Random) -> float:
        """Return the steps per second over some seconds, with four jumps per second or none."""
        cursor, began = self.window.time.cursor, time.perf_counter()
        self._seen.clear()
        while (now := time.perf_counter() - began) < seconds:
            if scrubbing:
                cursor.go_to(steps.randrange(cursor.last_step))
            self.wait(min(BETWEEN, seconds - now))
        (start, first), (end, last) = self._seen[0], self._seen[-1]
        cursor.go_live()
        self.wait(1.0)
        return (last - first) / (end - start)

    def wait(self, seconds: float) -> None:
        loop = QEventLoop()
        QTimer.singleShot(max(1, round(1000 * seconds)), loop.quit)
        loop.exec()

    def wait_until(self, reached: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not reached():
            if time.monotonic() > limit:
                raise RuntimeError("the window did not reach the expected state in time")
            self.wait(0.002)

    def _record_frame(self, frame: Frame) -> None:
        self._seen.append((time.perf_counter(), frame.step))

    def _is_shown(self, step: int) -> bool:
        past = self.window.history.past
        return past is not None and past.asked == step and not self.window.display.stale_panels()


def run_soak(scrubber: Scrubber, minutes: float, steps: random.Random) -> None:
    """Train and scrub; print a line of JSON at the start and every five minutes."""
    scrubber.window.context.send(SetPace(PACE))
    cursor, moves, began = scrubber.window.time.cursor, 0, time.perf_counter()
    looked = -LOOK
    while (now := time.perf_counter() - began) < 60.0 * minutes + 1.0:
        if now - looked >= LOOK:
            looked = now
            figures = {
                "minutes": round(now / 60.0, 1),
                "resident": round(read_resident_bytes() / 2**20),
                "step": scrubber.window.history.step,
                "recorded": len(cursor.steps),
                "moves": moves,
                "load": read_load(),
            }
            print(json.dumps(figures), flush=True)
        cursor.go_to(steps.randrange(max(cursor.last_step, 1)))
        moves += 1
        scrubber.wait(BETWEEN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--process", action="store_true")
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    options = parser.parse_args()
    if options.make:
        train = python_command("-m", "dgn_engine.cli", "train", *MAKE, "--out", str(options.run))
        subprocess.run(train, env=python_environment(), check=True)
        return 0
    steps = random.Random(0)
    with tempfile.TemporaryDirectory() as own:
        scrubber = Scrubber(options.run, Path(own), options.process)
        try:
            if options.soak is not None:
                copied = Path(own) / "copied"
                shutil.copytree(options.run, copied)
                scrubber.continue_training(copied)
                run_soak(scrubber, options.soak, steps)
                return 0
            last = scrubber.window.time.cursor.last_step
            for _ in range(10):
                scrubber.show_step(steps.randrange(last))
            before = read_resident_bytes()
            taken = [1e3 * scrubber.show_step(steps.randrange(last)) for _ in range(options.moves)]
            figures = {
                "processor": describe_processor(),
                "load": read_load(),
                "steps": last,
                "recorded": len(scrubber.window.time.cursor.steps),
                "panels": len(scrubber.window.docks.visible_panels()),
                "process": options.process,
                "milliseconds": {
                    f"p{p}": round(float(np.percentile(taken, p)), 1) for p in (50, 95, 99)
                },
                "resident": [round(before / 2**20), round(read_resident_bytes() / 2**20)],
            }
            copied = Path(own) / "copied"
            shutil.copytree(options.run, copied)
            scrubber.continue_training(copied)
            pairs = [
                (
                    scrubber.measure_rate(BLOCK, False, steps),
                    scrubber.measure_rate(BLOCK, True, steps),
                )
                for _ in range(options.pairs)
            ]
        finally:
            scrubber.viewer.close()
    ratios = [scrubbed / alone for alone, scrubbed in pairs]
    figures["steps_per_second"] = [[round(rate, 1) for rate in pair] for pair in pairs]
    figures["ratio"] = [round(f(ratios), 3) for f in (statistics.median, min, max)]
    print(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
