"""The tangent kernel in its parts: K^V of the values, K^F of the gates, K^X of both."""

from __future__ import annotations

import numpy as np

from dgn_engine.network_report.panel_figures import draw_panel
from dgn_engine.network_report.probe_readings import (
    cost_of_probe,
    describe_method,
    read_probe,
    read_random_networks,
)
from dgn_engine.network_report.section import Quantity, SectionResult, SectionSpec, not_here
from dgn_engine.network_report.subject import Subject
from dgn_engine.network_report.typical import typical_range
from dgn_engine.protocol.frames import Array
from dgn_engine.text.written_numbers import format_number, format_percent
from dgn_engine.training.probes import ProbeContext, ProbeResult

PROBE = "ntk"
PARTS = (("value", "K^V"), ("feature", "K^F"), ("cross", "K^X"))


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Read K of the network and of random ones."""
    reading = read_probe(subject, PROBE, seconds)
    if reading.absent:
        raise not_here(reading.absent)
    parts = {name: reading.arrays[name] for name, _ in PARTS if name in reading.arrays}
    if not parts:
        raise not_here(" ".join(reading.facts.values()))
    nulls: list[dict[str, Array]] = []

    def keep(context: ProbeContext, result: ProbeResult) -> None:
        nulls.append({name: result.arrays[name] for name in parts})

    if not reading.error:
        read_random_networks(subject, PROBE, seconds, keep)
    traces = {name: float(np.trace(part)) for name, part in parts.items()}
    quantities = [
        Quantity(
            f"trace of {title}",
            traces[name],
            "number",
            random=tuple(float(np.trace(null[name])) for null in nulls),
        )
        for name, title in PARTS
        if name in parts
    ]
    if traces.get("feature") and traces.get("value"):
        quantities.append(
            Quantity(
                "K^F over K^V, by trace",
                traces["feature"] / traces["value"],
                "number",
                random=tuple(
                    float(np.trace(null["feature"]) / np.trace(null["value"])) for null in nulls
                ),
                typical=typical_range("feature_share", subject.imported.regime),
            )
        )
    whole = _sum(parts)
    if not np.isfinite(whole).all():
        raise not_here("The entries of K are too large for a floating-point number.")
    largest = float(np.linalg.eigvalsh(whole)[-1])
    first = largest / float(np.trace(whole))
    quantities.append(
        Quantity(
            "share of the first eigenvalue of K",
            first,
            random=tuple(
                float(np.linalg.eigvalsh(_sum(null))[-1] / np.trace(_sum(null))) for null in nulls
            ),
        )
    )
    sentences = (
        _describe_parts(quantities, traces, reading.facts),
        _describe_size(quantities[0]),
        _describe_first(quantities[-1], 2 * len(whole) / largest, subject),
    )
    return SectionResult(
        tuple(filter(None, sentences)),
        tuple(quantities),
        draw_panel(subject, "ntk", {PROBE: reading}, tuple(parts)),
        "The parts of K at unit diagonal; examples in the order of their classes.",
        f"{describe_method(reading, len(nulls))} Mean over the logits. "
        f"{reading.facts.get('trains', '')}",
    )


def _sum(parts: dict[str, Array]) -> Array:
    """Return K from its parts."""
    total: Array = np.sum(list(parts.values()), axis=0)
    return total


def _describe_parts(quantities: list[Quantity], traces: dict[str, float], facts: object) -> str:
    missing = [str(words) for name, words in dict(facts).items() if name in ("value", "feature")]  # type: ignore[call-overload]
    ratio = next((q for q in quantities if q.name.startswith("K^F over")), None)
    if ratio is None:
        only = "K = K^V" if "value" in traces else "K = K^F"
        return " ".join((f"{only}.", *missing))
    total = sum(traces.values())
    rank = f", {ratio.rank}" if ratio.rank else ""
    learns = "gates more than" if ratio.value > 1 else "values more than"
    what = "the values" if ratio.value > 1 else "the gates"
    cross = traces.get("cross", 0.0) / total
    both = f", {format_percent(cross)} from both at once (K^X)" if cross else ""
    return (
        f"Of the trace of K, {format_percent(traces['value'] / total)} comes from the values and "
        f"{format_percent(traces['feature'] / total)} from the gates{both}: a step of gradient "
        f"descent moves the outputs through the {learns} through {what} (K^F is {ratio.text} times "
        f"K^V{rank})."
    )


def _describe_size(trace: Quantity) -> str:
    if not trace.rank:
        return ""
    return (
        f"The {trace.name} is {trace.text}, {trace.rank}; in training it usually grows by one or "
        "two orders of magnitude."
    )


def _describe_first(first: Quantity, limit: float, subject: Subject) -> str:
    # The mean over logits has at most the largest eigenvalue of the kernel of all logits together.
    lower = ", and at smaller ones where logits move together" * (subject.logits > 1)
    rank = f" ({first.rank})" if first.rank else ""
    return (
        f"One direction has {format_percent(first.value)} of the trace{rank}. Plain gradient "
        "descent on the mean of ½e² over these examples is unstable at learning rates above about "
        f"{format_number(limit, 2)}{lower}."
    )


SECTION = SectionSpec("tangent", "Tangent kernel and its parts", cost_of_probe(PROBE), measure)
