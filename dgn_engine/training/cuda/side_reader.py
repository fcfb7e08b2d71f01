"""Probes of a run on a card are read on a side stream, of a copy of the network, while it trains.

The copy is made on the card, in the stream that trains; the thread of the side stream waits for
what probes ask of the card, so that the thread that trains waits for nothing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

import torch

from dgn_engine.kernels.precision import products
from dgn_engine.training.cuda.side_stream import SideStream
from dgn_engine.training.probes import ProbeContext, ProbeResult

Read = Callable[[ProbeContext], ProbeResult]


@dataclass(frozen=True)
class SideResult:
    """What a probe read or met, and the seconds that it took."""

    result: ProbeResult | None
    error: Exception | None
    seconds: float


def read_now(
    read: Read, context: ProbeContext, clock: Callable[[], float] = time.monotonic
) -> SideResult:
    """Read it in this thread, in full float32 whatever steps are computed in."""
    result, error = None, None
    with products("ieee"):
        began = clock()
        try:
            result = read(context)
        except Exception as raised:  # the run must outlive a faulty probe
            error = raised
        return SideResult(result, error, clock() - began)


@dataclass
class SideReading:
    """Some probes of one step. `contexts`: of the copied network, of each n-th example;
    `every`: which of these a probe reads."""

    step: int
    contexts: dict[int, ProbeContext]
    every: Mapping[str, int]
    results: dict[str, SideResult] = field(default_factory=dict)


class SideReader:
    """One reading at a time. `begin`, `take` and `close` are of the thread that trains."""

    def __init__(self, side: SideStream) -> None:
        self._side = side
        self._reading: tuple[SideReading, Future[None]] | None = None
        self._wanted = False

    @property
    def busy(self) -> bool:
        """Something is being read, or waits to be taken."""
        return self._reading is not None

    def holds(self, probe: str) -> bool:
        """Whether this one is in what is being read and is still wanted."""
        return self._wanted and self._reading is not None and probe in self._reading[0].every

    @property
    def done(self) -> bool:
        """Whether `take` gives something."""
        return self._reading is not None and self._reading[1].done()

    def begin(
        self, context: ProbeContext, step: int, every: Mapping[str, int], reads: Mapping[str, Read]
    ) -> None:
        """Copy the network and read these probes of it; only while it is not `busy`."""
        network = copy.deepcopy(context.network)
        whole = ProbeContext(
            network,
            context.x,
            context.labels,
            context.regime,
            classes=context.classes,
            training=context.training,
        )
        contexts = {1: whole} | {n: whole.subsample(n) for n in set(every.values()) - {1}}
        reading = SideReading(step, contexts, every)
        copied = self._side.record_event()
        self._wanted = True
        self._reading = reading, self._side.submit(lambda: self._read(reading, reads, copied))

    def take(self) -> SideReading | None:
        """What was read, once; None while it is not done, or where nobody wants it any more."""
        if self._reading is None or not self._reading[1].done():
            return None
        (reading, future), self._reading = self._reading, None
        future.result()
        return reading if self._wanted else None

    def drop(self) -> None:
        """Nobody wants what is being read: the network is another one."""
        self._wanted = False

    def close(self) -> None:
        """Wait for what is being read; nobody wants it any more."""
        self.drop()
        if self._reading is not None and not self._reading[1].cancel():
            wait([self._reading[1]])
        self._reading = None

    def _read(
        self, reading: SideReading, reads: Mapping[str, Read], copied: torch.cuda.Event | None
    ) -> None:
        """In the thread."""
        self._side.wait_for(copied)
        for name, read in reads.items():
            reading.results[name] = read_now(read, reading.contexts[reading.every[name]])
