"""Of how many probe examples a probe is read, so that it takes no longer than it may, and fits."""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Reading
from dgn_engine.training.probes import (
    ASSUMED_FLOPS,
    Probe,
    ProbeContext,
    all_probes,
    assumed_flops,
)
from dgn_engine.training.readings.reading_child import FEWEST

FIRST_LOOK = 0.5  # seconds that a reading may take where an executor refines what takes more
UNSURE = 0.1  # … that it may be expected to take before one was measured
HELD_UP = 1.5  # … while a network trains, where no executor refines
NOTABLE = 1.0  # … after which it is said that steps wait for it
TOO_LONG = 5.0  # … while nothing trains, or where all probe examples are wanted
SHARPEN_BELOW = (
    0.5  # of the limit: twice the examples are read where they are expected to take less
)


def any_heavy(architecture: Architecture) -> bool:
    """Whether a probe of this network is likely to need the reading process."""
    return any(p.cost(architecture, FEWEST) > UNSURE * ASSUMED_FLOPS for p in all_probes().values())


class ReadingSizes:
    """Of each `every`-th probe example, by memory, measured speed and a limit of seconds.

    `fewer`: a reading that would take long is one of fewer probe examples.
    """

    def __init__(self, probes: Mapping[str, Probe], fewer: bool) -> None:
        self._probes = probes
        self._fewer = fewer
        self._fitting: dict[str, int] = {}  # each n-th fits into memory; 0: none does
        self._speed: dict[str, float] = {}  # FLOP a second that the probe was measured to do
        self._sharper: dict[str, float] = {}  # seconds that twice as many examples would take

    def choose(self, name: str, whole: ProbeContext, limit: float, before: Reading | None) -> int:
        """Return n, of which each n-th example is to be read; 0 where not even the fewest fit.

        `limit`: seconds that it may take. `before`: what was read of the probe last.
        """
        fitting = self._fitting.get(name, 1)
        return fitting and max(fitting, self.affordable(name, whole, limit, before))

    def quick_share(self, name: str, whole: ProbeContext) -> int:
        """Return n, of which each n-th example is read in a moment; 0: not even the fewest are."""
        limit, every = FIRST_LOOK if name in self._speed else UNSURE, 1
        while self.seconds(name, whole, every) > limit:
            every *= 2
            if len(whole.x) // every < FEWEST:
                return 0
        return every

    def seconds(self, name: str, whole: ProbeContext, every: int) -> float:
        """Return what a reading of each `every`-th example is expected to take."""
        cost = self._probes[name].cost(whole.architecture, -(-len(whole.x) // every))
        return cost / self._speed.get(name, assumed_flops(whole.x.device))

    def is_too_long(self, name: str, context: ProbeContext) -> bool:
        """Whether a reading of these examples is not even to be begun."""
        cost = self._probes[name].cost(context.architecture, len(context.x))
        speed = max(assumed_flops(context.x.device), self._speed.get(name, 0.0))
        return cost / speed > TOO_LONG

    def is_limited_by_memory(self, name: str, every: int) -> bool:
        return every == self._fitting.get(name, 1)

    def can_sharpen(self, name: str) -> bool:
        """Whether more examples are worth reading while nothing trains."""
        return 0.0 < self._sharper.get(name, 0.0) <= SHARPEN_BELOW * TOO_LONG

    def measure(self, name: str, context: ProbeContext, seconds: float) -> None:
        """Note what a reading took; what it shares with another must not look like speed."""
        cost = self._probes[name].cost(context.architecture, len(context.x))
        if cost > 0.0:
            now = cost / max(seconds, 1e-6)
            self._speed[name] = min(
                now, 2.0 * self._speed.get(name, assumed_flops(context.x.device))
            )

    def note_sharper(self, name: str, whole: ProbeContext, every: int) -> None:
        """Note that each `every`-th example could be read next; 0: it is of as many as it can."""
        self._sharper[name] = self.seconds(name, whole, every) if every else 0.0

    def halve(self, name: str, every: int, examples: int) -> int:
        """Note that memory ran out with so many examples, each `every`-th; return the next n."""
        self._fitting[name] = 2 * every if examples >= 2 * FEWEST else 0
        return self._fitting[name]

    def forget_fitting(self, *names: str) -> None:
        """Try all examples of these probes again."""
        for name in names:
            self._fitting.pop(name, None)

    def affordable(
        self, name: str, whole: ProbeContext, limit: float, before: Reading | None
    ) -> int:
        """Return n, of which each n-th example is read within the limit, memory aside."""
        if not self._fewer:
            return 1
        last = len(whole.x) // before.examples if before is not None and before.examples else 0
        every = 1
        while len(whole.x) // (2 * every) >= FEWEST:
            # More than last time only where there is room, so that it does not go to and fro.
            share = SHARPEN_BELOW if every < last else 1.0
            within = limit if name in self._speed else min(limit, FIRST_LOOK)
            if self.seconds(name, whole, every) <= share * within:
                break
            every *= 2
        return every
