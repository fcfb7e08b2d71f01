"""Overlap of active sub-networks, Λ, and of sensitive ones, S (theory §3 and §5).

Arrays, all (n, n) with unit diagonal, NaN where the diagonal is zero: `active` (Λ), `sensitive`
(S), `active_{l}` (τ_l), `sensitive_{l}` (D_l D_lᵀ). An estimate adds `active_error` and
`sensitive_error`, one standard error of each entry; single layers are always exact. `paths` (n,)
float64: Λ(s, s) before normalisation, the number of active paths from one input unit, for hard
gates if it can be represented; Λ(s, s') is then `active` times the root of the product of two of
them. Scalars, of exact readings: `mean_active` and `mean_sensitive`, over pairs of different
examples whose entry is finite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from dgn_engine import kernels as k
from dgn_engine.kernels.shared import KAPPA
from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.text.written_numbers import format_number
from dgn_engine.training.probes._probe import (
    NO_GATE_OPEN,
    Probe,
    ProbeContext,
    ProbeResult,
    Refinement,
    assumed_flops,
    no_gate_is_open,
    to_numpy,
)
from dgn_engine.training.probes._refinement import (
    AT_ONCE,
    NOT_EXACT,
    PathReading,
    iterate_refinements,
    path_steps,
    widen_errors,
    with_errors,
)


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays and facts as above.
    """
    if no_gate_is_open(context):
        return ProbeResult(absent=NO_GATE_OPEN)
    shared = context.kernels
    arrays = {
        "active": to_numpy(shared.overlap("cosine")),
        "sensitive": to_numpy(shared.sensitive_overlap("cosine")),
    }
    scalars = _mean_overlaps(arrays)
    arrays |= _path_counts(context, shared.overlap("none"))
    return ProbeResult(arrays | _layer_overlaps(context), scalars, _describe_gate(context))


def refine(
    context: ProbeContext, options: Mapping[str, OptionValue], generator: torch.Generator
) -> Iterator[Refinement]:
    """Estimate Λ and S with random value networks, then compute them pair by pair.

    Args:
        context: All probe examples.
        options: Unused.
        generator: Source of the random value weights.

    Yields:
        Readings of growing accuracy.
    """
    device = context.x.device
    at_once = AT_ONCE * assumed_flops(device)
    if no_gate_is_open(context) or cost(context.architecture, len(context.x)) <= at_once:
        yield Refinement(read(context, options, None), 1.0)
        return
    layers: dict[int, dict[str, Array]] = {}  # by the number of examples

    def cached_layers(context: ProbeContext) -> dict[str, Array]:
        n = len(context.x)
        layers[n] = layers.get(n) or _layer_overlaps(context)
        return layers[n]

    def estimated_result(
        context: ProbeContext, estimator: k.PathEstimator
    ) -> tuple[ProbeResult, float]:
        kernels = {
            "active": widen_errors(estimator.kernel("cosine")),
            "sensitive": widen_errors(estimator.sensitive_overlap("cosine")),
        }
        error = max(kernel.relative for kernel in kernels.values())
        arrays = with_errors(kernels) | cached_layers(context)
        return ProbeResult(arrays, facts=_describe_gate(context)), max(error, NOT_EXACT)

    def exact_result(context: ProbeContext, blocks: k.PathBlocks) -> ProbeResult:
        arrays = {
            "active": to_numpy(blocks.kernel("cosine")),
            "sensitive": to_numpy(blocks.sensitive_overlap("cosine")),
        }
        scalars = _mean_overlaps(arrays)
        arrays |= _path_counts(context, blocks.kernel("none"))
        return ProbeResult(arrays | cached_layers(context), scalars, _describe_gate(context))

    reading = PathReading(_path_inputs, estimated_result, exact_result, passes=2.0)
    yield from iterate_refinements(
        lambda spent: path_steps(context, reading, generator, spent), device
    )


def _path_inputs(context: ProbeContext) -> k.PathInputs:
    shared = context.kernels
    return k.PathInputs(shared.gates, None, shared.trace.value.masks, shared.sensitivities)


def _mean_overlaps(arrays: Mapping[str, Array]) -> dict[str, float]:
    """Return the mean overlap of pairs of different examples; none if no pair has one."""
    scalars = {}
    for kind in ("active", "sensitive"):
        entries = arrays[kind][~np.eye(len(arrays[kind]), dtype=bool)]
        if (finite := entries[np.isfinite(entries)]).size:
            scalars[f"mean_{kind}"] = float(finite.mean())
    return scalars


def _path_counts(context: ProbeContext, counted: torch.Tensor) -> dict[str, Array]:
    """Return Λ(s, s) of every example, if it is a finite number of paths."""
    own = counted.diagonal().double()  # Λ(s, s) = Π_l Σ_i G_l(i)
    if context.network.gate.soft or not bool(own.isfinite().all()):
        return {}
    return {"paths": to_numpy(own)}


def _describe_gate(context: ProbeContext) -> dict[str, str]:
    gate = context.network.gate
    if gate.soft:
        return {"gate": f"D = ∂γ, β = {format_number(gate.beta)}"}
    return {"kappa": f"D = 1{{|q| < {format_number(KAPPA)}·rms(q)}}"}


def _layer_overlaps(context: ProbeContext) -> dict[str, Array]:
    """Return the labels, and τ_l and D_l D_lᵀ of every layer."""
    shared = context.kernels
    arrays: dict[str, Array] = {"labels": to_numpy(context.labels)}
    for layer, (gates, slopes) in enumerate(zip(context.gates, shared.sensitivities, strict=True)):
        arrays[f"active_{layer}"] = to_numpy(k.unit_diagonal(k.layer_overlap(gates)))
        arrays[f"sensitive_{layer}"] = to_numpy(k.unit_diagonal(k.layer_overlap(slopes)))
    return arrays


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of Λ and S: the recursion with values and derivatives.

    Args:
        architecture: Architecture of one network.
        examples: Number of probe examples.

    Returns:
        FLOP.
    """
    return 3.0 * k.npk_cost(architecture, examples)


PROBE = Probe("Overlap", read, cost, refine=refine)
