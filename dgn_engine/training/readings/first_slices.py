"""First slices of expensive readings, computed before the reading process has loaded torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from dgn_engine import kernels as k
from dgn_engine.kernels.precision import float32_products
from dgn_engine.model.architecture import Architecture
from dgn_engine.training.out_of_memory import free_memory, is_out_of_memory
from dgn_engine.training.probes import ASSUMED_FLOPS, Probe, all_probes
from dgn_engine.training.readings.reading_child import FEWEST
from dgn_engine.training.readings.reading_jobs import JobSlice, RefinedJob, StepContexts

PASSES = 5.0  # forward passes of a first slice: one, and two draws of values and derivatives
LONGEST_SLICE = 2.5  # seconds that one may be expected to take; most cores are several times faster
LONGEST = 1.5  # processor seconds after which no other one is begun


def first_slice_seconds(architecture: Architecture) -> float:
    """Return the expected duration of a first slice, of the fewest examples.

    Args:
        architecture: Architecture of one network.

    Returns:
        Seconds on one core, before anything was measured.
    """
    forward = k.ntk_cost(architecture, FEWEST) / (1.0 + 2.0 * architecture.classes)
    return PASSES * forward / ASSUMED_FLOPS


def compute_first_slices(
    jobs: Sequence[RefinedJob],
    contexts: StepContexts,
    probes: Mapping[str, Probe] | None = None,
    busy: Callable[[], float] = time.thread_time,
) -> Iterator[tuple[RefinedJob, JobSlice]]:
    """Compute the first slice of jobs that have no picture yet, where that takes a moment.

    It reads the fewest examples, with the random numbers of the job itself. A job that fails or
    would take long is left to its executor.

    Args:
        jobs: Refined jobs.
        contexts: The probe examples under the current network.
        probes: Probes by key; all if None.
        busy: Returns seconds this thread has worked.

    Yields:
        Jobs with their first slices, which count as none of the work done.
    """
    first = [job for job in jobs if job.first]
    if not first or first_slice_seconds(contexts.whole.architecture) > LONGEST_SLICE:
        return
    probes = all_probes() if probes is None else probes
    whole, start = len(contexts.whole.x), busy()
    context = contexts.thinned_context(max(whole // FEWEST, 1))
    for job in first:
        refine = probes[job.name].refine
        if refine is None or busy() - start > LONGEST:
            continue
        began, generator = time.monotonic(), torch.Generator().manual_seed(contexts.step)
        try:
            with float32_products("ieee"):
                refinement = next(refine(context, job.options, generator), None)
        except Exception as error:  # the job itself will fail and report it
            if is_out_of_memory(error):
                free_memory()
            continue
        if refinement is not None:
            used = len(context.x) if len(context.x) < whole else 0
            seconds = time.monotonic() - began
            yield (
                job,
                JobSlice(job.ticket, refinement.result, 0.0, refinement.error, used, seconds),
            )
    context.drop_kernels()
