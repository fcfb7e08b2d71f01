"""A run with all probes watched, against the same run with none."""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Method, Within, Work
from benchmarks.floors import count_training_work
from benchmarks.timing import Seconds
from benchmarks.training_epochs import EAGER
from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.training import StartRun, StepsNotCaptured
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session.engine import Engine
from dgn_engine.training.probes import all_probes

CONFIG = RunConfig(
    data=DataConfig("digits"),
    net=NetConfig(options=(("width", 128), ("depth", 5))),
    training=TrainingConfig(epochs=0),
)
DIGITS = (1, 8, 8), 10  # shape and classes
QUIET = 0.5  # seconds: longer than a slice of a reading


class _Steps:
    """Steps of a session's engine, timed by the wall clock."""

    def __init__(self, device: torch.device, steps: int, watched: bool) -> None:
        self._steps, self._watched = steps, watched
        self._events: list[Event] = []
        self._engine = Engine(self._record, lambda _: None)
        config = replace(CONFIG, device="cuda" if device.type == "cuda" else "cpu")
        if watched:
            self._engine.handle_command(Watch(tuple(ProbeRequest(name) for name in all_probes())))
        self._engine.handle_command(StartRun(config))

    def _record(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, StepsNotCaptured):
            EAGER.append(f"{'watched' if self._watched else 'not watched'}: {event.reason}")

    def __call__(self) -> Tensor:
        self.measure_seconds()
        return torch.empty(0)

    def measure_seconds(self) -> Seconds:
        run = self._engine.run
        assert run is not None, self._events
        last = run.step_count + self._steps
        began = time.perf_counter()
        while run.step_count < last:
            self._engine.advance()
            if not self._engine.running or run.diverged:
                raise RuntimeError(self._reason_stopped())
        run.wait_for_scores()
        wall = time.perf_counter() - began
        if self._watched:  # a reading still in progress must not slow the other method
            time.sleep(QUIET)
        return wall, wall

    def _reason_stopped(self) -> str:
        failures = [event for event in self._events if isinstance(event, Failed)]
        if not failures:
            return "the run stopped by itself or diverged"
        return f"{failures[-1].what}\n{failures[-1].traceback}"


def _watched(device: torch.device, n: int) -> Work:
    return _Steps(device, n, watched=True)


def _unwatched(device: torch.device, n: int) -> Work:
    return _Steps(device, n, watched=False)


def _floor(n: int) -> Amounts:
    """Return the least work of the steps alone, without the readings."""
    architecture = build_architecture(CONFIG.net, *DIGITS)
    return count_training_work(CONFIG, architecture, n * CONFIG.training.batch, n)


CASE = Case(
    title="fc 128×4 on digits, steps of a session with all probes watched",
    n=5_000,
    quick=60,
    methods=(Method("watched", _watched), Method("not watched", _unwatched)),
    bars=(Within("not watched", 1 / 0.97),),
    rank=6,
    floor=_floor,
)
