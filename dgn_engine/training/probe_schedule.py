"""When each probe is read: only what somebody watches, within the budget of watching.

In a window a reading that would hold training up goes to a worker (`employ`): to the reading
process, or on a card to the side stream. Until the process has a picture, one of a few probe
examples is read here where that is quick. Without a worker the reading is of as many examples as
were measured to be quick enough.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import MISFIT, Reading, freeze
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars
from dgn_engine.training.cuda.side_reader import Read, SideReader, SideResult, read_now
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory
from dgn_engine.training.overflow import overflow_reading, stands_for, weights_overflowed
from dgn_engine.training.probes import (
    ASSUMED_FLOPS,
    Probe,
    ProbeContext,
    ProbeResult,
    all_probes,
    assumed_flops,
)
from dgn_engine.training.reading_process.reading_child import FEWEST
from dgn_engine.training.reading_process.reading_messages import NetworkSnapshot
from dgn_engine.training.reading_process.reading_worker import ReadingWorker
from dgn_engine.training.refined_readings import RefinedReadings, words
from dgn_engine.training.watch_budget import WatchBudget, seconds_awake

TOGETHER = 0.25  # of the time between two rounds: what is due so soon is read with what is due
FIRST_LOOK = 0.5  # seconds that a reading may take where a process reads what takes more
UNSURE = 0.1  # … that it may be expected to take before one was measured
HELD_UP = 1.5  # … while a network trains, where there is no such process
NOTABLE = 1.0  # … after which it is said that steps wait for it
TOO_LONG = 5.0  # … while nothing trains, or where all probe examples are wanted
SHARPEN_BELOW = (
    0.5  # of the limit: twice the examples are read where they are expected to take less
)


def any_heavy(architecture: Architecture) -> bool:
    """Whether a probe of this network is likely to need the reading process."""
    return any(p.cost(architecture, FEWEST) > UNSURE * ASSUMED_FLOPS for p in all_probes().values())


class ProbeSchedule:
    """The watched probes of one run, their newest readings and when they are due again.

    `fewer`: a reading that would take long is one of fewer probe examples, and says so.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        fewer: bool = False,
        budget: WatchBudget | None = None,
    ) -> None:
        self._emit = emit
        self._budget = budget or WatchBudget()
        self._fewer = fewer
        self._refined: RefinedReadings | None = None
        self.overflowed = False  # a reading saw weights that are not finite
        self.dropped = False  # readings that the newest frame may still show are no more
        self.counted_as = 0  # in recorded scalars: what 'all probe examples' are
        self.chosen = ""  # in recorded scalars: which set they are of
        self._probes: dict[str, Probe] = all_probes()
        self._watched: dict[str, Mapping[str, OptionValue]] = {}
        self._read_at: dict[str, float] = {}  # what is not in it is due at once
        self._memory: dict[str, object] = {}
        self._broken: set[str] = set()
        self._every: dict[str, int] = {}  # of the probe examples each n-th is seen; 0: none fits
        self._speed: dict[str, float] = {}  # FLOP a second that the probe was measured to do
        self._sharper: dict[str, float] = {}  # seconds that twice as many examples would take
        self.readings: dict[str, Reading] = {}
        self._aside: SideReader | None = None
        self._early: dict[tuple[str, int], SideResult] = {}  # by probe and examples: read aside

    def employ(self, worker: ReadingWorker) -> None:
        """Have this worker read what takes long. `release` when nobody looks any more."""
        self._refined = RefinedReadings(
            worker, self._probes, self.readings, self._emit_counted, self._due_at_once
        )

    def read_aside(self, reader: SideReader) -> None:
        """Read on a stream of its own what is read here while the network trains on a card."""
        self._aside = reader

    def release(self) -> None:
        """Stop what is under way; nothing is read by the worker any more."""
        if self._aside is not None:
            self._aside.close()
            self._aside = None
        if self._refined is not None:
            self._refined.release()
            self._refined = None  # it refers to us: both would wait for the garbage collector

    @property
    def busy(self) -> bool:
        """A heavy reading is under way."""
        return self._refined is not None and self._refined.busy

    def end_refinements(self, trouble: str) -> bool:
        """End the expensive readings that take memory from training, on the same device.

        Args:
            trouble: Why, as a part of a sentence.

        Returns:
            Whether there were any.
        """
        refined = self._refined
        return (
            refined is not None and refined.worker.in_process and refined.worker.end_jobs(trouble)
        )

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
                self._read_at.pop(name, None)
                self._every.pop(name, None)
                self._drop_aside()
                if self._refined is not None:
                    self._refined.forget(name)
        self._budget.forget(set(self._watched) - set(watched))
        self._watched = watched

    def invalidate(self) -> None:
        """Something other than a step changed the gates: everything is due at once."""
        if self._refined is not None and self._refined.invalidate():
            self.dropped = True
        self._drop_aside()
        self._read_at.clear()
        self._every.clear()

    def begin_anew(self, counted_as: int, chosen: str = "") -> None:
        """There are other probe examples: nothing that was seen belongs to them."""
        self.invalidate()
        self.chosen = chosen
        self.counted_as = counted_as
        self._memory.clear()
        self.readings.clear()
        self.dropped = True

    def invalidate_comparing(self) -> None:
        """Another network is compared, or none: every probe that compares is due at once, and what
        it read beside the network before is no more."""
        for name in self._watched:
            if self._probes[name].compares:
                self._due_at_once(name)
                self.dropped |= self.readings.pop(name, None) is not None

    def due(self, step: int, catch_up: bool = False) -> tuple[str, ...]:
        """Probes whose time has come; `catch_up`: all that have not seen this step."""
        due = self._due_by(time.monotonic(), step, catch_up)
        if not due or catch_up:
            return due
        # What they have in common is computed once for all that are read together.
        soon = time.monotonic() + TOGETHER * self._budget.every
        return self._due_by(soon, step, catch_up)

    def _due_by(self, when: float, step: int, catch_up: bool) -> tuple[str, ...]:
        return tuple(name for name in self._watched if self._is_due(name, step, catch_up, when))

    def _is_due(self, name: str, step: int, catch_up: bool, now: float) -> bool:
        aside, compares = self._aside, self._probes[name].compares
        if aside is not None and aside.busy and not aside.done and not compares:
            return False
        if aside is not None and aside.holds(name):
            return True
        if name not in self._read_at:
            return True
        if self._refined is not None:
            if self._refined.holds(name):
                return False
            if (under_way := self._refined.step_of(name)) is not None:
                return catch_up and under_way != step  # else it is finished first
        next_time = self._read_at[name] + self._budget.interval(name)
        if self._stale(name, step) and (catch_up or next_time <= now):
            return True
        return catch_up and 0.0 < self._sharper.get(name, 0.0) <= SHARPEN_BELOW * TOO_LONG

    def _due_at_once(self, name: str) -> None:
        self._read_at.pop(name, None)

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
        self,
        names: tuple[str, ...],
        context: ProbeContext,
        step: int,
        standing: bool = False,
        made: Callable[[], object] | None = None,
    ) -> None:
        """Read these probes; a probe that fails is reported once and the run goes on.

        `standing`: nothing trains meanwhile, so that a reading may take longer. `made`: called
        after each reading that is followed by another, so that it can be drawn meanwhile.
        """
        contexts = {1: context}
        if standing:
            self._drop_aside()
        elif self._aside is not None:
            names = self._fold_aside(names, self._aside)
        heavy = [name for name in names if self._is_heavy(name, context)]
        if self._aside is not None and not standing:
            names = self._begin_aside(names, heavy, context, step, self._aside)
        for name in [name for name in names if name not in heavy]:
            busy = self._budget.busy()
            self._read_here(name, contexts, step, TOO_LONG if standing else HELD_UP)
            self._account(name, self._budget.busy() - busy, standing)
            if made is not None and name != names[-1]:
                made()
        busy = self._budget.busy()
        self._hand_over(heavy, contexts, step)
        for name in heavy:
            self._account(name, (self._budget.busy() - busy) / len(heavy), standing)
        self._read_at.update(dict.fromkeys(names, time.monotonic()))

    def _account(self, name: str, seconds: float, standing: bool) -> None:
        """What was read while nothing trains is free, and may have been of more examples."""
        if not standing:
            self._budget.took(name, "readings", seconds)
            if name in self.readings:
                every = self._budget.interval(name)
                self.readings[name] = replace(self.readings[name], interval=every)

    # On a card, while it trains

    def _drop_aside(self) -> None:
        if self._aside is not None:
            self._aside.drop()

    def _fold_aside(self, names: tuple[str, ...], aside: SideReader) -> tuple[str, ...]:
        """Take what was read aside, as of the step it is of; returns what is left to be read."""
        taken = aside.take()
        if taken is None:
            return names
        for name, result in taken.results.items():
            if name in self._watched:
                self._early[name, len(taken.contexts[taken.every[name]].x)] = result
                self._read_here(name, taken.contexts, taken.step, HELD_UP, took=result.seconds)
                self._account(name, result.seconds, standing=False)
                self._read_at[name] = time.monotonic()
        self._early.clear()
        return tuple(name for name in names if name not in taken.results)

    def _begin_aside(
        self,
        names: tuple[str, ...],
        heavy: list[str],
        whole: ProbeContext,
        step: int,
        aside: SideReader,
    ) -> tuple[str, ...]:
        """Begin those that can be read aside; returns the others. While one is being read, those
        that came due meanwhile wait for it."""
        here = [n for n in names if n in heavy or self._probes[n].compares or not self._fits(n)]
        every = {n: self._thinned(n, whole, HELD_UP) for n in names if n not in here}
        if every and not aside.busy:
            aside.begin(whole, step, every, {name: self._reader(name) for name in every})
        return tuple(here)

    def _fits(self, name: str) -> bool:
        return self._every.get(name, 1) > 0

    def _thinned(self, name: str, whole: ProbeContext, limit: float) -> int:
        """Of how many probe examples one is read, by memory and time."""
        return max(self._every.get(name, 1), self._affordable(name, whole, limit))

    def _reader(self, name: str) -> Read:
        """The probe with its options and its memory as they are now."""
        probe, options, memory = self._probes[name], self._watched[name], self._memory.get(name)

        def read(context: ProbeContext) -> ProbeResult:
            return probe.read(context, options, memory)

        return read

    def _read_here(
        self,
        name: str,
        contexts: dict[int, ProbeContext],
        step: int,
        limit: float,
        quick: int = 1,
        took: float = 0.0,
    ) -> None:
        """Read it now, each `quick`-th example or fewer, within `limit` seconds; `took`: those that
        it took elsewhere."""
        began, busy = time.monotonic(), self._budget.busy()
        if self._refined is not None:
            self._refined.forget(name)
        every, reading = self._fitting(name, contexts, step, limit, quick)
        seconds = took + seconds_awake(time.monotonic() - began, self._budget.busy() - busy)
        interval = self._budget.interval(name)
        if stands_for(self.readings.get(name), reading):
            return
        self.readings[name] = replace(reading, seconds=seconds, interval=interval)
        if reading.scalars:
            seen = (len(contexts[every].x), len(contexts[1].x)) if every > 1 else (0, 0)
            self._emit_counted(ProbeScalars(step, name, reading.scalars, *seen))

    def _emit_counted(self, event: Event) -> None:
        """Scalars of all probe examples say of how many, where that is not what they were."""
        if isinstance(event, ProbeScalars) and (self.counted_as or self.chosen):
            count = event.examples or self.counted_as
            event = replace(event, examples=count, chosen=self.chosen)
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
        snapshot = NetworkSnapshot(whole, refined.worker.in_process)
        for name in sorted(heavy, key=lambda name: self._seconds(name, whole, 1)):
            quick, first = self._quick_share(name, whole), not refined.has_picture(name)
            if quick and first and whole.x.device.type != "cuda":  # a first slice is there at once
                self._read_here(name, contexts, step, FIRST_LOOK, quick)
            refined.begin(name, snapshot, step, self._watched[name])
            self._sharper.pop(name, None)  # it reads all the examples

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
        return cost / self._speed.get(name, assumed_flops(whole.x.device))

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
        probe = self._probes[name]
        early = self._early.pop((name, len(context.x)), None)
        if early is None and weights_overflowed(context):
            self.overflowed = True
            return overflow_reading(context, name, step)
        cost = 0.0 if early else probe.cost(context.architecture, len(context.x))
        if cost / max(assumed_flops(context.x.device), self._speed.get(name, 0.0)) > TOO_LONG:
            why = _too_long(probe, len(context.x), self._trouble)
            return Reading(name, step, absent=why, facts={"fault": "too long"})
        busy = self._budget.busy()
        read = early or read_now(self._reader(name), context, time.monotonic)
        worked = read.seconds if early else self._budget.busy() - busy
        if read.error is not None:
            error = read.error
            if is_out_of_memory(error):
                return None
            return overflow_reading(context, name, step) or self._broke(name, step, error)
        result = read.result
        assert result is not None
        self._measure(name, context, seconds_awake(read.seconds, worked))
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
            self._speed[name] = min(
                now, 2.0 * self._speed.get(name, assumed_flops(context.x.device))
            )

    def _broke(self, name: str, step: int, error: Exception) -> Reading:
        """The reading of a probe that failed; its first failure is an event."""
        if name not in self._broken:
            self._broken.add(name)
            what = f"The probe '{self._probes[name].title}' failed: {str(error).rstrip('.')}."
            self._emit(Failed(what, "".join(traceback.format_exception(error))))
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
