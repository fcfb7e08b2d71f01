"""`python -m dgn_viewer` for minutes at full speed, then network after network, and its memory.

`python -m tests.faults.soaked_viewer FILE --minutes M --networks N`; FILE gets one JSON object a
sample: seconds, phase, and what `measure` counts. Offscreen, recorded under `DGN_RUNS_ROOT`.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import itertools
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QGraphicsView

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.messages import Failed, Refused
from dgn_engine.protocol.runs import RecordingPaused
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_engine.storage.runs.folder_layout import bytes_of, runs_root
from dgn_viewer.application import Options, Viewer, build_viewer, exit_now

SAMPLE = 5.0  # seconds
WARM = 30.0  # seconds of training after which every panel has been drawn
NETWORK = 12.0  # seconds that each of the networks is open
SMALL = RunConfig(
    net=NetConfig(options=(("width", 16), ("depth", 4))),
    training=TrainingConfig(learning_rate=1e-5, epochs=0, pace=0.0),
    device="cpu",
)


class MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def resident() -> tuple[int, int]:
    """Bytes of this process in memory: all, and those that no file backs."""
    found = {}
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        name, _, value = line.partition(":")
        if name in ("VmRSS", "RssAnon"):
            found[name] = int(value.split()[0]) << 10
    return found["VmRSS"], found["RssAnon"]


def allocated() -> dict[str, int]:
    """What glibc says of its heaps: taken from the system, in use, free; nothing elsewhere."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return {}
    mallinfo.restype = MallocInfo
    info = mallinfo()
    return {
        "arenas": info.arena,
        "mapped": info.hblkhd,
        "used": info.uordblks,
        "free": info.fordblks,
    }


def measure(viewer: Viewer) -> dict[str, Any]:
    """Bytes of memory, and how many objects of each sort there are."""
    every, anonymous = resident()
    views = viewer.window.findChildren(QGraphicsView)
    items = [item for view in views for item in view.scene().items()]
    return {
        "rss": every,
        "anonymous": anonymous,
        **allocated(),
        "traced": tracemalloc.get_traced_memory()[0],
        "blocks": sys.getallocatedblocks(),  # gc.get_objects would break tuples half made
        "qobjects": 1 + len(viewer.window.findChildren(QObject)),
        "items": len(items),
        "step": viewer.window.history.step,
        "recorded": bytes_of(runs_root()),
    }


def networks() -> Iterator[RunConfig]:
    """One different from the other, small and large, without end.

    The first is convolutional: what libraries load for those is loaded once, and must not count as
    growth of the ten that follow.
    """
    sizes: tuple[tuple[str, dict[str, int]], ...] = (
        ("fc", {"width": 64, "depth": 5}),
        ("cnn4", {}),
        ("fc", {"width": 1024, "depth": 5}),
        ("fc", {"width": 2048, "depth": 4}),
        ("vconv", {}),
        ("resnet18", {}),
        ("gconv", {}),
        ("fc", {"width": 256, "depth": 8}),
        ("davidnet", {}),
        ("resnet_fc", {}),
    )
    for seed in itertools.count(1):
        name, options = sizes[seed % len(sizes)]
        net = NetConfig(name, tuple(options.items()))
        yield dataclasses.replace(SMALL, net=net, seed=seed)


class Soak:
    """Minutes of one run; then another network, and the first run again; then networks, one after
    the other, and the first run again, and so on.

    Every stage ends when its network has trained for so many seconds and taken a step.
    """

    def __init__(self, viewer: Viewer, into: Path, given: argparse.Namespace) -> None:
        self._viewer, self._into = viewer, into
        self._began = self._sampled = time.monotonic()
        self._shot: tracemalloc.Snapshot | None = None
        self._phase = "warm"
        self._stepped = 0.0  # when the network of this stage was first seen to train
        self._stages = self._plan(60.0 * given.minutes, given.networks, given.rounds)
        self._seconds = next(self._stages)
        self._timer = QTimer()
        self._timer.timeout.connect(self._look)
        self._timer.start(500)
        viewer.window.event_taken.connect(self._hear)

    def _plan(self, minutes: float, count: int, rounds: int) -> Iterator[float]:
        """One stage after the other: how long each has to train."""
        yield WARM
        self._phase = "steady"
        if tracemalloc.is_tracing():
            self._shot = tracemalloc.take_snapshot()
        yield minutes
        others = networks()
        for number in range(rounds + 1):
            self._phase = f"networks {number}"
            for _ in range(count if number else 1):
                self._start(next(others))
                yield NETWORK
            self._start(SMALL)
            self._phase = f"again {number}"
            yield WARM

    def _start(self, config: RunConfig) -> None:
        self._stepped = 0.0
        self._viewer.pump.send(StartRun(config))

    def _hear(self, event: object, _state: object) -> None:
        if isinstance(event, RunStarted):
            self._stepped = 0.0
        if isinstance(event, (Refused, Failed, RecordingPaused)):
            print(event, file=sys.stderr)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._sampled >= SAMPLE:
            self._sample(now)
        if not self._stepped and self._viewer.window.history.step > 0:
            self._stepped = now
        if self._stepped and now - self._stepped >= self._seconds:
            self._sample(now)
            try:
                self._seconds = next(self._stages)
            except StopIteration:
                self._timer.stop()
                self._tell_growth()
                self._viewer.window.close()

    def _sample(self, now: float) -> None:
        self._sampled = now
        seconds = round(now - self._began, 1)
        found = {"seconds": seconds, "phase": self._phase, **measure(self._viewer)}
        with self._into.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")

    def _tell_growth(self) -> None:
        if self._shot is not None:
            later = tracemalloc.take_snapshot()
            for line in later.compare_to(self._shot, "traceback")[:25]:
                print(line, *line.traceback.format(8), sep="\n", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(prog="soaked_viewer", description=__doc__)
    parser.add_argument("into", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--networks", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1, help="of networks")
    parser.add_argument("--trace", action="store_true", help="say where Python's memory grew")
    given = parser.parse_args()
    if given.trace:
        tracemalloc.start(8)
    viewer = build_viewer(Options(SMALL, runs_root=str(runs_root()), size=(1440, 900)))
    soak = Soak(viewer, given.into, given)
    try:
        viewer.run()
    finally:
        ended = viewer.close(60.0)
        del soak
    if not ended:
        exit_now(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
