"""When each probe is read: only what somebody watches, and never more than its share of time.

In a window a reading that would hold training up begins with fewer probe examples; how many is
decided by what the probe was measured to take, and there are more where nothing trains.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.protocol.commands import ANYWAY, ProbeRequest
from dgn_engine.protocol.events import Event, Failed, ProbeScalars
from dgn_engine.protocol.frames import MISFIT, Reading, freeze
from dgn_engine.setting import OptionValue
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory
from dgn_engine.training.probes import Probe, ProbeContext, all_probes

SHARE = 0.05  # of the run's time, for each probe
SHORTEST = 0.25  # seconds between two readings of one probe
FIRST_LOOK = 0.5  # seconds that a reading may be expected to take before one was measured
HELD_UP = 1.5  # … while a network trains, in a window
TOO_LONG = 5.0  # … while nothing trains, or where all probe examples are wanted
SHARPEN_BELOW = (
    0.5  # of the limit: twice the examples are read where they are expected to take less
)
FEWEST = 8  # probe examples: fewer show nothing
ASSUMED_FLOPS = 2e10  # of one CPU core or better, to estimate a cost before it was measured


class ProbeSchedule:
    """The watched probes of one run, their newest readings and when they are due again.

    `fewer`: a reading that would take long is one of fewer probe examples, and says so.
    """

    def __init__(self, emit: Callable[[Event], None], fewer: bool = False) -> None:
        self._emit = emit
        self._fewer = fewer
        self._probes: dict[str, Probe] = all_probes()
        self._watched: dict[str, Mapping[str, OptionValue]] = {}
        self._due: dict[str, float] = {}
        self._memory: dict[str, object] = {}
        self._broken: set[str] = set()
        self._every: dict[str, int] = {}  # of the probe examples each n-th is seen; 0: none fits
        self._speed: dict[str, float] = {}  # FLOP a second that the probe was measured to do
        self._sharper: dict[str, float] = {}  # seconds that twice as many examples would take
        self.readings: dict[str, Reading] = {}

    def watch(self, requests: tuple[ProbeRequest, ...]) -> None:
        """Replace what is watched; a new or changed request is due at once."""
        watched: dict[str, Mapping[str, OptionValue]] = {}
        for request in requests:
            if request.probe not in self._probes:
                known = ", ".join(self._probes)
                raise UserError(
                    f"There is no probe '{request.probe}'; there are {known}."
                    f"{did_you_mean(request.probe, self._probes)}"
                )
            watched[request.probe] = {**watched.get(request.probe, {}), **dict(request.options)}
        for name, options in watched.items():
            if self._watched.get(name) != options:
                self._due[name] = 0.0
                self._every.pop(name, None)
        self._watched = watched

    def invalidate(self) -> None:
        """Something other than a step changed the gates: everything is due at once."""
        self._due = dict.fromkeys(self._watched, 0.0)
        self._every.clear()

    def invalidate_comparing(self) -> None:
        """The comparison changed: every probe that compares is due at once."""
        self._due.update({name: 0.0 for name in self._watched if self._probes[name].compares})

    def due(self, step: int, catch_up: bool = False) -> tuple[str, ...]:
        """Probes whose time has come; `catch_up`: all that have not seen this step."""
        now = time.monotonic()
        return tuple(
            name
            for name in self._watched
            if self._due.get(name, 0.0) == 0.0
            or (self._stale(name, step) and (catch_up or self._due[name] <= now))
            or (catch_up and 0.0 < self._sharper.get(name, 0.0) <= SHARPEN_BELOW * TOO_LONG)
        )

    @property
    def seconds(self) -> float:
        """What the last readings of all that is watched took together; ∞ where one was never."""
        seen = (self.readings.get(name) for name in self._watched)
        return sum(math.inf if one is None else one.seconds for one in seen)

    def read(
        self, names: tuple[str, ...], context: ProbeContext, step: int, standing: bool = False
    ) -> None:
        """Read these probes; a probe that fails is reported once and the run goes on.

        `standing`: nothing trains meanwhile, so that a reading may take longer.
        """
        contexts = {1: context}
        for name in names:
            began = time.monotonic()
            every, reading = self._fitting(name, contexts, step, TOO_LONG if standing else HELD_UP)
            seconds = time.monotonic() - began
            interval = max(SHORTEST, seconds / SHARE)
            self._due[name] = time.monotonic() + interval
            self.readings[name] = replace(reading, seconds=seconds, interval=interval)
            if reading.scalars:
                seen = len(contexts[every].x) if every > 1 else 0
                self._emit(ProbeScalars(step, name, reading.scalars, seen))

    def _stale(self, name: str, step: int) -> bool:
        return name not in self.readings or self.readings[name].step != step

    def _fitting(
        self, name: str, contexts: dict[int, ProbeContext], step: int, limit: float
    ) -> tuple[int, Reading]:
        """A reading on as many probe examples as memory and time allow: all, half, a quarter, …

        Returns of how many examples one was read, and the reading.
        """
        while least := self._every.get(name, 1):
            every = max(least, self._affordable(name, contexts[1], limit))
            if every not in contexts:
                contexts[every] = contexts[1].subsample(every)
            context = contexts[every]
            reading = self._reading(name, context, step)
            if reading is not None:
                return every, self._remarked(reading, contexts[1], every, least)
            for other in contexts.values():
                other.forget()
            free_memory()
            self._memory.pop(name, None)  # of more examples
            self._every[name] = 2 * every if len(context.x) >= 2 * FEWEST else 0
        self._sharper.pop(name, None)
        return 1, _misfit(self._probes[name], name, step)

    def _affordable(self, name: str, whole: ProbeContext, limit: float) -> int:
        """Of how many probe examples one is to be read, so that it takes no longer than `limit`."""
        if not self._fewer or self._watched[name].get(ANYWAY, False):
            return 1
        before = self.readings.get(name)
        last = len(whole.x) // before.examples if before is not None and before.examples else 0
        every = 1
        while len(whole.x) // (2 * every) >= FEWEST:
            # More than last time only where there is room, so that it does not go to and fro.
            share = SHARPEN_BELOW if every < last else 1.0
            within = limit if name in self._speed else min(limit, FIRST_LOOK)
            if self._seconds(name, whole, every) <= share * within:
                break
            every *= 2
        return every

    def _seconds(self, name: str, whole: ProbeContext, every: int) -> float:
        """That a reading of each `every`-th example is expected to take."""
        cost = self._probes[name].cost(whole.architecture, -(-len(whole.x) // every))
        return cost / self._speed.get(name, ASSUMED_FLOPS)

    def _remarked(self, reading: Reading, whole: ProbeContext, every: int, least: int) -> Reading:
        """The reading with what it leaves out, and what more would take."""
        name, seen = reading.probe, -(-len(whole.x) // every)
        more, expected = every > least, self._seconds(name, whole, least)
        self._sharper[name] = 0.0
        if reading.absent:
            dear = reading.too_expensive > 0.0 and more
            return replace(reading, too_expensive=expected) if dear else reading
        if every == 1:
            return reading
        if not more:
            halved = f"probe batch halved to {seen}: out of memory"
            return replace(reading, examples=seen, remark=halved)
        self._sharper[name] = self._seconds(name, whole, every // 2)
        few = f"{seen} of {len(whole.x)} probe examples"
        return replace(reading, examples=seen, remark=few, whole=expected)

    def _reading(self, name: str, context: ProbeContext, step: int) -> Reading | None:
        """None where there is not enough memory."""
        probe, options = self._probes[name], self._watched[name]
        estimate = probe.cost(context.architecture, len(context.x)) / ASSUMED_FLOPS
        if estimate > TOO_LONG and not options.get(ANYWAY, False):
            why = _too_expensive(probe, estimate, len(context.x))
            return Reading(name, step, absent=why, too_expensive=estimate)
        began = time.monotonic()
        try:
            result = probe.read(context, options, self._memory.get(name))
        except Exception as error:  # the run must outlive a faulty probe
            return None if is_out_of_memory(error) else self._broke(name, step, error)
        self._measure(name, context, time.monotonic() - began)
        self._broken.discard(name)
        self._memory[name] = result.memory
        return Reading(
            name,
            step,
            arrays={key: freeze(array) for key, array in result.arrays.items()},
            scalars=dict(result.scalars),
            facts=dict(result.facts),
            absent=result.absent,
        )

    def _measure(self, name: str, context: ProbeContext, seconds: float) -> None:
        """How fast the probe is: what it shares with another reading must not look like speed."""
        cost = self._probes[name].cost(context.architecture, len(context.x))
        if cost > 0.0:
            now = cost / max(seconds, 1e-6)
            self._speed[name] = min(now, 2.0 * self._speed.get(name, ASSUMED_FLOPS))

    def _broke(self, name: str, step: int, error: Exception) -> Reading:
        """The reading of a probe that failed; its first failure is an event."""
        if name not in self._broken:
            self._broken.add(name)
            what = f"The probe '{self._probes[name].title}' failed: {str(error).rstrip('.')}."
            self._emit(Failed(what, traceback.format_exc()))
        why = f"The probe failed at step {step}: {str(error).rstrip('.')}."
        return Reading(name, step, facts={"fault": type(error).__name__}, absent=why)


def _misfit(probe: Probe, name: str, step: int) -> Reading:
    why = (
        f"{probe.title} runs out of memory with fewer than {2 * FEWEST} probe examples too; "
        "choose a smaller network or smaller images. Training goes on."
    )
    return Reading(name, step, facts={"fault": MISFIT}, absent=why)


def _too_expensive(probe: Probe, seconds: float, examples: int) -> str:
    return (
        f"{probe.title}: too expensive at this size, about {seconds:,.0f} s a reading with "
        f"{examples} probe examples; choose fewer probe examples or smaller images."
    )
