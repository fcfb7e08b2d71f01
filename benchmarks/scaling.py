"""Where costs bend: `python -m benchmarks.scaling [--only NAME] [--rounds N] [--out F.json]`.

Processor seconds against width, depth and batch, the number of probe examples, of panels in sight,
of recorded runs and of steps that were scored. `--runs-in DIR` keeps the folders of runs there,
whose making takes longer than their measuring. Every size of one row is measured in each round, so
that a busy machine slows all of them; given is the median of the rounds, with the least and the
most.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import torch

from benchmarks import machine
from benchmarks.watched_runs import InWindow
from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.confinement.child_process import python_command, python_environment
from dgn_engine.data import ignore_progress
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.protocol.training import Measured
from dgn_engine.regimes import find_regime
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.index import forget_index, list_runs
from dgn_engine.training.batched.stack_groups import STACK
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.probes import all_probes
from dgn_engine.training.run import Run
from dgn_engine.training.trainer import Trainer
from dgn_engine.views.history import History

EXAMPLES = (32, 64, 128, 256, 512)
PROBES = ("gates", "overlap", "npk", "ntk")
PANELS = ("gate_maps", "overlap", "spectrum", "ntk", "training")  # those of the default layout
RUNS = (10, 100, 1_000, 10_000)
SCORES = (100, 1_000, 10_000, 100_000, 1_000_000)
WIDTHS, DEPTHS, BATCHES = (16, 32, 64, 128, 256, 512, 1024), (1, 2, 5, 10, 20), (1, 8, 32, 128, 512)
STEPS = 20  # of one trainer before the next one's turn
FC128 = NetConfig("fc", (("depth", 6), ("width", 128)))


@dataclass
class Curve:
    """`seconds[name][size]`: one figure of each round."""

    title: str
    over: str
    seconds: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str, size: int) -> Iterator[None]:
        """Note the processor seconds that this thread takes meanwhile."""
        began = time.thread_time()
        yield
        self.note(name, size, time.thread_time() - began)

    def note(self, name: str, size: int, seconds: float) -> None:
        self.seconds.setdefault(name, {}).setdefault(size, []).append(seconds)

    def text(self) -> str:
        """A line for each name: milliseconds at each size."""
        lines = [f"{self.title}, ms by {self.over}"]
        for name, sizes in self.seconds.items():
            figures = (f"{size:,}: {_spread(found)}" for size, found in sizes.items())
            lines.append(f"  {name}: {' · '.join(figures)}")
        return "\n".join(lines)


def _spread(seconds: list[float]) -> str:
    middle, least, most = statistics.median(seconds), min(seconds), max(seconds)
    return f"{1e3 * middle:.3g} [{1e3 * least:.3g} – {1e3 * most:.3g}]"


def _config(examples: int = 64) -> RunConfig:
    training = TrainingConfig(epochs=0, batch=32, learning_rate=1e-4)
    return RunConfig(net=FC128, training=training, probe_examples=examples, device="cpu")


def _examples() -> DeviceData:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((2048, 784), generator=generator)
    y = torch.randint(0, 10, (2048,), generator=generator)
    return DeviceData(x, y, x[:32], y[:32])


def _trainer(
    data: DeviceData, width: int, depth: int, batch: int, regime: str = "DL", seed: int = 0
) -> Trainer:
    hidden = [Dense(*pair) for pair in pairwise([784, *[width] * depth])]
    architecture = Architecture((784,), (*hidden, Dense(width, 10, gated=False)))
    training = TrainingConfig(epochs=0, batch=batch, learning_rate=1e-4)
    config = RunConfig(training=training, seed=seed)
    return Trainer(config, architecture, data, find_regime(regime), torch.device("cpu"))


def training_step(rounds: int, sizes: Sequence[int], over: str) -> Curve:
    """Steps of a dense network, DL, 784 inputs; `over`: which of its sizes changes."""
    found = Curve("a step, DL, 784 inputs", over)
    data, usual = _examples(), {"width": 128, "depth": 5, "batch": 32}
    trainers = {size: _trainer(data, **(usual | {over: size})) for size in sizes}
    for place in range(rounds + 1):
        for size, trainer in trainers.items():
            began = time.thread_time()
            for _ in range(STEPS):
                trainer.step()
            if place:  # the first warms up
                found.note("a step", size, (time.thread_time() - began) / STEPS)
    return found


def packing(rounds: int) -> Curve:
    """A step of one network by itself, and its share of a step of a stack of 24."""
    found = Curve(f"a step for each network, 784 inputs, stack of {STACK}", "width")
    data = _examples()
    for width in WIDTHS[:5]:
        for regime in ("ReLU", "FR-II", "DL"):
            one = _trainer(data, width, 5, 32, regime)
            stack = TrainerStack(
                [_trainer(data, width, 5, 32, regime, seed) for seed in range(STACK)]
            )
            for place in range(rounds + 1):
                for name, step, shares in (("alone", one.step, 1), ("stack", stack.step, STACK)):
                    steps = max(3, 2 * STEPS // shares)
                    began = time.thread_time()
                    for _ in range(steps):
                        step()
                    if place:
                        seconds = (time.thread_time() - began) / steps / shares
                        found.note(f"{regime}, {name}", width, seconds)
    return found


def probe_examples(rounds: int) -> Curve:
    """A reading of each kernel probe of fc 128×5 on digits; in the engine's thread."""
    found = Curve("a reading, fc 128×5, digits", "probe examples")
    runs = {
        n: Run(1, _config(n), lambda _event: None, ignore_progress, live=False) for n in EXAMPLES
    }
    probes = all_probes()
    for run in runs.values():
        run.step()
    for place in range(rounds + 1):
        for n, run in runs.items():
            context = run.probed.probe_context()
            for name in PROBES:
                began = time.thread_time()
                probes[name].read(context, {}, None)
                if place:  # the first warms up
                    found.note(name, n, time.thread_time() - began)
    return found


