"""Read probes once, inline or alongside training, on as many examples as fit."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import MISFIT, Reading, read_only_copy
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory
from dgn_engine.training.overflow import (
    has_overflowed,
    overflow_reading,
    should_keep_picture,
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
    """Exact readings of a schedule: jobs to submit, and the readings made of their answers.

    If memory runs out, a reading is repeated on fewer examples. All methods run in the training
    thread.

    Attributes:
        here: Executor that reads in this thread.
        aside: Executor for probes that training need not wait for.
        overflowed: Whether a reading saw weights that are not finite.
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
        """Start without jobs.

        Args:
            probes: Probes by key.
            readings: Displayed readings by probe, changed in place.
            read_at: When each probe was read, changed in place; missing ones are due at once.
            sizes: Chooses the number of examples.
            budget: Pays for the readings.
            refined: Readings refined by an executor.
            emit: Takes scalars and failures.
        """
        self.here = InlineReadings(budget.clock, budget.busy)
        self.aside: ReadingExecutor = self.here
        self.overflowed = False
        self._probes = probes
        self._readings = readings
        self._read_at = read_at
        self._sizes = sizes
        self._budget = budget
        self._refined = refined
        self._emit = emit
        self._memory: dict[str, object] = {}
        self._broken: set[str] = set()  # probes whose failure was reported
        self._awaited: dict[str, ExactJob] = {}

    @property
    def is_reading(self) -> bool:
        """Return whether a reading is in progress or waits to be delivered.

        Returns:
            True from `new_job` until its reading is published.
        """
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
        """Create a job to submit.

        Args:
            name: Key of the probe.
            options: Options of the probe.
            contexts: The probe examples under the network of this step.
            every: Read each `every`-th example; 0 if not even the fewest fit into memory.
            is_charged: Whether the budget pays for the reading.
            is_aside: Whether it is read alongside training. Then weights are not checked for
                overflow first, since the training thread would wait for the card.

        Returns:
            The job; None if it cannot be read, in which case the reason is published as its
            reading.
        """
        budget, probe, memory = self._budget, self._probes[name], self._memory.get(name)
        began, busy = budget.clock(), budget.busy()
        self._refined.forget_probe(name)
        job = ExactJob(
            name, probe, options, memory, every, self._handle_answer, is_charged, began, busy
        )
        self._awaited[name] = job
        return job if (is_aside and every) or self._can_be_read(job, contexts) else None

    def discard_pending(self) -> None:
        """Discard the readings in progress, since the network has changed."""
        for job in self._awaited.values():
            job.is_wanted = False

    def release(self) -> None:
        """Cancel all jobs."""
        for job in self._awaited.values():
            self.aside.cancel(job)
        self._awaited.clear()

    def forget_memory(self) -> None:
        """Clear the memory of all probes, since the probe examples have changed."""
        self._memory.clear()

    def charge_reading(self, name: str, seconds: float) -> None:
        """Charge a reading to the budget, which sets when the probe is due again.

        Args:
            name: Key of the probe.
            seconds: Processor time it took.
        """
        self._budget.record_reading(name, "readings", seconds)
        if name in self._readings:
            every = self._budget.reading_interval(name)
            self._readings[name] = replace(self._readings[name], interval=every)

    def _can_be_read(self, job: ExactJob, contexts: StepContexts) -> bool:
        """Return whether to read the probe now; if not, publish the reason as its reading."""
        title, step = job.probe.title, contexts.step
        if not job.every:
            why = (
                f"{title} runs out of memory even with fewer than {2 * FEWEST} probe examples; "
                "choose a smaller network or smaller images."
            )
            refusal = _absent_reading(job, step, MISFIT, why)
        elif weights_overflowed(contexts.thinned_context(job.every)):
            self.overflowed = True
            refusal = overflow_reading(job.name, step)
        elif self._sizes.is_too_long(job.name, contexts.thinned_context(job.every)):
            trouble = self._refined.executor.trouble
            and_why = f", and {trouble}" if trouble else ""
            why = (
                f"{title}: reading {len(contexts.thinned_context(job.every).x)} probe "
                "examples takes too "
                f"long{and_why}; choose fewer probe examples or smaller images."
            )
            refusal = _absent_reading(job, step, "too long", why)
        else:
            return True
        self._publish_reading(job, refusal, contexts)
        return False

    def _handle_answer(self, job: ExactJob, answer: ExactAnswer) -> None:
        contexts, error = answer.contexts, answer.error
        if answer.aside:
            job.began = self._budget.clock() - answer.seconds
            job.busy = self._budget.busy() - answer.seconds
        if not job.is_wanted:
            self._awaited.pop(job.name, None)
        elif error is not None and is_out_of_memory(error):
            examples = len(contexts.thinned_context(job.every).x)
            contexts.drop_kernels()
            free_memory()
            self._memory.pop(job.name, None)  # it was of more examples
            job.memory = None
            job.every = self._sizes.halve_examples(job.name, job.every, examples)
            if self._can_be_read(job, contexts):
                self.here.submit([job], contexts)
        else:
            self._publish_reading(job, self._make_reading(job, answer), contexts)

    def _make_reading(self, job: ExactJob, answer: ExactAnswer) -> Reading:
        name, step = job.name, answer.contexts.step
        context = answer.contexts.thinned_context(job.every)
        if answer.error is not None:
            if has_overflowed(context):
                return overflow_reading(name, step)
            return self._report_fault(job, step, answer.error)
        result = answer.result
        assert result is not None
        self._sizes.record_speed(name, context, seconds_awake(answer.seconds, answer.worked))
        self._broken.discard(name)
        self._memory[name] = result.memory
        return Reading(
            name,
            step,
            arrays={key: read_only_copy(array) for key, array in result.arrays.items()},
            scalars=dict(result.scalars),
            facts=dict(result.facts),
            absent=result.absent,
        )

    def _report_fault(self, job: ExactJob, step: int, error: Exception) -> Reading:
        """Return the reading of a failed probe; emit `Failed` the first time."""
        fault = str(error).rstrip(".")
        if job.name not in self._broken:
            self._broken.add(job.name)
            what = f"The probe '{job.probe.title}' failed: {fault}."
            self._emit(Failed(what, "".join(traceback.format_exception(error))))
        why = f"The probe failed at step {step}: {fault}."
        return _absent_reading(job, step, type(error).__name__, why)

    def _with_remark(self, job: ExactJob, reading: Reading, whole: ProbeContext) -> Reading:
        """Return the reading with a remark on how many examples it used."""
        sizes, every, count = self._sizes, job.every, len(whole.x)
        sizes.note_sharper(job.name, whole, 0)
        if reading.absent:
            return reading
        if every == 1:
            cost = job.probe.cost  # that of path norms does not depend on the examples
            is_kernel = cost(whole.architecture, count) > cost(whole.architecture, 1)
            return replace(reading, remark=describe_examples(reading, count) if is_kernel else "")
        few = replace(reading, examples=-(-count // every))
        if sizes.is_limited_by_memory(job.name, every):
            return replace(few, remark=f"probe batch halved to {few.examples}: out of memory")
        sizes.note_sharper(job.name, whole, every // 2)
        trouble = self._refined.executor.trouble
        and_why = f": {trouble}" if trouble else ""
        return replace(few, remark=f"{describe_examples(few, count)}{and_why}")

    def _publish_reading(self, job: ExactJob, reading: Reading, contexts: StepContexts) -> None:
        budget, name = self._budget, job.name
        reading = self._with_remark(job, reading, contexts.whole)
        seconds = seconds_awake(budget.clock() - job.began, budget.busy() - job.busy)
        self._awaited.pop(name, None)
        if not should_keep_picture(self._readings.get(name), reading):
            interval = budget.reading_interval(name)
            self._readings[name] = replace(reading, seconds=seconds, interval=interval)
            if reading.scalars:
                few = job.every > 1
                counts = (
                    (len(contexts.thinned_context(job.every).x), len(contexts.whole.x))
                    if few
                    else (0, 0)
                )
                self._emit(ProbeScalars(contexts.step, name, reading.scalars, *counts))
        self._read_at[name] = budget.clock()
        if job.is_charged:
            self.charge_reading(name, budget.busy() - job.busy)


def _absent_reading(job: ExactJob, step: int, fault: str, why: str) -> Reading:
    return Reading(job.name, step, facts={"fault": fault}, absent=why)
