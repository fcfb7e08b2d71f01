"""Time from start: `python -m benchmarks.start [--rounds N]` starts the viewer N times and watches.

Each round is a process of its own, with settings of its own, on the display that DISPLAY names, or
without one (QT_QPA_PLATFORM=offscreen). Seconds since the process was asked for: until the window
was painted first, until the first panel was live, and until all panels in sight were; and seconds
of processor time in the same spans, which other work on the machine lengthens less.

`python -m benchmarks.start --commands` starts commands of `dgn` that compute nothing instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn_viewer.application import Viewer

MOMENTS = ("window", "first panel", "all panels")
COMMANDS = (
    ("--help",),
    ("--version",),
    ("runs", "list"),
    ("runs", "show", "one"),
    ("train", "--help"),
    ("inspect", "--help"),
    ("reproduce", "--list"),
    ("doctor",),
)
RUNS = 20  # recorded ones that are listed
TOO_LONG = 120.0  # seconds


def watch(began: float) -> dict[str, float]:
    """In the child: start the viewer as its command does and note when each moment comes."""
    from PySide6.QtCore import QEvent, QObject, QTimer

    from dgn_viewer.__main__ import first_run
    from dgn_viewer.application import Options, build_viewer

    seen: dict[str, float] = {}

    def note(moment: str) -> None:
        if moment not in seen:
            seen[moment] = time.monotonic() - began
            seen[f"{moment} cpu"] = time.process_time()

    class Painted(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint:
                note("window")
            return False

    def look(viewer: Viewer) -> None:
        docks = viewer.window.docks
        live = [docks.hosts[name].panel_state() == "live" for name in docks.visible_panels()]
        if any(live):
            note("first panel")
        if live and all(live):
            note("all panels")
            viewer.window.close()

    with tempfile.TemporaryDirectory() as folder:
        options = Options(first_run(), settings=Path(folder) / "settings.ini", runs_root=folder)
        viewer = build_viewer(options)
        painted, timer = Painted(), QTimer()
        viewer.window.installEventFilter(painted)
        timer.timeout.connect(lambda: look(viewer))
        timer.start(5)
        viewer.run()
        timer.stop()
        viewer.close()
    return seen


def one_round() -> dict[str, float]:
    """Start once and wait for the child's figures."""
    # Late: the child, which runs this module too, measures what the viewer itself imports.
    from dgn_engine.confinement.child_process import python_command, python_environment

    command = python_command("-m", "benchmarks.start", "--began", str(time.monotonic()))
    done = subprocess.run(
        command,
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=TOO_LONG,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def time_commands(rounds: int) -> None:
    """Start each command so often, and once more before, so that its files are at hand."""
    from dgn_engine.confinement.child_process import python_environment

    with tempfile.TemporaryDirectory() as folder:
        environment = python_environment() | {"XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
        runs = Path(folder) / "dgn-viewer" / "runs"
        small = ("train", "--data", "digits", "--width", "4", "--depth", "3", "--epochs", "1")
        run_command((*small, "--quiet", "--out", str(runs / "one")), environment)
        for place in range(1, RUNS):
            shutil.copytree(runs / "one", runs / f"run-{place}")
        for words in COMMANDS:
            times = [run_command(words, environment) for _ in range(rounds + 1)][1:]
            print(f"dgn {' '.join(words):20}", spread([wall for wall, _ in times]), end="; ")
            print("of processor time", spread([cpu for _, cpu in times]))


def run_command(words: tuple[str, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds that a command took, and seconds of processor time."""
    from dgn_engine.confinement.child_process import python_command

    before, began = os.times(), time.monotonic()
    subprocess.run(
        python_command("-m", "dgn_engine.cli", *words),
        env=environment,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    after, wall = os.times(), time.monotonic() - began
    user = after.children_user - before.children_user
    return wall, user + after.children_system - before.children_system


def spread(times: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--commands", action="store_true", help="of dgn, instead of the viewer")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)  # this is a round
    given = parser.parse_args()
    if given.began is not None:
        print(json.dumps(watch(given.began)))
        return 0
    if given.commands:
        time_commands(given.rounds)
    rounds = [] if given.commands else [one_round() for _ in range(given.rounds)]
    from benchmarks.machine import load, processor  # torch, which a round must not load early

    print(f"{processor()}, load {load()}, {given.rounds} rounds; median (least to most), seconds")
    for moment in MOMENTS if rounds else ():
        wall, cpu = ([figures[key] for figures in rounds] for key in (moment, f"{moment} cpu"))
        print(f"{moment:12} {spread(wall)}; of processor time {spread(cpu)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
