"""Overlap of active sub-networks, Λ, and that of sensitive ones, S (THEORY §3 and §5).

Arrays, all (n, n) with unit diagonal, NaN where the diagonal is zero: `active` (Λ), `sensitive`
(S), `active_{l}` (τ_l), `sensitive_{l}` (D_l D_lᵀ).
"""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine import kernels as k
from dgn_engine.kernels.shared import KAPPA
from dgn_engine.model.architecture import Architecture
from dgn_engine.protocol.frames import Array
from dgn_engine.setting import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, numpy


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    gate, shared = context.network.gate, context.kernels
    arrays: dict[str, Array] = {
        "labels": numpy(context.labels),
        "active": numpy(shared.overlap("cosine")),
        "sensitive": numpy(shared.sensitive("cosine")),
    }
    for layer, (gates, slopes) in enumerate(zip(context.gates, shared.sensitivities, strict=True)):
        arrays[f"active_{layer}"] = numpy(k.unit_diagonal(k.layer_overlap(gates)))
        arrays[f"sensitive_{layer}"] = numpy(k.unit_diagonal(k.layer_overlap(slopes)))
    if gate.soft:
        facts = {"gate": f"D = ∂γ, β = {gate.beta:g}"}
    else:
        facts = {"kappa": f"D = 1{{|q| < {KAPPA:g}·rms(q)}}"}
    return ProbeResult(arrays, facts=facts)


def cost(architecture: Architecture, examples: int) -> float:
    """Λ and S: the recursion with values and derivatives."""
    return 3.0 * k.npk_cost(architecture, examples)


PROBE = Probe("Overlap", read, cost)