def panels(rounds: int) -> Curve:
    """What the window's thread takes for one round of drawing with so many panels in sight."""
    found = Curve("drawing a round, fc 128×5, 1440×900", "panels")
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(_config(), "", Path(folder), process=False)
        try:
            for _ in range(rounds):
                by_panel = _draw_each(window)
                for count in range(1, len(PANELS) + 1):
                    found.note("the first so many", count, sum(by_panel[:count]))
        finally:
            window.close()
    return found


def _draw_each(window: InWindow) -> list[float]:
    """Train a little and draw each panel, painting included: processor seconds of each."""
    display, docks = window.viewer.window.display, window.viewer.window.docks
    draw, display._draw_panel = display._draw_panel, lambda name: None  # type: ignore[method-assign]
    window.resume()
    window.pause()
    seconds = []
    for name in PANELS:
        began = time.thread_time()
        draw(name)
        docks.hosts[name].repaint()
        window.viewer.application.processEvents()
        seconds.append(time.thread_time() - began)
    display._draw_panel = draw  # type: ignore[method-assign]
    return seconds


def make_runs(folder: Path) -> None:
    """Folders of 10, 100, … runs, copies of a short one, where they are not there yet."""
    first = folder / "one"
    if not first.exists():
        small = ("--data", "digits", "--width", "4", "--depth", "3", "--epochs", "1", "--quiet")
        command = python_command("-m", "dgn_engine.cli", "train", *small, "--out", str(first))
        subprocess.run(command, env=python_environment(), check=True)
    for count in RUNS:
        for place in range(count):
            target = folder / f"runs-{count}" / f"run-{place:05}"
            if not target.exists():
                shutil.copytree(first, target)


def recorded_runs(rounds: int, kept: Path | None) -> Curve:
    """`dgn runs list`, with its index and the first time."""
    found = Curve("listing recorded runs", "runs")
    with tempfile.TemporaryDirectory() as folder:
        within = kept or Path(folder)
        make_runs(within)
        for _ in range(rounds):
            for count in RUNS:
                root = within / f"runs-{count}"
                forget_index(root)
                with found.timed("without an index", count):
                    list_runs(str(root))
                with found.timed("with its index", count):
                    list_runs(str(root))
    return found


def history(rounds: int) -> Curve:
    """What the window keeps of a run that was scored so often: to take one more in, and to draw
    the panel of its curves."""
    found = Curve("a long run in the window", "scored steps")
    draw = all_panels()["training"].draw
    pasts = {count: History() for count in SCORES}
    for count, past in pasts.items():
        for step in range(count):
            past.on_event(_score(step))
    for place in range(rounds):
        for count, past in pasts.items():
            with found.timed("100 more scores", count):
                for step in range(100):
                    past.on_event(_score(count + 100 * place + step))
            with found.timed("the view and the curves", count):
                draw(past.view({}))
    return found


def _score(step: int) -> Measured:
    return Measured(step, step / 100, 2.3 / (1 + step), 0.5, 2.4 / (1 + step), 0.4)


def rows_of(kept: Path | None) -> Mapping[str, Callable[[int], Curve]]:
    return {
        "width": partial(training_step, sizes=WIDTHS, over="width"),
        "depth": partial(training_step, sizes=DEPTHS, over="depth"),
        "batch": partial(training_step, sizes=BATCHES, over="batch"),
        "packing": packing,
        "probe_examples": probe_examples,
        "panels": panels,
        "recorded_runs": partial(recorded_runs, kept=kept),
        "history": history,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--only", action="append", choices=tuple(rows_of(None)), help="repeatable")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    parser.add_argument("--runs-in", type=Path, help="where folders of runs are made and kept")
    parser.add_argument("--make-runs", action="store_true", help="make them and stop")
    given = parser.parse_args()
    if "DISPLAY" not in os.environ and "WAYLAND_DISPLAY" not in os.environ:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if given.make_runs:
        if given.runs_in is None:
            parser.error("--make-runs needs --runs-in.")
        make_runs(given.runs_in)
        return 0
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    measured = rows_of(given.runs_in)
    rows: list[dict[str, object]] = []
    for name in given.only or measured:
        before = machine.load()
        curve = measured[name](given.rounds)
        print(f"{curve.text()}\n  load {before} to {machine.load()}", flush=True)
        rows.append({**vars(curve), "load": [before, machine.load()]})
    if given.out:
        tree = {"machine": machine.machine(torch.device("cpu")), "rows": rows}
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(tree, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
