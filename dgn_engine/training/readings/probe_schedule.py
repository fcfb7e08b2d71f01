"""When each probe is read: only what somebody watches, within the budget of watching.

How much of it is read, of how many examples, is in `ReadingSizes`; where, in the executors:
a probe that would hold training up is refined elsewhere or in slices (`RefinedReadings`), all
others are read once, here or on a card aside (`ExactReadings`). Until there is a refined picture,
one of a few probe examples is read here where that is quick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars
from dgn_engine.training.probes import Probe, ProbeContext, all_probes
from dgn_engine.training.readings.exact_readings import ExactReadings
from dgn_engine.training.readings.reading_executor import ReadingExecutor
from dgn_engine.training.readings.reading_jobs import ExactJob, StepContexts
from dgn_engine.training.readings.reading_sizes import (
    FIRST_LOOK,
    HELD_UP,
    NOTABLE,
    TOO_LONG,
    ReadingSizes,
)
from dgn_engine.training.readings.refined_readings import RefinedReadings
from dgn_engine.training.readings.watch_budget import WatchBudget

TOGETHER = 0.25  # of the time between two rounds: what is due so soon is read with what is due


class ScalarTrace:
    """Emits scalars of readings with how many probe examples they are of, and which."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self.counted_as = 0  # what 'all probe examples' are; 0: those that the run began with
        self.chosen = ""  # which set they are of; '': as well

    def emit(self, event: Event) -> None:
        """Emit an event; scalars of other examples than the run began with say so."""
        if isinstance(event, ProbeScalars) and (self.counted_as or self.chosen):
            count = event.examples or self.counted_as
            event = replace(event, examples=count, chosen=self.chosen)
        self._emit(event)


