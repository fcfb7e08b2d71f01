"""Start-up time: `python -m benchmarks.start [--rounds N]` starts the viewer N times.

Each round is a fresh process with its own settings, on the display named by DISPLAY, or without
one (QT_QPA_PLATFORM=offscreen). It reports the seconds from the request for the process until the
window is first painted, until the first panel is live, and until all visible panels are live; and
the processor seconds in the same spans, which other work on the machine affects less.

`python -m benchmarks.start --commands` instead times `dgn` commands that compute nothing.
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


def time_viewer_start(began: float) -> dict[str, float]:
    """Start the viewer in the child as its command does, and return the time of each moment."""
    from dgn_viewer.__main__ import load_qt, without_garbage_collection

    with without_garbage_collection():
        load_qt()
        from PySide6.QtCore import QEvent, QObject, QTimer

        from dgn_viewer.application import Options, build_viewer
        from dgn_viewer.shell.start_ways import first_run

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


def run_round() -> dict[str, float]:
    """Run one round in a child process and return its figures."""
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
    """Time each command, after one extra run that brings its files into the cache."""
    from dgn_engine.confinement.child_process import python_environment

    with tempfile.TemporaryDirectory() as folder:
        environment = python_environment() | {"XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
        runs = Path(folder) / "dgn-viewer" / "runs"
        small = ("train", "--data", "digits", "--width", "4", "--depth", "3", "--epochs", "1")
        time_command((*small, "--quiet", "--out", str(runs / "one")), environment)
        for index in range(1, RUNS):
            shutil.copytree(runs / "one", runs / f"run-{index}")
        for words in COMMANDS:
            times = [time_command(words, environment) for _ in range(rounds + 1)][1:]
            print(f"dgn {' '.join(words):20}", format_spread([wall for wall, _ in times]), end="; ")
            print("of processor time", format_spread([cpu for _, cpu in times]))


def time_command(words: tuple[str, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a command; return its wall seconds and its processor seconds."""
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


def format_spread(times: list[float]) -> str:
    """Format the median, minimum and maximum."""
    return f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--commands", action="store_true", help="time dgn commands, not the viewer")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)  # this is a round
    options = parser.parse_args()
    if options.began is not None:
        print(json.dumps(time_viewer_start(options.began)))
        return 0
    if options.commands:
        time_commands(options.rounds)
    rounds = [] if options.commands else [run_round() for _ in range(options.rounds)]
    from benchmarks.machine import (
        describe_processor,
        read_load,
    )  # torch, which a round must not load early

    print(
        f"{describe_processor()}, load {read_load()}, {options.rounds} rounds; "
        "median (min to max), seconds"
    )
    for moment in MOMENTS if rounds else ():
        wall, cpu = ([figures[key] for figures in rounds] for key in (moment, f"{moment} cpu"))
        print(f"{moment:12} {format_spread(wall)}; of processor time {format_spread(cpu)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
