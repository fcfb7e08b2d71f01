"""Read a probe for a report: exactly where the time allows it, else as an estimate with its error.

The same probe is read on networks with random weights, to say how usual a number is. How many of
these there are depends on the estimated cost alone, so that every machine writes the same report.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dgn_engine.network_report.section import Cost
from dgn_engine.network_report.subject import Subject
from dgn_engine.protocol.frames import Reading, read_only_copy
from dgn_engine.random_streams import random_stream
from dgn_engine.text.written_numbers import format_relative_error
from dgn_engine.training.probes import ProbeContext, ProbeResult, all_probes, assumed_flops
from dgn_engine.training.readings.first_slices import first_slice_seconds

NETWORKS = 20  # with random weights, if they are cheap
FEWEST_NETWORKS = 5  # fewer say nothing about what is usual
SHARE = 0.5  # of the time limit that random networks may take together


def exact_seconds(subject: Subject, name: str) -> float:
    """Return the estimated duration of an exact reading of all examples."""
    cost = all_probes()[name].cost(subject.network.architecture, subject.n)
    passes = first_slice_seconds(subject.network.architecture) * subject.n / 40
    return cost / assumed_flops(subject.x.device) + passes


def count_networks(subject: Subject, name: str, seconds: float) -> int:
    """Return how many random networks are read: 0 if fewer than `FEWEST_NETWORKS` are affordable.

    Args:
        subject: The network.
        name: The probe.
        seconds: The time limit of the section.
    """
    each = exact_seconds(subject, name)
    count = min(NETWORKS, int(SHARE * seconds / max(each, 1e-9)))
    return count if count >= FEWEST_NETWORKS else 0


def cost_of_probe(name: str) -> Callable[[Subject], Cost]:
    """Return the function that estimates the cost of a section that reads this probe."""

    def cost(subject: Subject) -> Cost:
        each = exact_seconds(subject, name)
        first = first_slice_seconds(subject.network.architecture)
        can_be_estimated = all_probes()[name].refine is not None
        return Cost((1 + NETWORKS) * each, min(first, each) if can_be_estimated else each)

    return cost


def read_probe(subject: Subject, name: str, seconds: float) -> Reading:
    """Read a probe on the network itself.

    Args:
        subject: The network.
        name: The probe.
        seconds: The time limit; an exact reading that is expected to take longer is replaced by the
            best estimate within it.

    Returns:
        The reading, whose remark says on how many examples it is and how exact.
    """
    context, probe = subject.context(), all_probes()[name]
    if probe.refine is None or exact_seconds(subject, name) <= seconds:
        return _make_reading(subject, name, probe.read(context, {}, None), 0.0)
    began, newest = time.monotonic(), None
    for refinement in probe.refine(context, {}, random_stream("report", name, subject.seed)):
        newest = refinement
        if time.monotonic() - began > seconds:
            break
    assert newest is not None
    return _make_reading(subject, name, newest.result, newest.error)


def read_random_networks(
    subject: Subject, name: str, count: int, use: Callable[[ProbeResult, ProbeContext], None]
) -> None:
    """Read a probe on `count` random networks, and pass each result with its context to `use`.

    Without a name nothing is read, and `use` computes from the context what it needs.
    """
    for network in subject.random_networks(count):
        context = subject.context(network.requires_grad_(False))
        use(all_probes()[name].read(context, {}, None) if name else ProbeResult(), context)


def _make_reading(subject: Subject, name: str, result: ProbeResult, error: float) -> Reading:
    labels = result.arrays.get("labels")
    used = subject.n if labels is None else len(labels)
    which = f"{used:,}" if used == subject.n else f"{used:,} of {subject.n:,}"
    how = format_relative_error(error) if error else "exact"
    return Reading(
        name,
        subject.imported.step,
        arrays={key: read_only_copy(array) for key, array in result.arrays.items()},
        scalars=dict(result.scalars),
        facts=dict(result.facts),
        absent=result.absent,
        remark=f"{which} probe examples, {how}",
        examples=used if used < subject.n else 0,
        error=error,
    )
