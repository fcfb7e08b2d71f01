"""What watching costs: `python -m benchmarks.watching [--only NAME] [--rounds N] [--out F.json]`.

The same run headless and unrecorded, and in the real window (default panels, recording, drawing;
offscreen where there is no display), in turns in one process: A B, A B, … Judged is the ratio of
steps a second, side by side, its median over the rounds; beside it stands the ratio of processor
seconds a step, of all threads of the process, which neighbours on the machine touch less. Then:
every step watched against none; the window frozen and scrubbed; how long drawings take.
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
from benchmarks.drawn_frames import drawn_frames
from benchmarks.watched_runs import Block, Headless, InWindow, images_like_mnist
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig

BAR = 0.95  # of the steps a second without a window
FC32 = "fc 32×5, digits", NetConfig("fc", (("depth", 5), ("width", 32))), DataConfig()
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
    """Two ways in turns: steps a second of `one` over those of `other`."""

    title: str
    one: list[Block] = field(default_factory=list)
    other: list[Block] = field(default_factory=list)
    load: float | None = None

    @property
    def ratios(self) -> list[float]:
        """Of each round, the smallest first."""
        return sorted(a.rate / b.rate for a, b in zip(self.one, self.other, strict=True))

    @property
    def processor(self) -> float:
        """Median ratio of steps a processor second."""
        pairs = zip(self.one, self.other, strict=True)
        return statistics.median(b.processor / a.processor for a, b in pairs)

    @property
    def shown(self) -> list[str]:
        """The viewer overhead at the end of each block, as the status bar has it, and its error."""
        seen = [block.watching for block in self.one if block.watching is not None]
        return [
            f"{100 * one.overhead:.1f} ± {100 * one.noise:.1f} %"
            if one.overhead
            else one.unmeasured
            for one in seen
        ]

    def tree(self) -> dict[str, object]:
        """For JSON."""
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

    def text(self, bar: float = 0.0) -> str:
        """A line or two for people."""
        middle, ratios = statistics.median(self.ratios), self.ratios
        rates = [statistics.median(b.rate for b in blocks) for blocks in (self.one, self.other)]
        line = f"{self.title}: {rates[0]:.0f} steps/s against {rates[1]:.0f}: {middle:.3f}"
        line += f" [{ratios[0]:.3f} – {ratios[-1]:.3f}], {len(ratios)} rounds, load {self.load:.1f}"
        if bar:
            line += f" (bar ≥ {bar}: {'met' if middle >= bar else 'missed'})"
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


def _config(row: tuple[str, NetConfig, DataConfig], root: str) -> RunConfig:
    training = TrainingConfig(epochs=0, batch=32, learning_rate=1e-4)
    data = replace(row[2], root=root)
    return RunConfig(net=row[1], data=data, training=training, device="cpu")


def _watched(name: str, root: str, given: argparse.Namespace) -> Ratio:
    found, config = Ratio(f"watched, {WATCHED[name][0]}"), _config(WATCHED[name], root)
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(config, root, Path(folder), given.process)
        try:
            headless = Headless(config)
            headless.block(1.0)
            for _ in range(given.rounds):
                found.other.append(headless.block(given.seconds))
                found.one.append(window.block(given.seconds))
        finally:
            window.close()
    found.load = machine.load()
    return found


def _every_step(root: str, given: argparse.Namespace) -> Ratio:
    """How many times as long a step takes with readings of 64 examples after each."""
    found, config = Ratio("every step watched, fc 128×5, n = 64"), _config(FC128, root)
    watched, plain = Headless(config, EVERY_STEP), Headless(config)
    for each in (watched, plain):
        each.block(1.0)
    for _ in range(given.rounds):
        found.other.append(plain.block(given.seconds / 2))
        found.one.append(watched.block(given.seconds / 2))
    found.load = machine.load()
    return found


def _hands(root: str, given: argparse.Namespace) -> Sequence[Ratio]:
    """The window frozen, and the mouse moved over its charts, against a window left alone; and
    that against itself, which says how far the ratio of frozen to awake is to be trusted."""
    titles = ("frozen for 5 s", "left alone, twice", "scrubbed")
    frozen, again, scrubbed = (Ratio(f"{what}, {FC128[0]}") for what in titles)
    config = _config(FC128, root)
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(config, root, Path(folder), given.process)
        try:
            scrub = window.scrub()
            for _ in range(given.rounds):
                awake = window.frozen(answers=True)
                for ratio in (frozen, again):
                    ratio.other.append(awake)
                frozen.one.append(window.frozen())
                again.one.append(window.frozen(answers=True))
                scrubbed.other.append(window.block(given.seconds))
                scrubbed.one.append(window.block(given.seconds, scrub))
        finally:
            window.close()
    frozen.load = again.load = scrubbed.load = machine.load()
    return frozen, again, scrubbed


def _drawn(root: str, given: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(_config(FC128, root), root, Path(folder), process=False)
        try:
            return drawn_frames(window, given.rounds * given.seconds).quantiles()
        finally:
            window.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watching", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="one row; repeatable")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each block")
    parser.add_argument("--process", action="store_true", help="the engine in its own process")
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    given = parser.parse_args()
    if "DISPLAY" not in os.environ and "WAYLAND_DISPLAY" not in os.environ:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        root = images_like_mnist(Path(folder))
        for name in given.only or NAMES:
            if name == "drawn":
                quantiles = _drawn(root, given)
                print(
                    "drawn frames, ms:", *(f"{k} {v:.1f}" for k, v in quantiles.items()), sep=" · "
                )
                rows.append({"title": "drawn frames, ms", "load": machine.load(), **quantiles})
                continue
            if name in WATCHED:
                found, bar = [_watched(name, root, given)], BAR
            else:
                bar = 0.0
                found = (
                    [_every_step(root, given)] if name == "every_step" else [*_hands(root, given)]
                )
            for ratio in found:
                print(ratio.text(bar), flush=True)
                rows.append(ratio.tree())
            if given.out:
                tree = {"machine": machine.machine(torch.device("cpu")), "rows": rows}
                given.out.parent.mkdir(parents=True, exist_ok=True)
                given.out.write_text(json.dumps(tree, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
