"""Read a probe for a report: exactly where the time allows it, else as an estimate with its error.

The same probe is read on networks with random weights, to say how usual a number is. How many of
these there are depends on the estimated cost alone, so that every machine writes the same report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from dgn_engine.kernels import npk_cost, ntk_cost
from dgn_engine.kernels.gate_statistics import RATE
from dgn_engine.model.architecture import Conv
from dgn_engine.network_report.section import SectionCost
from dgn_engine.network_report.subject import Subject
from dgn_engine.protocol.frames import Reading, read_only_copy
from dgn_engine.random_streams import random_stream
from dgn_engine.text.written_numbers import format_relative_error
from dgn_engine.training.probes import ProbeContext, ProbeResult, all_probes, assumed_flops
from dgn_engine.training.readings.first_slices import first_slice_seconds
from dgn_engine.training.readings.reading_child import FEWEST

NETWORKS = 20  # with random weights, if they are cheap
FEWEST_NETWORKS = 5  # fewer say nothing about what is usual
SHARE = 0.5  # of the time limit that random networks may take together
# Multiples of the cost of H that probes spend on recursions over pairs of positions.
PATH_KERNELS = {"npk": 1.0, "overlap": 3.0, "alignment": 1.0}


def exact_seconds(subject: Subject, name: str) -> float:
    """Return the estimated duration of an exact reading of all examples, on one core."""
    architecture, n = subject.network.architecture, subject.n
    flops = all_probes()[name].cost(architecture, n)
    seconds = forward_seconds(subject, n) + flops / assumed_flops(subject.x.device)
    if any(isinstance(node, Conv) for node in architecture.nodes):
        # The recursion over pairs of positions is slower than products of matrices.
        seconds += PATH_KERNELS.get(name, 0.0) * npk_cost(architecture, n) / RATE
    return seconds


def forward_seconds(subject: Subject, examples: int) -> float:
    """Return the estimated duration of a forward pass, on one core."""
    architecture = subject.network.architecture
    # `ntk_cost` is a forward pass and two backward ones for each logit; few examples, so that
    # products between examples do not count.
    each = ntk_cost(architecture, FEWEST) / (1.0 + 2.0 * architecture.classes) / FEWEST
    return examples * each / assumed_flops(subject.x.device)


def count_networks(each: float, limit: float) -> int:
    """Return how many random networks are read: 0 if fewer than `FEWEST_NETWORKS` are affordable.

    Args:
        each: Estimated seconds of each.
        limit: The time limit of the section.
    """
    count = min(NETWORKS, int(SHARE * limit / max(each, 1e-9)))
    return count if count >= FEWEST_NETWORKS else 0


def cost_of_probe(name: str) -> Callable[[Subject, float], SectionCost]:
    """Return the function that estimates the cost of a section that reads this probe."""

    def cost(subject: Subject, limit: float) -> SectionCost:
        each = exact_seconds(subject, name)
        if each <= limit or all_probes()[name].refine is None:
            return SectionCost((1 + count_networks(each, limit)) * each, each)
        first = first_slice_seconds(subject.network.architecture)
        return SectionCost(limit, first, estimated=True)

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
    subject: Subject, name: str, limit: float, use: Callable[[ProbeContext, ProbeResult], None]
) -> None:
    """Read a probe on as many random networks as the limit allows, and pass the results to `use`.

    The result of a probe is passed with the context that it was read from.
    """
    probe = all_probes()[name]
    for context in random_contexts(subject, name, limit):
        use(context, probe.read(context, {}, None))


def random_contexts(subject: Subject, name: str, limit: float) -> Iterator[ProbeContext]:
    """Yield the examples with random networks, as many as a probe of this cost allows."""
    for network in subject.random_networks(count_networks(exact_seconds(subject, name), limit)):
        if subject.is_stopped():
            return
        yield subject.context(network.requires_grad_(False))


def describe_method(reading: Reading, networks: int) -> str:
    """Return how a kernel was computed, and why there are no random networks, if so."""
    how = f"On {reading.remark}."
    if reading.error:
        how = f"On {reading.remark} (standard error of the kernel, Frobenius)."
    return how if networks else f"{how} Random networks would take too long to compare with."


def _make_reading(subject: Subject, name: str, result: ProbeResult, error: float) -> Reading:
    labels = result.arrays.get("labels")
    used = subject.n if labels is None else len(labels)
    which = f"{used:,}" if used == subject.n else f"{used:,} of {subject.n:,}"
    how = f"estimated, {format_relative_error(error)}" if error else "exact"
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
