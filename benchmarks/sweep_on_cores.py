"""What stacks and cores gain in a sweep on a CPU: `python -m benchmarks.sweep_on_cores`.

Stacks: a step of one dense network (five hidden layers, 10 logits) against its share of a step of a
stack of networks with different seeds, by inputs, batch, width, regime and number of networks. They
take turns in one process. The output is how many times as fast the stack is, by processor
time: median over the rounds, minimum and maximum. `training/steps/choice.py` keeps what was at
least 1.5 times as fast.

Cores (`--cores N`, 0 to leave them out): network-steps per wall-clock second of fc 128×5 in ReLU,
FR-II and DL, one after another, in one process and in N. Processes start beforehand, so their
start-up (3 processor seconds each) is not included.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from itertools import product
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn_engine.training.device_data import DeviceData
    from dgn_engine.training.trainer import Trainer

REGIMES = ("ReLU", "FR-II", "DL")
INPUTS, BATCHES, WIDTHS = (64, 784, 3072), (8, 32, 64, 128), (8, 16, 32, 64, 128)
NETWORKS = (8, 16, 24, 48)
STEPS = 40  # network-steps before the next one's turn


def make_trainer(
    regime: str, inputs: int = 784, width: int = 128, batch: int = 32, seed: int = 0
) -> Trainer:
    """Return a trainer of a dense network on random examples."""
    from dataclasses import replace

    import torch

    from benchmarks.networks import dense_architecture
    from benchmarks.training_epochs import CLASSES, CONFIG
    from dgn_engine.regimes import find_regime
    from dgn_engine.training.trainer import Trainer

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    architecture = dense_architecture(CLASSES, width, inputs)
    config = replace(CONFIG, seed=seed, training=replace(CONFIG.training, batch=batch))
    cpu = torch.device("cpu")
    return Trainer(config, architecture, draw_examples(inputs), find_regime(regime), cpu)


@cache
def draw_examples(inputs: int) -> DeviceData:
    """Return random examples, shared by all networks, as those of a sweep share their images."""
    import torch

    from benchmarks.training_epochs import CLASSES
    from dgn_engine.training.device_data import DeviceData

    generator = torch.Generator().manual_seed(1)
    x = torch.rand((6400, inputs), generator=generator)
    y = torch.randint(0, CLASSES, (6400,), generator=generator)
    return DeviceData(x, y, x[:32], y[:32])


def measure_gains(
    regime: str, inputs: int, width: int, batch: int, rounds: int
) -> dict[int, list[float]]:
    """Return, by the number of networks, how many times as fast as single ones a stack is."""
    from dgn_engine.training.batched.stacked_network import TrainerStack

    alone, *others = (
        make_trainer(regime, inputs, width, batch, seed) for seed in range(1 + sum(NETWORKS))
    )
    stacks = {count: TrainerStack([others.pop() for _ in range(count)]) for count in NETWORKS}
    gains: dict[int, list[float]] = {count: [] for count in NETWORKS}
    for index in range(rounds + 1):
        seconds = _time_step(alone.step, STEPS)
        for count, stack in stacks.items():
            share = _time_step(stack.step, max(2, STEPS // count)) / count
            if index:  # the first round warms up
                gains[count].append(seconds / share)
    return gains


def _time_step(step: Callable[[], None], steps: int) -> float:
    began = time.thread_time()
    for _ in range(steps):
        step()
    return (time.thread_time() - began) / steps


def serve_steps(pipe: Connection) -> None:
    """Take steps of a network of each regime whenever the pipe asks; send their number."""
    trainers = [make_trainer(regime) for regime in REGIMES]
    pipe.send(0)
    while pipe.recv():
        for trainer in trainers:
            for _ in range(10 * STEPS):
                trainer.step()
        pipe.send(10 * STEPS * len(trainers))


class Processes:
    """Worker processes, each with its own networks."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            context.Process(target=serve_steps, args=(theirs,), daemon=True).start()
            self._pipes.append(ours)
        self._receive_counts()

    def _receive_counts(self) -> int:
        return sum(int(pipe.recv()) for pipe in self._pipes)

    def measure_rate(self) -> float:
        """Return network-steps per wall-clock second, until the last process is done."""
        began = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(True)
        return self._receive_counts() / (time.perf_counter() - began)

    def stop(self) -> None:
        for pipe in self._pipes:
            pipe.send(False)


def _print_cores(rounds: int, cores: int) -> None:
    pools = {count: Processes(count) for count in sorted({1, cores})}
    rates: dict[int, list[float]] = {count: [] for count in pools}
    for index in range(rounds + 1):
        for count, processes in pools.items():
            rate = processes.measure_rate()
            if index:
                rates[count].append(rate)
    for count, processes in pools.items():
        processes.stop()
        print(f"{count} processes: {_format_spread(rates[count])} network-steps/s")


def _format_spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} [{min(values):.3g} – {max(values):.3g}]"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep_on_cores", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    for name, sizes in {"inputs": INPUTS, "batch": BATCHES, "width": WIDTHS}.items():
        parser.add_argument(f"--{name}", type=int, action="append", help=f"default: {sizes}")
    options = parser.parse_args()
    print("inputs batch width regime: gain [least – most] by the number of networks")
    for inputs, batch, width, regime in product(
        options.inputs or INPUTS, options.batch or BATCHES, options.width or WIDTHS, REGIMES
    ):
        gains = measure_gains(regime, inputs, width, batch, options.rounds)
        cells = (f"{count}: {_format_spread(values)}" for count, values in gains.items())
        print(f"{inputs:>6} {batch:>5} {width:>5} {regime:<6}", *cells, sep="  ", flush=True)
    if options.cores:
        _print_cores(options.rounds, options.cores)
    return 0


if __name__ == "__main__":
    sys.exit(main())
