"""Compare the value kernel K^V with its expectation at initialisation, E[K^V_0] = βH (theory §4).

βH is exact in expectation at any width if the gates do not depend on the value weights and these
are drawn independently with mean zero; σ of each layer is the root mean square of its current
weights. At step 0 the distance is random and shrinks with the width; later it shows how far
training has moved the kernel.

Arrays: `labels`; `value` K^V and `expected` βH, (n, n), averaged over logits. Scalars: `distance`,
‖K^V - βH‖/‖βH‖ (Frobenius); `cosine`, ⟨K^V, βH⟩/(‖K^V‖‖βH‖); `traces`, tr K^V/tr βH. Facts:
`width`, the smallest width of a gate layer; `depends`, if the gates start as copies of the value
weights.
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine import kernels as k
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy

NO_VALUE = "The value network is frozen in this regime, so K^V = 0."
DEPENDS = "In this regime gates start as copies of the value weights, so E[K_0] ≠ βH."


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    shared = context.kernels
    try:
        expected = shared.expected_value()
    except ValueError as refused:  # says why βH does not apply to this network
        return ProbeResult(absent=str(refused))
    tangent = shared.tangent.value
    if tangent is None:
        return ProbeResult(absent=NO_VALUE)
    value = tangent.to(expected.dtype)
    expected_norm, value_norm = float(expected.norm()), float(value.norm())
    if not expected_norm > 0.0:
        return ProbeResult(absent="No path is open for any probe example, so βH = 0.")
    scalars = {
        "distance": float((value - expected).norm()) / expected_norm,
        "traces": float(value.trace() / expected.trace()),
    }
    if value_norm > 0.0:
        scalars["cosine"] = float((value * expected).sum()) / (expected_norm * value_norm)
    facts = {"width": str(min(shape[0] for shape in context.architecture.gated_shapes))}
    if context.regime.on_entry == "share-redrawn":
        facts["depends"] = DEPENDS
    arrays: dict[str, Array] = {
        "labels": to_numpy(context.labels),
        "value": to_numpy(value),
        "expected": to_numpy(expected),
    }
    return ProbeResult(arrays, scalars, facts)


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of K^V and H together.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return k.ntk_cost(architecture, examples) + k.npk_cost(architecture, examples)


PROBE = Probe("Kernel against theory", read, cost)
