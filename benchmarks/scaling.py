"""How costs scale: `python -m benchmarks.scaling [--only NAME] [--rounds N] [--out F.json]`.

Processor seconds against width, depth and batch size, and against the number of probe examples,
visible panels, recorded runs and scored steps. `--runs-in DIR` keeps the run folders, which take
longer to create than to measure. Each round measures every size of a row, so that a busy machine
slows all of them alike; the output is the median over the rounds, with minimum and maximum.
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

from benchmarks import floors, machine
from benchmarks.rates import measure_rates
from benchmarks.watched_runs import InWindow
from dgn_engine.config import GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.confinement.child_process import python_command, python_environment
from dgn_engine.data import ignore_progress
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.protocol.training import Measured
from dgn_engine.regimes import find_regime
from dgn_engine.scene.panel_spec import all_panels
from dgn_engine.storage.runs.index import forget_index, list_runs
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
    """Seconds against size: `seconds[name][size]` holds one value per round, `limits[size]` the
    least seconds and what bounds them, if known."""

    title: str
    over: str
    seconds: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    limits: dict[int, tuple[float, floors.Bound]] = field(default_factory=dict)

    @contextmanager
    def time_block(self, name: str, size: int) -> Iterator[None]:
        """Add the processor seconds this thread spends in the block."""
        began = time.thread_time()
        yield
        self.add(name, size, time.thread_time() - began)

    def add(self, name: str, size: int, seconds: float) -> None:
        self.seconds.setdefault(name, {}).setdefault(size, []).append(seconds)

    def format_lines(self) -> str:
        """Return one line per name, with the milliseconds at each size."""
        lines = [f"{self.title}, ms by {self.over}"]
        for name, sizes in self.seconds.items():
            figures = (f"{size:,}: {_format_spread(found)}" for size, found in sizes.items())
            lines.append(f"  {name}: {' · '.join(figures)}")
            reached = (
                f"{size:,}: {1e3 * limit:.3g} ({bound}), "
                f"{limit / statistics.median(sizes[size]):.2g}"
                for size, (limit, bound) in self.limits.items()
            )
            if self.limits:
                lines.append(f"  limit, and the share reached: {' · '.join(reached)}")
        return "\n".join(lines)


def _format_spread(seconds: list[float]) -> str:
    middle, least, most = statistics.median(seconds), min(seconds), max(seconds)
    return f"{1e3 * middle:.3g} [{1e3 * least:.3g} – {1e3 * most:.3g}]"


def _make_config(examples: int = 64) -> RunConfig:
    training = TrainingConfig(epochs=0, batch=32, learning_rate=1e-4)
    return RunConfig(net=FC128, training=training, probe_examples=examples, device="cpu")


def _draw_examples() -> DeviceData:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((2048, 784), generator=generator)
    y = torch.randint(0, 10, (2048,), generator=generator)
    return DeviceData(x, y, x[:32], y[:32])


def _make_trainer(data: DeviceData, width: int, depth: int, batch: int) -> Trainer:
    hidden = [Dense(*pair) for pair in pairwise([784, *[width] * depth])]
    architecture = Architecture((784,), (*hidden, Dense(width, 10, gated=False)))
    training = TrainingConfig(epochs=0, batch=batch, learning_rate=1e-4)
    config = RunConfig(training=training, gating=GatingConfig(regime="DL"))
    return Trainer(config, architecture, data, find_regime("DL"), torch.device("cpu"))


def measure_training_step(rounds: int, sizes: Sequence[int], over: str) -> Curve:
    """Time steps of a dense network (DL, 784 inputs); `over` names the size that varies."""
    curve = Curve("a step, DL, 784 inputs", over)
    data, usual = _draw_examples(), {"width": 128, "depth": 5, "batch": 32}
    trainers = {size: _make_trainer(data, **(usual | {over: size})) for size in sizes}
    rates = measure_rates(torch.device("cpu"))
    for size, trainer in trainers.items():
        batch = trainer.config.training.batch
        architecture = trainer.network.architecture
        work = floors.count_training_work(trainer.config, architecture, batch, 1)
        curve.limits[size] = floors.compute_floor(work, "float32", rates)
    for index in range(rounds + 1):
        for size, trainer in trainers.items():
            began = time.thread_time()
            for _ in range(STEPS):
                trainer.step()
            if index:  # the first warms up
                curve.add("a step", size, (time.thread_time() - began) / STEPS)
    return curve


def measure_probe_readings(rounds: int) -> Curve:
    """Time a reading of each kernel probe of fc 128×5 on digits, as in the engine's thread."""
    curve = Curve("a reading, fc 128×5, digits", "probe examples")
    runs = {
        n: Run(1, _make_config(n), lambda _event: None, ignore_progress, live=False)
        for n in EXAMPLES
    }
    probes = all_probes()
    for run in runs.values():
        run.step()
    for index in range(rounds + 1):
        for n, run in runs.items():
            context = run.probed.probe_context()
            for name in PROBES:
                began = time.thread_time()
                probes[name].read(context, {}, None)
                if index:  # the first warms up
                    curve.add(name, n, time.thread_time() - began)
    return curve


