"""Schedule probe readings: only what is watched, within the watch budget.

`ReadingSizes` decides how many examples a reading uses; the executors decide where it runs. A probe
that would hold up training is refined elsewhere or in slices (`RefinedReadings`); all others are
read once, inline or alongside training on a card (`ExactReadings`). Until a refined picture exists,
a quick reading of a few examples stands in.
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

TOGETHER = 0.25  # of the time between rounds: probes due within it are read along


class ScalarTrace:
    """The scalars of readings, tagged with the probe examples they come from.

    Attributes:
        counted_as: Number of all probe examples; 0 if as many as at the start of the run.
        chosen: Key of the probe set; '' if it is the one the run started with.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        """Start untagged.

        Args:
            emit: Takes the tagged events.
        """
        self._emit = emit
        self.counted_as = 0
        self.chosen = ""

    def emit(self, event: Event) -> None:
        """Emit an event; tag scalars of other examples than those the run started with.

        Args:
            event: The event.
        """
        if isinstance(event, ProbeScalars) and (self.counted_as or self.chosen):
            count = event.examples or self.counted_as
            event = replace(event, examples=count, chosen=self.chosen)
        self._emit(event)


class ProbeSchedule:
    """The watched probes of one run, their newest readings, and when they are due again.

    All methods run in the training thread.

    Attributes:
        readings: Newest reading by probe.
        dropped: Whether readings shown in the newest frame were withdrawn.
        refined: Probes refined by an executor.
    """

    def __init__(
        self,
        emit: Callable[[Event], None],
        fewer: bool = False,
        budget: WatchBudget | None = None,
        probes: Mapping[str, Probe] | None = None,
    ) -> None:
        """Create a schedule that watches nothing yet.

        Args:
            emit: Takes scalars and failures.
            fewer: Whether a slow reading may use fewer probe examples, and say so.
            budget: Ledger of the run; a new one if None.
            probes: Available probes by key; all if None.
        """
        self.readings: dict[str, Reading] = {}
        self.dropped = False
        self._trace = ScalarTrace(emit)
        self._budget = budget or WatchBudget()
        self._probes: dict[str, Probe] = all_probes() if probes is None else dict(probes)
        self._watched: dict[str, Mapping[str, OptionValue]] = {}
        self._read_at: dict[str, float] = {}  # when each was read; missing ones are due at once
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
        """Run expensive probes, and those read alongside training, in this executor.

        Args:
            executor: Shared by several schedules; `release` stops using it.
        """
        self.refined.executor = executor
        self._exact.aside = executor if executor.reads_aside else self._exact.here

    def release(self) -> None:
        """Cancel all readings in progress; from now on everything is read inline."""
        self._exact.release()
        self.refined.release()
        self.use_executor(self._exact.here)

    @property
    def is_refining(self) -> bool:
        """Return whether an expensive reading is in progress.

        Returns:
            True while a refined job is not over.
        """
        return self.refined.is_refining

    @property
    def total_seconds(self) -> float:
        """Return how long the last readings of all watched probes took together.

        Returns:
            Seconds; ∞ if a watched probe has not been read.
        """
        readings = (self.readings.get(name) for name in self._watched)
        return sum(math.inf if reading is None else reading.seconds for reading in readings)

    def cancel(self, name: str) -> None:
        """Stop refining a probe; its picture stays as it is now.

        Args:
            name: Key of the probe.
        """
        self.refined.cancel(name)

    def resume(self, name: str) -> None:
        """Continue a cancelled probe; it is due at once.

        Args:
            name: Key of the probe.
        """
        if self.refined.resume(name):
            self._read_at.pop(name, None)

    def watch(self, requests: tuple[ProbeRequest, ...]) -> None:
        """Replace the set of watched probes; new or changed requests are due at once.

        Args:
            requests: Probes with their options; several of one probe are merged.

        Raises:
            UserError: There is no such probe.
        """
        watched: dict[str, Mapping[str, OptionValue]] = {}
        for request in requests:
            if request.probe not in self._probes:
                known = ", ".join(self._probes)
                raise UserError(
                    f"There is no probe '{request.probe}'. Available: {known}."
                    f"{did_you_mean(request.probe, self._probes)}",
                    kind="unknown-name",
                    value=request.probe,
                )
            watched[request.probe] = {**watched.get(request.probe, {}), **dict(request.options)}
        for name in {*watched, *self._watched}:
            if self._watched.get(name) != watched.get(name):
                self._read_at.pop(name, None)
                self._sizes.forget_fitting(name)
                self._exact.discard_pending()
                self.refined.forget_probe(name)
        self._budget.forget_costs(set(self._watched) - set(watched))
        self._watched = watched

    def invalidate_all(self) -> None:
        """Make all probes due at once, since something other than a step changed the network."""
        self.dropped |= self.refined.invalidate_all()
        self._exact.discard_pending()
        self._read_at.clear()
        self._sizes.forget_fitting(*self._probes)

    def reset_for_examples(self, counted_as: int, chosen: str = "") -> None:
        """Discard all readings, since the probe examples have changed.

        Args:
            counted_as: Number of examples; 0 if as many as at the start of the run.
            chosen: Key of the probe set; '' if it is the one the run started with.
        """
        self.invalidate_all()
        self._trace.chosen = chosen
        self._trace.counted_as = counted_as
        self._exact.forget_memory()
        self.readings.clear()
        self.dropped = True

    def invalidate_comparing(self) -> None:
        """Discard the readings of comparing probes, since the compared network changed.

        They are due at once.
        """
        for name in self._watched:
            if self._probes[name].compares:
                self._read_at.pop(name, None)
                self.dropped |= self.readings.pop(name, None) is not None

    def due_probes(self, step: int, catch_up: bool = False) -> tuple[str, ...]:
        """Return the probes that are due.

        Probes due soon are included, since probes read together share computations.

        Args:
            step: Current step.
            catch_up: Whether to return all probes that have not seen this step.

        Returns:
            Keys, in the order in which they are watched.
        """
        now = self._budget.clock()
        due = tuple(name for name in self._watched if self._is_due(name, step, catch_up, now))
        if not due or catch_up:
            return due
        # Probes that are read together share their computations.
        soon = now + TOGETHER * self._budget.every
        return tuple(name for name in self._watched if self._is_due(name, step, catch_up, soon))

    def _is_due(self, name: str, step: int, catch_up: bool, now: float) -> bool:
        if self._exact.is_reading and not self._probes[name].compares:
            return False  # wait for the readings alongside training
        if name not in self._read_at:
            return True
        if name in self.refined.cancelled:
            return False
        if (under_way := self.refined.step_of(name)) is not None:
            return catch_up and under_way != step  # otherwise finish it first
        reading = self.readings.get(name)
        stale = reading is None or reading.step != step
        if stale and (catch_up or self._read_at[name] + self._budget.reading_interval(name) <= now):
            return True
        return catch_up and self._sizes.can_sharpen(name)

    def slow_titles(self, names: tuple[str, ...], context: ProbeContext) -> tuple[str, ...]:
        """Return the titles of probes that would hold up training for more than `NOTABLE` seconds.

        Args:
            names: Keys of the probes.
            context: All probe examples.

        Returns:
            Titles.
        """
        sizes, readings = self._sizes, self.readings
        light = [name for name in names if not self._is_heavy(name, context)]
        every = {n: sizes.affordable_every(n, context, HELD_UP, readings.get(n)) for n in light}
        return tuple(
            self._probes[name].title
            for name in light
            if sizes.expected_seconds(name, context, every[name]) > NOTABLE
        )

    def read_probes(
        self,
        names: tuple[str, ...],
        context: ProbeContext,
        step: int,
        while_paused: bool = False,
        after_reading: Callable[[], object] | None = None,
    ) -> bool:
        """Read probes; a probe that fails is reported once and the run continues.

        Args:
            names: Keys of the probes.
            context: All probe examples under the current network.
            step: Current step.
            while_paused: Whether nothing trains meanwhile, so that a reading may take longer.
            after_reading: Called after each reading that another one follows, so that it can be
                drawn.

        Returns:
            Whether weights were seen that are not finite.
        """
        exact, contexts = self._exact, StepContexts(context, step)
        limit = TOO_LONG if while_paused else HELD_UP
        exact.overflowed = False
        if while_paused:
            exact.discard_pending()
        heavy = [name for name in names if self._is_heavy(name, context)]
        aside: list[ExactJob] = []
        for name in [name for name in names if name not in heavy]:
            is_aside = exact.aside.reads_aside and not (while_paused or self._probes[name].compares)
            every = self._sizes.choose_every(name, context, limit, self.readings.get(name))
            options = self._watched[name]
            job = exact.new_job(name, options, contexts, every, not while_paused, is_aside)
            if job is not None and is_aside:
                aside.append(job)
                continue
            if job is not None:
                exact.here.submit([job], contexts)
            if after_reading is not None and name != names[-1]:
                after_reading()
        if aside:
            exact.aside.submit(aside, contexts)
        busy = self._budget.busy()
        self._start_refining(heavy, contexts)
        for name in heavy if not while_paused else ():
            exact.charge_reading(name, (self._budget.busy() - busy) / len(heavy))
        self._read_at.update(dict.fromkeys(names, self._budget.clock()))
        return exact.overflowed

    def _is_heavy(self, name: str, whole: ProbeContext) -> bool:
        """Return whether to refine a probe elsewhere, so that training is not held up."""
        if not self.refined.can_refine or self._probes[name].compares:
            return False
        return self._sizes.quick_every(name, whole) != 1

    def _start_refining(self, heavy: list[str], contexts: StepContexts) -> None:
        """Start refining these probes, cheapest first; give those without a picture a quick one."""
        whole, sizes = contexts.whole, self._sizes
        heavy = sorted(heavy, key=lambda name: sizes.expected_seconds(name, whole, 1))
        for name in heavy if whole.x.device.type != "cuda" else ():  # a card starts at once
            quick = sizes.quick_every(name, whole)
            every = sizes.choose_every(name, whole, FIRST_LOOK, self.readings.get(name))
            if quick and name not in self.refined.pictures:
                every = every and max(every, quick)
                job = self._exact.new_job(name, self._watched[name], contexts, every)
                if job is not None:
                    self._exact.here.submit([job], contexts)
        if heavy:
            self.refined.begin_jobs({name: self._watched[name] for name in heavy}, contexts)
        for name in heavy:
            sizes.note_sharper(name, whole, 0)  # refinement reads all examples
