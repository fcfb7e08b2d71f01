"""A run whose probes are all watched, and the same run that nobody watches."""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Method, Within, Work
from benchmarks.floors import training_amounts
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
QUIET = 0.5  # seconds: a slice of a reading takes less


class _Steps:
    """Steps of a session's engine, by the clock on the wall."""

    def __init__(self, device: torch.device, steps: int, watched: bool) -> None:
        self._steps, self._watched = steps, watched
        self._said: list[Event] = []
        self._engine = Engine(self._record, lambda _: None)
        config = replace(CONFIG, device="cuda" if device.type == "cuda" else "cpu")
        if watched:
            self._engine.handle_command(Watch(tuple(ProbeRequest(name) for name in all_probes())))
        self._engine.handle_command(StartRun(config))

    def _record(self, event: Event) -> None:
        self._said.append(event)
        if isinstance(event, StepsNotCaptured):
            EAGER.append(f"{'watched' if self._watched else 'not watched'}: {event.reason}")

    def __call__(self) -> Tensor:
        self.seconds()
        return torch.empty(0)

    def seconds(self) -> Seconds:
        run = self._engine.run
        assert run is not None, self._said
        last = run.step_count + self._steps
        began = time.perf_counter()
        while run.step_count < last:
            self._engine.advance()
            if not self._engine.running or run.diverged:
                raise RuntimeError(self._why_it_stands())
        run.wait_for_scores()
        wall = time.perf_counter() - began
        if self._watched:  # what is being read on the side must not count as the other's time
            time.sleep(QUIET)
        return wall, wall

    def _why_it_stands(self) -> str:
        failures = [event for event in self._said if isinstance(event, Failed)]
        if not failures:
            return "the run stopped by itself or diverged"
        return f"{failures[-1].what}\n{failures[-1].traceback}"


def _watched(device: torch.device, n: int) -> Work:
    return _Steps(device, n, watched=True)


def _unwatched(device: torch.device, n: int) -> Work:
    return _Steps(device, n, watched=False)


def _floor(n: int) -> Amounts:
    """Of the steps alone: what is read costs extra."""
    architecture = build_architecture(CONFIG.net, *DIGITS)
    return training_amounts(CONFIG, architecture, n * CONFIG.training.batch, n)


CASE = Case(
    title="fc 128×5 on digits, steps of a session with all probes watched",
    n=5_000,
    quick=60,
    methods=(Method("watched", _watched), Method("not watched", _unwatched)),
    bars=(Within("not watched", 1 / 0.97),),
    rank=6,
    floor=_floor,
)