def measure_panels(rounds: int) -> Curve:
    """Time one round of drawing in the GUI thread against the number of visible panels."""
    curve = Curve("drawing a round, fc 128×5, 1440×900", "panels")
    with tempfile.TemporaryDirectory() as folder:
        window = InWindow(_make_config(), "", Path(folder), process=False)
        try:
            for _ in range(rounds):
                by_panel = _draw_each(window)
                for count in range(1, len(PANELS) + 1):
                    curve.add("the first so many", count, sum(by_panel[:count]))
        finally:
            window.close()
    return curve


def _draw_each(window: InWindow) -> list[float]:
    """Train briefly, draw and paint each panel, and return the processor seconds of each."""
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
    """Create folders of 10, 100, … copies of a short run, unless they exist."""
    first = folder / "one"
    if not first.exists():
        small = ("--data", "digits", "--width", "4", "--depth", "3", "--epochs", "1", "--quiet")
        command = python_command("-m", "dgn_engine.cli", "train", *small, "--out", str(first))
        subprocess.run(command, env=python_environment(), check=True)
    for count in RUNS:
        for index in range(count):
            target = folder / f"runs-{count}" / f"run-{index:05}"
            if not target.exists():
                shutil.copytree(first, target)


def measure_run_list(rounds: int, kept: Path | None) -> Curve:
    """Time listing recorded runs without and with an index."""
    curve = Curve("listing recorded runs", "runs")
    with tempfile.TemporaryDirectory() as folder:
        within = kept or Path(folder)
        make_runs(within)
        for _ in range(rounds):
            for count in RUNS:
                root = within / f"runs-{count}"
                forget_index(root)
                with curve.time_block("without an index", count):
                    list_runs(str(root))
                with curve.time_block("with its index", count):
                    list_runs(str(root))
    return curve


def measure_history(rounds: int) -> Curve:
    """Time the window's history of a long run: adding scores, and drawing the training panel."""
    curve = Curve("a long run in the window", "scored steps")
    draw = all_panels()["training"].draw
    pasts = {count: History() for count in SCORES}
    for count, past in pasts.items():
        for step in range(count):
            past.on_event(_make_score(step))
    for index in range(rounds):
        for count, past in pasts.items():
            with curve.time_block("100 more scores", count):
                for step in range(100):
                    past.on_event(_make_score(count + 100 * index + step))
            with curve.time_block("the view and the curves", count):
                draw(past.view({}))
    return curve


def _make_score(step: int) -> Measured:
    return Measured(step, step / 100, 2.3 / (1 + step), 0.5, 2.4 / (1 + step), 0.4)


def list_measurements(kept: Path | None) -> Mapping[str, Callable[[int], Curve]]:
    return {
        "width": partial(measure_training_step, sizes=WIDTHS, over="width"),
        "depth": partial(measure_training_step, sizes=DEPTHS, over="depth"),
        "batch": partial(measure_training_step, sizes=BATCHES, over="batch"),
        "probe_examples": measure_probe_readings,
        "panels": measure_panels,
        "recorded_runs": partial(measure_run_list, kept=kept),
        "history": measure_history,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=tuple(list_measurements(None)), help="repeatable"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, help="write everything as JSON")
    parser.add_argument("--runs-in", type=Path, help="create and keep the run folders here")
    parser.add_argument("--make-runs", action="store_true", help="only create the run folders")
    options = parser.parse_args()
    if "DISPLAY" not in os.environ and "WAYLAND_DISPLAY" not in os.environ:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if options.make_runs:
        if options.runs_in is None:
            parser.error("--make-runs needs --runs-in.")
        make_runs(options.runs_in)
        return 0
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    measured = list_measurements(options.runs_in)
    rows: list[dict[str, object]] = []
    for name in options.only or measured:
        before = machine.read_load()
        curve = measured[name](options.rounds)
        print(f"{curve.format_lines()}\n  load {before} to {machine.read_load()}", flush=True)
        rows.append({**vars(curve), "load": [before, machine.read_load()]})
    if options.out:
        tree = {"machine": machine.describe_machine(torch.device("cpu")), "rows": rows}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(tree, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
