"""What a schedule shows of probes that are read once, here or aside, of as many examples as fit."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import MISFIT, Reading, freeze
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory
from dgn_engine.training.overflow import (
    has_overflowed,
    overflow_reading,
    stands_for,
    weights_overflowed,
)
from dgn_engine.training.probes import Probe, ProbeContext
from dgn_engine.training.readings.reading_child import FEWEST
from dgn_engine.training.readings.reading_executor import InlineReadings, ReadingExecutor
from dgn_engine.training.readings.reading_jobs import ExactAnswer, ExactJob, StepContexts
from dgn_engine.training.readings.reading_sizes import ReadingSizes
from dgn_engine.training.readings.refined_readings import RefinedReadings, describe_examples
from dgn_engine.training.readings.watch_budget import WatchBudget, seconds_awake


class ExactReadings:
    """Makes jobs, and of their answers readings; where memory runs out, of fewer examples.

    `here` reads in this thread; `aside` reads what training need not wait for.
    """

    def __init__(
        self,
        probes: Mapping[str, Probe],
        readings: dict[str, Reading],
        read_at: dict[str, float],
        sizes: ReadingSizes,
        budget: WatchBudget,
        refined: RefinedReadings,
        emit: Callable[[Event], None],
    ) -> None:
        self.here = InlineReadings(budget.clock, budget.busy)
        self.aside: ReadingExecutor = self.here
        self.overflowed = False  # a reading saw weights that are not finite
        self._probes = probes
        self._readings = readings
        self._read_at = read_at
        self._sizes = sizes
        self._budget = budget
        self._refined = refined
        self._emit = emit
        self._memory: dict[str, object] = {}
        self._broken: set[str] = set()  # a fault that was reported
        self._awaited: dict[str, ExactJob] = {}

    @property
    def busy(self) -> bool:
        """Something is being read aside, or waits to be delivered."""
        return bool(self._awaited)

    def new_job(
        self,
        name: str,
        options: Mapping[str, OptionValue],
        contexts: StepContexts,
        every: int,
        is_charged: bool = False,
        is_aside: bool = False,
    ) -> ExactJob | None:
        """Return a job to submit; None where it cannot be read, which is then its reading.

        `every`: 0 where not even the fewest examples fit. `is_charged`: the budget pays.
        `is_aside`: whether numbers are finite is not asked beforehand, since the thread that trains
        would wait for the answer.
        """
        budget, probe, memory = self._budget, self._probes[name], self._memory.get(name)
        began, busy = budget.clock(), budget.busy()
        self._refined.forget(name)
        job = ExactJob(name, probe, options, memory, every, self._deliver, is_charged, began, busy)
        self._awaited[name] = job
        return job if (is_aside and every) or self._can_be_read(job, contexts) else None

    def drop(self) -> None:
        """Show nothing of what is being read: the network is another one."""
        for job in self._awaited.values():
            job.is_wanted = False

    def release(self) -> None:
        for job in self._awaited.values():
            self.aside.cancel(job)
        self._awaited.clear()

    def forget(self) -> None:
        """Forget what probes remember: there are other probe examples."""
        self._memory.clear()

    def account(self, name: str, seconds: float) -> None:
        """Charge a reading, which decides when the probe is due again."""
        self._budget.took(name, "readings", seconds)
        if name in self._readings:
            every = self._budget.interval(name)
            self._readings[name] = replace(self._readings[name], interval=every)

    def _can_be_read(self, job: ExactJob, contexts: StepContexts) -> bool:
        """Whether to read it here and now; where not, the reason is its reading."""
        title, step = job.probe.title, contexts.step
        if not job.every:
            why = (
                f"{title} runs out of memory with fewer than {2 * FEWEST} probe examples too; "
                "choose a smaller network or smaller images."
            )
            refusal = _absent(job, step, MISFIT, why)
        elif weights_overflowed(contexts.part(job.every)):
            self.overflowed = True
            refusal = overflow_reading(job.name, step)
        elif self._sizes.is_too_long(job.name, contexts.part(job.every)):
            trouble = self._refined.executor.trouble
            and_why = f", and {trouble}" if trouble else ""
            why = (
                f"{title}: a reading of {len(contexts.part(job.every).x)} probe examples takes too "
                f"long between two steps{and_why}; choose fewer probe examples or smaller images."
            )
            refusal = _absent(job, step, "too long", why)
        else:
            return True
        self._show(job, refusal, contexts)
        return False

    def _deliver(self, job: ExactJob, answer: ExactAnswer) -> None:
        contexts, error = answer.contexts, answer.error
        if answer.aside:
            job.began = self._budget.clock() - answer.seconds
            job.busy = self._budget.busy() - answer.seconds
        if not job.is_wanted:
            self._awaited.pop(job.name, None)
        elif error is not None and is_out_of_memory(error):
            examples = len(contexts.part(job.every).x)
            contexts.forget()
            free_memory()
            self._memory.pop(job.name, None)  # of more examples
            job.memory = None
            job.every = self._sizes.halve(job.name, job.every, examples)
            if self._can_be_read(job, contexts):
                self.here.submit([job], contexts)
        else:
            self._show(job, self._reading_of(job, answer), contexts)

    def _reading_of(self, job: ExactJob, answer: ExactAnswer) -> Reading:
        name, step = job.name, answer.contexts.step
        context = answer.contexts.part(job.every)
        if answer.error is not None:
            if has_overflowed(context):
                return overflow_reading(name, step)
            return self._report_fault(job, step, answer.error)
        result = answer.result
        assert result is not None
        self._sizes.measure(name, context, seconds_awake(answer.seconds, answer.worked))
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

    def _report_fault(self, job: ExactJob, step: int, error: Exception) -> Reading:
        """The reading of a probe that failed; its first failure is an event."""
        fault = str(error).rstrip(".")
        if job.name not in self._broken:
            self._broken.add(job.name)
            what = f"The probe '{job.probe.title}' failed: {fault}."
            self._emit(Failed(what, "".join(traceback.format_exception(error))))
        why = f"The probe failed at step {step}: {fault}."
        return _absent(job, step, type(error).__name__, why)

    def _with_remark(self, job: ExactJob, reading: Reading, whole: ProbeContext) -> Reading:
        """The reading with how many examples it is made of."""
        sizes, every, count = self._sizes, job.every, len(whole.x)
        sizes.note_sharper(job.name, whole, 0)
        if reading.absent:
            return reading
        if every == 1:
            is_kernel = job.probe.cost(whole.architecture, count) > 0.0
            return replace(reading, remark=describe_examples(reading, count) if is_kernel else "")
        few = replace(reading, examples=-(-count // every))
        if sizes.is_limited_by_memory(job.name, every):
            return replace(few, remark=f"probe batch halved to {few.examples}: out of memory")
        sizes.note_sharper(job.name, whole, every // 2)
        trouble = self._refined.executor.trouble
        and_why = f": {trouble}" if trouble else ""
        return replace(few, remark=f"{describe_examples(few, count)}{and_why}")

    def _show(self, job: ExactJob, reading: Reading, contexts: StepContexts) -> None:
        budget, name = self._budget, job.name
        reading = self._with_remark(job, reading, contexts.whole)
        seconds = seconds_awake(budget.clock() - job.began, budget.busy() - job.busy)
        self._awaited.pop(name, None)
        if not stands_for(self._readings.get(name), reading):
            interval = budget.interval(name)
            self._readings[name] = replace(reading, seconds=seconds, interval=interval)
            if reading.scalars:
                few = job.every > 1
                seen = (len(contexts.part(job.every).x), len(contexts.whole.x)) if few else (0, 0)
                self._emit(ProbeScalars(contexts.step, name, reading.scalars, *seen))
        self._read_at[name] = budget.clock()
        if job.is_charged:
            self.account(name, budget.busy() - job.busy)


def _absent(job: ExactJob, step: int, fault: str, why: str) -> Reading:
    return Reading(job.name, step, facts={"fault": fault}, absent=why)
