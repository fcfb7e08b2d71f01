"""Time from start: `python -m benchmarks.start [--rounds N]` starts the viewer N times and watches.

Each round is a process of its own, with settings of its own, on the display that DISPLAY names, or
without one (QT_QPA_PLATFORM=offscreen). Seconds since the process was asked for: until the window
was painted first, until the first panel was live, and until all panels in sight were.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn_viewer.application import Viewer

MOMENTS = ("window", "first panel", "all panels")
TOO_LONG = 120.0  # seconds


def watch(began: float) -> dict[str, float]:
    """In the child: start the viewer as its command does and note when each moment comes."""
    from PySide6.QtCore import QEvent, QObject, QTimer

    from dgn_viewer.__main__ import first_run
    from dgn_viewer.application import Options, build

    seen: dict[str, float] = {}

    def note(moment: str) -> None:
        seen.setdefault(moment, time.monotonic() - began)

    class Painted(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint:
                note("window")
            return False

    def look(viewer: Viewer) -> None:
        docks = viewer.window.docks
        live = [docks.hosts[name].state() == "live" for name in docks.visible()]
        if any(live):
            note("first panel")
        if live and all(live):
            note("all panels")
            viewer.window.close()

    with tempfile.TemporaryDirectory() as folder:
        options = Options(first_run(), settings=Path(folder) / "settings.ini", runs_root=folder)
        viewer = build(options)
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
    command = [sys.executable, "-m", "benchmarks.start", "--began", str(time.monotonic())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOO_LONG, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)  # this is a round
    given = parser.parse_args()
    if given.began is not None:
        print(json.dumps(watch(given.began)))
        return 0
    rounds = [one_round() for _ in range(given.rounds)]
    from benchmarks.machine import load, processor  # torch, which a round must not load early

    print(f"{processor()}, load {load()}, {len(rounds)} rounds; median (least to most), seconds")
    for moment in MOMENTS:
        times = [figures[moment] for figures in rounds]
        middle = statistics.median(times)
        print(f"{moment:12} {middle:.2f} ({min(times):.2f} to {max(times):.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
