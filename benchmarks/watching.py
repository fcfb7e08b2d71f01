"""Cost of watching: `python -m benchmarks.watching [--only NAME] [--rounds N] [--out F.json]`.

The same run headless and unrecorded, and in the real window (default panels, recording, drawing;
offscreen if there is no display), alternating in one process: A B, A B, … The verdict uses the
median over the rounds of the ratio of steps per second. The ratio of processor seconds per step,
over all threads of the process, is also given: other processes on the machine affect it less.
Further rows: every step watched against none; the window frozen and scrubbed; drawing times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from benchmarks import machine
from benchmarks.drawn_frames import watch_drawing
from benchmarks.watched_runs import Block, Headless, InWindow, write_mnist_like_images
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig

BAR = 0.97  # of the steps a second without a window
FC32 = "fc 32×4, digits", NetConfig("fc", (("depth", 5), ("width", 32))), DataConfig()
FC128 = (
    "fc 128×5, 60,000 images 28×28",
    NetConfig("fc", (("depth", 6), ("width", 128))),
    DataConfig("mnist"),
)
CNN4 = (
    "cnn4 (32 channels), 2,000 images 28×28",
    NetConfig("cnn4"),
    DataConfig("mnist", train_limit=2000, test_limit=200),
)
WATCHED = {"fc32": FC32, "fc128": FC128, "cnn4": CNN4}
EVERY_STEP = ("gates", "npk", "ntk")  # ntk: K^V and K^F
NAMES = (*WATCHED, "every_step", "hands", "drawn")


@dataclass
class Ratio:
    """Two ways of running in turns: steps per second of `one` relative to `other`."""

    title: str
    one: list[Block] = field(default_factory=list)
    other: list[Block] = field(default_factory=list)
    load: float | None = None

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round, in ascending order."""
        return sorted(a.rate / b.rate for a, b in zip(self.one, self.other, strict=True))

    @property
    def processor(self) -> float:
        """Median ratio of steps per processor second."""
        pairs = zip(self.one, self.other, strict=True)
        return statistics.median(b.processor / a.processor for a, b in pairs)

    @property
    def shown(self) -> list[str]:
        """The viewer overhead at the end of each block, as the status bar shows it."""
        watched = [block.watching for block in self.one if block.watching is not None]
        return [
            f"{100 * one.overhead:.1f} ± {100 * one.noise:.1f} %"
            if one.overhead
            else one.unmeasured
            for one in watched
        ]

    def as_json(self) -> dict[str, object]:
        """Return the ratio as a JSON object."""
        last = self.one[-1].watching
        return {
            "title": self.title,
            "load": self.load,
            "ratio": statistics.median(self.ratios),
            "ratios": self.ratios,
            "processor_ratio": self.processor if self.one[0].processor else None,
            "steps_per_second": [block.rate for block in self.one],
            "against": [block.rate for block in self.other],
            "window_share_of_core": statistics.median(block.window for block in self.one),
            "ledger": None if last is None else {"taken": last.taken, **last.parts},
            "viewer_overhead": self.shown,
        }

    def format_lines(self, bar: float = 0.0) -> str:
        """Return the ratio as readable text."""
        middle, ratios = statistics.median(self.ratios), self.ratios
        rates = [statistics.median(b.rate for b in blocks) for blocks in (self.one, self.other)]
        line = f"{self.title}: {rates[0]:.0f} steps/s against {rates[1]:.0f}: {middle:.3f}"
        line += f" [{ratios[0]:.3f} – {ratios[-1]:.3f}], {len(ratios)} rounds, load {self.load:.1f}"
        if bar:
            line += f" (target ≥ {bar}: {'met' if middle >= bar else 'missed'})"
        if self.one[0].processor:
            window = statistics.median(block.window for block in self.one)
            line += f"\n  by processor seconds {self.processor:.3f}"
            line += f"; the window's thread {100 * window:.1f} % of a core" if window else ""
        last = self.one[-1].watching
        if last is not None:
            parts = ", ".join(f"{name} {100 * part:.1f} %" for name, part in last.parts.items())
            line += f"\n  the ledger: {100 * last.taken:.1f} % ({parts}); every {last.every:.1f} s"
            line += f"\n  viewer overhead, as shown: {', '.join(self.shown)}"
        return line


