"""Choose how many examples a probe reads, so that it stays within its time limit and memory."""

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

FIRST_LOOK = 0.5  # seconds a reading may take inline if an executor refines slower ones
UNSURE = 0.1  # … expected before any was measured
HELD_UP = 1.5  # … while a network trains, where no executor refines
NOTABLE = 1.0  # … after which the user is told that training waits
TOO_LONG = 5.0  # … while nothing trains, or if all probe examples are wanted
SHARPEN_BELOW = 0.5  # of the limit: read twice the examples if expected to take less


def any_heavy(architecture: Architecture) -> bool:
    """Return whether any probe of a network will probably need the reading process.

    Args:
        architecture: Architecture of the network.

    Returns:
        True if the fewest examples already cost more than `UNSURE` seconds.
    """
    return any(p.cost(architecture, FEWEST) > UNSURE * ASSUMED_FLOPS for p in all_probes().values())


class ReadingSizes:
    """Strides through the probe examples, from memory, measured speed and time limits."""

    def __init__(self, probes: Mapping[str, Probe], fewer: bool) -> None:
        """Start without measurements.

        Args:
            probes: Probes by key.
            fewer: Whether slow readings may use fewer examples.
        """
        self._probes = probes
        self._fewer = fewer
        self._fitting: dict[str, int] = {}  # smallest stride that fits into memory; 0: none
        self._speed: dict[str, float] = {}  # measured FLOP/s
        self._sharper: dict[str, float] = {}  # seconds twice as many examples would take

    def choose_every(
        self, name: str, whole: ProbeContext, limit: float, before: Reading | None
    ) -> int:
        """Return the stride of the next reading.

        Args:
            name: Key of the probe.
            whole: All probe examples.
            limit: Seconds it may take.
            before: The probe's last reading, or None.

        Returns:
            n, to read every n-th example; 0 if not even the fewest fit into memory.
        """
        fitting = self._fitting.get(name, 1)
        return fitting and max(fitting, self.affordable_every(name, whole, limit, before))

    def quick_every(self, name: str, whole: ProbeContext) -> int:
        """Return the stride of a reading that takes a moment.

        Args:
            name: Key of the probe.
            whole: All probe examples.

        Returns:
            n, to read every n-th example; 0 if even the fewest take longer.
        """
        limit, every = FIRST_LOOK if name in self._speed else UNSURE, 1
        while self.expected_seconds(name, whole, every) > limit:
            every *= 2
            if len(whole.x) // every < FEWEST:
                return 0
        return every

    def expected_seconds(self, name: str, whole: ProbeContext, every: int) -> float:
        """Return the expected duration of a reading.

        Args:
            name: Key of the probe.
            whole: All probe examples.
            every: Stride.

        Returns:
            Seconds.
        """
        cost = self._probes[name].cost(whole.architecture, -(-len(whole.x) // every))
        return cost / self._speed.get(name, assumed_flops(whole.x.device))

    def is_too_long(self, name: str, context: ProbeContext) -> bool:
        """Return whether a reading should not even be started.

        Args:
            name: Key of the probe.
            context: The examples to read.

        Returns:
            True if it is expected to take more than `TOO_LONG` seconds.
        """
        cost = self._probes[name].cost(context.architecture, len(context.x))
        speed = max(assumed_flops(context.x.device), self._speed.get(name, 0.0))
        return cost / speed > TOO_LONG

    def is_limited_by_memory(self, name: str, every: int) -> bool:
        """Return whether memory, not time, sets the stride.

        Args:
            name: Key of the probe.
            every: Stride.

        Returns:
            True if a smaller stride ran out of memory.
        """
        return every == self._fitting.get(name, 1)

    def can_sharpen(self, name: str) -> bool:
        """Return whether more examples are worth reading while nothing trains.

        Args:
            name: Key of the probe.

        Returns:
            True if twice the examples would take no longer than half the limit.
        """
        return 0.0 < self._sharper.get(name, 0.0) <= SHARPEN_BELOW * TOO_LONG

    def record_speed(self, name: str, context: ProbeContext, seconds: float) -> None:
        """Record the speed of a reading; at most doubles it, as shared results look like speed.

        Args:
            name: Key of the probe.
            context: The examples that were read.
            seconds: Seconds the thread was awake for it.
        """
        cost = self._probes[name].cost(context.architecture, len(context.x))
        if cost > 0.0:
            now = cost / max(seconds, 1e-6)
            self._speed[name] = min(
                now, 2.0 * self._speed.get(name, assumed_flops(context.x.device))
            )

    def note_sharper(self, name: str, whole: ProbeContext, every: int) -> None:
        """Record the stride that could be read next.

        Args:
            name: Key of the probe.
            whole: All probe examples.
            every: Stride; 0 if there is nothing sharper.
        """
        self._sharper[name] = self.expected_seconds(name, whole, every) if every else 0.0

    def halve_examples(self, name: str, every: int, examples: int) -> int:
        """Record that memory ran out.

        Args:
            name: Key of the probe.
            every: Stride that ran out of memory.
            examples: Number of examples of that stride.

        Returns:
            The next stride to try; 0 if there are too few examples left.
        """
        self._fitting[name] = 2 * every if examples >= 2 * FEWEST else 0
        return self._fitting[name]

    def forget_fitting(self, *names: str) -> None:
        """Let these probes try all examples again.

        Args:
            names: Keys of the probes.
        """
        for name in names:
            self._fitting.pop(name, None)

    def affordable_every(
        self, name: str, whole: ProbeContext, limit: float, before: Reading | None
    ) -> int:
        """Return the stride that stays within a time limit, ignoring memory.

        Args:
            name: Key of the probe.
            whole: All probe examples.
            limit: Seconds it may take.
            before: The probe's last reading, or None.

        Returns:
            n, to read every n-th example.
        """
        if not self._fewer:
            return 1
        last = len(whole.x) // before.examples if before is not None and before.examples else 0
        every = 1
        while len(whole.x) // (2 * every) >= FEWEST:
            # Hysteresis: read more than last time only well below the limit.
            share = SHARPEN_BELOW if every < last else 1.0
            within = limit if name in self._speed else min(limit, FIRST_LOOK)
            seconds = self.expected_seconds(name, whole, every)
            faster = self.expected_seconds(name, whole, 2 * every) < seconds
            if seconds <= share * within or not faster:
                break
            every *= 2
        return every
