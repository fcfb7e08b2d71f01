"""Gain of stacks and cores in a sweep of 48: `python -m benchmarks.sweep_on_cores [--rounds N]`.

48 dense networks (784-128×5-10, batch 32; ReLU, FR-II and DL in equal parts) take the same steps
in four ways: one after another or as one stack per regime, in one process or in `--cores`
processes. The output is network-steps per wall-clock second and the ratio to the first way: median
over the rounds, minimum and maximum. Processes start beforehand, so their start-up (3 processor
seconds each) is not included. Then Adam alone: nanoseconds per weight, for one network and for a
stack of 24.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection

NETWORKS, STEPS = 48, 40
REGIMES = ("ReLU", "FR-II", "DL")
STACK = NETWORKS // len(REGIMES)


def serve_steps(pipe: Connection, offset: int, stride: int) -> None:
    """Build every `stride`-th network from `offset`; on 'single' or 'packed' take steps and send
    the number of network-steps."""
    import torch

    from benchmarks.networks import dense_architecture
    from benchmarks.training_epochs import CLASSES, CONFIG
    from dgn_engine.regimes import find_regime
    from dgn_engine.training.batched.stacked_network import TrainerStack
    from dgn_engine.training.device_data import DeviceData
    from dgn_engine.training.trainer import Trainer

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((3200, 784), generator=generator)
    y = torch.randint(0, CLASSES, (3200,), generator=generator)
    data, cpu = DeviceData(x, y, x[:32], y[:32]), torch.device("cpu")

    def trainers(regime: str) -> list[Trainer]:
        return [
            Trainer(
                replace(CONFIG, seed=seed),
                dense_architecture(CLASSES),
                data,
                find_regime(regime),
                cpu,
            )
            for seed in range(offset, STACK, stride)
        ]

    single = [trainers(regime) for regime in REGIMES]
    packed = [TrainerStack(trainers(regime)) for regime in REGIMES]
    pipe.send(0)
    while (way := pipe.recv()) != "end":
        done = 0
        for networks, stack in zip(single, packed, strict=True):
            if way == "single":
                for network in networks:
                    for _ in range(STEPS):
                        network.step()
            else:
                for _ in range(STEPS):
                    stack.step()
            done += STEPS * len(networks)
        pipe.send(done)


class Processes:
    """Worker processes that share the 48 networks."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        for index in range(count):
            ours, theirs = context.Pipe()
            context.Process(target=serve_steps, args=(theirs, index, count), daemon=True).start()
            self._pipes.append(ours)
        self._receive_counts()

    def _receive_counts(self) -> int:
        return sum(int(pipe.recv()) for pipe in self._pipes)

    def measure_rate(self, way: str) -> float:
        """Return network-steps per wall-clock second, until the last process is done."""
        began = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(way)
        return self._receive_counts() / (time.perf_counter() - began)

    def stop(self) -> None:
        for pipe in self._pipes:
            pipe.send("end")


def time_adam(networks: int, rounds: int) -> float:
    """Return the median nanoseconds per weight of one Adam update of so many networks."""
    import torch

    torch.set_num_threads(1)
    weights = torch.nn.Parameter(torch.rand(networks * 332_000))
    weights.grad = torch.rand_like(weights)
    optimiser = torch.optim.Adam([weights], lr=1e-6, fused=True)
    seconds = []
    for _ in range(rounds):
        began = time.thread_time()
        for _ in range(max(1, 24 // networks)):
            optimiser.step()
        seconds.append((time.thread_time() - began) / (24 // networks) / weights.numel())
    return 1e9 * statistics.median(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep_on_cores", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    single_process, several_processes = Processes(1), Processes(options.cores)
    ways = {
        "one by one, one process": (single_process, "single"),
        "stacks, one process": (single_process, "packed"),
        f"one by one, {options.cores} processes": (several_processes, "single"),
        f"stacks, {options.cores} processes": (several_processes, "packed"),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for index in range(options.rounds + 1):
        for name, (processes, way) in ways.items():
            rate = processes.measure_rate(way)
            if index:  # the first warms up
                rates[name].append(rate)
    first = next(iter(rates.values()))
    for name, values in rates.items():
        ratios = [mine / theirs for mine, theirs in zip(values, first, strict=True)]
        print(
            f"{name}: {statistics.median(values):,.0f} network-steps/s, "
            f"{statistics.median(ratios):.2f} [{min(ratios):.2f} – {max(ratios):.2f}]"
        )
    single_process.stop()
    several_processes.stop()
    print(
        f"Adam, ns per weight: one network {time_adam(1, 9):.2f}, "
        f"a stack of 24 {time_adam(24, 9):.2f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
