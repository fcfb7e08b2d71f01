"""The value kernel K^V beside its expectation at initialisation, E[K^V_0] = βH (THEORY §4).

βH is exact in expectation at any width, where the gates do not depend on the value weights and
these are drawn anew, independent and with mean zero; σ of each layer is the root mean square of its
weights as they are now. At step 0 the distance is chance, and shrinks with the width; later it says
how far training has taken the kernel from where it began.

Arrays: `labels`, `value` K^V and `expected` βH, (n, n), per logit (the mean over them). Scalars:
`distance`, ‖K^V - βH‖/‖βH‖ (Frobenius); `cosine`, ⟨K^V, βH⟩/(‖K^V‖‖βH‖); `traces`,
tr K^V/tr βH. Facts: `width`, the least width of a gate layer; `depends`, where the gates begin as
copies of the value weights.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine import kernels as k
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy

NO_VALUE = "The value network is frozen in this regime, so that there is no K^V."
DEPENDS = "Here the gates begin as copies of the value weights: K_0 is not βH."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    shared = context.kernels
    try:
        expected = shared.expected_value()
    except ValueError as refused:  # the sentence says what this network has that βH has not
        return ProbeResult(absent=str(refused))
    found = shared.tangent.value
    if found is None:
        return ProbeResult(absent=NO_VALUE)
    value = found.to(expected.dtype)
    size, of_value = float(expected.norm()), float(value.norm())
    if not size > 0.0:
        return ProbeResult(absent="No path is open for any probe example: βH is 0.")
    scalars = {
        "distance": float((value - expected).norm()) / size,
        "traces": float(value.trace() / expected.trace()),
    }
    if of_value > 0.0:
        scalars["cosine"] = float((value * expected).sum()) / (size * of_value)
    facts = {"width": str(min(shape[0] for shape in context.architecture.gated_shapes))}
    if context.regime.on_entry == "share-redrawn":
        facts["depends"] = DEPENDS
    arrays: dict[str, Array] = {
        "labels": numpy(context.labels),
        "value": numpy(value),
        "expected": numpy(expected),
    }
    return ProbeResult(arrays, scalars, facts)


def cost(architecture: Architecture, examples: int) -> float:
    """That of K^V and of H together."""
    return k.ntk_cost(architecture, examples) + k.npk_cost(architecture, examples)


PROBE = Probe("Kernel against theory", read, cost)
