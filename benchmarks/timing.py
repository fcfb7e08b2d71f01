"""Seconds of several pieces of work, alternating on one core.

Each round gives two figures: processor seconds, which neighbours on a shared machine do not
touch, and wall seconds. On a quiet machine they are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch

LEAST_ROUNDS = 3

Seconds = tuple[float, float]  # processor, wall


def pin() -> int | None:
    """Hold this process and its children to one core, the last; None where that is impossible."""
    torch.set_num_threads(1)
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


@runtime_checkable
class OwnClock(Protocol):
    """Work that another process does and times."""

    def seconds(self) -> Seconds:
        """Do it once."""


def timed(work: Callable[[], object], device: torch.device) -> Callable[[], Seconds]:
    """Return a call that does the work once and returns its seconds.

    On a card these are seconds of the wall until every stream is idle: events would time the
    current stream alone, and steps run as graphs on another.
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
        return work.seconds
    return on_cuda if device.type == "cuda" else on_cpu


def alternate(
    calls: Sequence[Callable[[], Seconds]], most_rounds: int, budget: float
) -> list[list[Seconds]]:
    """Seconds of every call, in rounds A B C, A B C, …: at least three of them, then until the
    budget of seconds is spent. Warming up is the caller's."""
    seconds: list[list[Seconds]] = [[] for _ in calls]
    start = time.perf_counter()
    for done in range(most_rounds):
        if done >= LEAST_ROUNDS and time.perf_counter() - start > budget:
            break
        for place, call in enumerate(calls):
            seconds[place].append(call())
    return seconds