class ProbeSchedule:
    """The watched probes of one run, their newest readings and when they are due again.

    `fewer`: a reading that would take long is one of fewer probe examples, and says so. `probes`:
    those that there are, where these are not all.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        fewer: bool = False,
        budget: WatchBudget | None = None,
        probes: Mapping[str, Probe] | None = None,
    ) -> None:
        self.readings: dict[str, Reading] = {}
        self.dropped = False  # readings that the newest frame may still show are no more
        self._trace = ScalarTrace(emit)
        self._budget = budget or WatchBudget()
        self._probes: dict[str, Probe] = all_probes() if probes is None else dict(probes)
        self._watched: dict[str, Mapping[str, OptionValue]] = {}
        self._read_at: dict[str, float] = {}  # what is not in it is due at once
        self._sizes = ReadingSizes(self._probes, fewer)
        self.refined = RefinedReadings(self._probes, self.readings, self._read_at, self._trace.emit)
        self._exact = ExactReadings(
            self._probes,
            self.readings,
            self._read_at,
            self._sizes,
            self._budget,
            self.refined,
            self._trace.emit,
        )

    def use_executor(self, executor: ReadingExecutor) -> None:
        """Read there what takes long, and what it reads aside. `release` ends it."""
        self.refined.executor = executor
        self._exact.aside = executor if executor.reads_aside else self._exact.here

    def release(self) -> None:
        """Stop what is under way; from now on all is read here."""
        self._exact.release()
        self.refined.release()
        self.use_executor(self._exact.here)

    @property
    def busy(self) -> bool:
        """A heavy reading is under way."""
        return self.refined.busy

    @property
    def seconds(self) -> float:
        """What the last readings of all that is watched took together; ∞ where one was never."""
        seen = (self.readings.get(name) for name in self._watched)
        return sum(math.inf if one is None else one.seconds for one in seen)

    def cancel(self, name: str) -> None:
        """Let a reading be no better than it is now."""
        self.refined.cancel(name)

    def resume(self, name: str) -> None:
        if self.refined.resume(name):
            self._read_at.pop(name, None)

    def watch(self, requests: tuple[ProbeRequest, ...]) -> None:
        """Replace what is watched; a new or changed request is due at once."""
        watched: dict[str, Mapping[str, OptionValue]] = {}
        for request in requests:
            if request.probe not in self._probes:
                known = ", ".join(self._probes)
                raise UserError(
                    f"There is no probe '{request.probe}'; there are {known}."
                    f"{did_you_mean(request.probe, self._probes)}",
                    kind="unknown-name",
                    value=request.probe,
                )
            watched[request.probe] = {**watched.get(request.probe, {}), **dict(request.options)}
        for name in {*watched, *self._watched}:
            if self._watched.get(name) != watched.get(name):
                self._read_at.pop(name, None)
                self._sizes.forget_fitting(name)
                self._exact.drop()
                self.refined.forget(name)
        self._budget.forget(set(self._watched) - set(watched))
        self._watched = watched

    def invalidate(self) -> None:
        """Something other than a step changed the gates: everything is due at once."""
        self.dropped |= self.refined.invalidate()
        self._exact.drop()
        self._read_at.clear()
        self._sizes.forget_fitting(*self._probes)

    def begin_anew(self, counted_as: int, chosen: str = "") -> None:
        """There are other probe examples: nothing that was seen belongs to them."""
        self.invalidate()
        self._trace.chosen = chosen
        self._trace.counted_as = counted_as
        self._exact.forget()
        self.readings.clear()
        self.dropped = True

    def invalidate_comparing(self) -> None:
        """Another network is compared, or none: every probe that compares is due at once, and what
        it read beside the network before is no more."""
        for name in self._watched:
            if self._probes[name].compares:
                self._read_at.pop(name, None)
                self.dropped |= self.readings.pop(name, None) is not None

    def due(self, step: int, catch_up: bool = False) -> tuple[str, ...]:
        """Probes whose time has come; `catch_up`: all that have not seen this step."""
        now = self._budget.clock()
        due = tuple(name for name in self._watched if self._is_due(name, step, catch_up, now))
        if not due or catch_up:
            return due
        # What they have in common is computed once for all that are read together.
        soon = now + TOGETHER * self._budget.every
        return tuple(name for name in self._watched if self._is_due(name, step, catch_up, soon))

    def _is_due(self, name: str, step: int, catch_up: bool, now: float) -> bool:
        if self._exact.busy and not self._probes[name].compares:
            return False  # what came due meanwhile waits for what is being read aside
        if name not in self._read_at:
            return True
        if name in self.refined.cancelled:
            return False
        if (under_way := self.refined.step_of(name)) is not None:
            return catch_up and under_way != step  # else it is finished first
        reading = self.readings.get(name)
        stale = reading is None or reading.step != step
        if stale and (catch_up or self._read_at[name] + self._budget.interval(name) <= now):
            return True
        return catch_up and self._sizes.can_sharpen(name)

    def long(self, names: tuple[str, ...], context: ProbeContext) -> tuple[str, ...]:
        """Titles of those that are expected to be read here for more than `NOTABLE` seconds."""
        sizes, readings = self._sizes, self.readings
        light = [name for name in names if not self._is_heavy(name, context)]
        every = {n: sizes.affordable(n, context, HELD_UP, readings.get(n)) for n in light}
        return tuple(
            self._probes[name].title
            for name in light
            if sizes.seconds(name, context, every[name]) > NOTABLE
        )

    def read(
        self,
        names: tuple[str, ...],
        context: ProbeContext,
        step: int,
        standing: bool = False,
        made: Callable[[], object] | None = None,
    ) -> bool:
        """Read these probes; a probe that fails is reported once and the run goes on.

        Args:
            names: Of the probes.
            context: All probe examples under the network as it is.
            step: Of the run.
            standing: Nothing trains meanwhile, so that a reading may take longer.
            made: Called after each reading that is followed by another, so that it can be drawn
                meanwhile.

        Returns:
            Whether weights were seen that are not finite.
        """
        exact, contexts = self._exact, StepContexts(context, step)
        limit = TOO_LONG if standing else HELD_UP
        exact.overflowed = False
        if standing:
            exact.drop()
        heavy = [name for name in names if self._is_heavy(name, context)]
        aside: list[ExactJob] = []
        for name in [name for name in names if name not in heavy]:
            is_aside = exact.aside.reads_aside and not (standing or self._probes[name].compares)
            every = self._sizes.choose(name, context, limit, self.readings.get(name))
            options = self._watched[name]
            job = exact.new_job(name, options, contexts, every, not standing, is_aside)
            if job is not None and is_aside:
                aside.append(job)
                continue
            if job is not None:
                exact.here.submit([job], contexts)
            if made is not None and name != names[-1]:
                made()
        if aside:
            exact.aside.submit(aside, contexts)
        busy = self._budget.busy()
        self._refine(heavy, contexts)
        for name in heavy if not standing else ():
            exact.account(name, (self._budget.busy() - busy) / len(heavy))
        self._read_at.update(dict.fromkeys(names, self._budget.clock()))
        return exact.overflowed

    def _is_heavy(self, name: str, whole: ProbeContext) -> bool:
        """Whether it is to be refined, so that training is not held up."""
        if not self.refined.available or self._probes[name].compares:
            return False
        return self._sizes.quick_share(name, whole) != 1

    def _refine(self, heavy: list[str], contexts: StepContexts) -> None:
        """Refine these, the cheapest first, and read a few examples here where there is no picture
        of this network yet."""
        whole, sizes = contexts.whole, self._sizes
        heavy = sorted(heavy, key=lambda name: sizes.seconds(name, whole, 1))
        for name in heavy if whole.x.device.type != "cuda" else ():  # there a slice comes at once
            quick = sizes.quick_share(name, whole)
            every = sizes.choose(name, whole, FIRST_LOOK, self.readings.get(name))
            if quick and name not in self.refined.pictures:
                every = every and max(every, quick)
                job = self._exact.new_job(name, self._watched[name], contexts, every)
                if job is not None:
                    self._exact.here.submit([job], contexts)
        if heavy:
            self.refined.begin({name: self._watched[name] for name in heavy}, contexts)
        for name in heavy:
            sizes.note_sharper(name, whole, 0)  # it reads all the examples
