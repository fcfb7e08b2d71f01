"""When each probe is read: only what somebody watches, and never more than its share of time.

In a window a reading that would hold training up goes to the reading process (`employ`), and
until that has a picture one of a few probe examples is read here, where it is quick. Without such
a process the reading is of as many examples as were measured to be quick enough.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.commands import ProbeRequest
from dgn_engine.protocol.events import Event, Failed, ProbeScalars
from dgn_engine.protocol.frames import MISFIT, Reading, freeze
from dgn_engine.setting import OptionValue
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory
from dgn_engine.training.probes import Probe, ProbeContext, all_probes
from dgn_engine.training.reading_process.reading_child import FEWEST
from dgn_engine.training.reading_process.reading_messages import NetworkSnapshot
from dgn_engine.training.reading_process.reading_worker import ReadingWorker
from dgn_engine.training.refined_readings import RefinedReadings, words

SHARE = 0.05  # of the run's time, for each probe
SHORTEST = 0.25  # seconds between two readings of one probe
FIRST_LOOK = 0.5  # seconds that a reading may take where a process reads what takes more
UNSURE = 0.1  # … that it may be expected to take before one was measured
HELD_UP = 1.5  # … while a network trains, where there is no such process
NOTABLE = 1.0  # … after which it is said that steps wait for it
TOO_LONG = 5.0  # … while nothing trains, or where all probe examples are wanted
SHARPEN_BELOW = (
    0.5  # of the limit: twice the examples are read where they are expected to take less
)
ASSUMED_FLOPS = 2e10  # of a CPU core, to estimate a cost before it was measured; of …
ASSUMED_ELSEWHERE = 1e12  # … a GPU


def any_heavy(architecture: Architecture) -> bool:
    """Whether a probe of this network is likely to need the reading process."""
    return any(p.cost(architecture, FEWEST) > UNSURE * ASSUMED_FLOPS for p in all_probes().values())


class ProbeSchedule:
    """The watched probes of one run, their newest readings and when they are due again.

    `fewer`: a reading that would take long is one of fewer probe examples, and says so.
    """

    def __init__(self, emit: Callable[[Event], None], fewer: bool = False) -> None:
        self._emit = emit
        self._fewer = fewer
        self._refined: RefinedReadings | None = None
        self.dropped = False  # readings that the newest frame may still show are no more
        self.counted_as = 0  # in recorded scalars: what 'all probe examples' are
        self._probes: dict[str, Probe] = all_probes()
        self._watched: dict[str, Mapping[str, OptionValue]] = {}
        self._due: dict[str, float] = {}
        self._memory: dict[str, object] = {}
        self._broken: set[str] = set()
        self._every: dict[str, int] = {}  # of the probe examples each n-th is seen; 0: none fits
        self._speed: dict[str, float] = {}  # FLOP a second that the probe was measured to do
        self._sharper: dict[str, float] = {}  # seconds that twice as many examples would take
        self.readings: dict[str, Reading] = {}
        self.share = SHARE  # of the run's time, that each probe may take

    def employ(self, worker: ReadingWorker) -> None:
        """Have this worker read what takes long. `release` when nobody looks any more."""
        self._refined = RefinedReadings(
            worker, self._probes, self.readings, self._emit_counted, self._due_at_once
        )

    def release(self) -> None:
        """Stop what is under way; nothing is read by the worker any more."""
        if self._refined is not None:
            self._refined.release()
            self._refined = None  # it refers to us: both would wait for the garbage collector

    @property
    def busy(self) -> bool:
        """A heavy reading is under way."""
        return self._refined is not None and self._refined.busy

    def cancel(self, name: str) -> None:
        """Let a reading be no better than it is now."""
        if self._refined is not None:
            self._refined.cancel(name)

    def go_on(self, name: str) -> None:
        """Read on what was cancelled."""
        if self._refined is not None and self._refined.holds(name):
            self._refined.go_on(name)
            self._due_at_once(name)

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
        for name in {*watched, *self._watched}:
            if self._watched.get(name) != watched.get(name):
                self._due[name] = 0.0
                self._every.pop(name, None)
                if self._refined is not None:
                    self._refined.forget(name)
        self._watched = watched

    def invalidate(self) -> None:
        """Something other than a step changed the gates: everything is due at once."""
        if self._refined is not None and self._refined.invalidate():
            self.dropped = True
        self._due = dict.fromkeys(self._watched, 0.0)
        self._every.clear()

    def begin_anew(self, counted_as: int) -> None:
        """There are other probe examples: nothing that was seen belongs to them."""
        self.invalidate()
        self.counted_as = counted_as
        self._memory.clear()
        self.readings.clear()
        self.dropped = True

    def invalidate_comparing(self) -> None:
        """The comparison changed: every probe that compares is due at once."""
        self._due.update({name: 0.0 for name in self._watched if self._probes[name].compares})

    def due(self, step: int, catch_up: bool = False) -> tuple[str, ...]:
        """Probes whose time has come; `catch_up`: all that have not seen this step."""
        now = time.monotonic()
        return tuple(name for name in self._watched if self._is_due(name, step, catch_up, now))

    def _is_due(self, name: str, step: int, catch_up: bool, now: float) -> bool:
        if self._due.get(name, 0.0) == 0.0:
            return True
        if self._refined is not None:
            if self._refined.holds(name):
                return False
            if (under_way := self._refined.step_of(name)) is not None:
                return catch_up and under_way != step  # else it is finished first
        if self._stale(name, step) and (catch_up or self._due[name] <= now):
            return True
        return catch_up and 0.0 < self._sharper.get(name, 0.0) <= SHARPEN_BELOW * TOO_LONG

    def _due_at_once(self, name: str) -> None:
        self._due[name] = 0.0

    @property
    def seconds(self) -> float:
        """What the last readings of all that is watched took together; ∞ where one was never."""
        seen = (self.readings.get(name) for name in self._watched)
        return sum(math.inf if one is None else one.seconds for one in seen)

    def long(self, names: tuple[str, ...], context: ProbeContext) -> tuple[str, ...]:
        """Titles of those that are expected to be read here for more than `NOTABLE` seconds."""
        return tuple(
            self._probes[name].title
            for name in names
            if not self._is_heavy(name, context)
            and self._seconds(name, context, self._affordable(name, context, HELD_UP)) > NOTABLE
        )

    def read(
        self, names: tuple[str, ...], context: ProbeContext, step: int, standing: bool = False
    ) -> None:
        """Read these probes; a probe that fails is reported once and the run goes on.

        `standing`: nothing trains meanwhile, so that a reading may take longer.
        """
        contexts = {1: context}
        heavy = [name for name in names if self._is_heavy(name, context)]
        for name in names:
            if name not in heavy:
                self._read_here(name, contexts, step, TOO_LONG if standing else HELD_UP)
        self._hand_over(heavy, contexts, step)

    def _read_here(
        self,
        name: str,
        contexts: dict[int, ProbeContext],
        step: int,
        limit: float,
        quick: int = 1,
    ) -> None:
        """Read it now, each `quick`-th example or fewer, within `limit` seconds."""
        began = time.monotonic()
        if self._refined is not None:
            self._refined.forget(name)
        every, reading = self._fitting(name, contexts, step, limit, quick)
        seconds = time.monotonic() - began
        interval = max(SHORTEST, seconds / self.share)
        self._due[name] = time.monotonic() + interval
        self.readings[name] = replace(reading, seconds=seconds, interval=interval)
        if reading.scalars:
            seen = (len(contexts[every].x), len(contexts[1].x)) if every > 1 else (0, 0)
            self._emit_counted(ProbeScalars(step, name, reading.scalars, *seen))

    def _emit_counted(self, event: Event) -> None:
        """Scalars of all probe examples say of how many, where that is not what they were."""
        if isinstance(event, ProbeScalars) and not event.examples and self.counted_as:
            event = replace(event, examples=self.counted_as)
        self._emit(event)

    # What takes long

    def _is_heavy(self, name: str, whole: ProbeContext) -> bool:
        """Whether the reading process is to read it."""
        probe = self._probes[name]
        if self._refined is None or self._refined.worker.trouble or probe.compares:
            return False
        return self._quick_share(name, whole) != 1

    def _quick_share(self, name: str, whole: ProbeContext) -> int:
        """Of how many probe examples one can be read in a moment; 0: not even of the fewest."""
        limit, every = FIRST_LOOK if name in self._speed else UNSURE, 1
        while self._seconds(name, whole, every) > limit:
            every *= 2
            if len(whole.x) // every < FEWEST:
                return 0
        return every

    def _hand_over(self, heavy: list[str], contexts: dict[int, ProbeContext], step: int) -> None:
        """Let the worker read these, the cheapest first, and a few examples here where there is no
        picture of this network yet."""
        if not heavy or self._refined is None:
            return
        whole, refined = contexts[1], self._refined
        began = time.monotonic()
        snapshot = NetworkSnapshot(whole)
        took = time.monotonic() - began
        for name in sorted(heavy, key=lambda name: self._seconds(name, whole, 1)):
            quick, first = self._quick_share(name, whole), not refined.has_picture(name)
            if quick and first:
                self._read_here(name, contexts, step, FIRST_LOOK, quick)
            refined.begin(name, snapshot, step, self._watched[name])
            self._due[name] = time.monotonic() + max(SHORTEST, took / self.share)

    def _stale(self, name: str, step: int) -> bool:
        return name not in self.readings or self.readings[name].step != step

    def _fitting(
        self, name: str, contexts: dict[int, ProbeContext], step: int, limit: float, quick: int
    ) -> tuple[int, Reading]:
        """A reading on as many probe examples as memory and time allow: all, half, a quarter, …

        `quick`: of these each n-th at most. Returns of how many examples one was read, and the
        reading.
        """
        while least := self._every.get(name, 1):
            every = max(least, quick, self._affordable(name, contexts[1], limit))
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
        if not self._fewer:
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
        return cost / self._speed.get(name, _assumed(whole))

    def _remarked(self, reading: Reading, whole: ProbeContext, every: int, least: int) -> Reading:
        """The reading with how many examples it is made of."""
        name, seen, count = reading.probe, -(-len(whole.x) // every), len(whole.x)
        self._sharper[name] = 0.0
        if reading.absent:
            return reading
        if every == 1:
            kernel = self._probes[name].cost(whole.architecture, count) > 0.0
            return replace(reading, remark=words(reading, count) if kernel else "")
        if every == least:
            halved = f"probe batch halved to {seen}: out of memory"
            return replace(reading, examples=seen, remark=halved)
        self._sharper[name] = self._seconds(name, whole, every // 2)
        few = replace(reading, examples=seen)
        trouble = self._trouble
        return replace(few, remark=words(few, count) + (f": {trouble}" if trouble else ""))

    @property
    def _trouble(self) -> str:
        """Why there is no reading process; '' where there is one or none was employed."""
        return "" if self._refined is None else self._refined.worker.trouble

    def _reading(self, name: str, context: ProbeContext, step: int) -> Reading | None:
        """None where there is not enough memory."""
        probe, options = self._probes[name], self._watched[name]
        cost = probe.cost(context.architecture, len(context.x))
        if cost / max(_assumed(context), self._speed.get(name, 0.0)) > TOO_LONG:
            why = _too_long(probe, len(context.x), self._trouble)
            return Reading(name, step, absent=why, facts={"fault": "too long"})
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
            self._speed[name] = min(now, 2.0 * self._speed.get(name, _assumed(context)))

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
        "choose a smaller network or smaller images."
    )
    return Reading(name, step, facts={"fault": MISFIT}, absent=why)


def _too_long(probe: Probe, examples: int, trouble: str) -> str:
    and_why = f", and {trouble}" if trouble else ""
    return (
        f"{probe.title}: a reading of {examples} probe examples takes too long between two "
        f"steps{and_why}; choose fewer probe examples or smaller images."
    )


def _assumed(context: ProbeContext) -> float:
    """FLOP a second before they were measured."""
    return ASSUMED_FLOPS if context.x.device.type == "cpu" else ASSUMED_ELSEWHERE
