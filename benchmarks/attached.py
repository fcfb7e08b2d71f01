"""Overhead of `dgn.watch` on a user's training loop: `python -m benchmarks.attached [--only NAME]`.

The same loop runs with and without `dgn.watch` (defaults, 64 probe examples), alternating in one
process; while one trains, the clocks of the other are paused. The overhead is the watched loop's
cost per step relative to the plain loop, in processor seconds (its own thread and the recorder's)
and in wall-clock time, both in steady state and including start and close.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

import dgn_engine as dgn
from benchmarks import machine
from benchmarks.attached_loops import WORKS, Loop, Work
from dgn_engine.attachment.watcher import Watcher

BAR = 0.05  # of the loop's time
EXAMPLES = 64


@dataclass
class PausableClocks:
    """Replacements for the clocks in `time` that exclude the time spent in `pause`."""

    monotonic_paused: float = 0.0
    thread_paused: float = 0.0

    def install(self) -> None:
        """Replace the clocks of `time` permanently."""
        monotonic, thread_time = time.monotonic, time.thread_time
        main = threading.main_thread()

        def own_thread_time() -> float:
            here = threading.current_thread() is main
            return thread_time() - (self.thread_paused if here else 0.0)

        time.monotonic = lambda: monotonic() - self.monotonic_paused
        time.thread_time = own_thread_time

    @contextmanager
    def pause(self) -> Iterator[None]:
        before = time.monotonic(), time.thread_time()
        yield
        self.monotonic_paused += time.monotonic() - before[0]
        self.thread_paused += time.thread_time() - before[1]


@dataclass
class LoopTime:
    """Number of steps, and the processor and wall-clock seconds they took."""

    steps: int = 0
    processor: float = 0.0
    clock: float = 0.0
    inside: float = 0.0  # of the processor's, those in `watcher.step` and in the recorder
    blocks: list[float] = field(default_factory=list)  # processor seconds a step

    def add(self, steps: int, processor: float, clock: float, inside: float) -> None:
        self.inside += inside
        self.steps += steps
        self.processor += processor
        self.clock += clock
        self.blocks.append(processor / steps)


@dataclass
class Cost:
    """One loop, plain and watched. `edges`: processor and wall seconds of start and close."""

    title: str
    plain: LoopTime
    watched: LoopTime
    edges: tuple[float, float]
    load: float | None
    parts: dict[str, float]
    pictures: dict[str, str]

    def as_json(self) -> dict[str, object]:
        plain, watched = self.plain, self.watched
        processor, clock = (
            getattr(watched, way) / watched.steps / (getattr(plain, way) / plain.steps) - 1.0
            for way in ("processor", "clock")
        )
        alone = watched.steps * plain.processor / plain.steps
        return {
            "title": self.title,
            "load": self.load,
            "steps": watched.steps,
            "seconds_a_step": plain.clock / plain.steps,
            "noise": _spread(plain.blocks),
            "overhead_processor": processor,
            "overhead_clock": clock,
            "overhead_inside": watched.inside / (watched.processor - watched.inside),
            "edges_processor": self.edges[0],
            "edges_clock": self.edges[1],
            "overhead_with_edges": (watched.processor + self.edges[0]) / alone - 1.0,
            "ledger": self.parts,
            "pictures": self.pictures,
        }


def measure_loop(work: Work, rounds: int, seconds: float, clocks: PausableClocks) -> Cost:
    """Run plain and watched blocks of so many seconds in turns."""
    plain, loop = Loop(work), Loop(work)
    for each in (plain, loop):
        _run_block(each, None, LoopTime(), seconds / 4)
    sides = LoopTime(), LoopTime()
    with tempfile.TemporaryDirectory() as folder:
        watcher = dgn.watch(loop.model, probe=loop.probe(EXAMPLES), out=Path(folder) / "run")
        began = time.thread_time(), time.monotonic()
        watcher.start()
        edges = [time.thread_time() - began[0], time.monotonic() - began[1]]
        for _ in range(rounds):
            with clocks.pause():
                _run_block(plain, None, sides[0], seconds)
            _run_block(loop, watcher, sides[1], seconds)
        account = watcher.account
        began = time.thread_time(), time.monotonic()
        watcher.close()
        edges[0] += time.thread_time() - began[0]
        edges[1] += time.monotonic() - began[1]
        if watcher.trouble:
            raise RuntimeError(watcher.trouble)
        frame = dgn.open_run(Path(folder) / "run").frame()
        pictures = {n: r.absent or r.remark or "all" for n, r in frame.readings.items()}
    cost = (edges[0], edges[1])
    return Cost(work.title, *sides, cost, machine.read_load(), dict(account.parts), pictures)


def _run_block(loop: Loop, watcher: Watcher | None, side: LoopTime, seconds: float) -> None:
    steps, inside, clock = 0, 0.0, time.monotonic()
    recorder = watcher.recorder_seconds if watcher else 0.0
    processor = time.thread_time()
    while time.monotonic() - clock < seconds:
        loss = loop.step()
        if watcher is not None:
            before = time.thread_time()
            watcher.step(loss=loss)
            inside += time.thread_time() - before
        steps += 1
    recorder = watcher.recorder_seconds - recorder if watcher else 0.0
    used = time.thread_time() - processor + recorder
    side.add(steps, used, time.monotonic() - clock, inside + recorder)


def _spread(blocks: list[float]) -> float:
    """Return half the interquartile range, relative to the median."""
    if len(blocks) < 4:
        return float("nan")
    low, middle, high = statistics.quantiles(blocks, n=4)
    return (high - low) / 2.0 / middle


def _format_cost(tree: dict[str, object]) -> str:
    overhead = tree["overhead_processor"]
    assert isinstance(overhead, float)
    line = (
        "{title}: {seconds_a_step:.4f} s a step, load {load:.1f}\n  watched "
        "{overhead_processor:+.1%} by processor seconds ({overhead_inside:+.1%} in our own calls), "
        "{overhead_clock:+.1%} by the clock; blocks of the loop alone ±{noise:.1%}\n"
        "  beginning and end {edges_processor:.1f} s, with them {overhead_with_edges:+.1%} of "
        "{steps} steps"
    ).format_map(tree)
    parts, pictures = tree["ledger"], tree["pictures"]
    assert isinstance(parts, dict)
    assert isinstance(pictures, dict)
    line += "\n  the ledger: " + ", ".join(f"{name} {part:.1%}" for name, part in parts.items())
    line += "\n  " + "; ".join(f"{name}: {remark}" for name, remark in pictures.items())
    return line + f"\n  bar ≤ {BAR:.0%}: {'met' if overhead <= BAR else 'missed'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attached", description=__doc__)
    parser.add_argument("--only", choices=WORKS, action="append", help="one loop; repeatable")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each block")
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clocks = PausableClocks()
    clocks.install()
    rows = []
    for name in options.only or WORKS:
        rows.append(measure_loop(WORKS[name], options.rounds, options.seconds, clocks).as_json())
        print(_format_cost(rows[-1]), flush=True)
    if options.out:
        tree = {"machine": machine.describe_machine(torch.device("cpu")), "rows": rows}
        options.out.write_text(json.dumps(tree, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
