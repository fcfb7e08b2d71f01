"""Time several pieces of work in alternating rounds on one core.

Each round yields two figures: processor seconds, which other processes on a shared machine barely
affect, and wall seconds. On an idle machine they are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch

LEAST_ROUNDS = 3

Seconds = tuple[float, float]  # processor, wall


def pin_to_one_core() -> int | None:
    """Pin this process and its children to the last core; return it, or None if impossible."""
    torch.set_num_threads(1)
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


@runtime_checkable
class OwnClock(Protocol):
    """Work that runs in another process and is timed there."""

    def measure_seconds(self) -> Seconds:
        """Do the work once and return its seconds."""


def make_timer(work: Callable[[], object], device: torch.device) -> Callable[[], Seconds]:
    """Return a call that does the work once and returns its seconds.

        On CUDA these are wall-clock seconds until every stream is idle: events would time only the
    current stream, while captured steps run on another one.
    """

    def on_cuda() -> Seconds:
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
        return wall, wall

    def on_cpu() -> Seconds:
        start, wall = time.process_time(), time.perf_counter()
        work()
        return time.process_time() - start, time.perf_counter() - wall

    if isinstance(work, OwnClock):
        return work.measure_seconds
    return on_cuda if device.type == "cuda" else on_cpu


def time_in_turns(
    calls: Sequence[Callable[[], Seconds]], most_rounds: int, budget: float
) -> list[list[Seconds]]:
    """Time every call in rounds A B C, A B C, …: at least three rounds, then until `budget` seconds
    have passed. The caller is responsible for warming up."""
    seconds: list[list[Seconds]] = [[] for _ in calls]
    start = time.perf_counter()
    for done in range(most_rounds):
        if done >= LEAST_ROUNDS and time.perf_counter() - start > budget:
            break
        for index, call in enumerate(calls):
            seconds[index].append(call())
    return seconds
