"""What packing and cores give a sweep of 48: `python -m benchmarks.sweep_on_cores [--rounds N]`.

48 dense networks (784-128×5-10, batch 32; ReLU, FR-II and DL in equal parts) take the same steps
in four ways: one after another or as stacks of one regime, in one process or in one for each of
`--cores`. Given are network-steps a second of the clock, in turns, and their ratios to the first
way: the median of the rounds, with the least and the most. Processes are started before; what
starting costs (3 s of a processor each) is not in it. Then Adam by itself: nanoseconds a weight, of
one network and of a stack of 24.
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


def serve(pipe: Connection, place: int, of: int) -> None:
    """Make every `of`-th part of the networks; take steps when told 'single' or 'packed', and say
    how many network-steps that were."""
    import torch

    from benchmarks.networks import dense
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
            Trainer(replace(CONFIG, seed=seed), dense(CLASSES), data, find_regime(regime), cpu)
            for seed in range(place, STACK, of)
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
    """Some that share the 48 networks."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        for place in range(count):
            ours, theirs = context.Pipe()
            context.Process(target=serve, args=(theirs, place, count), daemon=True).start()
            self._pipes.append(ours)
        self._hear()

    def _hear(self) -> int:
        return sum(int(pipe.recv()) for pipe in self._pipes)

    def rate(self, way: str) -> float:
        """Network-steps a second of the clock, until the last of them is done."""
        began = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(way)
        return self._hear() / (time.perf_counter() - began)

    def end(self) -> None:
        for pipe in self._pipes:
            pipe.send("end")


def adam(networks: int, rounds: int) -> float:
    """Nanoseconds a weight of one update of so many networks' weights, the median."""
    import torch

    torch.set_num_threads(1)
    weights = torch.nn.Parameter(torch.rand(networks * 332_000))
    weights.grad = torch.rand_like(weights)
    optimiser = torch.optim.Adam([weights], lr=1e-6, fused=True)
    found = []
    for _ in range(rounds):
        began = time.thread_time()
        for _ in range(max(1, 24 // networks)):
            optimiser.step()
        found.append((time.thread_time() - began) / (24 // networks) / weights.numel())
    return 1e9 * statistics.median(found)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep_on_cores", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    one, more = Processes(1), Processes(given.cores)
    ways = {
        "one by one, one process": (one, "single"),
        "stacks, one process": (one, "packed"),
        f"one by one, {given.cores} processes": (more, "single"),
        f"stacks, {given.cores} processes": (more, "packed"),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for place in range(given.rounds + 1):
        for name, (processes, way) in ways.items():
            rate = processes.rate(way)
            if place:  # the first warms up
                rates[name].append(rate)
    first = next(iter(rates.values()))
    for name, found in rates.items():
        ratios = [mine / theirs for mine, theirs in zip(found, first, strict=True)]
        print(
            f"{name}: {statistics.median(found):,.0f} network-steps/s, "
            f"{statistics.median(ratios):.2f} [{min(ratios):.2f} – {max(ratios):.2f}]"
        )
    one.end()
    more.end()
    print(f"Adam, ns a weight: one network {adam(1, 9):.2f}, a stack of 24 {adam(24, 9):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