def _make_config(row: tuple[str, NetConfig, DataConfig], root: str) -> RunConfig:
    training = TrainingConfig(epochs=0, batch=32, learning_rate=1e-4)
    data = replace(row[2], root=root)
    return RunConfig(net=row[1], data=data, training=training, device="cpu")


def _measure_watched(name: str, root: str, options: argparse.Namespace) -> Ratio:
    ratio, config = Ratio(f"watched, {WATCHED[name][0]}"), _make_config(WATCHED[name], root)
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(config, root, Path(folder), options.process)
        try:
            headless = Headless(config)
            headless.run_block(1.0)
            for _ in range(options.rounds):
                ratio.other.append(headless.run_block(options.seconds))
                ratio.one.append(window.run_block(options.seconds))
        finally:
            window.close()
    ratio.load = machine.read_load()
    return ratio


def _measure_every_step(root: str, options: argparse.Namespace) -> Ratio:
    """Measure training with readings of 64 examples after every step against none."""
    ratio, config = Ratio("every step watched, fc 128×5, n = 64"), _make_config(FC128, root)
    watched, plain = Headless(config, EVERY_STEP), Headless(config)
    for each in (watched, plain):
        each.run_block(1.0)
    for _ in range(options.rounds):
        ratio.other.append(plain.run_block(options.seconds / 2))
        ratio.one.append(watched.run_block(options.seconds / 2))
    ratio.load = machine.read_load()
    return ratio


def _measure_interaction(root: str, options: argparse.Namespace) -> Sequence[Ratio]:
    """Compare a frozen window, and one with the mouse moving over its charts, with an idle window;
    and an idle window with itself, which shows the noise of the ratio for the frozen one."""
    titles = ("frozen for 5 s", "left alone, twice", "scrubbed")
    frozen, again, scrubbed = (Ratio(f"{what}, {FC128[0]}") for what in titles)
    config = _make_config(FC128, root)
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(config, root, Path(folder), options.process)
        try:
            scrub = window.make_scrubber()
            for _ in range(options.rounds):
                awake = window.run_frozen(answers=True)
                for ratio in (frozen, again):
                    ratio.other.append(awake)
                frozen.one.append(window.run_frozen())
                again.one.append(window.run_frozen(answers=True))
                scrubbed.other.append(window.run_block(options.seconds))
                scrubbed.one.append(window.run_block(options.seconds, scrub))
        finally:
            window.close()
    frozen.load = again.load = scrubbed.load = machine.read_load()
    return frozen, again, scrubbed


def _measure_drawing(root: str, options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(_make_config(FC128, root), root, Path(folder), process=False)
        try:
            return watch_drawing(window, options.rounds * options.seconds).compute_quantiles()
        finally:
            window.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watching", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="one row; repeatable")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each block")
    parser.add_argument("--process", action="store_true", help="the engine in its own process")
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    options = parser.parse_args()
    if "DISPLAY" not in os.environ and "WAYLAND_DISPLAY" not in os.environ:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = write_mnist_like_images(Path(folder))
        for name in options.only or NAMES:
            if name == "drawn":
                quantiles = _measure_drawing(root, options)
                print(
                    "drawn frames, ms:", *(f"{k} {v:.1f}" for k, v in quantiles.items()), sep=" · "
                )
                rows.append({"title": "drawn frames, ms", "load": machine.read_load(), **quantiles})
                continue
            if name in WATCHED:
                ratios, bar = [_measure_watched(name, root, options)], BAR
            else:
                bar = 0.0
                ratios = (
                    [_measure_every_step(root, options)]
                    if name == "every_step"
                    else [*_measure_interaction(root, options)]
                )
            for ratio in ratios:
                print(ratio.format_lines(bar), flush=True)
                rows.append(ratio.as_json())
            if options.out:
                tree = {"machine": machine.describe_machine(torch.device("cpu")), "rows": rows}
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps(tree, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
